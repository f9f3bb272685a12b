"""The sums of many tensors at once, inside the compiled training step.

Written in `keras.ops`; the few reductions for which a framework has a faster word than
Keras come as `kernels`. A large tensor is read four times (smallest, largest, sum,
squares), which is what the numbers need that must be exact. What a picture or a share
needs comes from an even sample, so that it costs the same however large the tensor is.
Small tensors, and the samples of large ones, are measured together (`Pack`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from keras import ops

from ._columns import BUCKETS, HIGHEST, LOWEST, OCTAVES
from ._elements import (
    LAST,
    Kernels,
    Tensor,
    exponent_of,
    is_small,
    size_of,
    stacked,
    widened,
)
from ._exact import Reading, exact
from ._moments import FLOAT16_VANISHES
from ._pack import Pack
from ._packed import measured
from ._sample import sample_of, sample_size

SUMS = (
    *("size", "sampled", "low", "high", "total", "squares", "exponent"),
    *("nan", "posinf", "neginf", "absolute", "zeros", "vanishing", "spread"),
)
"""What the step hands to the host of each tensor; `finish` makes columns of it.

`low` and `high` are of the finite elements as they are; `total`, `squares`, `absolute`
and `spread` are of the finite elements divided by `2 ** exponent`. The last four are of
the sample; `spread` is 0 where that is not the whole tensor.
"""


class Group:
    """Tensors that are measured together, told apart by what is known of their shapes.

    Args:
        tensors: Dense, of any float type and shape, or what was read of large ones.
        kernels: The reductions of the backend.
        scale: What the loss was multiplied by, or None.
    """

    def __init__(
        self,
        tensors: Sequence[Tensor | Reading],
        kernels: Kernels,
        scale: Tensor | None = None,
    ) -> None:
        whole = [t for t in tensors if not isinstance(t, Reading)]
        apart = iter(kernels.apart(whole))
        self.tensors = [
            tensor if isinstance(tensor, Reading) else widened(next(apart))
            for tensor in tensors
        ]
        self.kernels = kernels
        self.limit = FLOAT16_VANISHES if scale is None else FLOAT16_VANISHES * scale
        self.scale = scale
        small = [
            not isinstance(tensor, Reading) and is_small(tensor)
            for tensor in self.tensors
        ]
        self.small = [place for place, s in enumerate(small) if s]
        self.large = [place for place, s in enumerate(small) if not s]
        known = [None not in tuple(tensor.shape) for tensor in self.tensors]
        self.packed = [place for place, k in enumerate(known) if k]
        """Those whose sample has a known size."""
        self.loose = [place for place, k in enumerate(known) if not k]
        sizes = [sample_size(tuple(self.tensors[p].shape)) for p in self.packed]
        self.pack = Pack(sizes, kernels.take)
        self._matrix: Tensor | None = None

    def matrix(self) -> Tensor:
        """The samples of known size, as lines."""
        if self._matrix is None:
            samples = [
                _sample(self.tensors[place], self.kernels) for place in self.packed
            ]
            self._matrix = self.pack.matrix(samples)
        return self._matrix


def _sample(tensor: Tensor | Reading, kernels: Kernels) -> Tensor:
    if isinstance(tensor, Reading):
        return tensor.sample
    return sample_of(tensor, kernels.take)


def measure(group: Group) -> Tensor:
    """Returns the `SUMS` of each tensor, as a matrix of float32."""
    blocks, places = [], []
    of_samples = None
    if group.packed:
        of_samples = measured(group.pack, group.matrix(), group.limit)
    in_pack = {place: line for line, place in enumerate(group.packed)}
    if group.small:
        lines = np.array([in_pack[place] for place in group.small], np.int32)
        blocks.append(group.kernels.take(of_samples, lines))
        places += group.small
    large = [place for place in group.large if place in in_pack]
    read = [place for place in large if isinstance(group.tensors[place], Reading)]
    whole = [place for place in large if place not in set(read)]
    for chosen in (read, whole, group.loose):
        if not chosen:
            continue
        tensors = [group.tensors[place] for place in chosen]
        if chosen is read:
            numbers = ops.stack([reading.numbers for reading in tensors])
            sizes = stacked([float(math.prod(reading.shape)) for reading in tensors])
        else:
            numbers = exact(tensors, group.kernels)
            sizes = stacked([size_of(tensor) for tensor in tensors])
        if chosen is group.loose:
            samples = ops.stack([_loose(group, place) for place in chosen])
        else:
            lines = np.array([in_pack[place] for place in chosen], np.int32)
            samples = group.kernels.take(of_samples, lines)
        blocks.append(_joined(sizes, numbers, samples))
        places += chosen
    order = np.argsort(np.array(places)).astype(np.int32)
    return group.kernels.take(ops.concatenate(blocks), order)


def _joined(sizes: Tensor, numbers: Tensor, samples: Tensor) -> Tensor:
    """Exact sums with the shares of a sample, which has an exponent of its own."""
    exponent, own = numbers[:, 4], samples[:, 6]
    factor = ops.power(2.0, ops.clip(own - exponent, -LAST, LAST))
    return ops.stack(
        [
            sizes,
            samples[:, 1],
            *(numbers[:, place] for place in range(8)),
            samples[:, 10] * factor,
            samples[:, 11],
            samples[:, 12],
            ops.zeros_like(exponent),
        ],
        axis=1,
    )


def _loose(group: Group, place: int) -> Tensor:
    """The sums of a sample whose size is known only when it runs."""
    part = ops.cast(sample_of(group.tensors[place], group.kernels.take), "float32")
    finite = ops.isfinite(part)
    magnitudes = ops.where(finite, ops.abs(part), ops.zeros_like(part))
    exponent = exponent_of(ops.max(magnitudes))
    none = ops.zeros_like(exponent)
    absolute = ops.sum(magnitudes * ops.power(2.0, -exponent))
    vanishing = ops.logical_and(magnitudes <= group.limit, finite)
    return stacked(
        [
            *(none, ops.cast(ops.size(part), "float32"), none, none, none, none),
            *(exponent, none, none, none, absolute),
            ops.sum(ops.cast(part == 0, "float32")),
            ops.sum(ops.cast(vanishing, "float32")),
            none,
        ]
    )


def histograms(group: Group) -> Tensor:
    """Returns the counts of every sample in the buckets, as a matrix.

    Only for tensors of known shape.
    """
    pack, matrix = group.pack, group.matrix()
    if group.scale is not None:
        matrix = matrix / ops.cast(group.scale, "float32")
    place = ops.clip(group.kernels.exponents(matrix), LOWEST, HIGHEST) - LOWEST
    bucket = ops.where(matrix > 0, OCTAVES + place, OCTAVES - 1 - place)
    # Zeros and what is not finite go to a last bucket that is thrown away.
    counted = ops.logical_and(ops.isfinite(matrix), matrix != 0)
    bucket = ops.where(counted, bucket, ops.full_like(bucket, BUCKETS))
    owners = ops.convert_to_tensor((pack.owners * (BUCKETS + 1))[:, None])
    numbers = ops.reshape(bucket + owners, (-1,))
    lines = len(pack.lengths)
    counts = group.kernels.count(numbers, lines * (BUCKETS + 1))
    return ops.reshape(counts, (lines, BUCKETS + 1))[:, :BUCKETS]
