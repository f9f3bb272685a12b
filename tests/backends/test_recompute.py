"""What is read of a step that XLA compiles: products are recomputed."""

import keras
import numpy as np
import pytest
from keras import ops

BACKEND = keras.config.backend()
if BACKEND not in ("jax", "tensorflow"):
    pytest.skip("nothing is compiled there", allow_module_level=True)

if BACKEND == "jax":
    import jax

    from gradwatch.backends.jax.kernels import JaxKernels, _is_rounded_alone

    apart = JaxKernels().apart

    compiled = jax.jit
else:
    import tensorflow as tf

    from gradwatch.backends.tensorflow.kernels import TFKernels, _is_rounded_alone

    apart = TFKernels(xla=True).apart

    compiled = tf.function(jit_compile=True, autograph=False)

X = np.array([[1.0, 2.0], [-3.0, 4.0]], "float32")
Y = np.array([[0.5, 2.0], [3.0, 0.1]], "float32")
# A tensor of a step, and whether it is in memory by itself.
TENSORS = {
    "a matrix product": (lambda x, y: x @ y, True),
    "a matrix product, turned": (lambda x, y: ops.transpose(x @ y), True),
    "a sum": (lambda x, y: x + y, True),
    "a sum of products": (lambda x, y: x * y + y, True),
    "a choice": (lambda x, y: ops.where(x > 0, x, y), True),
    "a reduction": (lambda x, y: ops.sum(x * y, axis=0), True),
    "a product": (lambda x, y: x * y, False),
    "a product of products": (lambda x, y: x * y * (x * y), False),
    "a product, turned": (lambda x, y: ops.transpose(-(x * y)), False),
    "a quotient": (lambda x, y: x / y, False),
    "a square": (lambda x, y: ops.square(x + y), False),
    "an activation": (lambda x, y: ops.silu(x + y), False),
}


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_that_is_read_is_the_same(name):
    """To the rounding that reading it must not change."""
    make, alone = TENSORS[name]
    known = []

    def step(x, y):
        tensor = make(x, y)
        known.append(_is_rounded_alone(tensor))
        [read] = apart([tensor])
        known.append(read is tensor)
        return tensor, read

    tensor, read = compiled(step)(ops.convert_to_tensor(X), ops.convert_to_tensor(Y))
    assert known == [alone, False]
    np.testing.assert_allclose(
        np.asarray(read), np.asarray(tensor), rtol=1e-5, atol=1e-7
    )


def test_a_function_with_matrix_products_is_not_computed_twice():
    """Nor one with several results."""
    if BACKEND != "jax":
        pytest.skip("about functions in a step of JAX")
    found = []

    def step(x, y):
        found.append(_is_rounded_alone(jax.jit(lambda a: (a @ a) * 2)(x)))
        found.append(_is_rounded_alone(jax.jit(lambda a, b: (a * b, a + b))(x, y)[0]))
        found.append(
            _is_rounded_alone(jax.jit(lambda a: jax.jit(lambda b: b * 2)(a))(x))
        )
        return x

    jax.jit(step)(X, Y)
    assert found == [True, True, False]


def test_what_is_long_is_read_as_it_is():
    """There is an end to recomputing."""

    def step(x):
        for _ in range(1000):
            x = x * 0.999
        return x, apart([x])[0]

    tensor, read = compiled(step)(ops.convert_to_tensor(X))
    np.testing.assert_allclose(np.asarray(read), np.asarray(tensor), rtol=1e-4)
