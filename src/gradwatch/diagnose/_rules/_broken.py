"""Rules for what is not finite, not there, or dead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._measured import Measured
from ._rule import Rule, Sign
from ._sight import Sight
from ._updates import lost_in_half

_HALF, _MOST = 0.5, 0.8
_STEADY, _SAME = 0.1, 0.02
_MANY = 20
_ALL = 1.0 - 1e-9
COUNTS = ("gradients not finite", "weights concerned")
"""The evidence of `NonFinite` that an autopsy does not replace."""


@dataclass
class NonFinite(Rule):
    """A gradient is NaN or infinite."""

    symptom: str = "nonfinite"
    healthy: str = "none"
    try_first: str = (
        "Run `gradwatch.autopsy(model, x, y)` on this batch: it names the first layer "
        "and the likely operation."
    )
    excludes: tuple[str, ...] = ("skipped",)
    single: bool = True

    def look(self, sight: Sight) -> Iterator[Sign]:
        """Sees the first one; and loss scaling that skips nearly every step."""
        if sight.skipped:
            yield from self._skips(sight)
            return
        bad = sight.nonfinite > 0
        count = float(sight.nonfinite.sum())
        if count:
            yield Sign(
                Measured("nonfinite_gradients", count, high=0.0),
                {
                    COUNTS[0]: int(count),
                    COUNTS[1]: f"{int(bad.sum())} of {len(bad)}",
                    "direction": _direction(sight, bad),
                },
                _first(sight, bad),
                confidence=0.99,
                certain=True,
            )
        elif sight.past.loss.became_nonfinite is not None:
            yield Sign(
                Measured("nonfinite_loss", 1, high=0.0),
                {"the loss": "not finite, with finite gradients"},
                confidence=0.99,
                certain=True,
            )

    def _skips(self, sight: Sight) -> Iterator[Sign]:
        skipped = sight.past.last("skipped", _MANY)
        if len(skipped) == _MANY and skipped.mean() > _HALF:
            share = float(skipped.mean())
            yield Sign(
                Measured("skipped_steps", share, high=_HALF),
                {"steps that loss scaling skipped": share},
                healthy="one in a thousand, after the first dozen",
                key="skips",
                certain=True,
            )


def _direction(sight: Sight, bad: NDArray[np.bool_]) -> str:
    """Where all are bad the loss was; where the last are fine, the way back broke."""
    if (sight.values.nonfinite > 0).any():
        return "forward"
    if not bad[np.flatnonzero(sight.chart.kernels)].all() and not bad.all():
        return "backward"
    return "forward (the loss itself), or at the very start of the way back"


def _first(sight: Sight, bad: NDArray[np.bool_]) -> tuple[str, ...]:
    values = sight.values
    for name, count in zip(values.names, values.nonfinite, strict=True):
        if count > 0:
            return (name,)
    layers = sight.chart.layers_of(bad)
    # The way back goes from the output to the input: the last of them broke first.
    return layers[-1:] if not bad.all() else ()


@dataclass
class Unreached(Rule):
    """A weight gets no gradient at all, from the first step on."""

    symptom: str = "unreached"
    healthy: str = "every trainable weight has a gradient"
    try_first: str = (
        "Run `gradwatch.why_none(model, x, y, address)`: it names the link that is cut "
        "(a `stop_gradient`, an argmax or rounding, an output that no loss uses)."
    )
    excludes: tuple[str, ...] = ()
    patience: int = 3
    single: bool = True

    def look(self, sight: Sight) -> Iterator[Sign]:
        """Sees trainable weights without a line, and layers whose lines are zero."""
        absent = sight.chart.absent
        if absent:
            yield Sign(
                Measured("missing_gradients", len(absent), high=0.0),
                {"weights without a gradient": len(absent)},
                tuple(dict.fromkeys(sight.chart.layer_of(name) for name in absent)),
                key="absent",
                confidence=0.99,
            )
        zero, dead = silent(sight)
        # One that had a gradient before has lost it, and is not cut off.
        reached = set(sight.chart.layers_of(sight.reached))
        cut = [
            layer
            for layer in zero
            if layer not in dead and layer not in reached
            if not _behind_one_hot(layer, reached)
        ]
        if cut and not _zero_weights(sight) and not lost_in_half(sight).any():
            yield Sign(
                Measured("zero_gradients", len(cut), high=0.0),
                {"layers with gradients of exact zeros only": len(cut)},
                tuple(cut),
                key="zero",
                confidence=0.9,
            )


def _behind_one_hot(layer: str, reached: set[str]) -> bool:
    """Whether it is the query or key of an attention whose values have a gradient.

    Scores so large that their softmax is one-hot have none; nothing is cut there.
    """
    attention, _, own = layer.rpartition("/")
    return own in ("query", "key") and f"{attention}/value" in reached


def silent(sight: Sight) -> tuple[list[str], list[str]]:
    """Returns layers all of whose gradients are zero, and those of them that are dead.

    A dead layer gives zeros: the layer after it then gets a gradient for its bias but
    none for its kernel, which is multiplied with them. After a cut it gets both.
    """
    chart = sight.chart
    nothing = sight.g == 0
    # Zeros beside a NaN tell nothing: on some processors the slope of ReLU there is 0.
    if not nothing.any() or (sight.nonfinite > 0).any():
        return [], []
    whole = np.bincount(chart.owners, ~nothing) == 0
    order = list(dict.fromkeys(chart.layers))
    zero = [order[number] for number in np.flatnonzero(whole)]
    if not zero or whole.all():
        return zero, []
    # The first layer after them that has some gradient:
    after = int(np.flatnonzero(whole)[-1]) + 1
    if after == len(order):
        return zero, []
    kernels = (chart.owners == after) & chart.kernels
    starved = bool(kernels.any() and nothing[kernels].all())
    return zero, (zero if starved else [])


def _zero_weights(sight: Sight) -> bool:
    """Whether kernels are zero themselves, through which nothing goes."""
    return bool((sight.w[sight.chart.kernels] == 0).any())


@dataclass
class DeadLayer(Rule):
    """No unit of a layer is active for any example."""

    symptom: str = "dead-layer"
    healthy: str = "each layer has gradients that are not zero"
    try_first: str = (
        "Lower the learning rate, start biases at zero or slightly above, and use a "
        "leaky ReLU or GELU."
    )
    excludes: tuple[str, ...] = ("converged",)
    single: bool = True

    def look(self, sight: Sight) -> Iterator[Sign]:
        """Sees layers behind which the kernel starves."""
        _, dead = silent(sight)
        if dead and not _zero_weights(sight):
            yield Sign(
                Measured("dead_layer", 1.0),
                {"share of zeros in their gradients": 1.0},
                _origin(sight, dead),
                confidence=0.95,
            )


def _origin(sight: Sight, dead: list[str]) -> tuple[str, ...]:
    """The first layer that gives nothing but zeros, where activations tell.

    Layers after it give zeros as well if their biases are zero: of gradients alone, the
    last of them is known.
    """
    values = sight.values
    silent = zip(values.names, values.zeros >= _ALL, strict=True)
    for name, nothing in silent:
        layer = name.partition("@")[0]
        if nothing and layer in dead:
            return (layer,)
    return tuple(dead[-1:])


def _single(sight: Sight) -> NDArray[np.bool_]:
    """Biases as many of whose gradients are zero as of their layer's outputs.

    So it is if a step has one example: then a unit that is silent has no gradient, and
    may have one at the next step.
    """
    zeros = {
        name.partition("@")[0]: share
        for name, share in zip(sight.values.names, sight.values.zeros, strict=True)
    }
    outputs = np.array([zeros.get(layer, np.nan) for layer in sight.chart.layers])
    return np.asarray(np.abs(outputs - sight.zeros) < _SAME, bool)


@dataclass
class DeadUnits(Rule):
    """Units of a rectifier are not active for any example of a batch."""

    symptom: str = "dead-units"
    healthy: str = "a few per cent"
    try_first: str = (
        "Lower the learning rate, start biases at zero or slightly above, scale the "
        "inputs, or use a leaky ReLU or GELU."
    )
    excludes: tuple[str, ...] = ("frozen",)
    single: bool = True

    def look(self, sight: Sight) -> Iterator[Sign]:
        """Sees biases half of which have no gradient, step after step."""
        chart = sight.chart
        units = chart.rectified & chart.shifts & ~chart.half
        some = units & (sight.zeros >= _HALF) & (sight.zeros < _ALL)
        if some.any():
            # With a few examples a step, other units are silent each time.
            recent = np.array(sight.past.zeros)
            low, high = recent.min(axis=0), recent.max(axis=0)
            some &= ((high - low <= _STEADY) & ~_single(sight)) | (low >= _MOST)
        for line in np.flatnonzero(some):
            share = float(sight.zeros[line])
            yield Sign(
                Measured("dead_units", share, high=_HALF),
                {"share of units without a gradient": share},
                (chart.layers[line],),
                key=chart.layers[line],
                confidence=0.9,
            )
