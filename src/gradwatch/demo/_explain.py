"""One prediction, explained: which pixels drive it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..attribute import Attribution, integrated_gradients
from ..targets import class_score
from ._shapes import SHAPES, draw_shapes


def explain(model: Any) -> tuple[str, Attribution]:
    """Returns one prediction explained, as a sentence and as an attribution."""
    x, y = draw_shapes(40, seed=2)
    one = int(np.flatnonzero(y == SHAPES.index("triangle"))[0])
    shape = int(y[one])
    attribution = integrated_gradients(model, x[one : one + 1], class_score(shape))
    weight = np.abs(attribution.values[0, ..., 0])
    ink = x[one, ..., 0] > 0.35
    share, area = weight[ink].sum() / weight.sum(), ink.mean()
    text = (
        f"A picture of a {SHAPES[shape]}: {share:.0%} of what drives its score lies on "
        f"the drawn line, which is {area:.0%} of the picture."
    )
    return text, attribution
