"""Rules for gradients that are not finite, missing or dead."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .._measured import Measured
from ._quantities import SKIPS, skipped_share
from ._rule import Sign, rule
from ._snapshot import EARLY, Snapshot
from ._updates import lost_in_half

_HALF, _MOST = 0.5, 0.8
_STEADY, _SAME = 0.1, 0.02
_ALL = 1.0 - 1e-9
COUNTS = ("gradients not finite", "weights concerned")
"""The evidence of `nonfinite` that an autopsy does not replace."""


@rule(
    "nonfinite",
    healthy="none",
    try_first="Run `gradwatch.autopsy(model, x, y)` on this batch: it names the first "
    "layer and the likely operation.",
    excludes=("a skipped step",),
    patience=1,
)
def nonfinite(step: Snapshot) -> Iterator[Sign]:
    """A gradient is NaN or infinite, or loss scaling skips nearly every step."""
    if step.skipped:
        share = skipped_share(step)
        if len(step.history.newest("skipped", SKIPS)) == SKIPS and share > _HALF:
            yield Sign(
                Measured("skipped_steps", share, high=_HALF),
                "steps that loss scaling skipped",
                key="skips",
                confidence=0.9,
                healthy="one in a thousand, after the first dozen",
            )
    elif step.is_broken and step.nonfinite.any():
        bad, count = step.nonfinite > 0, float(step.nonfinite.sum())
        yield Sign(
            Measured("nonfinite_gradients", count, high=0.0),
            {
                COUNTS[0]: int(count),
                COUNTS[1]: f"{int(bad.sum())} of {len(bad)}",
                "direction": _direction(step, bad),
            },
            _first(step, bad),
            confidence=0.99,
        )
    elif step.history.loss.was_nonfinite:
        yield Sign(
            Measured("nonfinite_loss", 1, high=0.0),
            {"the loss": "not finite, with finite gradients"},
            confidence=0.99,
        )


def _direction(step: Snapshot, bad: NDArray[np.bool_]) -> str:
    """Returns "backward" if some gradients are fine: then the way back broke."""
    if (step.activations.nonfinite > 0).any():
        return "forward"
    if not bad[step.parameters.kernels].all() and not bad.all():
        return "backward"
    return "forward (the loss itself), or at the very start of the way back"


def _first(step: Snapshot, bad: NDArray[np.bool_]) -> tuple[str, ...]:
    broken = step.activations.named(step.activations.nonfinite)
    if any(broken.values()):
        return (next(name for name, count in broken.items() if count),)
    # The way back goes from the output to the input: the last of them broke first.
    return () if bad.all() else step.parameters.layers_of(bad)[-1:]


@rule(
    "unreached",
    healthy="every trainable weight has a gradient",
    try_first="Run `gradwatch.why_none(model, x, y, address)`: it names the link that "
    "is cut (a `stop_gradient`, an argmax or rounding, an output that no loss uses).",
    patience=3,
)
def unreached(step: Snapshot) -> Iterator[Sign]:
    """A weight gets no gradient at all, from the first step on."""
    parameters = step.parameters
    if parameters.missing:
        yield Sign(
            Measured("missing_gradients", len(parameters.missing), high=0.0),
            "weights without a gradient",
            tuple(dict.fromkeys(map(parameters.layer_of, parameters.missing))),
            key="absent",
            confidence=0.99,
        )
    zero, dead = _silent(step)
    if not zero:
        return
    # One that had a gradient before has lost it, and is not cut off.
    reached = step.history.reached
    arrived = set() if reached is None else set(parameters.layers_of(reached))
    cut = [
        layer
        for layer in zero
        if layer not in dead and layer not in arrived
        if not _before_one_hot(layer, arrived)
    ]
    if cut and not _has_zero_kernels(step) and not lost_in_half(step).any():
        yield Sign(
            Measured("zero_gradients", len(cut), high=0.0),
            "layers with gradients of exact zeros only",
            tuple(cut),
            key="zero",
            confidence=0.9,
        )


def _before_one_hot(layer: str, arrived: set[str]) -> bool:
    """True for the query or key of an attention whose values have a gradient.

    Scores so large that their softmax is one-hot have none; nothing is cut there.
    """
    attention, _, own = layer.rpartition("/")
    return own in ("query", "key") and f"{attention}/value" in arrived


def _silent(step: Snapshot) -> tuple[list[str], list[str]]:
    """Returns layers all of whose gradients are zero, and those of them that are dead.

    A dead layer gives zeros: the layer after it then gets a gradient for its bias but
    none for its kernel, which is multiplied with them. After a cut it gets both.
    """
    parameters, nothing = step.parameters, step["norm"] == 0
    # Zeros beside a NaN tell nothing: on some processors the slope of ReLU there is 0.
    if not nothing.any() or step.nonfinite.any():
        return [], []
    silent = np.bincount(parameters.layer_numbers, ~nothing) == 0
    zero = [parameters.layer_order[number] for number in np.flatnonzero(silent)]
    if not zero or silent[-1]:
        return zero, []
    # The first layer after them, which has some gradient:
    after = parameters.layer_numbers == int(np.flatnonzero(silent)[-1]) + 1
    kernels = after & parameters.kernels
    starved = kernels.any() and nothing[kernels].all()
    return zero, (zero if starved else [])


def _has_zero_kernels(step: Snapshot) -> bool:
    """Returns whether a kernel is zero itself: no gradient gets through it."""
    return bool((step["weight_norm"][step.parameters.kernels] == 0).any())


@rule(
    "dead-layer",
    healthy="each layer has gradients that are not zero",
    try_first="Lower the learning rate, start biases at zero or slightly above, and "
    "use a leaky ReLU or GELU.",
    excludes=("converged",),
)
def dead_layer(step: Snapshot) -> Iterator[Sign]:
    """No unit of a layer is active for any example: the kernel after it starves."""
    _, dead = _silent(step)
    if not dead or _has_zero_kernels(step):
        return
    # Layers after the first dead one give zeros as well if their biases are zero. Where
    # activations are watched they tell the first; of gradients, the last is known.
    shares = step.activations.named(step.activations["zeros"])
    layers = [name.partition("@")[0] for name, share in shares.items() if share >= _ALL]
    first = next((layer for layer in layers if layer in dead), dead[-1])
    yield Sign(
        Measured("dead_layer", 1.0),
        "share of zeros in their gradients",
        (first,),
        confidence=0.95,
    )


def _like_one_example(step: Snapshot) -> NDArray[np.bool_]:
    """Returns biases as many of whose gradients are zero as of their layer's outputs.

    That is the case if a step has one example: a silent unit then has no gradient, and
    may have one at the next step.
    """
    shares = step.activations.named(step.activations["zeros"])
    zeros = {name.partition("@")[0]: share for name, share in shares.items()}
    outputs = np.array([zeros.get(layer, np.nan) for layer in step.parameters.layers])
    return np.asarray(np.abs(outputs - step["zeros"]) < _SAME, bool)


@rule(
    "dead-units",
    healthy="a few per cent",
    try_first="Lower the learning rate, start biases at zero or slightly above, scale "
    "the inputs, or use a leaky ReLU or GELU.",
    excludes=("frozen",),
)
def dead_units(step: Snapshot) -> Iterator[Sign]:
    """Half of the units of a rectifier or more have no gradient, step after step."""
    parameters = step.parameters
    units = parameters.rectified & parameters.biases & ~parameters.in_float16
    dead = units & (step["zeros"] >= _HALF) & (step["zeros"] < _ALL)
    if dead.any():
        # With a few examples a step, other units are silent each time.
        recent = step.history.window("zeros", EARLY)
        low, high = recent.min(axis=0), recent.max(axis=0)
        steady = (high - low <= _STEADY) & ~_like_one_example(step)
        dead &= steady | (low >= _MOST)
    for row in np.flatnonzero(dead):
        yield Sign(
            Measured("dead_units", float(step["zeros"][row]), high=_HALF),
            "share of units without a gradient",
            (parameters.layers[row],),
            key=parameters.layers[row],
            confidence=0.9,
        )
