"""The doors from an attribution to its figure and its HTML."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import GradwatchError, counted
from ..show.attributed import Panel, panels_html, plot_panels
from ._panels import MOST, Words, panels_of

if TYPE_CHECKING:
    from ..show import Figure, ThemeName
    from ._result import Attribution


def figure_of(
    attribution: Attribution, words: Words, beside: Any, top: Any, theme: ThemeName
) -> Figure:
    """Returns the figure of `Attribution.plot`."""
    panels = _panels(attribution, words, beside, top)
    return plot_panels(panels, title=_title(attribution), theme=theme, top=top)


def html_of(attribution: Attribution, words: Words, beside: Any, top: Any) -> str:
    """Returns the HTML of `Attribution.to_html`."""
    panels = _panels(attribution, words, beside, top)
    return panels_html(panels, title=_title(attribution), top=top)


def _panels(
    attribution: Attribution, words: Words, beside: Any, top: Any
) -> list[Panel]:
    if isinstance(top, bool) or not isinstance(top, int | np.integer) or top < 1:
        raise GradwatchError(
            f"`top` must be a number of bars from 1. Received: {top!r}."
        )
    if len(attribution) == 0:
        raise GradwatchError(
            "There must be an example to draw. Received: an attribution of none."
        )
    some = slice(0, MOST)
    cut = Words(words.kind, words.names, _cut(words.tokens, attribution),
                _cut(words.titles, attribution))  # fmt: skip
    panels: list[Panel] = []
    for one in [attribution, *_others(attribution, beside)]:
        panels += panels_of(one[some] if len(one) > MOST else one, cut)
    return panels


def _cut(given: Any, attribution: Attribution) -> Any:
    """Keeps what is said of the examples that are drawn; what is wrong stays wrong."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        return given
    found = list(given)
    return found[:MOST] if len(found) == len(attribution) else found


def _others(attribution: Attribution, beside: Any) -> list[Any]:
    others: list[Any] = []
    if beside is not None:
        single = isinstance(beside, type(attribution)) or not isinstance(
            beside, Iterable
        )
        others = [beside] if single else list(beside)
    for other in others:
        if not isinstance(other, type(attribution)):
            raise GradwatchError(
                "`beside` must be an Attribution, or a list of them. Received: an "
                f"object of type {type(other).__name__}."
            )
        ours = [source.values for source in attribution.sources]
        theirs = [source.values for source in other.sources]
        if len(ours) != len(theirs) or not all(map(_equal, ours, theirs)):
            raise GradwatchError(
                "`beside` must explain the same inputs. Received: "
                f"{other!r}, of other inputs. Plot it by itself."
            )
    return others


def _equal(ours: np.ndarray, theirs: np.ndarray) -> bool:
    nan = ours.dtype.kind == "f" and theirs.dtype.kind == "f"
    return bool(np.array_equal(ours, theirs, equal_nan=nan))


def _title(attribution: Attribution) -> str:
    title = f"Attribution of {attribution.target}"
    if len(attribution) > MOST:
        examples = counted(len(attribution), "example")
        title += f", the first {MOST} of {examples}"
    return title
