"""The text of the difference between two runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from ..._errors import counted, quoted
from .._cells import Cell, Columns, Grid
from .._format import number, printable
from .._rich import FittedTable
from ..palette import TONES

if TYPE_CHECKING:
    from ._compare import Difference, LayerDifference

SHOWN = 20
"""Layers in the table; all of them are in the numbers."""

_FAR = 10.0  # a factor between norms that a reader should notice


def parts(difference: Difference) -> Iterator[RenderableType]:
    """Yields the difference for rich."""
    bold = TONES["heading"]
    a, b = map(printable, difference.runs)
    layers = counted(len(difference.layers), "layer")
    yield Text(f"a: {a}\nb: {b}", bold)
    yield Text("")
    if difference.same:
        steps = counted(difference.common, "common step")
        yield Text(f"The runs are the same in {steps} of {layers}.")
        return
    if difference.facts:
        records = [
            [Cell(_value(value)) for value in (name, *pair)]
            for name, pair in difference.facts.items()
        ]
        columns: Columns = [(name, "left") for name in ("what", "a", "b")]
        yield FittedTable(lambda _: Grid("What was trained", columns, [("", records)]))
        yield Text("")
    yield from _norms(difference, layers)
    for which, names in zip("ab", difference.only, strict=True):
        if names:
            yield Text(f"Only in {which}: {printable(quoted(names))}.")
    for which, own in zip("ab", difference.findings, strict=True):
        if own:
            yield Text(f"\nFound only in {which}", bold)
        for finding in own:
            text = Text(f"▲ {printable(finding.one_line())}")
            text.stylize(TONES["warn"], 0, 2 + len(finding.symptom))
            yield text


def _value(value: Any) -> str:
    if value is None or isinstance(value, float):
        return number(value)
    if isinstance(value, list | tuple):
        return printable(", ".join(map(str, value)))
    return printable(str(value))


def _norms(difference: Difference, layers: str) -> Iterator[RenderableType]:
    if not difference.common:
        yield Text("They have no recorded step in common: no norms to compare.")
        return
    differ = [layer for layer in difference.layers if layer["apart"] is not None]
    title = (
        f"Norms at {counted(difference.common, 'common step')}: {len(differ):,} of "
        f"{layers} differ"
    )
    if not differ:
        yield Text(title, TONES["heading"])
        return
    more = len(differ) - SHOWN
    footer = (f"and {more:,} more, less different",) if more > 0 else ()
    numbers = ("norm a", "norm b", "b / a", "since step", "not finite")
    columns: Columns = [("layer", "left"), *((heading, "right") for heading in numbers)]
    records = [_record(layer) for layer in differ[:SHOWN]]
    yield FittedTable(lambda _: Grid(title, columns, [("", records)], footer=footer))


def _record(layer: LayerDifference) -> tuple[Cell, ...]:
    ratio, since, bad = layer["ratio"], layer["apart"], (layer["bad_a"], layer["bad_b"])
    far = ratio is not None and not 1 / _FAR <= ratio <= _FAR
    return (
        Cell(printable(layer["name"])),
        *(Cell(number(layer[run], 3)) for run in "ab"),
        Cell(number(ratio, 3), "warn" if far else "plain"),
        Cell("" if since is None else f"{since:,}"),
        Cell("{:,} / {:,}".format(*bad), "alarm") if any(bad) else Cell("0"),
    )
