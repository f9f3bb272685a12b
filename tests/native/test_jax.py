"""The handlers of JAX's foreign function interface, in programs that JAX compiles."""

import os

import numpy as np
import pytest

if os.environ.get("KERAS_BACKEND") != "jax":
    pytest.skip("runs on JAX only", allow_module_level=True)

import jax
import jax.numpy as jnp

from gradwatch.native import TensorLayout

UINT32, UINT8 = jnp.uint32, jnp.uint8
DUE = jnp.array([1.0, 1.0], jnp.float32)
"""Scale and detail: the step is recorded."""


@pytest.fixture(scope="module")
def target(builds):
    """Registers the handlers of the best build, and returns the calls of JAX."""
    for name in ("GwMeasure", "GwSample", "GwMoves", "GwNorms"):
        handler = jax.ffi.pycapsule(getattr(builds[-1].functions, name))
        jax.ffi.register_ffi_target(f"test_{name}", handler, platform="cpu")

    def call(name, *shapes):
        results = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
        one = results[0] if len(results) == 1 else results
        return jax.ffi.ffi_call(f"test_{name}", one)

    return call


@pytest.fixture
def tensors():
    rng = np.random.default_rng(0)
    return [
        jnp.asarray(rng.normal(size=(300, 301)), jnp.float32),
        jnp.asarray(rng.normal(size=77), jnp.float16),
        jnp.asarray(rng.normal(size=(3, 5, 7)), jnp.bfloat16),
        jnp.zeros((4, 0)),
        jnp.float32(-2.5),
    ]


def measure(target, scale, *tensors, detail=2):
    n = len(tensors)
    call = target("GwMeasure", ((n, 22), UINT32), ((n, 128), UINT32))
    controls = jnp.stack([jnp.asarray(c, jnp.float32) for c in (scale, detail)])
    return call(controls, *tensors)


def plain(build, tensors):
    """The layout, and copies of the tensors that NumPy owns."""
    arrays = [np.array(tensor) for tensor in tensors]
    return TensorLayout([(a.size, a.dtype.name) for a in arrays], build), arrays


def wide(bits):
    """Pairs of uint32 as float64."""
    return np.ascontiguousarray(bits).view(np.float64)


def test_a_compiled_program_measures(target, builds, tensors):
    """The rows keep float64 although JAX has none; an empty tensor is no problem."""
    layout, arrays = plain(builds[-1], tensors)
    rows, counts = jax.jit(lambda *t: measure(target, 4.0, *t))(*tensors)
    expected = layout.measure([a.ctypes.data for a in arrays], 4.0, True)
    np.testing.assert_array_equal(wide(rows), expected[0])
    np.testing.assert_array_equal(counts, expected[1])


def test_samples_moves_and_norms(target, builds, tensors):
    """As the plain functions give them."""
    layout, arrays = plain(builds[-1], tensors)
    pointers = [a.ctypes.data for a in arrays]
    n = len(tensors)

    @jax.jit
    def step(*tensors):
        sample = target("GwSample", ((layout.sealed_bytes,), UINT8))(DUE, *tensors)
        after = [2 * tensor for tensor in tensors]
        moves = target("GwMoves", ((n, 8), UINT32))(DUE, sample, *after)
        return sample, moves, target("GwNorms", ((n, 2), UINT32))(DUE, *tensors)

    sample, moves, norms = step(*tensors)
    sample, seal = np.split(np.array(sample), [-8])
    np.testing.assert_array_equal(sample, layout.sample(pointers))
    assert not seal.any()
    doubled = [np.asarray(2 * array) for array in arrays]
    expected = layout.moves(sample, [a.ctypes.data for a in doubled])
    np.testing.assert_array_equal(wide(moves), expected)
    np.testing.assert_array_equal(wide(norms)[:, 0], layout.norms(pointers))


def test_a_branch_and_a_loop_measure(target):
    """In `lax.cond` only where it is due, and in every turn of `lax.scan`."""
    x = jnp.arange(1.0, 9.0)

    def turn(carry, step):
        blank = jnp.zeros((1, 22), UINT32)
        due = step % 2 == 0
        rows = jax.lax.cond(
            due, lambda c: measure(target, 1.0, c)[0], lambda c: blank, carry
        )
        return carry * 2, rows

    _, rows = jax.jit(lambda x: jax.lax.scan(turn, x, jnp.arange(4)))(x)
    norm = np.linalg.norm(np.arange(1.0, 9.0))
    np.testing.assert_allclose(wide(rows)[:, 0, 0], [norm, 0, 4 * norm, 0], 1e-12)


def test_a_step_of_detail_0_seals_its_sample_and_does_nothing_else(target, builds):
    """The update of the weights depends on the seal in every step."""
    x = jnp.arange(1.0, 9.0)
    sealed = plain(builds[-1], [x])[0].sealed_bytes
    sample = jax.jit(lambda d: target("GwSample", ((sealed,), UINT8))(d, x))
    assert not np.asarray(sample(jnp.array([1.0, 0.0])))[-8:].any()


def test_histograms_are_counted_from_detail_2_on(target):
    """Detail 1 gives rows alone."""
    x = jnp.arange(1.0, 9.0)
    program = jax.jit(lambda detail: measure(target, 1.0, x, detail=detail)[1])
    assert int(program(1).sum()) == 0
    assert int(program(2).sum()) == 8


def test_what_cannot_be_measured_is_an_error(target):
    """Another element type, a result of another size, no controls."""
    whole = jnp.arange(3)
    with pytest.raises(Exception, match="tensors must be float16, bfloat16, float32"):
        jax.block_until_ready(measure(target, 1.0, whole))
    x = jnp.ones(3)
    with pytest.raises(Exception, match=r"the results must be uint32\[tensors, 2\]"):
        jax.block_until_ready(target("GwNorms", ((1, 3), UINT32))(DUE, x))
    with pytest.raises(Exception, match="the second argument must be uint8"):
        jax.block_until_ready(
            target("GwMoves", ((1, 8), UINT32))(DUE, jnp.zeros(1, UINT8), x)
        )
    with pytest.raises(Exception, match=r"the first argument must be float32\[2\]"):
        shapes = (((1, 22), UINT32), ((1, 128), UINT32))
        jax.block_until_ready(target("GwMeasure", *shapes)(x, x))
