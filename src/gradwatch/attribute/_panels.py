"""An attribution, made ready to be drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import GradwatchError, counted, quoted
from ..show.attributed import Panel
from ._kinds import checked_kind, kind_of, laid_over, pictures, source_of, whole
from ._place import Place

if TYPE_CHECKING:
    from ._result import Attribution

MOST = 8
"""Maximum number of examples in a figure; `a[8:16]` has the next ones."""


@dataclass(frozen=True, slots=True)
class Words:
    """Arguments of a picture.

    Attributes:
        kind: What to draw, or None.
        names: Of the features or channels; by tensor, where there are several.
        tokens: A list of words for each example.
        titles: A line for each example.
    """

    kind: str | None = None
    names: Any = None
    tokens: Any = None
    titles: Any = None


def panels_of(attribution: Attribution, words: Words) -> list[Panel]:
    """Returns a panel for each tensor; three slices for each that has depth.

    Raises:
        GradwatchError: If the words do not fit the data.
    """
    given = _tokens(words.tokens, attribution)
    captions = _captions(attribution, words.titles)
    if isinstance(words.names, Mapping):
        for name in words.names:
            attribution.place(name)
    panels: list[Panel] = []
    used: set[str] = set()
    for place in attribution.places:
        checked_kind(words.kind, place)
        source = source_of(place, attribution.sources)
        kind = words.kind or kind_of(place, source, words=given is not None)
        used.add(kind)
        names = _names(words.names, place, attribution)
        maker = _Maker(place, source, attribution.method, captions)
        if kind == "image":
            panels += maker.images()
        elif kind == "tokens":
            panels.append(maker.tokens(given))
        elif kind == "bars":
            panels.append(maker.bars(names))
        else:
            panels.append(maker.lines(names))
    _require_use("tokens", words.tokens, used, {"tokens"})
    _require_use("names", words.names, used, {"bars", "lines"})
    return panels


@dataclass(frozen=True, slots=True)
class _Maker:
    place: Place
    source: Place | None
    method: str
    captions: list[str]

    def images(self) -> list[Panel]:
        place = laid_over(self.place, self.source)
        base = self.place if self.source is None else self.source
        values, data = _numbers(place.values), pictures(base)
        while values.ndim > 4:  # the middle of time, or whatever comes first
            middle = values.shape[1] // 2
            values, data = values[:, middle], data[:, middle]
        if values.ndim == 3:
            return [self._image(values, data, self.place.name)]
        panels = []
        for axis in (1, 2, 3):
            middle = values.shape[axis] // 2
            where = ",".join(str(middle) if a == axis else ":" for a in (1, 2, 3))
            some = values.take(middle, axis), data.take(middle, axis)
            panels.append(self._image(*some, f"{self.place.name}[{where}]"))
        return panels

    def _image(self, values: np.ndarray, data: np.ndarray, name: str) -> Panel:
        source = name if self.source is None else self.source.name
        given = (self.method, values, data, (), self.captions)
        return Panel("image", name, *given, source=source)

    def tokens(self, given: list[list[str]] | None) -> Panel:
        source = self.source if self.source and whole(self.source) else None
        place = laid_over(self.place, source)
        values = _numbers(place.values).reshape(len(place.values), -1)
        if given is None:
            ids = place.activation if source is None else source.values
            ids = ids.reshape(len(ids), -1)
            if ids.shape != values.shape:
                ids = np.broadcast_to(np.arange(values.shape[1]), values.shape)
            given = [[f"{number:g}" for number in row] for row in ids]
        for number, row in enumerate(given):
            if len(row) > values.shape[1]:
                raise GradwatchError(
                    f"`tokens` must have at most {counted(values.shape[1], 'word')} "
                    f"per example, one for each place of {self.place.name!r}. "
                    f"Received: {len(row)} for example {number}. Cut them as the "
                    "model's input was cut."
                )
        return Panel(
            "tokens", self.place.name, self.method, values, None, given, self.captions
        )

    def bars(self, names: list[str] | None) -> Panel:
        shape = self.place.values.shape[1:]
        values = _numbers(self.place.values).reshape(len(self.place.values), -1)
        data = self.place.activation.reshape(len(values), -1)
        if names is None:
            word = "feature" if self.place.name.startswith("inputs") else "unit"
            names = (
                [f"{word} {number}" for number in range(values.shape[1])]
                if len(shape) <= 1
                else [str([*map(int, place)]) for place in np.ndindex(*shape)]
            )
        self._require_names(names, values.shape[1], "feature")
        return Panel(
            "bars",
            self.place.name,
            self.method,
            values,
            data if data.shape == values.shape else None,
            [names],
            self.captions,
        )

    def lines(self, names: list[str] | None) -> Panel:
        place, source = self.place, self.source
        if source is not None and source.name == place.name:
            values, data = _last(place.values, place), _last(place.activation, place)
        else:
            place = laid_over(place, source)
            values = _numbers(place.values).reshape(len(place.values), -1, 1)
            base = self.place if source is None else source
            data = _last(base.activation, base)
        if names is None:
            word = "channel" if data.shape[2] > 1 else "input"
            names = [f"{word} {number}" for number in range(data.shape[2])]
            names = ["input"] if data.shape[2] == 1 else names
        self._require_names(names, data.shape[2], "channel")
        return Panel(
            *("lines", self.place.name, self.method, values, data, [names]),
            self.captions,
        )

    def _require_names(self, names: list[str], number: int, noun: str) -> None:
        if len(names) != number:
            raise GradwatchError(
                f"`names` must have one name for each of the {counted(number, noun)} "
                f"of {self.place.name!r}. Received: {len(names)}, {quoted(names, 4)}."
            )


def _last(values: np.ndarray, place: Place) -> np.ndarray:
    """Returns `[examples, time, channels]`."""
    if place.channels is not None and values.ndim == 3:
        return _numbers(np.moveaxis(values, place.channels, -1))
    if values.ndim == 3:  # summed over channels, which are the last axis but once
        return _numbers(values)
    return _numbers(values).reshape(len(values), -1, 1)


def _numbers(values: np.ndarray) -> np.ndarray:
    return np.asarray(values, "float64")  # half precision overflows in a sum


def _captions(attribution: Attribution, titles: Any) -> list[str]:
    if titles is None:
        return [f"example {i}: {s:.4g}" for i, s in enumerate(attribution.score)]
    single = isinstance(titles, str) or not isinstance(titles, Iterable)
    texts = [str(title) for title in ([titles] if single else titles)]
    if len(texts) != len(attribution):
        raise GradwatchError(
            "`titles` must have a line for each of the "
            f"{counted(len(attribution), 'example')}. Received: {len(texts)}."
        )
    return texts


def _tokens(tokens: Any, attribution: Attribution) -> list[list[str]] | None:
    if tokens is None:
        return None
    single = isinstance(tokens, str) or not isinstance(tokens, Iterable)
    rows = [] if single else list(tokens)
    if len(attribution) == 1 and rows and all(isinstance(word, str) for word in rows):
        rows = [rows]
    lists = all(isinstance(r, Iterable) and not isinstance(r, str) for r in rows)
    if len(rows) != len(attribution) or not lists:
        received = (
            "a single text"
            if isinstance(tokens, str)
            else repr(tokens)
            if single or not any(isinstance(row, Iterable) for row in rows)
            else "texts that are not split into words"
            if any(isinstance(row, str) for row in rows)
            else f"{len(rows)} of them"
        )
        raise GradwatchError(
            "`tokens` must be a list of words for each of the "
            f"{counted(len(attribution), 'example')}. Received: {received}. Split "
            "each text as it was split for the model, such as `text.split()`."
        )
    return [[str(word) for word in row] for row in rows]


def _names(names: Any, place: Place, attribution: Attribution) -> list[str] | None:
    if isinstance(names, Mapping):
        for name, some in names.items():
            if attribution.place(name) is place:
                return [str(word) for word in some]
        return None
    if isinstance(names, str) or (
        names is not None and not isinstance(names, Sequence | np.ndarray)
    ):
        raise GradwatchError(
            "`names` must be a list of names, or a dict of such lists by tensor. "
            f"Received: {names!r}."
        )
    return None if names is None else [str(name) for name in names]


def _require_use(argument: str, given: Any, used: set[str], takers: set[str]) -> None:
    if given is not None and not used & takers:
        raise GradwatchError(
            f"`{argument}` must go with a picture of {quoted(sorted(takers))}. "
            f"Received: `{argument}` for {quoted(sorted(used))}. Leave it out, or give "
            f"`kind={min(takers)!r}`."
        )
