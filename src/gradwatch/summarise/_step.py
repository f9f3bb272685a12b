"""The sums of many tensors at once, inside the compiled training step.

Written in `keras.ops`; the few reductions for which a framework has a faster word than
Keras come as `kernels`. A large tensor is read four times (smallest, largest, sum,
squares), which is what the numbers need that must be exact. What a picture or a share
needs comes from an even sample, so that it costs the same however large the tensor is.
Small tensors, and the samples of large ones, are measured together (`Pack`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
from keras import ops

from ._columns import BUCKETS, HIGHEST, LOWEST, OCTAVES
from ._moments import FLOAT16_VANISHES
from ._pack import Pack
from ._sample import SAMPLE, sample_of, sample_size

Tensor = Any

SUMS = (
    *("size", "sampled", "low", "high", "total", "squares", "exponent"),
    *("nan", "posinf", "neginf", "absolute", "zeros", "vanishing", "spread"),
)
"""What the step hands to the host of each tensor; `finish` makes columns of it.

`low` and `high` are of the finite elements as they are; `total`, `squares`, `absolute`
and `spread` are of the finite elements divided by `2 ** exponent`. The last four are of
the sample; `spread` is 0 where that is not the whole tensor.
"""

# Squares of float32 numbers in here neither overflow when a hundred million of them are
# added, nor vanish beside each other. Everything else is scaled first.
_SMALLEST, _LARGEST = 1e-12, 1e14
_LAST = 126.0


class Kernels(Protocol):
    """What a backend does faster than `keras.ops` can say."""

    def sum_of_squares(self, tensor: Tensor) -> Tensor:
        """Returns the sum of the squares, as a scalar."""

    def sums(self, tensor: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns the smallest, the largest, the sum, and the sum of squares."""

    def exponents(self, tensor: Tensor) -> Tensor:
        """Returns floor(log2(|x|)) of each float32 as int32, from its bits."""

    def count(self, numbers: Tensor, length: int) -> Tensor:
        """Returns how often each of 0 … length-1 occurs."""

    def in_turn(self, makers: Sequence[Callable[[], Any]]) -> list[Any]:
        """Returns what the makers make, one after the other."""


class Group:
    """Tensors that are measured together, told apart by what is known of their shapes.

    Args:
        tensors: Dense, of any float type and shape.
        kernels: The reductions of the backend.
        scale: What the loss was multiplied by, or None.
    """

    def __init__(
        self,
        tensors: Sequence[Tensor],
        kernels: Kernels,
        scale: Tensor | None = None,
    ) -> None:
        self.tensors = [_wide(tensor) for tensor in tensors]
        self.kernels = kernels
        self.limit = FLOAT16_VANISHES if scale is None else FLOAT16_VANISHES * scale
        self.scale = scale
        small = [_is_small(tensor) for tensor in self.tensors]
        self.small = [place for place, s in enumerate(small) if s]
        self.large = [place for place, s in enumerate(small) if not s]
        known = [None not in tuple(tensor.shape) for tensor in self.tensors]
        self.packed = [place for place, k in enumerate(known) if k]
        """Those whose sample has a known size."""
        self.loose = [place for place, k in enumerate(known) if not k]
        sizes = [sample_size(tuple(self.tensors[p].shape)) for p in self.packed]
        self.pack = Pack(sizes)
        self._matrix: Tensor | None = None

    def matrix(self) -> Tensor:
        """The samples of known size, as lines."""
        if self._matrix is None:
            samples = [sample_of(self.tensors[place]) for place in self.packed]
            self._matrix = self.pack.matrix(samples)
        return self._matrix


def measure(group: Group) -> Tensor:
    """Returns the `SUMS` of each tensor, as a matrix of float32."""
    blocks, places = [], []
    of_samples = _packed(group) if group.packed else None
    in_pack = {place: line for line, place in enumerate(group.packed)}
    if group.small:
        lines = np.array([in_pack[place] for place in group.small], np.int32)
        blocks.append(ops.take(of_samples, lines, axis=0))
        places += group.small
    for chosen in (
        [place for place in group.large if place in in_pack],
        group.loose,
    ):
        if not chosen:
            continue
        exact = _one_by_one([group.tensors[place] for place in chosen], group.kernels)
        if chosen is group.loose:
            samples = ops.stack([_loose(group, place) for place in chosen])
        else:
            lines = np.array([in_pack[place] for place in chosen], np.int32)
            samples = ops.take(of_samples, lines, axis=0)
        blocks.append(_joined(exact, samples))
        places += chosen
    order = np.argsort(np.array(places)).astype(np.int32)
    return ops.take(ops.concatenate(blocks), order, axis=0)


def _joined(exact: Tensor, samples: Tensor) -> Tensor:
    """Exact sums with the shares of a sample, which has an exponent of its own."""
    exponent, own = exact[:, 5], samples[:, 6]
    factor = ops.power(2.0, ops.clip(own - exponent, -_LAST, _LAST))
    return ops.stack(
        [
            exact[:, 0],
            samples[:, 1],
            *(exact[:, place] for place in range(1, 9)),
            samples[:, 10] * factor,
            samples[:, 11],
            samples[:, 12],
            ops.zeros_like(exponent),
        ],
        axis=1,
    )


def _packed(group: Group) -> Tensor:
    """All sums of the packed samples: for a small tensor, that is all of it."""
    pack, matrix = group.pack, group.matrix()
    inside = ops.convert_to_tensor(pack.inside)
    finite = ops.logical_and(ops.isfinite(matrix), inside)
    numbers = ops.where(finite, matrix, ops.zeros_like(matrix))
    magnitudes = ops.abs(numbers)
    infinite = ops.full_like(matrix, math.inf)
    top, high, negative_low = pack.largest(
        ops.max(magnitudes, axis=1),
        ops.max(ops.where(finite, matrix, -infinite), axis=1),
        ops.max(ops.where(finite, -matrix, -infinite), axis=1),
    )
    exponent = _exponent_of(top)
    shrunk = numbers * pack.spread(ops.power(2.0, -exponent))
    zeros = ops.logical_and(matrix == 0, inside)
    vanishing = ops.logical_and(magnitudes <= group.limit, finite)
    count, total, absolute, squares, zero, vanished = pack.sums(
        _along(finite),
        ops.sum(shrunk, axis=1),
        ops.sum(ops.abs(shrunk), axis=1),
        ops.sum(ops.square(shrunk), axis=1),
        _along(zeros),
        _along(vanishing),
    )
    center = total / ops.maximum(count, 1.0)
    # Distances from the mean: "mean of squares less square of mean" has no correct
    # digit when the mean is large beside the spread.
    away = ops.where(finite, shrunk - pack.spread(center), ops.zeros_like(shrunk))
    (spread,) = pack.sums(ops.sum(ops.square(away), axis=1))
    size = ops.convert_to_tensor(pack.lengths.astype(np.float32))

    def nonfinite() -> Tensor:
        kinds = (ops.isnan(matrix), matrix == math.inf, matrix == -math.inf)
        return ops.stack(pack.sums(*(_along(kind) for kind in kinds)), axis=1)

    odd = ops.cond(
        ops.all(count == size),
        lambda: ops.zeros((len(pack.lengths), 3), "float32"),
        nonfinite,
    )
    sums = (size, size, -negative_low, high, total, squares, exponent)
    return ops.concatenate(
        [
            ops.stack(sums, axis=1),
            odd,
            ops.stack([absolute, zero, vanished, spread], axis=1),
        ],
        axis=1,
    )


def _one_by_one(tensors: Sequence[Tensor], kernels: Kernels) -> Tensor:
    """The exact sums of large tensors: each is read four times, and nothing is written.

    Columns: size, low, high, total, squares, exponent, nan, posinf, neginf.
    """
    read = kernels.in_turn([partial(kernels.sums, tensor) for tensor in tensors])
    low, high, total, plain_squares = (
        _stack([numbers[place] for numbers in read]) for place in range(4)
    )
    top = ops.maximum(-low, high)
    # A sum is not finite if any element is not; the extremes may pass over a NaN.
    fine = ops.isfinite(total) & ((top == 0) | ((top > _SMALLEST) & (top < _LARGEST)))

    def plain() -> Tensor:
        none = ops.zeros_like(total)
        sums = (low, high, total, plain_squares, none, none, none, none)
        return ops.stack(sums, axis=1)

    def careful() -> Tensor:
        return ops.stack([_careful(tensor) for tensor in tensors])

    sizes = _stack([_size(tensor) for tensor in tensors])
    numbers = ops.cond(ops.all(fine), plain, careful)
    return ops.concatenate([sizes[:, None], numbers], axis=1)


def _careful(tensor: Tensor) -> Tensor:
    """The same of the finite elements, divided by a power of two before squaring."""
    finite = ops.isfinite(tensor)
    nothing, infinite = ops.zeros_like(tensor), ops.full_like(tensor, math.inf)
    numbers = ops.where(finite, tensor, nothing)
    exponent = _exponent_of(ops.max(ops.abs(numbers)))
    shrunk = numbers * ops.power(ops.ones_like(exponent) * 2, -exponent)
    kinds = (ops.isnan(tensor), tensor == math.inf, tensor == -math.inf)
    return _stack(
        [
            ops.min(ops.where(finite, tensor, infinite)),
            ops.max(ops.where(finite, tensor, -infinite)),
            ops.sum(shrunk),
            ops.sum(ops.square(shrunk)),
            exponent,
            *(ops.sum(ops.cast(kind, "float32")) for kind in kinds),
        ]
    )


def _loose(group: Group, place: int) -> Tensor:
    """The sums of a sample whose size is known only when it runs."""
    part = ops.cast(sample_of(group.tensors[place]), "float32")
    finite = ops.isfinite(part)
    magnitudes = ops.where(finite, ops.abs(part), ops.zeros_like(part))
    exponent = _exponent_of(ops.max(magnitudes))
    none = ops.zeros_like(exponent)
    absolute = ops.sum(magnitudes * ops.power(2.0, -exponent))
    vanishing = ops.logical_and(magnitudes <= group.limit, finite)
    return _stack(
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


def squares(group: Group) -> Tensor:
    """Returns the sum of squares of each tensor, and the exponent it was scaled by.

    What is not finite makes the sum NaN or infinite: here that is the answer.
    """
    tensors, kernels = group.tensors, group.kernels
    blocks = []
    if group.small:
        pack = Pack([math.prod(tuple(tensors[p].shape)) for p in group.small])
        flat = [ops.reshape(tensors[place], (-1,)) for place in group.small]
        blocks.append(_packed_squares(pack, pack.matrix(flat)))
    if group.large:
        chosen = [tensors[place] for place in group.large]
        blocks.append(_large_squares(chosen, kernels))
    order = np.argsort(np.array([*group.small, *group.large])).astype(np.int32)
    return ops.take(ops.concatenate(blocks), order, axis=0)


def _packed_squares(pack: Pack, matrix: Tensor) -> Tensor:
    (top,) = pack.largest(ops.max(ops.abs(matrix), axis=1))
    exponent = _exponent_of(top)
    shrunk = matrix * pack.spread(ops.power(2.0, -exponent))
    (sums,) = pack.sums(ops.sum(ops.square(shrunk), axis=1))
    return ops.stack([sums, exponent], axis=1)


def changes(
    before: Sequence[Tensor], after: Sequence[Tensor], kernels: Kernels
) -> tuple[Tensor, Tensor]:
    """Returns what `squares` does: of the tensors before, and of how far they moved."""
    small = [place for place, tensor in enumerate(before) if _is_small(tensor)]
    large = [place for place in range(len(before)) if place not in set(small)]
    were, moved = [], []
    if small:
        pack = Pack([math.prod(tuple(before[place].shape)) for place in small])
        old, new = (
            pack.matrix([ops.reshape(tensors[place], (-1,)) for place in small])
            for tensors in (before, after)
        )
        were.append(_packed_squares(pack, old))
        moved.append(_packed_squares(pack, new - old))
    if large:
        pairs = [(_wide(before[place]), after[place]) for place in large]

        def moves(old: Tensor, new: Tensor) -> Tensor:
            return ops.subtract(_wide(ops.convert_to_tensor(new)), old)

        def read(old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
            move = kernels.sum_of_squares(moves(old, new))
            return move, kernels.sum_of_squares(old)

        found = kernels.in_turn([partial(read, *pair) for pair in pairs])
        plain = [_stack([one[place] for one in found]) for place in range(2)]
        were.append(_rescued(plain[1], lambda: [old for old, _ in pairs], kernels))
        moved.append(_rescued(plain[0], lambda: [moves(*p) for p in pairs], kernels))
    order = np.argsort(np.array([*small, *large])).astype(np.int32)
    first, second = (
        ops.take(ops.concatenate(blocks), order, axis=0) for blocks in (were, moved)
    )
    return first, second


def _large_squares(tensors: Sequence[Tensor], kernels: Kernels) -> Tensor:
    read = [partial(kernels.sum_of_squares, tensor) for tensor in tensors]
    return _rescued(_stack(kernels.in_turn(read)), lambda: tensors, kernels)


def _rescued(
    plain: Tensor, make: Callable[[], Sequence[Tensor]], kernels: Kernels
) -> Tensor:
    """Where a sum has left the safe range, all are computed again, scaled."""
    smallest, largest = _SMALLEST**2, _LARGEST**2

    def careful() -> Tensor:
        tensors = make()
        exponents = [_exponent_of(ops.max(ops.abs(t))) for t in tensors]
        shrunk = [
            tensor * ops.power(ops.ones_like(exponent) * 2, -exponent)
            for tensor, exponent in zip(tensors, exponents, strict=True)
        ]
        sums = _stack([kernels.sum_of_squares(tensor) for tensor in shrunk])
        return ops.stack([sums, _stack(exponents)], axis=1)

    return ops.cond(
        ops.all((plain > smallest) & (plain < largest)),
        lambda: ops.stack([plain, ops.zeros_like(plain)], axis=1),
        careful,
    )


def _is_small(tensor: Tensor) -> bool:
    shape = tuple(tensor.shape)
    wide = str(tensor.dtype).endswith("64")
    return None not in shape and not wide and math.prod(shape) <= SAMPLE


def _size(tensor: Tensor) -> Tensor:
    shape = tuple(tensor.shape)
    if None not in shape:
        return ops.convert_to_tensor(float(math.prod(shape)), "float32")
    return ops.cast(ops.size(tensor), "float32")


def _wide(tensor: Tensor) -> Tensor:
    """Half precision is measured in float32; float64 stays what it is."""
    return tensor if str(tensor.dtype).endswith("64") else ops.cast(tensor, "float32")


def _along(condition: Tensor) -> Tensor:
    return ops.sum(ops.cast(condition, "float32"), axis=1)


def _stack(scalars: Sequence[Tensor]) -> Tensor:
    return ops.stack([ops.cast(scalar, "float32") for scalar in scalars])


def _exponent_of(top: Tensor) -> Tensor:
    """Returns the exponents of magnitudes, as floats; 0 for what has none."""
    usable = ops.logical_and(ops.isfinite(top), top > 0)
    safe = ops.where(usable, top, ops.ones_like(top))
    # 2 ** 127 is the largest power of two that is a float32.
    last = 1022.0 if str(top.dtype).endswith("64") else _LAST
    return ops.clip(ops.floor(ops.log2(safe)), -last, last)
