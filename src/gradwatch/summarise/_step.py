"""The sums of many tensors at once, inside the compiled training step.

Written in `keras.ops`; the few reductions for which a framework has a faster word than
Keras come as `kernels`. Each large tensor is read four times (smallest, largest, sum,
squares), which is what the numbers need that must be exact. What a picture or a share
needs comes from an even sample, so that it costs the same however large the tensor is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from keras import ops

from ._columns import BUCKETS, HIGHEST, LOWEST, OCTAVES
from ._moments import FLOAT16_VANISHES

Tensor = Any

SUMS = (
    *("size", "sampled", "low", "high", "total", "squares", "exponent"),
    *("nan", "posinf", "neginf", "absolute", "zeros", "vanishing", "spread"),
)
"""What the step hands to the host of each tensor; `finish` makes columns of it."""

SAMPLE = 32_768
"""Of a larger tensor, this many numbers give the shares, `mean_abs`, and histograms."""

# Squares of float32 numbers in here neither overflow when a hundred million of them are
# added, nor vanish beside each other. Everything else is scaled first.
_SMALLEST, _LARGEST = 1e-12, 1e14


class Kernels(Protocol):
    """What a backend does faster than `keras.ops` can say."""

    def sum_of_squares(self, tensor: Tensor) -> Tensor:
        """Returns the sum of the squares, as a scalar."""

    def extremes(self, tensor: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the smallest and the largest element."""

    def exponents(self, tensor: Tensor) -> Tensor:
        """Returns floor(log2(|x|)) of each float32 as int32, from its bits."""

    def count(self, numbers: Tensor, length: int) -> Tensor:
        """Returns how often each of 0 … length-1 occurs."""


def measure(
    tensors: Sequence[Tensor], kernels: Kernels, scale: Tensor | None = None
) -> Tensor:
    """Returns the `SUMS` of each tensor, as a matrix of float32.

    Args:
        tensors: Dense, of any float type and shape.
        kernels: The reductions of the backend.
        scale: What the loss was multiplied by; the sample is divided by it.
    """
    tensors = [_wide(tensor) for tensor in tensors]
    extremes = [kernels.extremes(tensor) for tensor in tensors]
    low = _stack([pair[0] for pair in extremes])
    high = _stack([pair[1] for pair in extremes])
    total = _stack([ops.sum(tensor) for tensor in tensors])
    top = ops.maximum(-low, high)
    # A sum is not finite if any element is not; the extremes may pass over a NaN.
    fine = ops.isfinite(total) & (
        (top == 0) | ((top > _SMALLEST) & (top < _LARGEST))
    )

    def plain() -> Tensor:
        squares = _stack([kernels.sum_of_squares(tensor) for tensor in tensors])
        none = ops.zeros_like(total)
        sums = (low, high, total, squares, none, none, none, none)
        return ops.stack(
            [*sums, *_of_samples(tensors, total, scale)], axis=1
        )

    def careful() -> Tensor:
        return ops.stack([_careful(tensor, scale) for tensor in tensors])

    numbers = ops.cond(ops.all(fine), plain, careful)
    sizes = ops.stack(
        [
            ops.stack([_size(tensor), _size(sample_of(tensor))])
            for tensor in tensors
        ]
    )
    return ops.concatenate([sizes, numbers], axis=1)


def _of_samples(
    tensors: Sequence[Tensor], total: Tensor, scale: Tensor | None
) -> list[Tensor]:
    absolute, zeros, vanishing, spread = [], [], [], []
    for place, tensor in enumerate(tensors):
        part = sample_of(tensor)
        magnitudes = ops.abs(part)
        limit = FLOAT16_VANISHES if scale is None else FLOAT16_VANISHES * scale
        absolute.append(ops.sum(magnitudes))
        zeros.append(_many(part == 0))
        vanishing.append(_many(magnitudes <= limit))
        # Distances from the mean: "mean of squares less square of mean" has no correct
        # digit when the mean is large beside the spread. A large tensor has only that.
        whole = _is_whole(tensor)
        center = total[place] / _size(tensor)
        spread.append(
            ops.sum(ops.square(part - center)) if whole else ops.zeros_like(center)
        )
    return [_stack(absolute), _stack(zeros), _stack(vanishing), _stack(spread)]


def _careful(tensor: Tensor, scale: Tensor | None) -> Tensor:
    """The same sums of the finite elements divided by a power of two."""
    finite = ops.isfinite(tensor)
    numbers = ops.where(finite, tensor, ops.zeros_like(tensor))
    exponent = _exponent_of(ops.max(ops.abs(numbers)))
    shrunk = _divided(numbers, exponent)
    infinite = math.inf
    count = ops.maximum(_many(finite), 1.0)
    total = ops.sum(shrunk)
    part, seen = sample_of(shrunk), sample_of(finite)
    given = sample_of(numbers)
    limit = FLOAT16_VANISHES if scale is None else FLOAT16_VANISHES * scale
    whole = _is_whole(tensor)
    spread = ops.square(ops.where(seen, part - total / count, ops.zeros_like(part)))
    sums = [
        ops.min(ops.where(finite, tensor, ops.full_like(tensor, infinite))),
        ops.max(ops.where(finite, tensor, ops.full_like(tensor, -infinite))),
        total,
        ops.sum(ops.square(shrunk)),
        exponent,
        _many(ops.isnan(tensor)),
        _many(tensor == infinite),
        _many(tensor == -infinite),
        ops.sum(ops.abs(part)),
        _many(seen & (given == 0)),
        _many(seen & (ops.abs(given) <= limit)),
        ops.sum(spread) if whole else ops.zeros_like(total),
    ]
    return _stack(sums)


def squares(tensors: Sequence[Tensor], kernels: Kernels) -> Tensor:
    """Returns the sum of squares of each tensor, and the exponent it was scaled by.

    What is not finite makes the sum NaN or infinite: here that is the answer.
    """
    tensors = [_wide(tensor) for tensor in tensors]
    plain = _stack([kernels.sum_of_squares(tensor) for tensor in tensors])
    smallest, largest = _SMALLEST**2, _LARGEST**2

    def careful() -> Tensor:
        exponents = [_exponent_of(ops.max(ops.abs(t))) for t in tensors]
        shrunk = [_divided(t, e) for t, e in zip(tensors, exponents, strict=True)]
        sums = _stack([kernels.sum_of_squares(tensor) for tensor in shrunk])
        return ops.stack([sums, _stack(exponents)], axis=1)

    return ops.cond(
        ops.all((plain > smallest) & (plain < largest)),
        lambda: ops.stack([plain, ops.zeros_like(plain)], axis=1),
        careful,
    )


def histograms(
    tensors: Sequence[Tensor], kernels: Kernels, scale: Tensor | None = None
) -> Tensor:
    """Returns the counts of every tensor's sample in the buckets, as a matrix."""
    numbers = []
    for line, tensor in enumerate(tensors):
        part = ops.cast(sample_of(tensor), "float32")
        if scale is not None:
            part = part / ops.cast(scale, "float32")
        place = ops.clip(kernels.exponents(part), LOWEST, HIGHEST) - LOWEST
        bucket = ops.where(part > 0, OCTAVES + place, OCTAVES - 1 - place)
        # Zeros and what is not finite go to a last bucket that is thrown away.
        counted = ops.isfinite(part) & (part != 0)
        bucket = ops.where(counted, bucket, ops.full_like(bucket, BUCKETS))
        numbers.append(bucket + line * (BUCKETS + 1))
    length = len(numbers) * (BUCKETS + 1)
    counts = kernels.count(ops.concatenate(numbers), length)
    return ops.reshape(counts, (len(numbers), BUCKETS + 1))[:, :BUCKETS]


def sample_of(tensor: Tensor) -> Tensor:
    """Returns at most about `SAMPLE` of the elements, evenly spread, as a vector.

    Whole lines of the last axis are taken, at an odd distance, so that no pattern of
    the shape is met again and again. Of a batch of unknown size, the first examples.
    """
    shape = tuple(tensor.shape)
    if shape and shape[0] is None:
        width = math.prod(shape[1:])
        flat = ops.reshape(tensor, (-1, width))
        flat = flat[:, :: _step(width)]
        return ops.reshape(flat[: max(1, SAMPLE // max(flat.shape[1], 1))], (-1,))
    size, last = math.prod(shape), shape[-1] if shape else 1
    step = _step(size)
    if step == 1 or last == 0:
        return ops.reshape(tensor, (-1,))
    if size // last >= 8 * step:
        return ops.reshape(ops.reshape(tensor, (-1, last))[::step], (-1,))
    return ops.reshape(tensor, (-1,))[::step]


def _step(size: int) -> int:
    step = -(-size // SAMPLE)
    return step if step <= 1 else step | 1


def _is_whole(tensor: Tensor) -> bool:
    shape = tuple(tensor.shape)
    return None not in shape and _step(math.prod(shape)) <= 1


def _size(tensor: Tensor) -> Tensor:
    shape = tuple(tensor.shape)
    if None not in shape:
        return ops.convert_to_tensor(float(math.prod(shape)), "float32")
    return ops.cast(ops.size(tensor), "float32")


def _wide(tensor: Tensor) -> Tensor:
    """Half precision is measured in float32; float64 stays what it is."""
    return tensor if str(tensor.dtype).endswith("64") else ops.cast(tensor, "float32")


def _many(condition: Tensor) -> Tensor:
    return ops.sum(ops.cast(condition, "float32"))


def _stack(scalars: Sequence[Tensor]) -> Tensor:
    return ops.stack([ops.cast(scalar, "float32") for scalar in scalars])


def _exponent_of(top: Tensor) -> Tensor:
    """Returns the exponent of a magnitude, as a float; 0 for zero and what is not one."""
    usable = ops.isfinite(top) & (top > 0)
    safe = ops.where(usable, top, ops.ones_like(top))
    return ops.floor(ops.log2(safe))


def _divided(tensor: Tensor, exponent: Tensor) -> Tensor:
    """Returns `tensor / 2 ** exponent`, in two steps: 2 ** 149 is no float32."""
    half = ops.floor(exponent / 2)
    two = ops.cast(2.0, tensor.dtype)
    return tensor * ops.power(two, -half) * ops.power(two, half - exponent)
