"""The rules of other tools, with their published defaults, on our records.

Each is as close as a record comes to what the tool reads. Where it looks at every unit
or at inputs of an activation, the nearest number that a record holds stands in, and the
comment says which. An alarm is a set of symptoms, any of which it may mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from gradwatch.run import Run, Series

Alarm = frozenset[str]
Rival = Callable[[Run], Iterator[Alarm]]


def _alarm(*symptoms: str) -> Alarm:
    return frozenset(symptoms)


def _weights(run: Run) -> list[Series]:
    return [run[name] for name in run.names]


def _values(run: Run) -> list[Series]:
    known = [name for name in run.activations if name in run._known["value"]]
    return [run.activation(name) for name in known]


def _kernels(run: Run) -> list[Series]:
    return [s for s in _weights(run) if "kernel" in s.name.rpartition("/")[2]]


def _biases(run: Run) -> list[Series]:
    return [s for s in _weights(run) if s.name.endswith("bias")]


def _numbers(column: np.ma.MaskedArray) -> np.ndarray:
    found: np.ndarray = column.filled(math.nan)
    return found


def _losses(run: Run) -> np.ndarray:
    return _numbers(run.totals.loss)


def _nonfinite(run: Run) -> bool:
    return any(
        float((s.nan + s.posinf + s.neginf).filled(0).sum()) > 0 for s in _weights(run)
    )


def _in_a_row(condition: np.ndarray, length: int) -> bool:
    streak = 0
    for holds in condition:
        streak = streak + 1 if holds else 0
        if streak >= length:
            return True
    return False


def sagemaker(run: Run) -> Iterator[Alarm]:
    """SageMaker Debugger."""
    weights = _weights(run)
    if any((_numbers(s.mean_abs) < 1e-7).any() for s in weights):
        yield _alarm("vanishing", "fading")
    if _nonfinite(run):
        yield _alarm("nonfinite", "exploding")
    ratios = [_numbers(s.update_ratio) for s in weights]
    if any((r > 10).any() for r in ratios):
        yield _alarm("large-updates")
    if any((r < 1e-8).any() for r in ratios):
        yield _alarm("small-updates")
    # A unit that was never active in a batch has no gradient for its bias.
    if any((_numbers(s.zeros) > 0.5).any() for s in _biases(run)):
        yield _alarm("dead-units", "dead-layer")
    # tanh(9.4999) is 1 less 1e-8; the inputs themselves are not recorded.
    if any((_numbers(s.mean_abs) > 1 - 1e-7).all() for s in _bounded(run)):
        yield _alarm("saturated")
    spreads = [_numbers(s.weight_norm)[0] ** 2 / max(s.size, 1) for s in _kernels(run)]
    uneven = any(max(a, b) > 10 * min(a, b) for a, b in pairwise(spreads))
    # The 5th and 95th percentile of a normal distribution are 3.3 deviations apart.
    flat = any(_in_a_row(3.3 * _numbers(s.std)[:10] < 0.001, 5) for s in _kernels(run))
    if uneven or flat:
        yield _alarm("initialisation")
    if any((_numbers(s.zeros) >= 1).any() for s in weights):
        yield _alarm("unreached", "dead-layer")
    if any(_in_a_row(r < 1e-5, 3) for r in ratios):
        yield _alarm("small-updates", "frozen", "unreached")
    losses = _losses(run)
    if len(losses) > 10 and (losses[10:] > losses[:-10] * (1 - 0.001)).any():
        yield _alarm("stuck-loss")


def autotrainer(run: Run) -> Iterator[Alarm]:
    """AutoTrainer; its gradient rules count only while the result is bad."""
    losses = _losses(run)
    if _nonfinite(run) or (losses >= 1e3).any() or np.isnan(losses).any():
        yield _alarm("nonfinite", "exploding")
    if len(losses) and losses[-5:].mean() < 0.6 * losses[:5].mean():
        return  # accuracy is not recorded: a loss that fell by much is a good one
    kernels = _kernels(run)
    if len(kernels) > 1:
        first, last = _numbers(kernels[0].norm), _numbers(kernels[-1].norm)
        with np.errstate(all="ignore"):
            ratio = first / last
        if ((ratio < 1e-3) & (first < 1e-4)).any():
            yield _alarm("vanishing")
        if (ratio > 70).any():
            yield _alarm("exploding")
    if any((_numbers(s.zeros) >= 0.7).any() for s in kernels):
        yield _alarm("dead-units", "dead-layer")
    if len(losses) > 10:
        moves = np.abs(np.diff(losses)) / np.maximum(np.abs(losses[:-1]), 1e-12)
        if (moves >= 0.03).mean() >= 0.2 and losses[-1] >= losses[0]:
            yield _alarm("large-updates", "noise")
        if np.abs(np.diff(losses)).max() < 0.01:
            yield _alarm("small-updates", "stuck-loss")


def deepdiagnosis(run: Run) -> Iterator[Alarm]:
    """DeepDiagnosis."""
    weights = _weights(run)
    if any((_numbers(s.mean_abs) < 1e-7).any() for s in weights):
        yield _alarm("vanishing", "fading")
    if any((_numbers(s.zeros) >= 0.7).any() for s in _values(run)):
        yield _alarm("dead-units", "dead-layer")
    # |x| >= 5 before a tanh is 0.9999 after it.
    if any((_numbers(s.mean_abs) > 0.9999).any() for s in _bounded(run)):
        yield _alarm("saturated")
    spreads = [_numbers(s.weight_norm) ** 2 / max(s.size, 1) for s in _kernels(run)]
    if any(((v < 1e-5) | (v > 10)).any() for v in spreads):
        yield _alarm("initialisation")
    ratios = [_numbers(s.update_ratio) for s in _kernels(run)]
    if any((r < 1e-5).any() for r in ratios):
        yield _alarm("small-updates")
    if any((r > 0.1).any() for r in ratios):
        yield _alarm("large-updates")
    if _nonfinite(run) or np.isnan(_losses(run)).any():
        yield _alarm("nonfinite")


def thedeepchecker(run: Run) -> Iterator[Alarm]:
    """TheDeepChecker."""
    for s in _kernels(run):
        size = _numbers(s.mean_abs)
        with np.errstate(all="ignore"):
            change = size[5:] / size[:-5]
        if ((size[5:] < 1e-6) & (change < 0.5)).any():
            yield _alarm("vanishing", "fading")
        if ((size[5:] > 1e6) & (change > 2)).any():
            yield _alarm("exploding")
        with np.errstate(all="ignore"):
            log = np.log10(_numbers(s.update_ratio))
        if (log < -4).any():
            yield _alarm("small-updates")
        if (log > -1).any():
            yield _alarm("large-updates")
    values = _values(run)
    if any((_numbers(s.zeros) > 0.95).any() for s in values):
        yield _alarm("dead-units", "dead-layer")
    if any((_numbers(s.mean_abs) > 0.85).any() for s in _bounded(run)):
        yield _alarm("saturated")
    if any(((_numbers(s.std) < 0.5) | (_numbers(s.std) > 2)).any() for s in values):
        yield _alarm("initialisation")
    losses = _losses(run)
    if len(losses) > 5 and (losses[5:] > losses[:-5] * 0.95).any():
        yield _alarm("stuck-loss")
    if _nonfinite(run):
        yield _alarm("nonfinite")


def _bounded(run: Run) -> list[Series]:
    """The values of layers that end in a tanh."""
    layers = run.notes.get("model", {}).get("layers", {})
    return [
        s
        for s in _values(run)
        if layers.get(s.name.partition("@")[0], {}).get("own_activation") == "tanh"
    ]


RIVALS: dict[str, Rival] = {
    "SageMaker": sagemaker,
    "AutoTrainer": autotrainer,
    "DeepDiagnosis": deepdiagnosis,
    "TheDeepChecker": thedeepchecker,
}
