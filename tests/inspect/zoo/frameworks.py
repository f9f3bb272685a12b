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
