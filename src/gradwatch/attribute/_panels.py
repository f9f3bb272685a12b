"""An attribution, made ready to be drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import GradwatchError, counted, quoted
from ..show.attributed import Panel
from ._checked import is_count, require
from ._kinds import kind_of, laid_over, pictures, source_of, whole
from ._place import Place

if TYPE_CHECKING:
    from ._result import Attribution

MOST = 8
"""Maximum number of examples in a figure; `a[8:16]` has the next ones."""

Part = tuple[str, np.ndarray, np.ndarray | None, Sequence[Sequence[str]]]
"""Name, values, data and labels of a panel."""


def title_of(attribution: Attribution) -> str:
    """Returns the line above a picture."""
    title = f"Attribution of {attribution.target}"
    if len(attribution) > MOST:
        examples = counted(len(attribution), "example")
        title += f", the first {MOST} of {examples}"
    return title


def panels_of(
    attribution: Attribution,
    kind: str | None,
    names: Any,
    tokens: Any,
    titles: Any,
    beside: Any,
    top: Any,
) -> list[Panel]:
    """Returns the panels of an attribution and of those beside it.

    Args:
        attribution: What is drawn.
        kind: What to draw, or None.
        names: Of the features or channels; by tensor, where there are several.
        tokens: A list of words for each example.
        titles: A line for each example.
        beside: Other attributions of the same inputs.
        top: Maximum number of bars of an example.

    Raises:
        GradwatchError: If the words do not fit the data.
    """
    require(is_count(top), "`top` must be a number of bars from 1.", top)
    if len(attribution) == 0:
        raise GradwatchError(
            "There must be an example to draw. Received: an attribution of none."
        )
    tokens, titles = (_cut(some, attribution) for some in (tokens, titles))
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


def _panels(
    attribution: Attribution, kind: str | None, names: Any, tokens: Any, titles: Any
) -> Iterator[Panel]:
    """Yields a panel for each tensor; three slices for each that has depth."""
    given = _tokens(tokens, attribution)
    captions = _captions(attribution, titles)
    if isinstance(names, Mapping):
        for name in names:
            attribution.place(name)
    used: set[str] = set()
    for place in attribution.places:
        source = source_of(place, attribution.sources)
        chosen = kind_of(kind, place, source, words=given is not None)
        used.add(chosen)
        own = _names(names, place, attribution)
        parts: Iterable[Part]
        if chosen == "image":
            parts = _images(place, source)
        elif chosen == "tokens":
            parts = [_text(place, source, given)]
        elif chosen == "bars":
            parts = [_bars(place, own)]
        else:
            parts = [_lines(place, source, own)]
        for name, values, data, labels in parts:
            # Slices along different axes are different pictures, even of a cube.
            base = (source or place).name + name.removeprefix(place.name)
            shown = (values, data, labels, captions)
            yield Panel(chosen, name, attribution.method, *shown, source=base)
    _require_use("tokens", tokens, used, {"tokens"})
    _require_use("names", names, used, {"bars", "lines"})


def _images(place: Place, source: Place | None) -> Iterator[Part]:
    values = _numbers(laid_over(place, source).values)
    data = pictures(place if source is None else source)
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


def _text(place: Place, source: Place | None, given: list[list[str]] | None) -> Part:
    source = source if source and whole(source) else None
    values = _rows(laid_over(place, source).values)
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
                f"per example, one for each place of {place.name!r}. "
                f"Received: {len(row)} for example {number}. Cut them as the "
                "model's input was cut."
            )
    return place.name, values, None, given


def _bars(place: Place, names: list[str] | None) -> Part:
    shape = place.values.shape[1:]
    values = _rows(place.values)
    data = place.activation.reshape(len(values), -1)
    word = "feature" if place.name.startswith("inputs") else "unit"
    usual = [f"{word} {number}" for number in range(values.shape[1])]
    if len(shape) > 1:
        usual = [str([*map(int, index)]) for index in np.ndindex(*shape)]
    labels = _labels(names, usual, "feature", place)
    return place.name, values, data if data.shape == values.shape else None, labels


def _lines(place: Place, source: Place | None, names: list[str] | None) -> Part:
    if source is not None and source.name == place.name:
        values, data = _last(place.values, place), _last(place.activation, place)
    else:
        values = _rows(laid_over(place, source).values)[..., None]
        base = place if source is None else source
        data = _last(base.activation, base)
    several = [f"channel {number}" for number in range(data.shape[2])]
    usual = ["input"] if len(several) == 1 else several
    return place.name, values, data, _labels(names, usual, "channel", place)


def _labels(
    names: list[str] | None, usual: list[str], noun: str, place: Place
) -> list[list[str]]:
    """Returns the names, which must be as many as the usual ones."""
    names = usual if names is None else names
    if len(names) != len(usual):
        raise GradwatchError(
            f"`names` must have one name for each of the {counted(len(usual), noun)} "
            f"of {place.name!r}. Received: {len(names)}, {quoted(names, 4)}."
        )
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
    if len(texts) != len(attribution):
        raise GradwatchError(
            "`titles` must have a line for each of the "
            f"{counted(len(attribution), 'example')}. Received: {len(texts)}."
        )
    return texts


def _tokens(tokens: Any, attribution: Attribution) -> list[list[str]] | None:
    if tokens is None:
        return None
    rows = list(tokens) if _is_list(tokens) else []
    if len(attribution) == 1 and rows and all(isinstance(word, str) for word in rows):
        rows = [rows]
    if len(rows) != len(attribution) or not all(map(_is_list, rows)):
        received = f"{len(rows)} of them"
        if isinstance(tokens, str):
            received = "a single text"
        elif not any(isinstance(row, Iterable) for row in rows):
            received = repr(tokens)
        elif any(isinstance(row, str) for row in rows):
            received = "texts that are not split into words"
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
    several = isinstance(names, Sequence | np.ndarray) and not isinstance(names, str)
    rule = "`names` must be a list of names, or a dict of such lists by tensor."
    require(names is None or several, rule, names)
    return None if names is None else [str(name) for name in names]


def _require_use(argument: str, given: Any, used: set[str], takers: set[str]) -> None:
    if given is not None and not used & takers:
        raise GradwatchError(
            f"`{argument}` must go with a picture of {quoted(sorted(takers))}. "
            f"Received: `{argument}` for {quoted(sorted(used))}. Leave it out, or give "
            f"`kind={min(takers)!r}`."
        )
