"""What the rules read of a step, by name: the numbers of pictures of findings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..run import Run
from ._rules import Chart, Fading, Past, Sight, agree
from ._rules._along_depth import _FEWEST, _trend
from ._rules._beginnings import _STEEPEST
from ._rules._broken import _MANY
from ._rules._in_time import through
from ._rules._sight import WINDOW, median
from ._rules._updates import _usual_ratio

Numbers = dict[str, float]
Look = Callable[[Sight], Numbers]


def sights(run: Run) -> Iterator[Sight]:
    """Yields the recorded steps as the rules see them."""
    past, chart = Past(), None
    for record in run.records():
        if chart is None or chart.layout != record.layout:
            if chart is not None:
                past.forget_lines()
            chart = Chart(record.layout, run.notes.get("model", {}))
        with np.errstate(all="ignore"):
            yield Sight(record, chart, past)


def of_lines(sight: Sight, values: Any, chosen: Any) -> Numbers:
    """Returns the values of the chosen weights by address."""
    return {sight.chart.names[n]: float(values[n]) for n in np.flatnonzero(chosen)}


def pull(sight: Sight) -> Numbers:
    """Gradient times weight of kernels."""
    return of_lines(sight, sight.pull, sight.chart.kernels)


def bias_rms(sight: Sight) -> Numbers:
    """The size of the gradients of biases."""
    return of_lines(sight, sight.rms, sight.chart.shifts)


def fall(numbers: Numbers) -> float:
    """By how much they are larger at the input end than at the output end."""
    there = [n for n in numbers.values() if math.isfinite(n) and n > 0]
    if len(there) < _FEWEST:
        return math.nan
    return float(10.0 ** -_trend(np.log10(np.array(there)))[0])


def sizes(sight: Sight) -> Numbers:
    """How large activations are, along depth."""
    values = sight.values
    found = np.sqrt(values.mean**2 + values.std**2)
    return dict(zip(values.names, found.tolist(), strict=True))


def zeros(sight: Sight) -> Numbers:
    """The share of exact zeros in each weight's gradient."""
    return of_lines(sight, sight.zeros, np.ones(len(sight.g), bool))


def dead(sight: Sight) -> Numbers:
    """The share of units without a gradient, of layers that end in a ReLU."""
    units = sight.chart.shifts & sight.chart.rectified
    return of_lines(sight, sight.zeros, units)


def gains(sight: Sight) -> Numbers:
    """The spread of weights times the root of their inputs."""
    found = {}
    for line in np.flatnonzero(sight.chart.plain):
        name = sight.chart.names[line]
        shape = sight.chart.fact(name, "shape")
        if shape is not None and name not in sight.chart.head_weights:
            spread = sight.w[line] / math.sqrt(max(sight.chart.sizes[line], 1.0))
            found[name] = float(spread * math.sqrt(math.prod(shape[:-1])))
    return found


def layer_norms(sight: Sight) -> Numbers:
    """The norm of the gradient of each layer; NaN where one is missing altogether."""
    squares = np.bincount(sight.chart.owners, np.nan_to_num(sight.g) ** 2)
    order = dict.fromkeys(sight.chart.layers)
    found = dict(zip(order, np.sqrt(squares).tolist(), strict=True))
    missing = {sight.chart.layer_of(name) for name in sight.chart.absent}
    return along_depth(sight, found | dict.fromkeys(missing - set(found), math.nan))


def along_depth(sight: Sight, numbers: Numbers) -> Numbers:
    """Returns the numbers in the order of the model, as far as that was noted."""
    order: dict[str, int] = {}
    for weight in sight.chart._weights:
        for name in (weight, sight.chart.layer_of(weight)):
            order.setdefault(name, len(order))
    last = len(order)
    return dict(sorted(numbers.items(), key=lambda item: order.get(item[0], last)))


def by_layer(sight: Sight) -> Numbers:
    """The gradient of each layer over that of the second largest."""
    norms = layer_norms(sight)
    there = sorted(n for n in norms.values() if math.isfinite(n))
    second = there[-2] if len(there) > 1 else math.nan
    return {name: n / second if second else math.nan for name, n in norms.items()}


def by_head(sight: Sight) -> Numbers:
    """Gradient times weight of each head over that of the quietest."""
    heads = sight.chart.head_kernels.items()
    pulls = {head: float(np.nansum(sight.pull[lines])) for head, lines in heads}
    least = min(pulls.values(), default=0.0)
    return {f"head '{h}'": n / least if least else math.nan for h, n in pulls.items()}


def in_time(sight: Sight) -> Numbers:
    """The share of elements that hold the gradient at a recurrent layer's input."""
    flows = sight.flows
    square = flows.mean**2 + flows.std**2
    with np.errstate(all="ignore"):
        shares = flows.mean_abs**2 / square
    return {
        name: float(shares[place])
        for place, name in enumerate(flows.names)
        if sight.chart.of_layer(name.partition("@")[0], "feeds_recurrent")
    }


def before_after(sight: Sight) -> Numbers:
    """The gradient before each recurrent layer over that after it."""
    return {
        name: through(sight, place)
        for place, name in enumerate(sight.flows.names)
        if sight.chart.of_layer(name.partition("@")[0], "feeds_recurrent")
    }


def slopes(sight: Sight) -> Numbers:
    """The mean slope of tanh and sigmoid layers over the steepest."""
    values, found = sight.values, {}
    for place, name in enumerate(values.names):
        layer = name.partition("@")[0]
        steepest = _STEEPEST.get(sight.chart.own_activation(layer) or "")
        if steepest is not None and layer not in sight.chart.heads:
            mean, std = values.mean[place], values.std[place]
            top = 1.0 if steepest == 1.0 else mean
            found[name] = float((top - mean**2 - std**2) / steepest)
    return found


def ratios(sight: Sight) -> Numbers:
    """Update over weight of each kernel."""
    return of_lines(sight, sight.ratio, sight.chart.kernels)


# of the step as a whole ---------------------------------------------------------------


def norm(sight: Sight) -> Numbers:
    """The norm of all gradients; NaN where some element is not finite."""
    bad = bool((sight.nonfinite > 0).any())
    return {"all gradients": math.nan if bad else sight.total("global_norm")}


def loss(sight: Sight) -> Numbers:
    """The loss."""
    return {"loss": sight.total("loss")}


def usual_ratio(sight: Sight) -> Numbers:
    """Update over weight, the median over kernels."""
    return {"the usual kernel": _usual_ratio(sight)}


def faded(sight: Sight) -> Numbers:
    """What is left of the gradients of the beginning, and of the loss."""
    first = sight.past.loss.seen[0] if sight.past.loss.seen else math.nan
    return {
        "gradient": Fading()._left(sight),
        "loss": sight.total("loss") / first if first else math.nan,
    }


def grown(sight: Sight) -> Numbers:
    """The gradient over that of the beginning, the median of three steps."""
    recent = sight.past.last("global_norm", 3)
    return {"gradient": median(recent) / sight.past.early_norm if len(recent) else 0.0}


def bursts(sight: Sight) -> Numbers:
    """The norm of all gradients over what is usual in the steps before."""
    norms = sight.past.last("global_norm", WINDOW)
    norms = norms[np.isfinite(norms)]
    usual = max(median(norms), sight.past.early_norm) if len(norms) else math.nan
    return {"all gradients": sight.total("global_norm") / usual if usual else math.nan}


def weights_grown(sight: Sight) -> Numbers:
    """The norm of the weights over that of the beginning."""
    before = max(sight.past.first_weight_norm, 1e-30)
    return {"all weights": sight.total("weight_norm") / before}


def left(sight: Sight) -> Numbers:
    """What clipping leaves of a gradient."""
    before, after = sight.total("global_norm"), sight.total("applied_norm")
    return {"all gradients": after / before if before else math.nan}


def skipped(sight: Sight) -> Numbers:
    """The share of the last steps that loss scaling skipped."""
    seen = sight.past.last("skipped", _MANY)
    return {"skipped": float(seen.mean()) if len(seen) else math.nan}


def agreement(sight: Sight) -> Numbers:
    """How far the mean gradient of recent steps stands out; 1 is chance."""
    return {f"the last {WINDOW} steps": agree(sight)}
