"""Rules that compare a step with those before it, and time steps of a sequence."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from .._measured import Measured
from .._symptoms import SYMPTOMS
from . import _quantities as quantities
from ._rule import Sign, rule, signs_beyond
from ._snapshot import Snapshot

_FADED = 1e-3
_GROWN, _GROWN_ALONE = 100.0, 1000.0
_SPIKE, _SPIKES = 100.0, 3
_PART = 0.08
_THROUGH, _BLOWN_UP = 10.0, 100.0
_SCATTER, _WILD = 0.05, 1.0
_CHANCE = 15.0
_LONG = 200
"""Minimum number of steps after which a training can be said to come to nothing.

Of sixty good ones that began slowly, half had not shown by their fiftieth step that
they learn.
"""


@rule(
    "fading",
    healthy="they fall as the loss does",
    try_first="Look for units that saturate or die as weights grow: lower the learning "
    "rate, add weight decay or normalisation.",
    excludes=("converged", "clipped"),
)
def fading(step: Snapshot) -> Iterator[Sign]:
    """Gradients have died down though the loss has not."""
    loss = step.history.loss
    left = quantities.gradient_left(step)
    if not left < _FADED or not loss.known:
        return
    # With a loss left, and no gradient anywhere, nothing more will be learnt.
    over = left == 0 and loss.recent > _FADED * loss.first
    if over or not loss.learnt:
        yield Sign(
            Measured("gradient_left", left, low=_FADED),
            {"gradient over that of the beginning": left, "loss fell by": loss.drop},
        )


@rule(
    "exploding",
    healthy="within a factor of 100 of the beginning",
    try_first="Lower the learning rate, warm it up, and clip with "
    "`global_clipnorm=1.0`.",
    excludes=("a warm-up",),
    patience=2,
)
def growing(step: Snapshot) -> Iterator[Sign]:
    """Gradients grow from step to step, or in bursts."""
    history = step.history
    grown = quantities.gradient_growth(step)
    norms, usual = quantities.recent_norms(step)
    bursts = int((norms > _SPIKE * usual).sum()) if usual > 0 else 0
    in_bursts = len(norms) >= 3 * _SPIKES and bursts >= _SPIKES
    if math.isnan(grown) or not (in_bursts or grown > _GROWN) or history.loss.learnt:
        return
    limit = _GROWN if history.loss.rises else _GROWN_ALONE
    if grown > limit:
        yield Sign(
            Measured("gradient_growth", grown, high=limit),
            "gradient over that of the beginning",
            key="grows",
        )
    if in_bursts:
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


@rule(
    "vanishing-time",
    healthy="a third or more",
    try_first="Use an LSTM or GRU with a forget bias of one, an orthogonal recurrent "
    "kernel, shorter sequences, or attention.",
    excludes=("converged",),
)
def vanishing_time(step: Snapshot) -> Iterator[Sign]:
    """A few time steps of a sequence hold the gradient alone."""
    growth, shares = quantities.sequence_growth(step), quantities.sequence_shares(step)
    if not shares or step.history.loss.learnt:  # it has found what it needs of the past
        return
    # Where gradients grow on their way back, a few hold them as well.
    shares = {name: n for name, n in shares.items() if not growth[name] > _THROUGH}
    label = "share of elements that hold the gradient"
    yield from signs_beyond("sequence_share", label, shares, low=_PART)


@rule(
    "exploding",
    healthy="no larger before a recurrent layer than after it",
    try_first="Clip with `global_clipnorm=1.0`, use an orthogonal recurrent kernel, an "
    "LSTM or GRU, or shorter sequences.",
    excludes=("converged",),
)
def exploding_time(step: Snapshot) -> Iterator[Sign]:
    """Gradients grow on their way back through a sequence."""
    growth = quantities.sequence_growth(step)
    label = "gradient before the layer over that after it"
    yield from signs_beyond("sequence_growth", label, growth, high=_BLOWN_UP)


@rule(
    "noise",
    healthy="gradients of successive steps agree in part",
    try_first="Make the batch larger or accumulate gradients, clip outliers, and lower "
    "the learning rate.",
    excludes=("converged", "clipped"),
    explained_by=(
        *("fading", "dead-layer", "exploding", "large-updates", "vanishing"),
        *("initialisation", "saturated", "unreached", "underflow", "small-updates"),
    ),
)
def noise(step: Snapshot) -> Iterator[Sign]:
    """Losses scatter, gradients of successive steps cancel, and nothing is learnt."""
    history = step.history
    if step.age < _LONG or not history.loss.idle:
        return
    if not step.parameters.starts_untrained:  # a good training ends in noise, too
        return
    agreement = quantities.agreement(step)
    norms = history.newest("global_norm")
    usual = float(np.mean(norms))
    wild = float(np.std(norms)) / usual if usual > 0 else 0.0
    scatter = history.loss.scatter
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


@rule(
    "stuck-loss",
    healthy="once",
    try_first="Give the last layer no activation, or the loss `from_logits=False`.",
    excludes=("frozen", "clipped"),
    explained_by=tuple(SYMPTOMS),
    patience=1,
    at_start=True,
)
def softmax_twice(step: Snapshot) -> Iterator[Sign]:
    """The model ends in a softmax, and the loss applies another one."""
    if step.parameters.softmax_twice:
        yield Sign(
            Measured("softmax_count", 2.0, high=1.0),
            {"softmax": "twice, in the model and in the loss"},
            confidence=0.9,
        )


@rule(
    "stuck-loss",
    healthy="the loss falls by more than its scatter",
    try_first="Look at the data, not at the gradients: are labels in the order of the "
    "inputs, are inputs scaled, does the last activation fit the loss (no softmax "
    "twice)?",
    excludes=("frozen", "clipped"),
    explained_by=tuple(SYMPTOMS),
    patience=10,
)
def stuck_loss(step: Snapshot) -> Iterator[Sign]:
    """The loss stays where it was, and nothing is wrong with the gradients."""
    loss, parameters = step.history.loss, step.parameters
    # One that was trained before may have nothing left to learn.
    if step.age < _LONG or not loss.idle or not parameters.starts_untrained:
        return
    ratios = [*step.update_ratio[parameters.kernels]] or [math.nan]
    yield Sign(
        Measured("loss", loss.recent),
        {
            "loss at the beginning": loss.first,
            "loss now": loss.recent,
            "update over weight": float(np.nanmedian(ratios)),
        },
        confidence=0.8,
    )
