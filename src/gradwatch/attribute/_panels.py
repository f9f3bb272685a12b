"""An attribution, made ready to be drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from reprlib import repr as short
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import GradwatchError, counted, quoted, require
from ..show.attributed import KINDS, Panel
from ._checked import is_count
from ._kinds import kind_of, laid_over, pictures, source_of, whole
from ._place import Place

if TYPE_CHECKING:
    from ._result import Attribution

MOST = 8
"""Maximum number of examples in a figure; `a[8:16]` has the next ones."""


def title_of(attribution: Attribution) -> str:
    """Returns the line above a picture."""
    title = f"Attribution of {attribution.target}"
    if len(attribution) > MOST:
        title += f", the first {MOST} of {counted(len(attribution), 'example')}"
    return title


def panels_of(attribution: Attribution, beside: Any, *words: Any) -> list[Panel]:
    """Returns the panels of an attribution and of those beside it.

    Args:
        attribution: What is drawn.
        beside: Other attributions of the same inputs.
        words: `kind`, `names`, `tokens`, `titles` and `top`, as `Attribution.plot` has
            them.

    Raises:
        GradwatchError: If the words do not fit the data.
    """
    kind, names, *lists, top = words
    require(is_count(top), "`top` must be a number of bars from 1.", top)
    require(len(attribution) > 0, "There must be an example to draw.", attribution)
    tokens, titles = (_cut(some, attribution) for some in lists)
    every = [one[:MOST] for one in (attribution, *_others(attribution, beside))]
    panels = [_panels(one, kind, names, tokens, titles) for one in every]
    return [replace(panel, top=top) for some in panels for panel in some]


def _cut(given: Any, attribution: Attribution) -> Any:
    """Keeps what is said of the examples that are drawn; what is wrong stays wrong."""
    if not _is_list(given):
        return given
    every = list(given)
    return every[:MOST] if len(every) == len(attribution) else every


def _others(attribution: Attribution, beside: Any) -> list[Any]:
    if beside is None:
        return []
    others = list(beside) if isinstance(beside, Iterable) else [beside]
    ours = [source.values for source in attribution.sources]
    for other in others:
        what = f"an object of type {type(other).__name__}"
        if isinstance(other, type(attribution)):
            theirs = [source.values for source in other.sources]
            if len(ours) == len(theirs) and all(map(_equal, ours, theirs)):
                continue
            what = f"{other!r}, of other inputs. Plot it by itself"
        raise GradwatchError(
            "`beside` must be an Attribution of the same inputs, or a list of them. "
            f"Received: {what}."
        )
    return others


def _equal(ours: np.ndarray, theirs: np.ndarray) -> bool:
    nan = ours.dtype.kind == "f" and theirs.dtype.kind == "f"
    return bool(np.array_equal(ours, theirs, equal_nan=nan))


def _panels(
    attribution: Attribution, kind: str | None, names: Any, tokens: Any, titles: Any
) -> Iterator[Panel]:
    """Yields a panel for each tensor; three slices for each that has depth."""
    words = _tokens(tokens, attribution)
    captions = _captions(attribution, titles)
    named = _names(names, attribution)
    used: set[str] = set()
    for place in attribution.places:
        source = source_of(place, attribution.sources)
        chosen = kind_of(kind, place, source, words=words is not None)
        used.add(chosen)
        labels = words if chosen == "tokens" else named.get(place.name)
        for name, values, data, texts in _PARTS[chosen](place, source, labels):
            # Slices along different axes are different pictures, even of a cube.
            base = (source or place).name + name.removeprefix(place.name)
            shown = (values, data, texts, captions)
            yield Panel(chosen, name, attribution.method, *shown, source=base)
    _require_use("tokens", tokens, used, {"tokens"})
    _require_use("names", names, used, {"bars", "lines"})


def _images(place: Place, source: Place | None, _: None) -> Iterator[Any]:
    values = _numbers(laid_over(place, source).values)
    data = pictures(source or place)
    while values.ndim > 4:  # the middle of time, or whatever comes first
        middle = values.shape[1] // 2
        values, data = values[:, middle], data[:, middle]
    if values.ndim == 3:
        yield place.name, values, data, ()
        return
    for axis in (1, 2, 3):
        middle = values.shape[axis] // 2
        where = ",".join(str(middle) if a == axis else ":" for a in (1, 2, 3))
        name = f"{place.name}[{where}]"
        yield name, values.take(middle, axis), data.take(middle, axis), ()


def _text(
    place: Place, source: Place | None, words: list[list[str]] | None
) -> Iterator[Any]:
    source = source if source and whole(source) else None
    values = _rows(laid_over(place, source).values)
    if words is None:
        ids = source.values if source else place.activation
        ids = ids.reshape(len(ids), -1)
        if ids.shape != values.shape:
            ids = np.broadcast_to(np.arange(values.shape[1]), values.shape)
        words = [[f"{number:g}" for number in row] for row in ids]
    most, longest = values.shape[1], max(map(len, words))
    rule = f"`tokens` must have at most {counted(most, 'word')} per example, one for "
    way_out = "Cut them as the model's input was cut."
    require(longest <= most, f"{rule}each index of {place.name!r}.", longest, way_out)
    yield place.name, values, None, words


def _bars(place: Place, _: Place | None, names: list[str] | None) -> Iterator[Any]:
    shape = place.values.shape[1:]
    values = _rows(place.values)
    data = place.activation.reshape(len(values), -1)
    word = "feature" if place.name.startswith("inputs") else "unit"
    usual = [f"{word} {number}" for number in range(values.shape[1])]
    if len(shape) > 1:
        usual = [str([*map(int, index)]) for index in np.ndindex(*shape)]
    labels = _labels(names, usual, "feature", place)
    yield place.name, values, data if data.shape == values.shape else None, labels


def _lines(
    place: Place, source: Place | None, names: list[str] | None
) -> Iterator[Any]:
    base = source or place
    data = _last(base.activation, base)
    if source is not None and source.name == place.name:
        values = _last(place.values, place)
    else:
        values = _rows(laid_over(place, source).values)[..., None]
    several = [f"channel {number}" for number in range(data.shape[2])]
    usual = ["input"] if len(several) == 1 else several
    yield place.name, values, data, _labels(names, usual, "channel", place)


_PARTS: dict[str, Callable[..., Iterator[Any]]] = dict(
    zip(KINDS, (_images, _text, _bars, _lines), strict=True)
)
"""Yield the name, the values, the data and the labels of each panel of a tensor."""


def _labels(
    names: list[str] | None, usual: list[str], noun: str, place: Place
) -> list[list[str]]:
    """Returns the names, which must be as many as the usual ones."""
    names = usual if names is None else names
    rule = f"`names` must have one name for each of the {counted(len(usual), noun)} of "
    require(len(names) == len(usual), f"{rule}{place.name!r}.", names)
    return [names]


def _last(values: np.ndarray, place: Place) -> np.ndarray:
    """Returns `[examples, time, channels]`."""
    if values.ndim == 3:
        # Summed over channels, there are none; once they were the last axis.
        axis = -1 if place.channels is None else place.channels
        return _numbers(np.moveaxis(values, axis, -1))
    return _rows(values)[..., None]


def _numbers(values: np.ndarray) -> np.ndarray:
    return np.asarray(values, "float64")  # half precision overflows in a sum


def _rows(values: np.ndarray) -> np.ndarray:
    return _numbers(values).reshape(len(values), -1)


def _is_list(given: Any) -> bool:
    return isinstance(given, Iterable) and not isinstance(given, str)


def _captions(attribution: Attribution, titles: Any) -> list[str]:
    if titles is None:
        return [f"example {i}: {s:.4g}" for i, s in enumerate(attribution.score)]
    texts = [str(title) for title in (titles if _is_list(titles) else [titles])]
    examples = counted(len(attribution), "example")
    rule = f"`titles` must have a line for each of the {examples}."
    require(len(texts) == len(attribution), rule, len(texts))
    return texts


def _tokens(tokens: Any, attribution: Attribution) -> list[list[str]] | None:
    if tokens is None:
        return None
    rows = list(tokens) if _is_list(tokens) else []
    if len(attribution) == 1 and rows and all(isinstance(word, str) for word in rows):
        rows = [rows]
    if len(rows) != len(attribution) or not all(map(_is_list, rows)):
        raise GradwatchError(
            "`tokens` must be a list of words for each of the "
            f"{counted(len(attribution), 'example')}. Received: {short(tokens)}. Split "
            "each text as it was split for the model, such as `text.split()`."
        )
    return [[str(word) for word in row] for row in rows]


def _names(names: Any, attribution: Attribution) -> dict[str, list[str]]:
    """Returns the names of the features or channels, by tensor."""
    if isinstance(names, Mapping):
        pairs = [(attribution.place(name).name, some) for name, some in names.items()]
        return {name: [*map(str, some)] for name, some in pairs}
    several = isinstance(names, Sequence | np.ndarray) and not isinstance(names, str)
    rule = "`names` must be a list of names, or a dict of such lists by tensor."
    require(names is None or several, rule, names)
    words = [] if names is None else [*map(str, names)]
    return {} if names is None else dict.fromkeys(attribution.names, words)


def _require_use(argument: str, given: Any, used: set[str], takers: set[str]) -> None:
    rule = f"`{argument}` must go with a picture of {quoted(sorted(takers))}."
    way_out = f"Leave it out, or give `kind={min(takers)!r}`."
    require(given is None or bool(used & takers), rule, sorted(used), way_out)
