"""From an operation and what went into it to the cause, in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._numbers import LIMITS, described, wide
from ._suspects import Suspect


@dataclass(frozen=True, slots=True)
class Cause:
    """What happened, whether that is certain, and what to try first."""

    words: str
    sure: bool
    try_first: str
    evidence: dict[str, Any]


def of_operation(suspect: Suspect) -> Cause:
    """Names what an operation did to its inputs in the forward pass."""
    words, advice = _forward(suspect.name, [wide(a) for a in suspect.inputs], suspect)
    return Cause(words, True, advice, _evidence(suspect))


def of_derivative(suspect: Suspect) -> Cause:
    """Names why the derivative of an operation is not finite at its inputs."""
    name = suspect.name
    if any(not np.isfinite(wide(a)).all() for a in suspect.outputs):
        words, _ = _forward(name, [wide(a) for a in suspect.inputs], suspect)
        words += ", in values that the forward pass then leaves out"
        advice = (
            "`where` does not stop the gradient of the branch it leaves out: 0 × inf "
            "is NaN. Make the input safe before the operation, with another `where`."
        )
        return Cause(words, True, advice, _evidence(suspect))
    words, advice = _DERIVATIVES.get(name, _DERIVATIVES["divide"])
    if name == "sqrt" and suspect.after in ("sum", "mean"):
        words, advice = (
            "norm at zero: the derivative is infinite there",
            "Add a small number under the root: `sqrt(sum(x**2) + 1e-12)`.",
        )
    return Cause(words, True, advice, _evidence(suspect))


def _evidence(suspect: Suspect) -> dict[str, Any]:
    inputs = [described(a, str(a.dtype)) for a in suspect.inputs]
    return {"operation": suspect.name, "dtype": suspect.dtype, "inputs": inputs}


_DERIVATIVES = {
    "sqrt": (
        "sqrt at 0: the derivative is infinite there",
        "Add a small number before the root: `sqrt(x + 1e-12)`.",
    ),
    "power": (
        "power below 1 at 0: the derivative is infinite there",
        "Keep the base away from 0: `maximum(x, 1e-12)`.",
    ),
    "arccos": (
        "arccos at ±1: the derivative is infinite there",
        "Clip the input to ±(1 - 1e-6).",
    ),
    "arcsin": (
        "arcsin at ±1: the derivative is infinite there",
        "Clip the input to ±(1 - 1e-6).",
    ),
    "divide": (
        "division by a number so small that the derivative overflows",
        "Keep the denominator away from 0: add 1e-6, or use `maximum`.",
    ),
}


def _forward(name: str, inputs: list[np.ndarray], suspect: Suspect) -> tuple[str, str]:
    if suspect.passes_on and "softmax" not in name:
        return (
            f"a number of its own that is not finite, in {name}",
            "All that comes in is finite: look for a constant, a mask, or a tensor "
            "kept outside of the weights, that is NaN or infinite.",
        )
    known = _KNOWN.get(name)
    if known is not None and inputs:
        found = known(*inputs[:2])
        if found is not None:
            return found
    if name in ("exp", "expm1", "exp2", "sinh", "cosh"):
        return _exp(name, suspect.dtype)
    return _general(name, suspect)


def _log(x: np.ndarray, *_: np.ndarray) -> tuple[str, str] | None:
    if (x < 0).any():
        return (
            "log of a negative number",
            "Look at what goes in: it should be positive. `maximum(x, 1e-7)` keeps "
            "it there.",
        )
    if (x == 0).any():
        return (
            "log of zero",
            "Keep the input away from 0: `log(maximum(x, 1e-7))`; for the log of a "
            "softmax or sigmoid use logits and `log_softmax` or `from_logits=True`.",
        )
    return None


def _log1p(x: np.ndarray, *_: np.ndarray) -> tuple[str, str] | None:
    found = _log(x + 1)
    return found and (f"{found[0]} (log1p of a number at or below -1)", found[1])


def _sqrt(x: np.ndarray, *_: np.ndarray) -> tuple[str, str] | None:
    if (x < 0).any():
        return (
            "square root of a negative number",
            "Rounding makes a variance or a distance negative: `maximum(x, 0)`, and "
            "a small number above 0 if it is differentiated.",
        )
    if (x == 0).any():
        return _BY_ZERO
    return None


def _divide(x: np.ndarray, *more: np.ndarray) -> tuple[str, str] | None:
    over, under = np.broadcast_arrays(x, more[0]) if more else (np.ones_like(x), x)
    zero = under == 0
    if (zero & (over == 0)).any():
        return ("division of zero by zero", _BY_ZERO[1])
    return _BY_ZERO if zero.any() else None


_BY_ZERO = (
    "division by zero",
    "Keep the denominator away from 0: add 1e-6, or use `divide_no_nan`; look for "
    "empty masks, constant features and sums of nothing.",
)


def _remainder(_: np.ndarray, *more: np.ndarray) -> tuple[str, str] | None:
    return _BY_ZERO if more and (more[0] == 0).any() else None


def _power(x: np.ndarray, *more: np.ndarray) -> tuple[str, str] | None:
    base, exponent = np.broadcast_arrays(x, more[0] if more else np.float32(2))
    if ((base == 0) & (exponent < 0)).any():
        return ("zero to a negative power: a division by zero", _BY_ZERO[1])
    if ((base < 0) & (exponent != np.round(exponent))).any():
        return (
            "power of a negative number with a fractional exponent",
            "Look at the base: it should not be negative. `maximum(x, 0)` or `abs`.",
        )
    return None


def _arc(x: np.ndarray, *_: np.ndarray) -> tuple[str, str] | None:
    if (np.abs(x) >= 1).any():
        return (
            "inverse of sine, cosine or tanh outside of its range",
            "Clip the input to ±(1 - 1e-6).",
        )
    return None


_KNOWN: dict[str, Callable[..., tuple[str, str] | None]] = {
    "log": _log,
    "log1p": _log1p,
    "sqrt": _sqrt,
    "rsqrt": _sqrt,
    "divide": _divide,
    "reciprocal": _divide,
    **dict.fromkeys(("remainder", "fmod", "floormod", "rem", "floordiv"), _remainder),
    "power": _power,
    "arccos": _arc,
    "arcsin": _arc,
    "arctanh": _arc,
}


def _exp(name: str, dtype: str) -> tuple[str, str]:
    limit = float(np.log(LIMITS.get(dtype, LIMITS["float32"])))
    return (
        f"overflow of {name}",
        f"In {dtype} it overflows above {limit:.1f}. Subtract the largest input "
        "first, as softmax does, clip the input, or use `softplus` instead.",
    )


def _general(name: str, suspect: Suspect) -> tuple[str, str]:
    if not suspect.from_finite:
        if "softmax" in name:
            return (
                "softmax of a row that is all -inf",
                "Everything in that row is masked: use a large negative number such "
                "as -1e9 instead of -inf, or leave the row out.",
            )
        return (
            f"inf - inf, 0 × inf or inf / inf in {name}",
            "Find where the infinity comes from: a mask of -inf, or a constant.",
        )
    if any(not a.size for a in suspect.inputs):
        return (f"{name} of no numbers at all", _BY_ZERO[1])
    if not _can_overflow(suspect):
        return (
            f"NaN out of finite numbers in {name}",
            "Look at what goes in: the operation is not defined there.",
        )
    return overflow(suspect.dtype, f" in {name}")


def _can_overflow(suspect: Suspect) -> bool:
    """Whether something is infinite, or so large that a sum of products may be."""
    if any(np.isinf(wide(a)).any() for a in suspect.outputs):
        return True
    inputs = [wide(a).astype("float64") for a in suspect.inputs]
    largest = max((float(np.abs(a).max()) for a in inputs), default=0.0)
    numbers = max(a.size for a in inputs)
    with np.errstate(over="ignore"):
        most = np.float64(largest) ** 2 * numbers
    return bool(most > LIMITS.get(suspect.dtype, LIMITS["float32"]))


def overflow(dtype: str, place: str = "") -> tuple[str, str]:
    """Names an overflow of a dtype, which is half precision's own disease."""
    limit = LIMITS.get(dtype, LIMITS["float32"])
    if dtype == "float16":
        return (
            f"float16 overflow{place}",
            f"float16 ends at {limit:,.0f}. Scale the input or the weights down, "
            "compute this layer in float32 (`dtype='float32'`), or use "
            "'mixed_bfloat16'.",
        )
    return (
        f"{dtype} overflow{place}",
        f"{dtype} ends at {limit:.1e}. Scale the data, normalise between the layers, "
        "or look for weights that have exploded.",
    )
