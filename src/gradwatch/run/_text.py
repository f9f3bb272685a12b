"""The newest step of a run, as plain text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..summarise import COLUMNS
from ._series import masked, ratio
from ._store import Store

_HEADS = ("norm", "update ratio", "% zero", "non-finite")
_MOST = 40  # lines; of more the middle is left out
_WIDEST = 48  # characters of an address


def newest(title: str, store: Store) -> str:
    """Returns a title and a table of the newest step."""
    if not len(store):
        return title
    chunk, at = store.at(len(store) - 1)
    found = {name: masked(chunk.column(name)[at]) for name in COLUMNS}
    ratios = ratio(found["update_norm"], found["weight_norm"])
    bad = found["nan"] + found["posinf"] + found["neginf"]
    columns = [
        [_number(n) for n in found["norm"].tolist()],
        [_number(n) for n in ratios.tolist()],
        [_number(None if n is None else 100 * n) for n in found["zeros"].tolist()],
        [_count(n) for n in bad.tolist()],
    ]
    names = [
        _folded(name) + (" (value)" if kind == "value" else "")
        for name, kind in zip(chunk.layout.names, chunk.layout.kinds, strict=True)
    ]
    lines = list(zip(names, *columns, strict=True))
    head = (f"step {store.last:,}", *_HEADS)
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
    shown = [_aligned(line, widths) for line in lines]
    if len(shown) > _MOST:
        half = _MOST // 2
        left = f"… {len(shown) - 2 * half:,} more …"
        shown = [*shown[:half], left, *shown[-half:]]
    return "\n".join([title, _aligned(head, widths), *shown])


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = cells
    padded = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
    return "  ".join([first.ljust(widths[0]), *padded]).rstrip()


def _folded(name: str) -> str:
    if len(name) <= _WIDEST:
        return name
    half = (_WIDEST - 1) // 2
    return f"{name[:half]}…{name[-half:]}"


def _number(number: float | None) -> str:
    return "—" if number is None else f"{number:.4g}"


def _count(number: float | None) -> str:
    if number is None:
        return "—"
    return f"{number:,.0f}" if math.isfinite(number) else f"{number}"
