"""Completeness: whether the values of an example add up to what they explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._errors import counted, require
from .._method import delta_of, relative_delta
from .._result import Attribution
from ._question import require_attribution, require_finite

_NO_PROMISE = {
    "expected_gradients": "whose values add up on average over draws only",
    "neuron_conductance": "whose values add up to the conductance of the neuron",
    **dict.fromkeys(
        ("smoothgrad", "squaregrad", "vargrad"),
        "which is taken over noisy copies, whose sums are others",
    ),
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Completeness:
    """Error of completeness of each example.

    Attributes:
        method: Of the attribution.
        target: What it explains, in words.
        difference: f(x) − f(baseline) of each example.
        error: The sum of each example's values minus its difference.
        relative: |error| / |difference|.
    """

    method: str
    target: str
    difference: np.ndarray
    error: np.ndarray
    relative: np.ndarray

    def __repr__(self) -> str:
        worst = int(np.argmax(self.relative))
        return (
            f"{self.method} of {self.target}: the values of "
            f"{counted(len(self.error), 'example')} miss f(x) − f(baseline) by at most "
            f"{self.relative[worst]:.2%} (by {abs(self.error[worst]):.2g} of "
            f"{abs(self.difference[worst]):.3g})."
        )


def completeness(a: Attribution) -> Completeness:
    """Error of the values against the sum they promise, f(x) − f(baseline).

    Sundararajan, Taly and Yan, *Axiomatic Attribution for Deep Networks* (2017),
    section 3 and proposition 1: Σᵢ φᵢ = F(x) − F(x′). No pass through the model.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> layers = [keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(2)]
    >>> model = keras.Sequential([keras.Input((3,)), *layers])
    >>> a = gw.integrated_gradients(model, np.ones((5, 3)), gw.class_score(1))
    >>> bool((gw.attribute.quality.completeness(a).relative < 1e-3).all())
    True

    Args:
        a: The attribution, by a method that promises completeness:
            `integrated_gradients`, `deep_lift` or `layer_conductance`. Sums over
            channels keep it, `upsample` does not.

    Returns:
        The errors: absolute, and relative to the difference. Where the difference is
        too small for float32 to tell, relative to what it can tell.

    Raises:
        GradwatchError: If the method promises nothing of the kind.
    """
    require_attribution(a)
    before: Any = a.baseline_score
    rule = "`a` must come from a method that promises completeness: "
    rule += "`integrated_gradients`, `deep_lift` or `layer_conductance`."
    received = f"{a.method}, {_NO_PROMISE.get(a.method, 'whose values promise no sum')}"
    way_out = "`infidelity`, `sensitivity_max`, `deletion`, `insertion` fit any."
    require(before is not None, rule, received, way_out)
    require_finite(a)
    values = [place.values for place in a.places]
    error = delta_of(values, a.score, before)
    difference, relative = relative_delta(values, a.score, before)
    return Completeness(a.method, a.target, difference, error, relative)
