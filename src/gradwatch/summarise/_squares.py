"""Sums of squares: of gradients as applied, of weights, and of how far they moved."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from keras import ops

from ._kernels import (
    LARGEST,
    SMALLEST,
    Kernels,
    Tensor,
    exponent_of,
    is_small,
    stacked,
    widened,
)
from ._pack import Pack, sample_of

ROUNDING = 1024
"""Number of elements that show what rounding made of an update."""


class Move(NamedTuple):
    """Numbers of an update that was read just before it was made.

    Attributes:
        numbers: `squares` of the weight, and of what is added to it.
        before: A sample of the weight.
        added: The same elements of what is added.
    """

    numbers: Tensor
    before: Tensor
    added: Tensor


def squares(tensors: Sequence[Tensor], kernels: Kernels) -> Tensor:
    """Returns the sum of squares of each tensor, and the exponent it was scaled by.

    What is not finite makes the sum NaN or infinite: here that is the answer.
    """
    kinds = [_kind(tensor, kernels) for tensor in tensors]
    small, large = (
        [i for i, own in enumerate(kinds) if own is kind] for kind in ("small", "large")
    )
    blocks = []
    if small:
        pack, matrix = _packed([tensors[i] for i in small], kernels)
        blocks.append(_packed_squares(pack, matrix))
    if large:
        chosen = [widened(tensors[i]) for i in large]
        blocks.append(kernels.of_each(_with(_squares, kernels), chosen))
    return _in_order(kernels, blocks, small, large)


def changes(
    before: Sequence[Tensor], after: Sequence[Tensor], kernels: Kernels
) -> tuple[Tensor, Tensor]:
    """Returns what `squares` does: of the tensors before, and of how far they moved.

    A `Move` may stand for a large tensor before. The tensors before may be used up.
    """
    kinds = [_kind(tensor, kernels) for tensor in before]
    small, large, listened = (
        [i for i, own in enumerate(kinds) if own is kind]
        for kind in ("small", "large", "move")
    )
    were, moved = [], []
    if small:
        pack, old = _packed([before[i] for i in small], kernels)
        _, new = _packed([after[i] for i in small], kernels)
        were.append(_packed_squares(pack, old))
        moved.append(_packed_squares(pack, new - old))
    if large:
        old = [widened(before[i]) for i in large]
        new = [widened(ops.convert_to_tensor(after[i])) for i in large]
        lines = kernels.of_each(_with(_changes, kernels), old, new)
        were.append(lines[:, :2])
        moved.append(lines[:, 2:])
    if listened:
        lines = ops.stack([_as_made(before[i], after[i], kernels) for i in listened])
        were.append(lines[:, :2])
        moved.append(lines[:, 2:])
    orders = (small, large, listened)
    return _in_order(kernels, were, *orders), _in_order(kernels, moved, *orders)


def read_move(
    weight: Tensor, added: Tensor, kernels: Kernels
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the parts of a `Move`, for a large weight in float32."""
    both = [ops.convert_to_tensor(weight), added]
    numbers = ops.reshape(kernels.of_each(_with(_squares, kernels), both), (-1,))
    before, after = (sample_of(t, kernels.take, ROUNDING) for t in both)
    return numbers, before, after


@functools.cache
def _with(function: Callable[..., Tensor], kernels: Kernels) -> Callable[..., Tensor]:
    return partial(function, kernels)


def _squares(kernels: Kernels, tensors: Sequence[Tensor]) -> Tensor:
    if not kernels.can_branch:
        return ops.stack([_shrunk(tensor, kernels) for tensor in tensors])
    plain = kernels.in_turn([partial(kernels.sum_of_squares, t) for t in tensors])
    return _rescued(stacked(plain), tensors, kernels)


def _shrunk(tensor: Tensor, kernels: Kernels) -> Tensor:
    """Divides by the size of some elements before squaring, and so needs no branch.

    The others would have to be 1e18 times as large to be too large to be squared.
    """
    some = ops.abs(sample_of(tensor, kernels.take, ROUNDING))
    exponent = exponent_of(ops.max(some))
    factor = ops.power(ops.ones_like(exponent) * 2, -exponent)
    return stacked([kernels.total(ops.square(tensor * factor)), exponent])


def _changes(
    kernels: Kernels, before: Sequence[Tensor], after: Sequence[Tensor]
) -> Tensor:
    """Returns the squares of the tensors before, and of the differences."""
    were = _squares(kernels, before)
    moves = kernels.differences(before, after)
    return ops.concatenate([were, _squares(kernels, moves)], axis=1)


def _as_made(move: Move, after: Tensor, kernels: Kernels) -> Tensor:
    now = sample_of(ops.convert_to_tensor(after), kernels.take, ROUNDING)
    return kernels.shared(_rounded, *move, now)


def _rounded(numbers: Tensor, before: Tensor, added: Tensor, now: Tensor) -> Tensor:
    """Takes away from what was to be added what rounding did not let through.

    The sum that was added is exact; a weight in float32 takes up only what is not too
    small beside it. How much that is, some elements tell.
    """
    exponent = exponent_of(ops.max(ops.abs(added)))
    factor = ops.power(2.0, -exponent)
    planned = ops.sum(ops.square(added * factor))
    done = ops.sum(ops.square((now - before) * factor))
    safe = ops.where(planned > 0, planned, ops.ones_like(planned))
    share = ops.where(planned > 0, done / safe, ops.ones_like(planned))
    ones = ops.ones_like(share)
    return numbers * ops.stack([ones, ones, share, ones])


def _kind(tensor: Tensor | Move, kernels: Kernels) -> str:
    if isinstance(tensor, Move):
        return "move"
    return "small" if is_small(tensor) and kernels.packs else "large"


def _packed(tensors: Sequence[Tensor], kernels: Kernels) -> tuple[Pack, Tensor]:
    lengths = [math.prod(tuple(tensor.shape)) for tensor in tensors]
    pack = Pack(lengths, kernels.take)
    return pack, pack.matrix([ops.reshape(tensor, (-1,)) for tensor in tensors])


def _packed_squares(pack: Pack, matrix: Tensor) -> Tensor:
    (top,) = pack.largest(ops.max(ops.abs(matrix), axis=1))
    exponent = exponent_of(top)
    shrunk = matrix * pack.spread(ops.power(2.0, -exponent))
    (sums,) = pack.sums(ops.sum(ops.square(shrunk), axis=1))
    return ops.stack([sums, exponent], axis=1)


def _in_order(
    kernels: Kernels, blocks: Sequence[Tensor], *indices: Sequence[int]
) -> Tensor:
    order = np.argsort(np.concatenate([*indices, []])).astype(np.int32)
    return kernels.take(ops.concatenate(blocks), order)


def _rescued(plain: Tensor, tensors: Sequence[Tensor], kernels: Kernels) -> Tensor:
    """Recomputes all sums, scaled, if one has left the safe range."""
    smallest, largest = SMALLEST**2, LARGEST**2

    def careful() -> Tensor:
        exponents = [exponent_of(ops.max(ops.abs(t))) for t in tensors]
        shrunk = [
            tensor * ops.power(ops.ones_like(exponent) * 2, -exponent)
            for tensor, exponent in zip(tensors, exponents, strict=True)
        ]
        sums = stacked([kernels.sum_of_squares(tensor) for tensor in shrunk])
        return ops.stack([sums, stacked(exponents)], axis=1)

    return ops.cond(
        ops.all((plain > smallest) & (plain < largest)),
        lambda: ops.stack([plain, ops.zeros_like(plain)], axis=1),
        careful,
    )
