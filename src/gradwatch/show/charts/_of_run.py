"""A run that was read becomes a table without its numbers being copied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...record import TOTALS, FoundStep, Run
from ...record._blocks import Block
from ...record._read import Packed
from ...summarise import COLUMNS, is_blank
from ._table import Chunk, Table, in_full_range

_MOST = 1024  # steps in a chunk
_EXPONENT = COLUMNS.index("exponent")
_BAD = [COLUMNS.index(name) for name in ("nan", "posinf", "neginf")]


def table_of(run: Run) -> Table:
    """Returns the table of a run that was read; the two share their numbers.

    Example:
    >>> from gradwatch.record import Layout, Record, RunWriter, open_run
    >>> from gradwatch.summarise import COLUMNS, blank
    >>> layout = Layout(("dense/kernel",), ("weight",), (6,))
    >>> with RunWriter("runs/t") as writer:
    ...     writer.write(Record(3, layout, blank((1, len(COLUMNS))), None, {}))
    >>> table = table_of(open_run("runs/t"))
    >>> table.names("weight"), table.first, table.last
    (('dense/kernel',), 3, 3)
    """
    table = Table()
    for block, rows in _stretches(run._blocks):
        chunk = _chunk(run, block, rows)
        last = table.chunks[-1] if table.chunks else None
        if last is not None and last.layout == chunk.layout:
            chunk.before = last.column("norm")[-1]
        table.chunks.append(chunk)
    table.findings = [dict(found) for found in run.findings]
    table.notes = dict(run.notes)
    return table


def _stretches(blocks: tuple[Block, ...]) -> Iterator[tuple[Block, slice]]:
    """Yields rows of blocks so that steps ascend: layouts may come and go."""
    if not blocks:
        return
    steps = np.concatenate([block.steps for block in blocks])
    owner = np.repeat(np.arange(len(blocks)), [len(b.steps) for b in blocks])
    owner = owner[np.argsort(steps, kind="stable")]
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    used = [0] * len(blocks)
    for start, stop in zip(starts, [*starts[1:], len(owner)], strict=True):
        place, length = int(owner[start]), int(stop - start)
        first = used[place]
        for at in range(first, first + length, _MOST):
            yield blocks[place], slice(at, min(at + _MOST, first + length))
        used[place] += length


def _chunk(run: Run, block: Block, rows: slice) -> Chunk:
    numbers = block.rows[rows]
    # Numbers of this version and of a usual size are taken as they are.
    if block.columns != COLUMNS or np.nan_to_num(numbers[..., _EXPONENT]).any():
        flat = numbers.reshape(-1, len(block.columns))
        wide = in_full_range(FoundStep(0, block.layout, block.columns, flat))
        numbers = wide.reshape(*numbers.shape[:2], len(COLUMNS))
    steps = block.steps[rows]
    at = np.searchsorted(run.steps, steps)
    columns = [getattr(run.totals, name)[at] for name in TOTALS]
    bad = numbers[..., _BAD]
    there = bad != 0
    return Chunk(
        block.layout,
        numbers.transpose(2, 0, 1),
        steps,
        np.array([column.filled(np.nan) for column in columns]),
        np.array([~np.ma.getmaskarray(column) for column in columns]),
        [None if kept is None else _Held(kept) for kept in block.histograms[rows]],
        len(steps),
        not there.any() or not (there & ~is_blank(bad)).any(),
    )


@dataclass(frozen=True, slots=True)
class _Held:
    """Histograms that the run has in memory."""

    packed: Packed

    def read(self) -> NDArray[np.int64]:
        """Returns the counts, `[lines, BUCKETS]`."""
        return self.packed.counts
