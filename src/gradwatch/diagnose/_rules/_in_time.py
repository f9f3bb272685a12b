"""Rules that compare a step with those before it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .._measured import Measured
from .._symptoms import SYMPTOMS
from ._agree import agree
from ._rule import Rule, Sign, decades, sure
from ._sight import WINDOW, Sight, median

_FADED = 1e-3
_GROWN, _GROWN_ALONE = 100.0, 1000.0
_SPIKE, _SPIKES = 100.0, 3
_PART = 0.08
_THROUGH, _BLOWN_UP = 10.0, 100.0
_SCATTER, _WILD = 0.05, 1.0
_CHANCE = 15.0
_LONG = 200
"""So many steps must have gone by before nothing can be said to come of a training.

Of sixty good ones that began slowly, half had not shown by their fiftieth step that
they learn.
"""


@dataclass
class Fading(Rule):
    """Gradients were there, and died down though nothing was learnt."""

    symptom: str = "fading"
    healthy: str = "they fall as the loss does"
    try_first: str = (
        "Look for units that saturate or die as weights grow: lower the learning rate, "
        "add weight decay or normalisation."
    )
    excludes: tuple[str, ...] = ("converged", "clipped")

    def look(self, sight: Sight) -> Iterator[Sign]:
        """Sees a norm far below that of the beginning, and a loss that is not."""
        loss = sight.past.loss
        share = self._left(sight)
        if not share < _FADED or not loss.known:
            return
        # With a loss left, and no gradient anywhere, nothing more will be learnt.
        over = share == 0 and loss.recent > _FADED * loss.first
        if loss.learnt and not over:
            return
        yield Sign(
            Measured("gradient_left", share, low=_FADED),
            {"gradient over that of the beginning": share, "loss fell by": loss.drop},
            confidence=sure(decades(_FADED / share) if share else 2.0),
        )

    def _left(self, sight: Sight) -> float:
        """What is left of the gradients: of all together, or of the usual kernel."""
        found = sight.total("global_norm") / sight.past.early_norm
        early, kernels = sight.past.early, sight.chart.kernels
        if early is not None and kernels.any():
            shares = (sight.g / early)[kernels]
            shares = shares[np.isfinite(shares)]
            if len(shares):
                found = min(found, median(shares))
        return found


@dataclass
class Growing(Rule):
    """Gradients grow from step to step, or in bursts."""

    symptom: str = "exploding"
    healthy: str = "within a factor of 100 of the beginning"
    try_first: str = (
        "Lower the learning rate, warm it up, and clip with `global_clipnorm=1.0`."
    )
    excludes: tuple[str, ...] = ("warm-up",)
    patience: int = 2

    def look(self, sight: Sight) -> Iterator[Sign]:
        """Sees a norm far above that of the beginning, or far above the usual."""
        early, loss = sight.past.early_norm, sight.past.loss
        recent = sight.past.last("global_norm", 3)
        if len(recent) < 3 or math.isnan(early) or not np.isfinite(recent).all():
            return
        grown = median(recent) / early
        limit = _GROWN if loss.rises else _GROWN_ALONE
        if grown > limit and not loss.learnt:
            yield Sign(
                Measured("gradient_growth", grown, high=limit),
                {"gradient over that of the beginning": grown},
                key="grows",
                confidence=sure(decades(grown / limit)),
            )
        yield from self._bursts(sight)

    def _bursts(self, sight: Sight) -> Iterator[Sign]:
        norms = sight.past.last("global_norm", WINDOW)
        norms = norms[np.isfinite(norms)]
        if len(norms) < 3 * _SPIKES:
            return
        usual = max(median(norms), sight.past.early_norm)
        bursts = int((norms > _SPIKE * usual).sum()) if usual > 0 else 0
        if bursts >= _SPIKES and not sight.past.loss.learnt:
            largest = float(norms.max()) / usual
            yield Sign(
                Measured("gradient_bursts", largest, high=_SPIKE),
                {
                    f"bursts in {len(norms)} steps": bursts,
                    "largest over the usual": largest,
                },
                key="bursts",
                confidence=0.85,
            )


@dataclass
class VanishingTime(Rule):
    """Only the last steps of a sequence get a gradient."""

    symptom: str = "vanishing-time"
    healthy: str = "a third or more"
    try_first: str = (
        "Use an LSTM or GRU with a forget bias of one, an orthogonal recurrent kernel, "
        "shorter sequences, or attention."
    )
    excludes: tuple[str, ...] = ("converged",)
    single: bool = True

    def look(self, sight: Sight) -> Iterator[Sign]:
        """Sees gradients of a recurrent layer's input that a few elements hold alone.

        The square of the mean magnitude over the mean square is the share of elements
        that count: 0.64 if all are alike.
        """
        flows = sight.flows
        if sight.past.loss.learnt:  # what it needs of the past it has found
            return
        for place, name in enumerate(flows.names):
            if not sight.chart.of_layer(name.partition("@")[0], "feeds_recurrent"):
                continue
            square = flows.mean[place] ** 2 + flows.std[place] ** 2
            if not square > 0:
                continue
            share = float(flows.mean_abs[place] ** 2 / square)
            # Where gradients grow on their way back, a few hold them as well.
            if share < _PART and not through(sight, place) > _THROUGH:
                yield Sign(
                    Measured("sequence_share", share, low=_PART),
                    {"share of elements that hold the gradient": share},
                    (name,),
                    key=name,
                    confidence=sure(decades(_PART / share)),
                )


@dataclass
class ExplodingTime(Rule):
    """Gradients grow from step to step of a sequence, on their way back."""

    symptom: str = "exploding"
    healthy: str = "no larger before a recurrent layer than after it"
    try_first: str = (
        "Clip with `global_clipnorm=1.0`, use an orthogonal recurrent kernel, an LSTM "
        "or GRU, or shorter sequences."
    )
    excludes: tuple[str, ...] = ("converged",)
    single: bool = True

    def look(self, sight: Sight) -> Iterator[Sign]:
        """Sees gradients that are far larger before a recurrent layer than after."""
        for place, name in enumerate(sight.flows.names):
            if not sight.chart.of_layer(name.partition("@")[0], "feeds_recurrent"):
                continue
            grown = through(sight, place)
            if grown > _BLOWN_UP and math.isfinite(grown):
                yield Sign(
                    Measured("sequence_growth", grown, high=_BLOWN_UP),
                    {"gradient before the layer over that after it": grown},
                    (name,),
                    key=f"time {name}",
                    confidence=sure(decades(grown / _BLOWN_UP)),
                )


def through(sight: Sight, place: int) -> float:
    """Returns how much larger an activation's gradient is than that of the next one.

    The next is a sibling: what runs inside a layer is passed over.
    """
    flows = sight.flows
    own = flows.names[place].partition("@")[0]
    around = own.rpartition("/")[0]
    for after in range(place + 1, len(flows.names)):
        other = flows.names[after].partition("@")[0]
        if other != own and other.rpartition("/")[0] == around:
            sizes = np.hypot(flows.mean, flows.std)
            return float(sizes[place] / sizes[after]) if sizes[after] > 0 else math.nan
    return math.nan


@dataclass
class Noise(Rule):
    """Gradients point elsewhere at each step, so that steps cancel."""

    symptom: str = "noise"
    healthy: str = "gradients of successive steps agree in part"
    try_first: str = (
        "Make the batch larger or accumulate gradients, clip outliers, and lower the "
        "learning rate."
    )
    excludes: tuple[str, ...] = ("converged", "clipped")
    follows: frozenset[str] = frozenset(
        {
            *("fading", "dead-layer", "exploding", "large-updates", "vanishing"),
            *("initialisation", "saturated", "unreached", "underflow"),
            "small-updates",
        }
    )

    def look(self, sight: Sight) -> Iterator[Sign]:
        """Sees losses that scatter and gradients that do not agree, to no avail."""
        past = sight.past
        if sight.step - past.first_step < _LONG or not past.loss.idle:
            return
        if not sight.chart.fresh:  # near its end a good training is nothing but noise
            return
        agreement = agree(sight)
        norms = past.last("global_norm", WINDOW)
        usual = float(np.mean(norms))
        wild = float(np.std(norms)) / usual if usual > 0 else 0.0
        scatter = past.loss.scatter
        if scatter > _SCATTER and (agreement < _CHANCE or wild > _WILD):
            yield Sign(
                Measured("step_agreement", agreement, low=_CHANCE),
                {
                    "agreement of steps (1 is chance)": agreement,
                    "scatter of the loss": scatter,
                    "scatter of the norm": wild,
                },
                confidence=0.85,
            )


@dataclass
class StuckLoss(Rule):
    """The loss stays where it was, and nothing is wrong with the gradients."""

    symptom: str = "stuck-loss"
    healthy: str = "the loss falls by more than its scatter"
    try_first: str = (
        "Look at the data, not at the gradients: are labels in the order of the "
        "inputs, are inputs scaled, does the last activation fit the loss (no softmax "
        "twice)?"
    )
    excludes: tuple[str, ...] = ("frozen", "clipped")
    follows: frozenset[str] = frozenset(SYMPTOMS)
    patience: int = 10

    def look(self, sight: Sight) -> Iterator[Sign]:
        """Sees a loss that stays, in a training that began at random weights."""
        past, chart = sight.past, sight.chart
        if chart.softmax_twice:
            yield Sign(
                Measured("softmax_count", 2.0, high=1.0),
                {"softmax": "twice, in the model and in the loss"},
                key="softmax",
                healthy="once",
                try_first="Give the last layer no activation, or the loss "
                "`from_logits=False`.",
                certain=True,
            )
        if sight.step - past.first_step < _LONG or not past.loss.idle:
            return
        if not chart.fresh:  # trained before: it may have nothing left to learn
            return
        yield Sign(
            Measured("loss", past.loss.recent),
            {
                "loss at the beginning": past.loss.first,
                "loss now": past.loss.recent,
                "update over weight": float(np.nanmedian(sight.ratio[chart.kernels]))
                if chart.kernels.any()
                else math.nan,
            },
            confidence=0.8,
        )
