"""A pass that was compiled is kept, and never used for a model that has changed."""

import keras
import numpy as np
from keras import layers, ops

import gradwatch as gw

from .models import WIDTH, X, array, chain, dense, do, mlp

COMPILES = keras.backend.backend() != "torch"
Y = np.zeros((len(X), 2), "float32")


def inspector(model, **options):
    options.setdefault("target", gw.mean_output())
    return gw.Inspector(model, **options)


def test_the_same_shapes_are_traced_once():
    """New numbers need nothing new; a new batch size does, once."""
    inspect = inspector(mlp())
    for x in (X, X + 1, X[:2], X, X[:2]):
        inspect(x)
    assert inspect.num_traces == (2 if COMPILES else 5)


def test_weights_are_read_at_each_call():
    """Training between two looks shows in the second."""
    model = chain(dense("a"))
    inspect = inspector(model, wrt=gw.inputs())
    before = inspect(X).to_numpy()["inputs"]
    kernel = model.get_layer("a").kernel
    kernel.assign(array(kernel) * 3)
    np.testing.assert_allclose(inspect(X).to_numpy()["inputs"], 3 * before, rtol=1e-5)


def test_freezing_and_thawing_are_seen():
    """`trainable` decides anew at each call which weights are given."""
    model = chain(dense("a"), dense("b"))
    inspect = inspector(model)
    every = ["a/kernel", "a/bias", "b/kernel", "b/bias"]
    assert list(inspect(X)) == every
    model.get_layer("a").trainable = False
    assert list(inspect(X)) == every[2:]
    assert {r.cause for r in inspect(X).missing.values()} == {"frozen"}
    model.get_layer("a").trainable = True
    assert list(inspect(X)) == every


def test_a_layer_that_is_added_is_seen():
    """Also one without weights; and its removal."""
    model = keras.Sequential([keras.Input((WIDTH,)), dense("a")])
    inspect = inspector(model, wrt=[gw.inputs(), gw.activations()])
    before = inspect(X).to_numpy()["inputs"]
    model.add(do(lambda x: x * 3.0, "triple"))
    after = inspect(X)
    assert list(after) == ["a", "triple", "inputs"]
    np.testing.assert_allclose(after.to_numpy()["inputs"], 3 * before, rtol=1e-5)
    model.pop()
    assert list(inspect(X)) == ["a", "inputs"]
    np.testing.assert_allclose(inspect(X).to_numpy()["inputs"], before, rtol=1e-5)


def test_another_target_for_one_call_is_only_for_that_call():
    """The inspector's own target comes back."""
    inspect = inspector(mlp(), wrt=gw.activations("head"))
    mean = inspect(X).to_numpy()["head"]
    score = inspect(X, target=gw.class_score(1)).to_numpy()["head"]
    np.testing.assert_allclose(mean, 1 / mean.size, rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(score, np.tile([0, 1], (len(X), 1)))
    np.testing.assert_array_equal(inspect(X).to_numpy()["head"], mean)


def test_two_functions_of_one_name_are_two_targets():
    """Lambdas look alike and are not."""
    inspect = inspector(mlp(), wrt=gw.activations("head"))
    for factor in (2.0, 5.0):
        found = inspect(X, target=lambda out, f=factor: f * ops.sum(out))
        np.testing.assert_allclose(
            found.to_numpy()["head"], factor, rtol=1e-5, atol=1e-7
        )


def test_the_mode_of_the_target_is_the_default():
    """A loss is differentiated as in training, everything else as in inference."""
    model = chain(layers.Dropout(0.5, name="drop"), dense("a", 2))
    model.compile(loss="mse", optimizer="sgd")
    wrt = gw.activations("drop")

    def dropped(found):
        return bool(np.any(array(found.activation("drop")) == 0))

    assert dropped(gw.gradients(model, X, Y, wrt=wrt))
    assert not dropped(gw.gradients(model, X, Y, wrt=wrt, training=False))
    assert not dropped(gw.gradients(model, X, target=gw.mean_output(), wrt=wrt))
    assert dropped(
        gw.gradients(model, X, target=gw.mean_output(), wrt=wrt, training=True)
    )


def test_old_passes_make_room_for_new_ones(monkeypatch):
    """Many shapes do not pile up without end; the results stay right."""
    monkeypatch.setattr("gradwatch.engine._engine.KEPT", 2)
    inspect = inspector(mlp(), wrt=gw.activations("head"))
    for size in (1, 2, 3, 1):
        x = np.ones((size, WIDTH), "float32")
        assert tuple(inspect(x)["head"].shape) == (size, 2)
    assert inspect.num_traces == 4
    inspect(np.ones((3, WIDTH), "float32"))
    assert inspect.num_traces == (4 if COMPILES else 5)
