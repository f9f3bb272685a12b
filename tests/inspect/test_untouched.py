"""Whatever happens, the model is left as it was."""

import threading

import keras
import numpy as np
import pytest
from keras import layers, ops

import gradwatch as gw
from gradwatch._keras import operation_modules
from gradwatch.testing import assert_untouched

from .models import WIDTH, X, array, chain, dense, mlp

Y = np.zeros((len(X), 2), "float32")
EVERYTHING = [gw.weights(), gw.activations(), gw.activations(at="input"), gw.inputs()]


class Remembers(layers.Layer):
    """Keeps what it saw last, as debugging code does."""

    last = None

    def call(self, x):
        self.last = x
        return x * 2.0


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "eager"])
def test_a_layer_that_remembers_tensors_is_put_back(compiled):
    """No symbolic tensor of a pass stays behind on the user's layer."""
    model = chain(Remembers(name="memory"), dense("b"))
    model(X)
    kept = array(model.get_layer("memory").last)
    with assert_untouched(model):
        for _ in range(2):
            gw.gradients(
                model, X + 1, target=gw.mean_output(), wrt=EVERYTHING, compiled=compiled
            )
    np.testing.assert_array_equal(array(model.get_layer("memory").last), kept)
    fresh = chain(Remembers(name="memory"), dense("b"))
    fresh.get_layer("memory").__dict__.pop("last", None)
    gw.gradients(fresh, X, target=gw.mean_output(), compiled=compiled)
    assert fresh.get_layer("memory").last is None


def noisy():
    """Everything that moves when a model runs: averages, seeds, metrics, losses."""
    model = keras.Sequential(
        [
            keras.Input((WIDTH,)),
            dense("a", kernel_regularizer="l2"),
            layers.BatchNormalization(name="norm"),
            layers.Dropout(0.5, name="drop"),
            layers.GaussianNoise(0.1, name="noise"),
            layers.ActivityRegularization(0.1, name="activity"),
            dense("b", 2),
        ],
        name="noisy",
    )
    model.compile(loss="mse", optimizer="adam", metrics=["mae"])
    return model


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "eager"])
@pytest.mark.parametrize("fitted", [False, True], ids=["fresh", "fitted"])
def test_looking_in_training_mode_changes_nothing(compiled, fitted):
    """Neither the first look nor the second, before or after `fit`."""
    model = noisy()
    if fitted:
        model.fit(X, Y, verbose=0, epochs=1)
    with assert_untouched(model):
        first = gw.gradients(model, X, Y, wrt=EVERYTHING, compiled=compiled)
        second = gw.gradients(model, X, Y, wrt=EVERYTHING, compiled=compiled)
    assert not first.missing
    for name, gradient in first.to_numpy().items():
        np.testing.assert_array_equal(gradient, second.to_numpy()[name])


def test_looking_does_not_change_the_training_that_follows():
    """The weights after `fit` are bit for bit those of a run nobody looked at."""
    ends = []
    for looks in (0, 3):
        keras.utils.set_random_seed(7)
        model = noisy()
        for _ in range(looks):
            gw.gradients(model, X, Y, wrt=EVERYTHING)
        model.fit(X, Y, verbose=0, epochs=2, shuffle=False)
        ends.append(model.get_weights())
    for one, two in zip(*ends, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="JAX has no such state")
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "eager"])
def test_state_that_keras_does_not_know_is_put_back(compiled):
    """A raw `tf.Variable`, or the buffers of a torch module, after every look."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        class Counts(layers.Layer):
            def __init__(self, **options):
                super().__init__(**options)
                self.count = tf.Variable(0.0, trainable=False)

            def call(self, x):
                self.count.assign_add(1.0)
                return x + 0.0 * self.count

        layer = Counts(name="raw")
        state = lambda: [array(layer.count)]  # noqa: E731
    else:
        import torch

        module = torch.nn.BatchNorm1d(WIDTH)
        layer = layers.TorchModuleWrapper(module, name="raw")
        state = lambda: [array(b).copy() for b in module.buffers()]  # noqa: E731

    class Around(keras.Model):
        """Of which Keras need not know the shapes: a torch module cannot tell them."""

        def __init__(self):
            super().__init__()
            self.raw, self.last = layer, dense("b", 2)

        def call(self, x):
            return self.last(self.raw(x))

    model = Around()
    model(X)
    before = state()
    inspect = gw.Inspector(
        model, target=gw.mean_output(), training=True, compiled=compiled
    )
    for _ in range(3):
        inspect(X)
        for old, new in zip(before, state(), strict=True):
            np.testing.assert_array_equal(old, new)
    model(X, training=True)
    assert any(
        not np.array_equal(a, b) for a, b in zip(before, state(), strict=True)
    ), "the layer does have state that moves"


def test_the_random_streams_of_the_process_do_not_move():
    """What NumPy, Python and the backend draw next is what they would have drawn."""
    import random

    model = noisy()

    def draws(look):
        keras.utils.set_random_seed(11)
        if look:
            for compiled in (True, False):
                gw.gradients(model, X, Y, wrt=EVERYTHING, compiled=compiled)
        return (
            np.random.random(),
            random.random(),
            array(keras.random.normal((3,))).tolist(),
        )

    draws(True)  # what is compiled once is compiled now
    assert draws(True) == draws(False)


class Interrupted(layers.Layer):
    """Raises anything on demand, in the forward pass only."""

    error = None

    def call(self, x):
        if self.error is not None and not isinstance(x, keras.KerasTensor):
            raise self.error
        return x

    def compute_output_shape(self, shape):
        return shape


@pytest.mark.parametrize("error", [KeyboardInterrupt("stop"), SystemExit("stop")])
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "eager"])
def test_an_interrupt_in_the_middle_leaves_no_trace(error, compiled):
    """Ctrl-C while the model runs: everything is put back, nothing is swallowed."""
    model = chain(dense("a"), Interrupted(name="slow"), dense("b"))
    model.get_layer("a").trainable = False
    model.get_layer("slow").error = error
    wrt = [*EVERYTHING, gw.weights("a")]
    with assert_untouched(model), pytest.raises(type(error), match="stop"):
        gw.gradients(model, X, target=gw.mean_output(), wrt=wrt, compiled=compiled)


def test_two_threads_look_at_one_model():
    """Different questions at the same time get their own answers, and no trace."""
    model = mlp()
    right = {
        name: gw.gradients(
            model, X, target=gw.class_score(1), wrt=gw.activations(name)
        ).to_numpy()[name]
        for name in ("hidden", "head")
    }
    wrong = []

    def work(name):
        for _ in range(4):
            inspect = gw.Inspector(
                model, target=gw.class_score(1), wrt=gw.activations(name)
            )
            found = inspect(X).to_numpy()
            if list(found) != [name] or not np.allclose(found[name], right[name]):
                wrong.append((name, list(found)))

    threads = [threading.Thread(target=work, args=(name,)) for name in right]
    with assert_untouched(model):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_a_layer_in_another_thread_is_not_tapped():
    """While one thread looks, calls from another run as they always do."""
    reached, go_on = threading.Event(), threading.Event()

    class Waits(layers.Layer):
        waiting = False

        def call(self, x):
            if self.waiting:
                self.waiting = False
                reached.set()
                assert go_on.wait(60)
            return x

    model = chain(dense("a"), Waits(name="waits"), dense("b"))
    expected = array(model(X))
    model.get_layer("waits").waiting = True
    results = []
    thread = threading.Thread(
        target=lambda: results.append(
            gw.gradients(model, X, target=gw.mean_output(), wrt=gw.activations())
        )
    )
    thread.start()
    assert reached.wait(60)
    np.testing.assert_array_equal(array(model(X)), expected)
    go_on.set()
    thread.join()
    assert list(results[0]) == ["a", "waits", "b"]


def test_keras_itself_is_as_before():
    """No class is patched and no global is set while nobody looks."""
    call, operation = layers.Dense.call, keras.Operation.__call__
    gw.gradients(mlp(), X, Y, wrt=EVERYTHING)
    assert layers.Dense.call is call
    assert keras.Operation.__call__ is operation


def test_an_engine_does_not_keep_a_model_alive():
    """A model that was looked at can be thrown away."""
    import gc
    import weakref

    model = mlp()
    gw.gradients(model, X, Y, wrt=EVERYTHING)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_a_result_outlives_its_model():
    """Everything a result shows is its own: it prints after the model is gone."""
    found = gw.gradients(mlp(), X, Y, wrt=EVERYTHING)
    assert "hidden/kernel" in str(found)
    assert found["hidden/kernel"].shape[1] == 4
    assert ops.is_tensor(found["inputs"])


def test_a_call_that_the_user_set_on_the_instance_is_used_and_comes_back():
    """It is what the model computes with, so its gradient is the right one."""
    layer = keras.layers.Dense(2, use_bias=False, name="a")
    model = keras.Sequential([keras.Input((3,)), layer])
    original = layer.call
    own = layer.__dict__["call"] = lambda x, training=None: 2 * original(x)
    x = np.ones((4, 3), "float32")
    with assert_untouched(model):
        g = gw.gradients(
            model, x, target=gw.output(index=0), wrt=[gw.weights(), gw.activations()]
        )
    assert layer.__dict__["call"] is own
    np.testing.assert_allclose(g.to_numpy()["a/kernel"][:, 0], [8.0, 8.0, 8.0])
    np.testing.assert_allclose(g.to_numpy()["a"][:, 0], np.ones(4))


def test_a_backward_rule_leaves_the_functions_of_keras_as_they_were():
    """The very same objects, in each of its modules."""
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.add(keras.layers.ReLU())
    before = [dict(vars(module)) for module in operation_modules()]
    gw.attribute.guided_backprop(model, np.ones((2, 3), "float32"), gw.class_score(0))
    after = [dict(vars(module)) for module in operation_modules()]
    for had, has in zip(before, after, strict=True):
        assert had.keys() == has.keys()
        assert all(has[name] is value for name, value in had.items())
