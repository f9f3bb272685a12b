"""`gw.watch`: training loops of one's own, eager and compiled."""

import contextlib

import keras
import numpy as np
import pytest
from keras import layers

import gradwatch as gw

from .cases import products

BACKEND = keras.config.backend()
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(16, 8)).astype("float32")
Y = RANDOM.normal(size=(16, 1)).astype("float32")
MODES = {
    "tensorflow": ("eager", "compiled", "XLA"),
    "jax": ("eager", "compiled"),
    "torch": ("eager",),
}[BACKEND]
RATE = 0.1


def build(optimizer=None):
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input((8,)),
            layers.Dense(4, activation="relu", name="a"),
            layers.Dense(1, name="head"),
        ],
        name="demo",
    )
    return model, optimizer or keras.optimizers.SGD(RATE)


def products_model():
    """A model whose gradients are products: XLA rounds them with what follows."""
    keras.utils.set_random_seed(3)
    return products()[0], keras.optimizers.Adam(0.01)


def stepper(model, optimizer, mode):
    """Returns a function that makes one step, written as people write it."""
    return {"tensorflow": with_tape, "jax": with_grad, "torch": with_backward}[BACKEND](
        model, optimizer, mode
    )


def inputs(model):
    return X[:, : model.input_shape[-1]]


def array(variable):
    return keras.ops.convert_to_numpy(variable)


def with_tape(model, optimizer, mode):
    import tensorflow as tf

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(inputs(model), training=True) - Y) ** 2)
        found = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(found, model.trainable_variables, strict=True))

    return step if mode == "eager" else tf.function(step, jit_compile=mode == "XLA")


def with_backward(model, optimizer, mode):
    import torch

    x, y = torch.tensor(inputs(model)), torch.tensor(Y)

    def step():
        loss = ((model(x, training=True) - y) ** 2).mean()
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            variables = model.trainable_variables
            optimizer.apply([v.value.grad for v in variables], variables)

    return step


def with_grad(model, optimizer, mode):
    import jax

    optimizer.build(model.trainable_variables)

    def loss(trainable):
        out, _ = model.stateless_call(trainable, [], inputs(model), training=True)
        return ((out - Y) ** 2).mean()

    def update(trainable, state):
        found = jax.grad(loss)(trainable)
        return optimizer.stateless_apply(state, found, trainable)

    update = update if mode == "eager" else jax.jit(update)

    def step():
        trainable = [v.value for v in model.trainable_variables]
        state = [v.value for v in optimizer.variables]
        trainable, state = update(trainable, state)
        for variables, values in (
            (model.trainable_variables, trainable),
            (optimizer.variables, state),
        ):
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)

    return step


def trained(mode, steps=7, directory=None, **words):
    model, optimizer = build()
    weights = []
    if directory is None:
        step = stepper(model, optimizer, mode)
        for _ in range(steps):
            weights.append(model.get_weights())
            step()
    else:
        with gw.watch(model, optimizer, directory, **words):
            step = stepper(model, optimizer, mode)
            for _ in range(steps):
                step()
    return [*weights, model.get_weights()], model, optimizer


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("activations", [None, True], ids=["weights", "activations"])
def test_a_watched_loop_trains_bit_for_bit_as_it_would(tmp_path, mode, activations):
    """And the numbers are those of the gradients that moved the weights."""
    expected, _, _ = trained(mode)
    found, model, optimizer = trained(
        mode, directory=tmp_path, every=2, activations=activations
    )
    for one, two in zip(found[-1], expected[-1], strict=True):
        assert np.array_equal(one, two)
    run = gw.open_run(tmp_path)
    assert run.steps.tolist() == [0, 2, 4, 6]
    assert run.names == ("a/kernel", "a/bias", "head/kernel", "head/bias")
    assert run.activations == (("a", "head") if activations else ())
    for place, name in enumerate(run.names):
        for at, step in enumerate(run.steps):
            before, after = (expected[step + ahead][place] for ahead in (0, 1))
            moved = np.linalg.norm(after.astype("float64") - before)
            assert run[name].update_norm[at] == pytest.approx(moved, rel=1e-4)
            assert run[name].norm[at] == pytest.approx(moved / RATE, rel=1e-4)
            norm = np.linalg.norm(before.astype("float64"))
            assert run[name].weight_norm[at] == pytest.approx(norm, rel=1e-5, abs=1e-9)
    assert "apply" not in vars(optimizer)
    assert not any("call" in vars(layer) for layer in model.layers)


@pytest.mark.parametrize("mode", MODES)
def test_a_watched_loop_rounds_products_as_it_would(tmp_path, mode):
    """A compiled step reads no product that the update uses: it recomputes it."""
    states = []
    for watched in (False, True):
        model, optimizer = products_model()
        step = stepper(model, optimizer, mode)
        with (
            gw.watch(model, optimizer, tmp_path, every=2)
            if watched
            else contextlib.nullcontext()
        ):
            for _ in range(4):
                step()
        states.append([*model.get_weights(), *map(array, optimizer.variables)])
    for one, two in zip(*states, strict=True):
        assert np.array_equal(one, two)


@pytest.mark.parametrize("mode", MODES)
def test_any_schedule_goes(tmp_path, mode):
    """A function of the step, asked by eager and by compiled steps."""
    trained(mode, directory=tmp_path, every=lambda step: step in (1, 5))
    assert gw.open_run(tmp_path).steps.tolist() == [1, 5]


@pytest.mark.parametrize("mode", MODES)
def test_an_error_in_the_loop_keeps_what_was_recorded(tmp_path, mode):
    """And takes the taps out."""
    model, optimizer = build()

    def interrupted():
        with gw.watch(model, optimizer, tmp_path, every=1):
            step = stepper(model, optimizer, mode)
            for _ in range(3):
                step()
            raise KeyboardInterrupt("by hand")

    with pytest.raises(KeyboardInterrupt, match="by hand"):
        interrupted()
    assert gw.open_run(tmp_path).steps.tolist() == [0, 1, 2]
    assert "apply" not in vars(optimizer)


def test_a_loop_that_goes_on_in_a_new_block_goes_on_in_the_run(tmp_path):
    """Steps are counted by the optimizer."""
    model, optimizer = build()
    for _ in range(2):
        with gw.watch(model, optimizer, tmp_path, every=1):
            step = stepper(model, optimizer, "eager")
            for _ in range(2):
                step()
    assert gw.open_run(tmp_path).steps.tolist() == [0, 1, 2, 3]


def test_a_block_without_a_step_is_remarked_on(tmp_path):
    """Most likely the step was compiled before it."""
    model, optimizer = build()
    with (
        pytest.warns(RuntimeWarning, match="compiled before the block"),
        gw.watch(model, optimizer, tmp_path),
    ):
        pass


def test_bad_arguments_are_explained(tmp_path):
    """Each with a way out, and nothing is left on the model."""
    model, optimizer = build()
    for words, message in (
        (("sgd", tmp_path), "`optimizer` must be a Keras optimizer"),
        (([optimizer, None], tmp_path), "`optimizer` must be a Keras optimizer"),
    ):
        with pytest.raises(gw.GradwatchError, match=message):
            with gw.watch(model, *words):
                raise AssertionError
    with pytest.raises(gw.GradwatchError, match='`every` must not be "epoch"'):
        with gw.watch(model, optimizer, tmp_path, every="epoch"):
            raise AssertionError
    with pytest.raises(gw.AddressError, match="nothere"):
        with gw.watch(model, optimizer, tmp_path, layers="nothere"):
            raise AssertionError
    unbuilt = keras.Sequential([layers.Dense(2)])
    with pytest.raises(gw.GradwatchError, match="`model` must be built"):
        with gw.watch(unbuilt, optimizer, tmp_path):
            raise AssertionError
    assert "apply" not in vars(optimizer)


def pusher(optimizer, variables, mode):
    """Returns a function that makes a step in which every gradient is this number."""

    def gradients(size):
        return [size * keras.ops.ones(v.shape) for v in variables]

    if BACKEND == "tensorflow" and mode != "eager":
        import tensorflow as tf

        xla = mode == "XLA"
        push = tf.function(
            lambda size: optimizer.apply(gradients(size), variables), jit_compile=xla
        )
        return lambda size: push(tf.constant(size))
    return lambda size: optimizer.apply(gradients(size), variables)


# On JAX, what is compiled by itself is a step by itself.
APART = ("eager",) if BACKEND == "jax" else MODES


@pytest.mark.parametrize("mode", APART)
def test_an_optimizer_that_is_applied_now_and_then_has_lines_then_only(tmp_path, mode):
    """As the maker of a GAN, whose judge learns at every step."""
    model, often = build()
    rarely = keras.optimizers.SGD(RATE)
    judge, maker = (layer.trainable_variables for layer in model.layers)
    often.build(judge)
    rarely.build(maker)
    with gw.watch(model, [rarely, often], tmp_path, every=1) as loop:
        push_judge, push_maker = pusher(often, judge, mode), pusher(rarely, maker, mode)
        for step in range(5):
            if step in (1, 3):
                push_maker(100.0)
            push_judge(step + 1.0)
    run = gw.open_run(tmp_path)
    assert run["a/bias"].steps.tolist() == [0, 1, 2, 3, 4]
    assert run["a/bias"].max.tolist() == [1, 2, 3, 4, 5]
    assert run["head/bias"].steps.tolist() == [1, 3]
    assert run["head/bias"].max.tolist() == [100, 100]
    sizes = np.arange(1, 6) * np.sqrt(36.0)  # the judge has 36 numbers, and
    sizes[[1, 3]] = np.hypot(sizes[[1, 3]], 100 * np.sqrt(5.0))  # the maker 5
    np.testing.assert_allclose(run.totals.global_norm, sizes, 1e-5)
    assert loop.overhead["steps"] == 5


@pytest.mark.skipif(BACKEND == "jax", reason="an optimizer is given all its weights")
@pytest.mark.parametrize("mode", MODES)
def test_one_optimizer_may_train_one_part_after_the_other(tmp_path, mode):
    """Each step has the lines of what it trained, and no others."""
    model, optimizer = build()
    optimizer.build(model.trainable_variables)
    first, second = (layer.trainable_variables for layer in model.layers)
    with gw.watch(model, optimizer, tmp_path, every=1):
        one, two = pusher(optimizer, first, mode), pusher(optimizer, second, mode)
        for _ in range(2):
            one(1.0)
            two(2.0)
    run = gw.open_run(tmp_path)
    assert run["a/bias"].steps.tolist() == [0, 2]
    assert run["a/bias"].max.tolist() == [1, 1]
    assert run["head/bias"].steps.tolist() == [1, 3]
    assert run["head/bias"].max.tolist() == [2, 2]
