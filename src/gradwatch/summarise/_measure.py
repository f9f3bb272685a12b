"""Tensors become rows of sums, inside the compiled training step.

`measure` is the one way in: whatever replaces it need only return the same `SUMS`.
Written in `keras.ops`; the few reductions that a framework does faster come as
`kernels`. A large tensor is read four times (smallest, largest, sum, squares), which is
what the numbers need that must be exact. Shares and histograms come from an even
sample, so that they cost the same however large the tensor is. Small tensors, and the
samples of large ones, are measured together (`Pack`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from ._columns import BUCKETS, HIGHEST, LOWEST, OCTAVES
from ._exact import Reading, exact
from ._kernels import (
    LAST,
    Kernels,
    Tensor,
    exponent_of,
    is_small,
    size_of,
    stacked,
    widened,
)
from ._moments import FLOAT16_VANISHES
from ._pack import Pack, sample_of, sample_size
from ._packed import measured

SUMS = (
    *("size", "sampled", "low", "high", "total", "squares", "exponent"),
    *("nan", "posinf", "neginf", "absolute", "zeros", "vanishing", "spread"),
)
"""Numbers that the step sends of each tensor; `finish` makes columns of them.

`low` and `high` are of the finite elements as they are; `total`, `squares`, `absolute`
and `spread` are of the finite elements divided by `2 ** exponent`. The last four are of
the sample; `spread` is 0 where that is not the whole tensor.
"""


def measure(
    tensors: Sequence[Tensor | Reading],
    kernels: Kernels,
    scale: Tensor | None = None,
    counted: Any = False,
) -> tuple[Tensor, Tensor]:
    """Returns the `SUMS` of each tensor, and the counts of its histogram, as rows.

    Args:
        tensors: Dense, of any float type and shape, or readings of large ones.
        kernels: The reductions of the backend.
        scale: Factor of the loss, or None.
        counted: Whether histograms are wanted, as a bool or a tensor; else the counts
            are zeros. Only for tensors of known shape.
    """
    whole = [t if isinstance(t, Reading) else widened(t) for t in tensors]
    known = [i for i, tensor in enumerate(whole) if None not in tuple(tensor.shape)]
    pack = Pack([sample_size(tuple(whole[i].shape)) for i in known], kernels.take)
    matrix = None
    if known:
        matrix = pack.matrix([_sample(whole[i], kernels) for i in known])
    limit = FLOAT16_VANISHES if scale is None else FLOAT16_VANISHES * scale
    sums = _sums(whole, known, pack, matrix, limit, kernels)

    def none() -> Tensor:
        return ops.zeros((len(whole), BUCKETS), "float32")

    def counts() -> Tensor:
        return _counts(pack, matrix, scale, kernels)

    if isinstance(counted, bool):
        return sums, counts() if counted else none()
    return sums, ops.cond(counted, counts, none)


def _sums(
    tensors: Sequence[Tensor | Reading],
    known: list[int],
    pack: Pack,
    matrix: Tensor | None,
    limit: Tensor,
    kernels: Kernels,
) -> Tensor:
    """Returns the `SUMS` of each tensor; those of small ones are those of the sample.

    Args:
        tensors: All tensors.
        known: Indices of those with a known shape, in the order of the pack.
        pack: Says which lines of the matrix are whose.
        matrix: The samples of those with a known shape.
        limit: Largest magnitude that vanishes in float16.
        kernels: The reductions of the backend.
    """
    row_of = {index: row for row, index in enumerate(known)}
    of_samples = None if matrix is None else measured(pack, matrix, limit)
    groups: dict[str, list[int]] = {}
    for index, tensor in enumerate(tensors):
        groups.setdefault(_kind(tensor), []).append(index)
    blocks = []
    for kind, indices in groups.items():
        chosen = [tensors[i] for i in indices]
        if kind == "loose":
            samples = ops.stack([_loose(t, limit, kernels) for t in chosen])
        else:
            rows = np.array([row_of[i] for i in indices], np.int32)
            samples = kernels.take(of_samples, rows)
        if kind == "read":
            sizes = stacked([float(math.prod(t.shape)) for t in chosen])
            samples = _joined(sizes, ops.stack([t.numbers for t in chosen]), samples)
        elif kind != "small":
            sizes = stacked([size_of(tensor) for tensor in chosen])
            samples = _joined(sizes, exact(chosen, kernels), samples)
        blocks.append(samples)
    order = np.argsort(np.concatenate([*groups.values()])).astype(np.int32)
    return kernels.take(ops.concatenate(blocks), order)


def _kind(tensor: Tensor | Reading) -> str:
    if isinstance(tensor, Reading):
        return "read"
    if None in tuple(tensor.shape):
        return "loose"
    return "small" if is_small(tensor) else "large"


def _sample(tensor: Tensor | Reading, kernels: Kernels) -> Tensor:
    if isinstance(tensor, Reading):
        return tensor.sample
    return sample_of(tensor, kernels.take)


def _joined(sizes: Tensor, numbers: Tensor, samples: Tensor) -> Tensor:
    """Joins exact sums with the shares of a sample, which has its own exponent."""
    exponent, own = numbers[:, 4], samples[:, 6]
    factor = ops.power(2.0, ops.clip(own - exponent, -LAST, LAST))
    return ops.stack(
        [
            sizes,
            samples[:, 1],
            *(numbers[:, i] for i in range(8)),
            samples[:, 10] * factor,
            samples[:, 11],
            samples[:, 12],
            ops.zeros_like(exponent),
        ],
        axis=1,
    )


def _loose(tensor: Tensor, limit: Tensor, kernels: Kernels) -> Tensor:
    """Returns the sums of a sample whose size is known only when it runs."""
    part = ops.cast(sample_of(tensor, kernels.take), "float32")
    finite = ops.isfinite(part)
    magnitudes = ops.where(finite, ops.abs(part), ops.zeros_like(part))
    exponent = exponent_of(ops.max(magnitudes))
    none = ops.zeros_like(exponent)
    absolute = ops.sum(magnitudes * ops.power(2.0, -exponent))
    vanishing = ops.logical_and(magnitudes <= limit, finite)
    return stacked(
        [
            *(none, ops.cast(ops.size(part), "float32"), none, none, none, none),
            *(exponent, none, none, none, absolute),
            ops.sum(ops.cast(part == 0, "float32")),
            ops.sum(ops.cast(vanishing, "float32")),
            none,
        ]
    )


def _counts(
    pack: Pack, matrix: Tensor, scale: Tensor | None, kernels: Kernels
) -> Tensor:
    """Returns the counts of every sample in the buckets, as rows."""
    if scale is not None:
        matrix = matrix / ops.cast(scale, "float32")
    octave = ops.clip(kernels.exponents(matrix), LOWEST, HIGHEST) - LOWEST
    bucket = ops.where(matrix > 0, OCTAVES + octave, OCTAVES - 1 - octave)
    # Zeros and what is not finite go to a last bucket that is thrown away.
    counted = ops.logical_and(ops.isfinite(matrix), matrix != 0)
    bucket = ops.where(counted, bucket, ops.full_like(bucket, BUCKETS))
    owners = ops.convert_to_tensor((pack.owners * (BUCKETS + 1))[:, None])
    numbers = ops.reshape(bucket + owners, (-1,))
    rows = len(pack.lengths)
    counts = kernels.count(numbers, rows * (BUCKETS + 1))
    return ops.reshape(counts, (rows, BUCKETS + 1))[:, :BUCKETS]
