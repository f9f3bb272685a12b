"""The result of a deletion or an insertion: a curve, and what chance makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..._errors import counted, require

if TYPE_CHECKING:
    from ...show import Figure, ThemeName


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Curve:
    """The target while positions are removed, or put in, the most important first.

    Attributes:
        what: `"deletion"` or `"insertion"`.
        method: Of the attribution.
        target: What it explains, in words.
        share: The share of the positions that is changed, from 0 to 1: [points].
        scores: The target there: [examples, points].
        random: The target where chance orders the positions:
            [orders, examples, points].
    """

    what: str
    method: str
    target: str
    share: np.ndarray
    scores: np.ndarray
    random: np.ndarray

    @property
    def area(self) -> np.ndarray:
        """The area under the curve of each example: its mean height."""
        return _area(self.share, self.scores)

    @property
    def random_area(self) -> np.ndarray:
        """The same for the orders by chance, on average over them."""
        return np.asarray(_area(self.share, self.random).mean(axis=0))

    @property
    def better(self) -> np.ndarray:
        """True for each example whose order is better than chance."""
        gain = self.area - self.random_area
        return np.asarray(gain < 0 if self.what == "deletion" else gain > 0)

    def __repr__(self) -> str:
        wanted = "lower" if self.what == "deletion" else "higher"
        return (
            f"{self.what} by {self.method} of {self.target}: area "
            f"{self.area.mean():.3g}, in random order {self.random_area.mean():.3g} "
            f"(mean of {counted(len(self.scores), 'example')}); {wanted} than chance, "
            f"as it should be, in {int(self.better.sum())} of {len(self.better)}."
        )

    def plot(self, *others: Curve, theme: ThemeName = "light") -> Figure:
        """Returns a figure of the curve, with the orders by chance behind it.

        Args:
            others: Curves of other methods, drawn beside it.
            theme: `"light"` or `"dark"`.

        Raises:
            GradwatchError: If the other curves are of something else.
        """
        for other in others:
            kind = getattr(other, "what", type(other).__name__)
            require(kind == self.what, f"`others` must be curves of {self.what}.", kind)
        from ...show.checks import plot_curves

        curves = [(c.method, c.share, c.scores) for c in (self, *others)]
        return plot_curves(
            curves, self.random, what=self.what, target=self.target, theme=theme
        )


def _area(share: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Returns the area under curves by the trapezoid rule, over the last axis."""
    heights = (scores[..., 1:] + scores[..., :-1]) / 2
    return np.asarray((heights * np.diff(share)).sum(axis=-1))
