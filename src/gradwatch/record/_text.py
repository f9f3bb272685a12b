"""The newest step of a run, as plain text."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ._blocks import Block
from ._series import Column, columns_of, ratio

_HEADS = ("norm", "update ratio", "% zero", "non-finite")
_MOST = 40  # lines; of more the middle is left out
_WIDEST = 48  # characters of an address


def newest(title: str, blocks: Sequence[Block], steps: NDArray[np.int64]) -> str:
    """Returns a title and a table of the newest step."""
    if not len(steps):
        return title
    block = next(block for block in blocks if block.steps[-1] == steps[-1])
    found = columns_of(block.rows[-1], block.columns)
    bad = found["nan"] + found["posinf"] + found["neginf"]
    columns = [
        [_number(n) for n in found["norm"].tolist()],
        [_number(n) for n in _ratio(found).tolist()],
        [_number(None if n is None else 100 * n) for n in found["zeros"].tolist()],
        [_count(n) for n in bad.tolist()],
    ]
    names = [
        _folded(name) + (" (value)" if kind == "value" else "")
        for name, kind in zip(block.layout.names, block.layout.kinds, strict=True)
    ]
    lines = list(zip(names, *columns, strict=True))
    head = (f"step {steps[-1]:,}", *_HEADS)
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
    shown = [_aligned(line, widths) for line in lines]
    if len(shown) > _MOST:
        half = _MOST // 2
        left = f"… {len(shown) - 2 * half:,} more …"
        shown = [*shown[:half], left, *shown[-half:]]
    return "\n".join([title, _aligned(head, widths), *shown])


def _ratio(found: dict[str, Column]) -> Column:
    return ratio(found["update_norm"], found["weight_norm"])


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
