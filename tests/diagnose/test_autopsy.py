"""An autopsy names the layer and the very operation, on every kind of model."""

import keras
import numpy as np
import pytest
from keras import layers, ops

from gradwatch.diagnose import autopsy
from gradwatch.testing import assert_untouched

from .sick import (
    Fault,
    Weighted,
    X,
    Y,
    Z,
    chain,
    faulty,
    functional,
    head,
    masked_log,
    root_of_square,
    subclassed,
    zero_over_zero,
)

BUILDS = [faulty, functional, subclassed]


def look(model, x, y=-Y, **options):
    """An autopsy that must leave no trace."""
    with assert_untouched(model):
        return autopsy(model, x, y, **options)


FORWARD = {
    "log of zero": (ops.log, Z),
    "log of a negative number": (ops.log, -X),
    "log of zero (log1p of a number at or below -1)": (ops.log1p, X * 0 - 1),
    "overflow of exp": (ops.exp, X * 50),
    "division of zero by zero": (zero_over_zero, X),
    "division by zero": (lambda x: 1.0 / x, Z),
    "a number of its own that is not finite, in multiply": (
        lambda x: x * np.float32(np.nan),
        X,
    ),
    "square root of a negative number": (ops.sqrt, -X),
    "zero to a negative power: a division by zero": (
        lambda x: ops.power(x, -1.5),
        Z,
    ),
    "power of a negative number with a fractional exponent": (
        lambda x: ops.power(x, 0.7),
        -X,
    ),
    "float32 overflow in multiply": (lambda x: x * 1e25, X * 1e25),
}


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("cause", FORWARD)
def test_the_operation_of_the_forward_pass_is_found(build, cause):
    """Inside a layer, as a node of a graph, and between the layers of a model."""
    function, x = FORWARD[cause]
    found = look(build(function), x)
    assert found.found
    assert found.sure
    assert (found.where, found.direction) == ("activation", "forward")
    assert found.cause == cause
    assert found.evidence["inputs_finite"]
    bad = found.evidence["nan"] + found.evidence["posinf"] + found.evidence["neginf"]
    assert 0 < bad <= found.evidence["size"]
    if build is faulty:
        assert found.address == "fault"
    if build is subclassed:
        assert found.address == "second:input"
        assert "arises in 'subclassed" in str(found)


BACKWARD = {
    "sqrt at 0: the derivative is infinite there": (ops.sqrt, Z),
    "norm at zero: the derivative is infinite there": (root_of_square, X * 0),
    "log of zero, in values that the forward pass then leaves out": (masked_log, Z),
    "power below 1 at 0: the derivative is infinite there": (
        lambda x: ops.power(x, 0.7),
        Z,
    ),
}


def test_a_remainder_of_a_division_by_zero():
    """It is no overflow: the inputs are small."""
    found = look(faulty(lambda x: ops.mod(x, ops.relu(x - 2))), X)
    assert (found.address, found.cause) == ("fault", "division by zero")


def test_a_mean_of_nothing():
    """Some frameworks divide zero by zero, others have one operation for it."""

    def function(x):
        return x + ops.mean(x[:, :0], axis=-1, keepdims=True)

    found = look(faulty(function), X)
    assert found.cause in ("mean of no numbers at all", "division of zero by zero")


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("cause", BACKWARD)
def test_the_operation_with_the_infinite_derivative_is_found(build, cause):
    """The forward pass and the loss are finite: only the way back is not."""
    function, x = BACKWARD[cause]
    found = look(build(function), x)
    if build is functional and cause.startswith("log of zero"):
        # The graph has a node for each: the logarithm itself gave -inf.
        assert (found.where, found.cause) == ("activation", "log of zero")
        return
    assert (found.where, found.direction) == ("activation gradient", "backward")
    assert found.sure
    if build is functional and cause.startswith("norm"):
        cause = "sqrt at 0: the derivative is infinite there"  # a node of its own
    assert found.cause == cause
    if build is faulty:
        assert found.address == "fault"
    if build is subclassed:
        assert found.address == "first"


def test_what_the_operation_got_is_in_the_evidence():
    """Least, largest, zeros and negative ones of what went into the logarithm."""
    found = look(faulty(lambda x: ops.log(x - 3.0)), X)
    assert found.evidence["operation"] == "log"
    [given] = found.evidence["inputs"]
    assert (given["min"], given["max"]) == (-2.0, 1.0)
    assert (given["zeros"], given["negative"]) == (1, 2)
    assert given["shape"] == [2, 2]


def test_the_first_of_several_faults_is_the_one():
    """In the order of execution, not in that of the layers' creation."""
    late, early = Fault(ops.exp, name="late"), Fault(ops.log, name="early")
    inputs = keras.Input((2,))
    model = keras.Model(inputs, head()(late(early(inputs) * -1e3)))
    model.compile(loss="mse")
    assert look(model, Z).address == "early"


def test_a_root_cause_is_told_from_its_effect():
    """The exponential overflows; that inf / inf is NaN only follows."""

    def softmax_by_hand(x):
        powers = ops.exp(x)
        return powers / ops.sum(powers, axis=-1, keepdims=True)

    found = look(faulty(softmax_by_hand), X * 50)
    assert found.evidence["nan"]
    assert found.cause == "overflow of exp"


def test_an_infinity_that_is_meant_is_not_to_blame():
    """A mask of -inf is fine; a row that is masked altogether is not."""

    def masked(x):
        return ops.softmax(ops.where(x > 2.5, x, -np.inf))

    found = look(faulty(masked), X)
    assert found.evidence["nan"] == 2
    assert "log" not in found.cause
    assert "-inf" in found.cause or "inf - inf" in found.cause


def test_an_infinity_that_is_masked_out_is_not_to_blame():
    """An earlier logarithm gave -inf, but nobody used it."""

    def function(x):
        return masked_log(x) + ops.exp(x * 100)

    assert look(faulty(function), Z).cause == "overflow of exp"


def test_float16_overflows_inside_a_layer():
    """A product beyond 65504."""
    found = look(faulty(lambda x: x * 1000, dtype="float16"), X * 100)
    assert (found.where, found.address) == ("activation", "fault")
    assert found.cause == "float16 overflow in multiply"
    assert found.evidence["dtype"] == "float16"
    assert "65,504" in found.try_first


def test_float16_overflows_where_a_layer_casts_its_input():
    """The number is fine in float32, and infinite before `call` begins."""
    found = look(faulty(lambda x: x * 0.5, dtype="float16"), X * 30000)
    assert (found.where, found.address) == ("activation", "fault:input")
    assert found.cause == "float16 overflow where the layer casts its input"
    assert found.evidence["inputs"][0]["max"] == 120000.0
    assert found.sure


def test_mixed_precision_in_the_backward_pass():
    """The values fit into float16, the gradients do not."""
    model = chain(
        Weighted(name="first"),
        *(Fault(lambda x: x * 200, name=f"up{i}", dtype="float16") for i in range(2)),
        Fault(lambda x: x * 1e-4, name="down"),
        head(),
        loss=lambda y, p: ops.sum(p) * 1e8,
    )
    found = look(model, X / 10)
    assert (found.where, found.address) == ("activation gradient", "up1")
    assert found.cause == "float16 overflow in the backward pass"


def test_an_overflow_of_the_backward_pass_alone():
    """Large weights after small ones: the values are fine, the gradients are not."""
    model = chain(
        *(Weighted(name=name) for name in ("first", "second", "third")),
        loss=lambda y, p: ops.mean(p) * 1e20,
    )
    for layer, value in zip(model.layers, (1e-25, 1e25, 1.0), strict=True):
        layer.scale.assign(value)
    found = look(model, X * 1e-8, np.ones((2, 2)))
    assert (found.where, found.address) == ("activation gradient", "second")
    assert found.cause == "float32 overflow in the backward pass"
    assert not found.sure
    assert "Likely cause" in str(found)


def test_a_fault_in_a_nested_model():
    """The address leads through the model around it."""
    inner = keras.Sequential([keras.Input((2,)), Fault(ops.log, name="fault")])
    inner.name = "inner"
    assert look(chain(inner, head()), Z).address == "inner/fault"


def test_a_fault_in_the_call_of_a_layer_with_layers():
    """Between two sublayers, so it is the layer around that is named."""

    class Block(layers.Layer):
        def build(self, shape):
            self.a, self.b = head("a"), head("b")
            self.a.build(shape)
            self.b.build((*shape[:-1], 1))

        def call(self, x):
            return self.b(ops.log(self.a(x)))

    found = look(chain(Block(name="block")), -X)
    assert (found.address, found.cause) == ("block/b:input", "log of a negative number")
    assert "arises in 'block', before it calls `block/b`" in str(found)


def test_the_second_call_of_a_shared_layer():
    """It is the call that is named."""
    inputs, shared = keras.Input((2,)), Fault(ops.log, name="shared")
    model = keras.Model(inputs, head()(shared(shared(inputs))))
    model.compile(loss="mse")
    found = look(model, X + 1e-3)
    assert found.found is False
    assert look(model, X).address == "shared@2"


@pytest.mark.parametrize("unroll", [False, True])
def test_a_fault_in_a_loop(unroll):
    """Its cell may be out of sight; the operation is found all the same."""
    options = {"kernel_initializer": "ones", "activation": "exponential"}
    lstm = layers.LSTM(1, name="lstm", unroll=unroll, **options)
    found = look(chain(lstm, head(), shape=(3, 2)), np.full((2, 3, 2), 100.0))
    assert found.where == "activation"
    assert found.address.startswith("lstm")
    assert (found.cause, found.sure) == ("overflow of exp", True)


@pytest.mark.parametrize("seed", [3, None])
def test_random_layers_draw_the_same_again(seed):
    """The watched call sees the very dropout mask that broke the first pass.

    Without a seed of its own, a dropout on torch draws from torch's random state.
    """
    drop = layers.Dropout(0.5, seed=seed)

    class Both(layers.Layer):
        def build(self, shape):
            self.drop = drop

        def call(self, x, training=None):
            return 1.0 / ops.sum(self.drop(x, training=training), axis=-1)[:, None]

    model = chain(Both(name="both"), head())
    x = np.ones((64, 2), "float32")
    found = look(model, x, np.zeros((64, 1)))
    zeros = found.evidence["inputs"][-1]["zeros"]
    assert found.cause == "division by zero"
    assert zeros == found.evidence["posinf"] > 0


def test_the_pass_is_one_of_training():
    """Batch normalisation uses the batch, and its moving averages stay."""
    norm = layers.BatchNormalization(name="norm", epsilon=0.0)
    found = look(chain(norm, head()), np.ones((2, 2)))
    assert found.address == "norm"
    assert found.sure


@pytest.mark.parametrize("jit", [False, True])
def test_it_makes_no_difference_how_fit_was_compiled(jit):
    """After some training, under XLA and without."""
    if keras.backend.backend() == "torch":
        jit = False  # it would ask for a C++ compiler
    model = faulty(ops.log)
    model.compile("adam", loss="mse", jit_compile=jit)
    model.fit(X, Y, epochs=2, verbose=0)
    found = look(model, Z)
    assert (found.address, found.cause) == ("fault", "log of zero")
