"""The cause in words: from an operation and what went into it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ._arrays import described, is_bad, limit_of, wide
from ._operations import CLIP, STEEP, Case, TracedOperation


class Cause(NamedTuple):
    """The cause of a value that is not finite.

    Attributes:
        words: The cause in a few words.
        try_first: What to try first.
        evidence: The numbers that show it.
        sure: The very operation was seen; otherwise it is what fits best.
    """

    words: str
    try_first: str
    evidence: Mapping[str, Any] = {}
    sure: bool = True


def of_operation(operation: TracedOperation) -> Cause:
    """Returns what an operation did to its inputs in the forward pass."""
    return Cause(*_forward(operation), _evidence(operation))


def of_derivative(operation: TracedOperation) -> Cause:
    """Returns why the derivative of an operation is not finite at its inputs."""
    name = operation.name
    _, words, advice = STEEP.get(name, STEEP["divide"])
    if any(map(is_bad, operation.outputs)):
        words = (
            f"{_forward(operation)[0]}, in values that the forward pass then leaves out"
        )
        advice = (
            "`where` does not stop the gradient of the branch it leaves out: 0 × inf "
            "is NaN. Make the input safe before the operation, with another `where`."
        )
    elif name == "sqrt" and operation.after in ("sum", "mean"):
        words = "norm at zero: the derivative is infinite there"
        advice = "Add a small number under the root: `sqrt(sum(x**2) + 1e-12)`."
    return Cause(words, advice, _evidence(operation))


def overflow(dtype: str, where: str = "") -> tuple[str, str]:
    """Returns words and advice for an overflow of a dtype."""
    advice = (
        f"{dtype} ends at {limit_of(dtype):.1e}. Scale the data, normalise between "
        "the layers, or look for weights that have exploded."
    )
    if dtype == "float16":
        advice = (
            "float16 ends at 65,504. Scale the input or the weights down, compute this "
            "layer in float32 (`dtype='float32'`), or use 'mixed_bfloat16'."
        )
    return f"{dtype} overflow{where}", advice


def _evidence(operation: TracedOperation) -> dict[str, Any]:
    inputs = [described(a, str(a.dtype)) for a in operation.inputs]
    return {"operation": operation.name, "dtype": operation.dtype, "inputs": inputs}


_AVOID_ZERO = (
    "Keep the denominator away from 0: add 1e-6, or use `divide_no_nan`; look for "
    "empty masks, constant features and sums of nothing."
)
_NEGATIVE_LOG = (
    "Look at what goes in: it should be positive. `maximum(x, 1e-7)` keeps it there."
)
_ZERO_LOG = (
    "Keep the input away from 0: `log(maximum(x, 1e-7))`; for the log of a softmax or "
    "sigmoid use logits and `log_softmax` or `from_logits=True`."
)
_LOG1P = "(log1p of a number at or below -1)"

_INVERTED_ZERO: Case = (lambda x, _: x == 0, "division by zero", _AVOID_ZERO)
_BY_ZERO: Case = (lambda _, y: y == 0, "division by zero", _AVOID_ZERO)
_ROOT: Case = (
    lambda x, _: x < 0,
    "square root of a negative number",
    "Rounding makes a variance or a distance negative: `maximum(x, 0)`, and a small "
    "number above 0 if it is differentiated.",
)
_OUTSIDE = "inverse of sine, cosine or tanh outside of its range"
_INVERSE: Case = (lambda x, _: np.abs(x) >= 1, _OUTSIDE, CLIP)

_CASES: dict[str, tuple[Case, ...]] = {
    "log": (
        (lambda x, _: x < 0, "log of a negative number", _NEGATIVE_LOG),
        (lambda x, _: x == 0, "log of zero", _ZERO_LOG),
    ),
    "log1p": (
        (lambda x, _: x + 1 < 0, f"log of a negative number {_LOG1P}", _NEGATIVE_LOG),
        (lambda x, _: x + 1 == 0, f"log of zero {_LOG1P}", _ZERO_LOG),
    ),
    "sqrt": (_ROOT, _INVERTED_ZERO),
    "rsqrt": (_ROOT, _INVERTED_ZERO),
    "divide": (
        (lambda x, y: (x == 0) & (y == 0), "division of zero by zero", _AVOID_ZERO),
        _BY_ZERO,
    ),
    "reciprocal": (_INVERTED_ZERO,),
    **dict.fromkeys(("remainder", "fmod", "floormod", "rem", "floordiv"), (_BY_ZERO,)),
    "power": (
        (
            lambda x, y: (x == 0) & (y < 0),
            "zero to a negative power: a division by zero",
            _AVOID_ZERO,
        ),
        (
            lambda x, y: (x < 0) & (y != np.round(y)),
            "power of a negative number with a fractional exponent",
            "Look at the base: it should not be negative. `maximum(x, 0)` or `abs`.",
        ),
    ),
    **dict.fromkeys(("arccos", "arcsin", "arctanh"), (_INVERSE,)),
}
"""Operations that are not defined everywhere, by the name that all backends share."""


def _forward(operation: TracedOperation) -> tuple[str, str]:
    """Returns words and advice for an operation whose result is not finite."""
    name, dtype = operation.name, operation.dtype
    if operation.passes_on and "softmax" not in name:
        return (
            f"a number of its own that is not finite, in {name}",
            "All that comes in is finite: look for a constant, a mask, or a tensor "
            "kept outside of the weights, that is NaN or infinite.",
        )
    if (case := _case(operation)) is not None:
        return case
    if name in ("exp", "expm1", "exp2", "sinh", "cosh"):
        return (
            f"overflow of {name}",
            f"In {dtype} it overflows above {float(np.log(limit_of(dtype))):.1f}. "
            "Subtract the largest input first, as softmax does, clip the input, or use "
            "`softplus` instead.",
        )
    return _general(operation)


def _general(operation: TracedOperation) -> tuple[str, str]:
    """Returns the same for an operation that is defined at all finite inputs."""
    name = operation.name
    if not operation.from_finite and "softmax" in name:
        return (
            "softmax of a row that is all -inf",
            "Everything in that row is masked: use a large negative number such as "
            "-1e9 instead of -inf, or leave the row out.",
        )
    if not operation.from_finite:
        return (
            f"inf - inf, 0 × inf or inf / inf in {name}",
            "Find where the infinity comes from: a mask of -inf, or a constant.",
        )
    if any(not a.size for a in operation.inputs):
        return f"{name} of no numbers at all", _AVOID_ZERO
    if not _can_overflow(operation):
        return (
            f"NaN out of finite numbers in {name}",
            "Look at what goes in: the operation is not defined there.",
        )
    return overflow(operation.dtype, f" in {name}")


def _case(operation: TracedOperation) -> tuple[str, str] | None:
    """Returns words and advice for inputs at which an operation is not defined."""
    inputs = [wide(a) for a in operation.inputs[:2]]
    if not inputs:
        return None
    # With a constant as the other operand there is one input: a denominator, or a base.
    alone = operation.name == "divide" and len(inputs) == 1
    known = _CASES.get("reciprocal" if alone else operation.name, ())
    x, y, *_ = (*inputs, np.ones((), "float32"))
    return next(((w, a) for holds, w, a in known if np.any(holds(x, y))), None)


def _can_overflow(operation: TracedOperation) -> bool:
    """Returns whether something is infinite, or so large that sums of products are."""
    if any(np.isinf(wide(a)).any() for a in operation.outputs):
        return True
    inputs = [wide(a).astype("float64") for a in operation.inputs]
    most = max((float(np.abs(a).max()) for a in inputs), default=0.0)
    with np.errstate(over="ignore"):
        product = np.float64(most) ** 2 * max(a.size for a in inputs)
    return bool(product > limit_of(operation.dtype))
