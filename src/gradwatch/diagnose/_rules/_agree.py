"""Whether the gradients of successive steps point the same way."""

from __future__ import annotations

import math

import numpy as np

from ._sight import Sight


def agree(sight: Sight) -> float:
    """Returns how far the mean gradient of recent steps stands out; 1 is chance.

    The mean over its elements is the gradient along one direction, the same at every
    step. Its mean over steps, squared, over what scatter alone would make of it is 1 if
    there is nothing but scatter, for whatever scale.
    """
    means = np.array(sight.past.means)[:, sight.chart.kernels]
    if len(means) < 8 or not means.shape[1]:
        return math.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        found = len(means) * means.mean(axis=0) ** 2 / means.var(axis=0, ddof=1)
    found = found[np.isfinite(found)]
    return float(np.mean(np.minimum(found, 100.0))) if len(found) else math.nan
