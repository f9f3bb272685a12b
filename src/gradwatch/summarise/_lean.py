"""Tensors become rows inside a training step, in `keras.ops`.

The lean way, for steps that the native sweep cannot go into: no library for this
machine, an accelerator, a framework that does not let it in. Of a large tensor only the
squares are read whole, so that its norm is exact and no element that is not finite goes
unseen. Everything else comes from a sample of contiguous blocks, and a tensor of up to
`WHOLE` elements is its own sample. The samples of all tensors form one matrix, whose
lines are measured together: the number of operations hardly grows with the model.

There may be no float64 here (JAX), so every line is divided by a power of two, and the
exponent travels with it: `finished` multiplies on the host, where there is room.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from keras import ops
from numpy.typing import NDArray

from ._columns import BUCKETS, HIGHEST, LOWEST, OCTAVES
from ._moments import FLOAT16_VANISHES

Tensor = Any
WHOLE = 4_096
"""Maximum size of a tensor that is measured whole."""
WIDTH = 1_024
"""Number of elements of a contiguous block."""
MOVED = 64
"""Number of blocks that tell how far a large weight has moved."""
LAST = 126.0
"""2 ** 127 is the largest power of two that is a float32."""
LARGEST = 1e30
"""Sums of squares above this are recomputed with a power of two of their own."""


class Kernels(Protocol):
    """Operations that each framework has in its own form."""

    can_branch: bool
    """True if a branch does not keep the step from updating weights in place."""

    def sum_of_squares(self, tensor: Tensor) -> Tensor:
        """Returns the sum of the squares in one sweep, as a scalar."""

    def exponents(self, tensor: Tensor) -> Tensor:
        """Returns floor(log2(|x|)) of each float32 as int32, from its bits."""

    def take(self, tensor: Tensor, indices: Any) -> Tensor:
        """Returns the elements at these indices, which are all valid."""


class Lean:
    """Measures tensors with the operations of the framework.

    Args:
        kernels: The operations that each framework has in its own form.
    """

    gated = False
    """False: what is called is computed, so the caller branches."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels

    def measure(
        self, tensors: Sequence[Tensor], detail: Any, scale: Tensor | None = None
    ) -> tuple[dict[str, Tensor], Sequence[Tensor]]:
        """Returns the `rows` and the `counts` of histograms, and the tensors.

        Args:
            tensors: Dense, of any float type.
            detail: 1, or from 2 on with histograms; a number or a tensor.
            scale: Factor of the loss, or None.
        """
        whole = [widened(tensor) for tensor in tensors]
        matrix, inside = self._matrix(whole, WHOLE // WIDTH)
        scale = ops.cast(1.0 if scale is None else scale, "float32")
        rows = self._rows(whole, matrix, inside, scale)

        def counts() -> Tensor:
            return self._counts(matrix / scale, inside)

        def none() -> Tensor:
            return ops.zeros((len(whole), BUCKETS), "float32")

        counted = detail >= 2
        if isinstance(counted, bool):
            parts = {"rows": rows, "counts": counts() if counted else none()}
            return parts, tensors
        return {"rows": rows, "counts": ops.cond(counted, counts, none)}, tensors

    def sample(self, tensors: Sequence[Tensor], detail: Any) -> list[Tensor]:
        """Returns copies of some blocks of weights that are about to change."""
        del detail
        return [self._matrix(chosen, b)[0] for b, _, chosen in _groups(tensors)]

    def moves(
        self, sample: Sequence[Tensor], tensors: Sequence[Tensor], detail: Any
    ) -> Tensor:
        """Returns norm and standard error, before the update and of the update."""
        del detail
        lines, order = [], []
        groups = zip(_groups(tensors), sample, strict=True)
        for (blocks, indices, chosen), before in groups:
            after, inside = self._matrix(chosen, blocks)
            sizes = np.array([_size(tensor) for tensor in chosen], np.float32)
            moved = [
                _estimated_norms(numbers, inside, sizes, blocks)
                for numbers in (before, after - before)
            ]
            lines.append(ops.concatenate(moved, axis=1))
            order += indices
        inverse = np.argsort(order).astype(np.int32)
        return self._kernels.take(ops.concatenate(lines), inverse)

    def norms(self, tensors: Sequence[Tensor], detail: Any) -> Tensor:
        """Returns the norm of each tensor; what is not finite shows in it."""
        del detail
        squares = []
        for tensor in map(widened, tensors):
            exponent = exponent_of(ops.max(ops.abs(tensor)))
            factor = ops.power(ops.ones_like(exponent) * 2, -exponent)
            total = self._kernels.sum_of_squares(tensor * factor)
            squares.append(_vector(ops.sqrt(total), exponent))
        return ops.stack(squares)

    # lines of a matrix ----------------------------------------------------------------

    def _matrix(
        self, tensors: Sequence[Tensor], blocks: int
    ) -> tuple[Tensor, NDArray[np.bool_] | Tensor]:
        """Returns a line of blocks of each tensor, and where it holds numbers."""
        width = blocks * WIDTH
        lines, sizes = [], []
        for tensor in tensors:
            flat = ops.cast(ops.reshape(tensor, (-1,)), "float32")
            size = _size(tensor) if None not in tuple(tensor.shape) else ops.size(flat)
            if isinstance(size, int) and size == 0:
                lines.append(ops.zeros((width,), "float32"))
            else:
                lines.append(self._kernels.take(flat, block_indices(size, blocks)))
            sizes.append(size)
        counting = np.arange(width, dtype=np.int32)
        if all(isinstance(size, int) for size in sizes):
            return ops.stack(lines), counting < np.array(sizes)[:, None]
        length = ops.stack([ops.cast(size, "int32") for size in sizes])
        return ops.stack(lines), ops.convert_to_tensor(counting) < length[:, None]

    def _rows(
        self, whole: Sequence[Tensor], matrix: Tensor, inside: Any, scale: Tensor
    ) -> Tensor:
        """Returns the columns of each tensor, and the exponent of some of them."""
        inside = ops.convert_to_tensor(inside)
        finite = ops.logical_and(ops.isfinite(matrix), inside)
        zero, infinite = ops.zeros_like(matrix), ops.full_like(matrix, math.inf)
        numbers = ops.where(finite, matrix, zero)
        exponent = exponent_of(ops.max(ops.abs(numbers), axis=1))
        factor = ops.power(2.0, -exponent)
        shrunk = numbers * factor[:, None]
        count, seen = _along(finite), ops.maximum(_along(inside), 1.0)
        some = ops.maximum(count, 1.0)
        mean = ops.sum(shrunk, axis=1) / some
        # Distances from the mean: "mean of squares less square of mean" has no correct
        # digit when the mean is large beside the spread.
        away = ops.where(finite, shrunk - mean[:, None], zero)
        spread = ops.sum(ops.square(away), axis=1) / some
        low = ops.min(ops.where(finite, matrix, infinite), axis=1)
        high = ops.max(ops.where(finite, matrix, -infinite), axis=1)
        std = ops.where(low == high, ops.zeros_like(mean), ops.sqrt(spread))
        zeros = _along(ops.logical_and(matrix == 0, inside))
        vanishing = ops.abs(matrix) <= FLOAT16_VANISHES * scale
        vanished = _along(ops.logical_and(vanishing, inside)) - zeros
        mean = ops.where(low == high, low * factor, mean)
        # Squares, their exponents, and counts of what is not finite.
        lines = self._whole(whole, matrix, inside, shrunk, exponent)
        # The norm is of the whole tensor, and may have an exponent of its own.
        norm = ops.sqrt(lines[:, 0]) * ops.power(2.0, lines[:, 1] - exponent)
        moments = (norm, mean, std, low, high)
        absolute = ops.sum(ops.abs(shrunk), axis=1) / some
        nothing = ops.full_like(mean, math.nan)
        scaled = [
            ops.where(count > 0, column, nothing) / scale
            for column in (*moments, absolute)
        ]
        shares = (zeros / seen, vanished / seen, *(lines[:, i] for i in (2, 3, 4)))
        return ops.stack([*scaled, *shares, exponent], axis=1)

    def _whole(
        self,
        whole: Sequence[Tensor],
        matrix: Tensor,
        inside: Tensor,
        shrunk: Tensor,
        exponent: Tensor,
    ) -> Tensor:
        """Returns squares, their exponents, and counts of what is not finite."""
        kinds = (ops.isnan(matrix), matrix == math.inf, matrix == -math.inf)
        odd = [_along(ops.logical_and(kind, inside)) for kind in kinds]
        lines = ops.stack([ops.sum(ops.square(shrunk), axis=1), exponent, *odd], axis=1)
        large = [i for i, t in enumerate(whole) if not _is_whole(t)]
        if not large:
            return lines
        chosen = [whole[i] for i in large]
        factors = ops.power(2.0, -self._kernels.take(exponent, np.array(large)))
        totals = _vector(
            *(
                self._kernels.sum_of_squares(t * ops.cast(factors[i], t.dtype))
                for i, t in enumerate(chosen)
            )
        )
        own = self._kernels.take(exponent, np.array(large))
        none = ops.zeros_like(totals)
        plain = ops.stack([totals, own, none, none, none], axis=1)
        # An element that is not finite makes the sum so; one beside which the sample
        # is nothing makes it too large.
        fine = ops.all(ops.logical_and(totals < LARGEST, totals > -1.0))
        read = self._unless(fine, plain, lambda: ops.stack([*map(_careful, chosen)]))
        order = np.arange(len(whole), dtype=np.int32)
        order[large] = len(whole) + np.arange(len(large))
        return self._kernels.take(ops.concatenate([lines, read]), order)

    def _unless(
        self, fine: Tensor, plain: Tensor, careful: Callable[[], Tensor]
    ) -> Tensor:
        """Returns `plain`, or else what `careful` makes of large tensors.

        For a branch XLA copies what goes into it, and for a loop it does not: there it
        is a loop that runs once or not at all.
        """
        if self._kernels.can_branch:
            return ops.cond(fine, lambda: plain, careful)
        _, result = ops.while_loop(
            lambda goes_on, _: goes_on,
            lambda goes_on, _: (ops.zeros_like(goes_on), careful()),
            (ops.logical_not(fine), plain),
        )
        return result

    def _counts(self, matrix: Tensor, inside: Any) -> Tensor:
        """Returns the counts of every line in the buckets."""
        octave = ops.clip(self._kernels.exponents(matrix), LOWEST, HIGHEST) - LOWEST
        bucket = ops.where(matrix > 0, OCTAVES + octave, OCTAVES - 1 - octave)
        # Zeros and what is not finite go to a last bucket that is thrown away.
        counted = ops.logical_and(ops.isfinite(matrix), matrix != 0)
        counted = ops.logical_and(counted, ops.convert_to_tensor(inside))
        bucket = ops.where(counted, bucket, ops.full_like(bucket, BUCKETS))
        lines = matrix.shape[0]
        first = np.arange(lines, dtype=np.int32)[:, None] * (BUCKETS + 1)
        numbers = ops.reshape(bucket + ops.convert_to_tensor(first), (-1,))
        counts = ops.segment_sum(
            ops.ones_like(numbers, "float32"), numbers, lines * (BUCKETS + 1)
        )
        return ops.reshape(counts, (lines, BUCKETS + 1))[:, :BUCKETS]


def block_indices(size: Any, blocks: int) -> Any:
    """Returns which elements of a vector are its sample: evenly spread blocks.

    A vector that is shorter is its own sample, and its last element fills up the rest.
    """
    counting = np.arange(blocks * WIDTH, dtype=np.int32)
    if not isinstance(size, int):
        # Of a batch whose size is known only when it runs, single elements.
        step = ops.maximum(size // len(counting), 1)
        return ops.minimum(ops.convert_to_tensor(counting) * step, size - 1)
    if size <= len(counting):
        return np.minimum(counting, size - 1)
    starts = np.arange(blocks) * (size - WIDTH) // (blocks - 1)
    return (starts[:, None] + np.arange(WIDTH)).ravel().astype(np.int32)


def widened(tensor: Tensor) -> Tensor:
    """Returns half precision as float32; float64 stays what it is."""
    return tensor if str(tensor.dtype).endswith("64") else ops.cast(tensor, "float32")


def exponent_of(top: Tensor) -> Tensor:
    """Returns the exponents of magnitudes, as floats; 0 for what has none."""
    usable = ops.logical_and(ops.isfinite(top), top > 0)
    safe = ops.where(usable, top, ops.ones_like(top))
    last = 1022.0 if str(top.dtype).endswith("64") else LAST
    return ops.clip(ops.floor(ops.log2(safe)), -last, last)


def _groups(
    tensors: Sequence[Tensor],
) -> list[tuple[int, list[int], list[Tensor]]]:
    """Returns the number of blocks, the indices and the tensors of small and large."""
    groups: dict[int, list[int]] = {}
    for index, tensor in enumerate(tensors):
        blocks = WHOLE // WIDTH if _is_whole(tensor) else MOVED
        groups.setdefault(blocks, []).append(index)
    return [
        (blocks, indices, [ops.convert_to_tensor(tensors[i]) for i in indices])
        for blocks, indices in groups.items()
    ]


def _estimated_norms(
    numbers: Tensor, inside: Any, sizes: NDArray[np.float32], blocks: int
) -> Tensor:
    """Returns the norm, its standard error and the exponent of both, for each line.

    A sum over a simple sample of blocks; its variance is that between the blocks, with
    the correction for a finite population, and the norm's follows by the delta method.
    """
    numbers = ops.where(ops.convert_to_tensor(inside), numbers, 0.0)
    exponent = exponent_of(ops.max(ops.abs(numbers), axis=1))
    shrunk = numbers * ops.power(2.0, -exponent)[:, None]
    sums = ops.sum(ops.reshape(ops.square(shrunk), (-1, blocks, WIDTH)), axis=2)
    share = np.minimum(1.0, blocks * WIDTH / np.maximum(sizes, 1.0))
    factor = np.sqrt(blocks * blocks / (blocks - 1) * (1.0 - share)) / share
    norm = ops.sqrt(ops.sum(sums, axis=1) / ops.convert_to_tensor(share, "float32"))
    error = ops.std(sums, axis=1) * ops.convert_to_tensor(factor, "float32")
    safe = ops.where(norm > 0, norm, ops.ones_like(norm))
    return ops.stack([norm, error / (2.0 * safe), exponent], axis=1)


def _careful(tensor: Tensor) -> Tensor:
    """Reads the finite elements of a large tensor, divided before they are squared."""
    finite = ops.isfinite(tensor)
    numbers = ops.where(finite, tensor, ops.zeros_like(tensor))
    exponent = exponent_of(ops.max(ops.abs(numbers)))
    factor = ops.power(ops.ones_like(exponent) * 2, -exponent)
    kinds = (ops.isnan(tensor), tensor == math.inf, tensor == -math.inf)
    counts = (ops.sum(ops.cast(kind, "float32")) for kind in kinds)
    return _vector(ops.sum(ops.square(numbers * factor)), exponent, *counts)


def _vector(*scalars: Any) -> Tensor:
    return ops.stack([ops.cast(scalar, "float32") for scalar in scalars])


def _along(condition: Tensor) -> Tensor:
    return ops.sum(ops.cast(condition, "float32"), axis=1)


def _is_whole(tensor: Tensor) -> bool:
    # The matrix is float32, which cannot hold every float64.
    wide = str(tensor.dtype).endswith("64")
    return None not in tuple(tensor.shape) and not wide and _size(tensor) <= WHOLE


def _size(tensor: Tensor) -> int:
    return math.prod(int(length) for length in tensor.shape)
