"""`Tape` beside the framework's own tools: nested tapes, graphs, `backward`."""

import keras
import numpy as np
import pytest
from keras import ops

import gradwatch as gw
from gradwatch.testing import assert_untouched

from .models import X, array, chain, dense, mlp

BACKEND = keras.backend.backend()
Y = np.linspace(0, 1, len(X) * 2).reshape(-1, 2).astype("float32")
BOTH = [gw.weights(), gw.activations()]

on_tensorflow = pytest.mark.skipif(BACKEND != "tensorflow", reason="about TensorFlow")
on_torch = pytest.mark.skipif(BACKEND != "torch", reason="about torch")


# TensorFlow ---------------------------------------------------------------------------


@on_tensorflow
def test_a_tape_works_inside_a_tf_function():
    """Named tensors can be returned; asking for numbers while tracing is explained."""
    import tensorflow as tf

    model = mlp()
    texts = []

    @tf.function
    def step(x, y):
        with gw.Tape(model, wrt=BOTH) as tape:
            loss = ops.mean((model(x, training=True) - y) ** 2)
        found = tape.gradients(loss)
        texts.append(str(found))
        for show in (found.to_numpy, found.summary, found.to_dict, found.plot):
            with pytest.raises(gw.GradwatchError, match=r"`tf\.function`"):
                show()
        return dict(found.items())

    model(X)
    with assert_untouched(model):
        for _ in range(2):
            found = step(tf.constant(X), tf.constant(Y))
    assert len(texts) == 1, "traced once"
    assert "symbolic" in texts[0]
    assert "hidden/kernel" in texts[0]
    right = gw.gradients(model, X, Y, wrt=BOTH).to_numpy()
    assert set(found) == set(right)
    for name, gradient in right.items():
        np.testing.assert_allclose(array(found[name]), gradient, rtol=1e-5, atol=1e-7)


@on_tensorflow
def test_a_training_step_inside_a_tf_function_is_the_same_bit_for_bit():
    """`tf.GradientTape` against `Tape`, both compiled."""
    import tensorflow as tf

    ends = []
    for tape_of in (lambda m: tf.GradientTape(), lambda m: gw.Tape(m, wrt=BOTH)):
        keras.utils.set_random_seed(5)
        model, optimizer = mlp(), keras.optimizers.Adam()
        optimizer.build(model.trainable_variables)

        @tf.function
        def step(x, y, model=model, optimizer=optimizer, tape_of=tape_of):
            with tape_of(model) as tape:
                loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply(gradients, model.trainable_variables)

        for _ in range(3):
            step(tf.constant(X), tf.constant(Y))
        ends.append(model.get_weights())
    for one, two in zip(*ends, strict=True):
        np.testing.assert_array_equal(one, two)


@on_tensorflow
def test_a_tape_inside_a_gradient_tape_gives_second_derivatives():
    """The gradient penalty: the derivative of a gradient's norm, checked by
    differences."""
    import tensorflow as tf

    model = chain(dense("a", 4, activation="tanh"), dense("b", 1))

    def penalty(x):
        with gw.Tape(model, wrt=gw.weights("a/kernel")) as inner:
            target = tf.reduce_mean(model(x) ** 2)
        return tf.reduce_sum(inner.gradients(target)["a/kernel"] ** 2)

    x = tf.constant(X)
    with tf.GradientTape() as outer:
        outer.watch(x)
        value = penalty(x)
    second = array(outer.gradient(value, x))
    step = 1e-2
    measured = np.zeros_like(X)
    for place in np.ndindex(X.shape):
        moved = X.copy()
        moved[place] += step
        up = float(penalty(tf.constant(moved)))
        moved[place] -= 2 * step
        measured[place] = (up - float(penalty(tf.constant(moved)))) / (2 * step)
    assert np.abs(second).max() > 1e-4
    np.testing.assert_allclose(second, measured, rtol=0.02, atol=2e-4)


@on_tensorflow
def test_a_gradient_tape_inside_a_tape_gives_second_derivatives():
    """The other way round: the named gradients of a gradient's norm."""
    import tensorflow as tf

    model = chain(dense("a", 4, activation="tanh"), dense("b", 1))
    x = tf.constant(X)
    with gw.Tape(model, wrt=BOTH) as outer:
        with tf.GradientTape() as inner:
            inner.watch(x)
            out = tf.reduce_sum(model(x))
        target = tf.reduce_mean(inner.gradient(out, x) ** 2)
    found = outer.gradients(target)
    with tf.GradientTape() as plain, tf.GradientTape() as inner:
        inner.watch(x)
        out = tf.reduce_sum(model(x))
        slope = inner.gradient(out, x)
        value = tf.reduce_mean(slope**2)
    right = plain.gradient(value, model.get_layer("a").kernel.value)
    np.testing.assert_allclose(
        found.to_numpy()["a/kernel"], array(right), rtol=1e-5, atol=1e-7
    )


@on_tensorflow
def test_weights_used_outside_the_block_are_explained():
    """A loss from before, or after, the block: the sentence says where it belongs."""
    import tensorflow as tf

    model = mlp()
    early = tf.reduce_mean(model(tf.constant(X)))
    with gw.Tape(model) as tape:
        pass
    reasons = tape.gradients(early).missing.values()
    assert {reason.cause for reason in reasons} == {"not_called"}
    assert all("inside the `with` block" in str(reason) for reason in reasons)
    with gw.Tape(model) as tape:
        out = model(tf.constant(X))
    reasons = tape.gradients(tf.reduce_mean(out)).missing.values()
    assert {reason.cause for reason in reasons} == {"not_on_path"}
    assert all("inside the `with` block" in str(reason) for reason in reasons)


@on_tensorflow
def test_gradient_passes_the_words_of_tensorflow_on():
    """`unconnected_gradients` is what a loop may have asked `tf.GradientTape`."""
    import tensorflow as tf

    model, unused = mlp(), keras.Variable(1.0)
    with gw.Tape(model) as tape:
        loss = tf.reduce_mean(model(tf.constant(X)))
    (gradient,) = tape.gradient(
        loss, [unused], unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    assert float(gradient) == 0.0


@on_tensorflow
def test_an_embedding_keeps_its_rows():
    """`tape.gradient` gives `IndexedSlices` as TensorFlow does; names give both."""
    import tensorflow as tf

    model = chain(
        keras.layers.Embedding(5, 2, name="embed"),
        keras.layers.Flatten(name="flat"),
        dense("b"),
        shape=(2,),
        dtype="int32",
    )
    with gw.Tape(model) as tape:
        loss = tf.reduce_mean(model(tf.constant([[3, 1], [1, 1]])))
    (plain, *_) = tape.gradient(loss, model.trainable_variables)
    assert isinstance(plain, tf.IndexedSlices)
    found = tape.gradients(loss)
    assert found.is_sparse("embed/embeddings")
    indices, values = found.sparse("embed/embeddings")
    np.testing.assert_array_equal(indices, [1, 3])
    np.testing.assert_allclose(
        found.to_numpy()["embed/embeddings"][[1, 3]], values, rtol=1e-5, atol=1e-7
    )


# torch --------------------------------------------------------------------------------


@on_torch
def test_backward_still_works_and_no_grad_is_touched():
    """Asking leaves `.grad` alone; `loss.backward()` afterwards fills it."""
    model = mlp()
    x, y = ops.convert_to_tensor(X), ops.convert_to_tensor(Y)
    with gw.Tape(model, wrt=BOTH) as tape:
        loss = ops.mean((model(x) - y) ** 2)
    found = tape.gradients(loss).to_numpy()
    assert all(v.value.grad is None for v in model.trainable_variables)
    loss.backward()
    names = gw.layers(model).weights
    for name, variable in zip(names, model.trainable_variables, strict=True):
        np.testing.assert_allclose(
            variable.value.grad.numpy(), found[name], rtol=1e-5, atol=1e-7
        )


@on_torch
def test_gradients_of_a_loop_with_backward_are_the_same():
    """A torch loop (`backward`, optimizer) is not disturbed by a tape around it."""
    import torch

    ends = []
    for watched in (False, True):
        keras.utils.set_random_seed(5)
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            if watched:
                with gw.Tape(model, wrt=BOTH) as tape:
                    loss = torch.mean(model(torch.tensor(X)) ** 2)
                assert len(tape.gradients(loss)) == 6
            else:
                loss = torch.mean(model(torch.tensor(X)) ** 2)
            loss.backward()
            optimizer.step()
        ends.append(model.get_weights())
    for one, two in zip(*ends, strict=True):
        np.testing.assert_array_equal(one, two)


@on_torch
def test_a_question_after_the_update_comes_too_late():
    """torch's graph holds the weights themselves; the error says to ask before."""
    import torch

    model = mlp()
    with gw.Tape(model) as tape:
        loss = torch.mean(model(torch.tensor(X)) ** 2)
    kernel = model.get_layer("head").kernel.value
    with torch.no_grad():
        kernel += 1.0
    with pytest.raises(gw.GradwatchError, match=r"asked before the weights change"):
        tape.gradients(loss)


@on_tensorflow
def test_a_question_after_the_update_is_about_the_recorded_pass():
    """TensorFlow's tape remembers the values it saw."""
    import tensorflow as tf

    model = mlp()
    with gw.Tape(model) as tape:
        loss = tf.reduce_mean(model(tf.constant(X)) ** 2)
    before = tape.gradients(loss).to_numpy()
    model.get_layer("head").kernel.assign_add(np.ones((4, 2)))
    for name, gradient in tape.gradients(loss).to_numpy().items():
        np.testing.assert_array_equal(gradient, before[name])


@on_torch
def test_a_frozen_parameter_stays_out_of_backward():
    """Asked for by name, it has a gradient; `backward` leaves it alone."""
    model = mlp()
    model.get_layer("hidden").trainable = False
    with gw.Tape(model, wrt=gw.weights("hidden/kernel")) as tape:
        loss = ops.mean(model(ops.convert_to_tensor(X)) ** 2)
    assert list(tape.gradients(loss)) == ["hidden/kernel"]
    loss.backward()
    kernel = model.get_layer("hidden").kernel.value
    assert not kernel.requires_grad
    assert kernel.grad is None


@on_torch
def test_gradients_under_no_grad_are_computed_all_the_same():
    """An evaluation loop runs under `torch.no_grad()`; the verb does not mind."""
    import torch

    model = mlp()
    right = gw.gradients(model, X, Y).to_numpy()
    with torch.no_grad():
        found = gw.gradients(model, X, Y).to_numpy()
        assert not torch.is_grad_enabled()
    for name, gradient in right.items():
        np.testing.assert_array_equal(found[name], gradient)
