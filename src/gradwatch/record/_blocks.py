"""The steps of a run, gathered by what their lines are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..summarise import BUCKETS, COLUMNS
from ._layout import Layout
from ._read import Packed, Step
from ._series import Column, Histograms, Series, columns_of

Key = tuple[str, str]
"""The kind and the name of a line."""


@dataclass(frozen=True)
class Block:
    """Steps whose lines are the same."""

    layout: Layout
    columns: tuple[str, ...]
    steps: NDArray[np.int64]
    rows: NDArray[np.float32]
    histograms: tuple[Packed | None, ...]
    lines: Mapping[Key, int]


def gather(steps: Mapping[int, Step]) -> tuple[Block, ...]:
    """Returns a block for each layout, in the order of their first steps."""
    groups: dict[tuple[Layout, tuple[str, ...]], list[int]] = {}
    for at, step in steps.items():
        groups.setdefault((step.layout, step.columns), []).append(at)
    return tuple(
        Block(
            layout,
            columns,
            np.array(ats, np.int64),
            np.stack([steps[at].rows for at in ats]),
            tuple(steps[at].histograms for at in ats),
            {key: line for line, key in enumerate(keys(layout))},
        )
        for (layout, columns), ats in groups.items()
    )


def keys(layout: Layout) -> Iterable[Key]:
    """Returns the key of each line."""
    return zip(layout.kinds, layout.names, strict=True)


def names(blocks: Iterable[Block], kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of these kinds, along the depth of the model.

    Layers that were unfrozen later come in where they stand in the later layout: after
    the name before them.
    """
    found: list[str] = []
    for block in blocks:
        at = 0
        for kind, name in keys(block.layout):
            if kind not in kinds:
                continue
            if name in found:
                at = found.index(name) + 1
            else:
                found.insert(at, name)
                at += 1
    return tuple(found)


def series(blocks: Iterable[Block], key: Key) -> Series:
    """Returns one line through all blocks that have it."""
    mine = [(block, block.lines[key]) for block in blocks if key in block.lines]
    steps = np.concatenate([block.steps for block, _ in mine])
    order = np.argsort(steps, kind="stable")
    parts = [columns_of(block.rows[:, line], block.columns) for block, line in mine]
    columns = {name: joined([part[name] for part in parts], order) for name in COLUMNS}
    block, line = mine[-1]
    size = block.layout.sizes[line]

    def read() -> Histograms:
        found = sorted(
            (int(step), packed, line)
            for block, line in mine
            for step, packed in zip(block.steps, block.histograms, strict=True)
            if packed is not None
        )
        at = np.array([step for step, _, _ in found], np.int64)
        counts = [packed.counts[line] for _, packed, line in found]
        return at, np.array(counts, np.int64).reshape(-1, BUCKETS)

    return Series(key[1], key[0], size, steps[order], **columns, _read=read)


def joined(parts: list[Column], order: NDArray[np.intp]) -> Column:
    """Returns the parts as one column, in this order."""
    data = np.concatenate([part.data for part in parts])
    mask = np.concatenate([np.ma.getmaskarray(part) for part in parts])
    return np.ma.MaskedArray(data[order], mask=mask[order])
