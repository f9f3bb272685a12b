"""The hand-written recipes of each framework: what gradwatch is compared with."""

import contextlib
from unittest import mock

import keras
import numpy as np
from keras.src.backend.common.dtypes import BIT64_TO_BIT32_DTYPE

BACKEND = keras.backend.backend()


def compile_function(function):
    """The framework's own way to run a function of arrays many times."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.function(function, autograph=False)
    if BACKEND == "jax":
        import jax

        return jax.jit(function)
    import torch

    return torch.no_grad()(function)


@contextlib.contextmanager
def double_precision():
    """Keras, and JAX with it, compute in float64.

    Keras 3.15 knows `floatx` float64, but on JAX and torch the result of every
    promotion is looked up in a table that says float32. With the table put right for
    the time of a test, everything is computed in float64 there too.
    """
    before = keras.config.floatx()
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(BIT64_TO_BIT32_DTYPE, float64="float64"))
        if BACKEND == "jax":
            import jax

            stack.enter_context(jax.enable_x64(True))
        keras.config.set_floatx("float64")
        stack.callback(keras.config.set_floatx, before)
        yield


@contextlib.contextmanager
def quick_compilation():
    """Most of the time of these tests is XLA optimising what runs a few times."""
    if BACKEND != "jax":
        yield
        return
    import jax

    name = "jax_disable_most_optimizations"
    before = jax.config.values[name]
    jax.config.update(name, True)
    try:
        yield
    finally:
        jax.config.update(name, before)


def random_state():
    """The stream that torch draws an unseeded dropout from; others have none."""
    if BACKEND != "torch":
        return None
    import torch

    return torch.get_rng_state()


@contextlib.contextmanager
def at_random_state(state):
    """Draws again what was drawn from this state on."""
    if state is None:
        yield
        return
    import torch

    with torch.random.fork_rng():
        torch.set_rng_state(state)
        yield


def tensors(structure):
    """NumPy arrays as `fit` converts them: floating-point ones become `floatx`."""

    def convert(array):
        floating = np.asarray(array).dtype.kind == "f"
        dtype = keras.config.floatx() if floating else None
        return keras.ops.convert_to_tensor(array, dtype=dtype)

    return keras.tree.map_structure(
        lambda a: None if a is None else convert(a), structure
    )


def array(tensor):
    return np.asarray(keras.ops.convert_to_numpy(tensor), "float64")


def is_float(tensor):
    return "float" in keras.backend.standardize_dtype(tensor.dtype)


# the recipe of each framework, as its own guide writes it -----------------------------


def hand_written(model, x, y, training=True):
    """The loss, its gradients of the trainable weights, and of the float inputs."""
    x, y = tensors(x), tensors(y)
    recipe = {"tensorflow": with_tape, "jax": with_grad, "torch": with_backward}
    mode = {"training": training} if model._call_has_training_arg else {}
    build_loss(model, x, y)
    with as_it_was(model):
        return recipe[BACKEND](model, x, y, mode)


def build_loss(model, x, y):
    """Builds the compiled loss outside any compiled function.

    Keras builds it on first use. Inside `jax.jit`, the variables of its metrics would
    hold tracers for ever, and whatever is compiled next would take them for inputs.
    """
    loss = getattr(model, "_compile_loss", None)
    if loss is not None and not loss.built and y is not None:
        with keras.StatelessScope():
            outputs = model(x)
        loss.build(y, outputs)


def with_tape(model, x, y, mode):
    import tensorflow as tf

    floats = [t for t in keras.tree.flatten(x) if is_float(t)]
    variables = [v.value for v in model.trainable_variables]
    with tf.GradientTape() as tape:
        for tensor in floats:
            tape.watch(tensor)
        loss = model.compute_loss(x, y, model(x, **mode))
    found = tape.gradient(loss, variables + floats)
    found = [tf.convert_to_tensor(gradient) for gradient in found]
    return loss, found[: len(variables)], found[len(variables) :]


def with_grad(model, x, y, mode):
    import jax

    flat = keras.tree.flatten(x)
    places = [place for place, tensor in enumerate(flat) if is_float(tensor)]
    state = [v.value for v in model.non_trainable_variables]

    def loss(weights, floats):
        all_inputs = list(flat)
        for place, tensor in zip(places, floats, strict=True):
            all_inputs[place] = tensor
        inputs = keras.tree.pack_sequence_as(x, all_inputs)
        outputs, _, extra = model.stateless_call(
            weights, state, inputs, return_losses=True, **mode
        )
        if model._compile_loss is None:
            return model.compute_loss(inputs, y, outputs)
        with keras.StatelessScope():  # The loss counts itself in metrics.
            return model._compile_loss(y, outputs) + sum(extra)

    weights = [v.value for v in model.trainable_variables]
    value, (found, inputs) = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(
        weights, [flat[place] for place in places]
    )
    return value, found, inputs


def with_backward(model, x, y, mode):
    flat = [
        t.clone().requires_grad_(True) if is_float(t) else t
        for t in keras.tree.flatten(x)
    ]
    x = keras.tree.pack_sequence_as(x, flat)
    loss = model.compute_loss(x, y, model(x, **mode))
    loss.backward()
    weights = [v.value for v in model.trainable_variables]
    found = [weight.grad for weight in weights]
    for weight in weights:
        weight.grad = None
    return loss.detach(), found, [t.grad for t in flat if t.requires_grad]


@contextlib.contextmanager
def as_it_was(model):
    """Gives every variable, also states that Keras does not list, its value back."""
    states = [
        state
        for layer in model._flatten_layers()
        for state in keras.tree.flatten(getattr(layer, "states", None))
        if isinstance(state, keras.Variable)
    ]
    variables = [*model.variables, *states]
    before = [np.array(keras.ops.convert_to_numpy(v)) for v in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value)


def hand_gradient(function, tensor):
    """The gradient of a function of one tensor."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(tensor)
            value = function(tensor)
        return tape.gradient(value, tensor)
    if BACKEND == "jax":
        import jax

        return jax.grad(function)(tensor)
    import torch

    tensor = tensor.detach().clone().requires_grad_(True)
    return torch.autograd.grad(function(tensor), tensor)[0]
