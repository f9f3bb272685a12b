"""The result of a randomisation: what stays alike, and what that means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..._errors import counted, require

if TYPE_CHECKING:
    from ...show import Figure, ThemeName

ALIKE = 0.5
"""A rank correlation above it, with half of the layers random, is a failure."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Randomisation:
    """Similarity of the explanation while the model forgets what it learnt.

    Attributes:
        method: Of the attribution.
        target: What it explains, in words.
        order: `"cascading"` or `"independent"`.
        layers: The layers that were drawn anew, the last of the model first.
        absolute: The rank correlation of the sizes of the values with those of the
            trained model: [layers, examples].
        signed: The same of the values as they are.
        ssim: The structural similarity of the sizes as pictures; None where there are
            none.
        signs: True if some of the trained model's values are below zero.
        without_effect: Layers that were left out, because the target does not depend
            on them: those of another output, or behind a neuron.
    """

    method: str
    target: str
    order: str
    layers: list[str]
    absolute: np.ndarray
    signed: np.ndarray
    ssim: np.ndarray | None
    signs: bool = True
    without_effect: tuple[str, ...] = ()

    @property
    def similarity(self) -> float:
        """Rank correlation with half the layers random, on which the verdict rests.

        That of the values as they are: on average over the examples, and over all that
        was drawn from half of the layers on; over each layer, where each is drawn by
        itself. One draw may be alike by chance.
        """
        every = self.signed[self._half :] if self.order == "cascading" else self.signed
        known = np.isfinite(every)
        return float(every[known].mean()) if known.any() else float("nan")

    @property
    def passed(self) -> bool | None:
        """True if the explanation changed with the model; None if it is undecided.

        Values without signs may stay alike for a good reason: where the input is
        strong, every model's gradient is large.
        """
        if np.isnan(self.similarity):
            return None
        if self.similarity <= ALIKE:
            return True
        return False if self.signs else None

    @property
    def _half(self) -> int:
        return (len(self.layers) + 1) // 2 - 1

    def __repr__(self) -> str:
        when = f"each of {counted(len(self.layers), 'layer')} drawn at random by itself"
        if self.order == "cascading":
            when = f"from the last {self._half + 1} to all of {len(self.layers)} layers"
            if self._half + 1 >= len(self.layers):
                when = f"all of {counted(len(self.layers), 'layer')}"
            when += " drawn at random"
        text = f"{self.method} of {self.target}, {when}: "
        if np.isnan(self.similarity):
            return text + "nothing is left that could be compared."
        depends = "it depends on what the model learnt"
        verdicts = {
            None: f"Without signs that does not tell whether {depends}: ask about "
            "values that have some.",
            True: f"It passes: {depends}.",
            False: "It FAILS: it shows much the same without what the model learnt.",
        }
        alike = f"{self.similarity:.2f} with that of the trained model"
        return f"{text}rank correlation {alike}. {verdicts[self.passed]}"

    def plot(self, *others: Randomisation, theme: ThemeName = "light") -> Figure:
        """Returns a figure of the similarity, layer by layer.

        Args:
            others: The same for other methods, drawn beside it.
            theme: `"light"` or `"dark"`.

        Raises:
            GradwatchError: If the others are of other layers.
        """
        rule = f"`others` must be {self.order}, over the same layers."
        for other in others:
            own = other.order, other.layers
            require(own == (self.order, self.layers), rule, own)
        from ...show.checks import plot_randomisation

        every = (self, *others)
        names = "absolute", "signed", "ssim"
        lines = [(one.method, {n: getattr(one, n) for n in names}) for one in every]
        return plot_randomisation(
            lines, self.layers, order=self.order, target=self.target, theme=theme
        )
