"""The reductions of a training step for which torch has a faster word than Keras."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .._protocol import Tensor


def sum_of_squares(tensor: Tensor) -> Tensor:
    """One sweep; squaring first would write the squares to memory."""
    flat = tensor.reshape(-1)
    return torch.dot(flat, flat)


def all_squares(tensors: Sequence[Tensor]) -> Tensor:
    """A dot product each; the norms of lists are faster, and less exact."""
    return torch.stack([sum_of_squares(t).to(torch.float32) for t in tensors])


def takes_lists() -> bool:
    """A product is one call; to pack a small tensor takes several."""
    return True


def differences(before: Sequence[Tensor], after: Sequence[Tensor]) -> list[Tensor]:
    """In place of what was: fresh memory costs five times more."""
    kept = list(before)
    torch._foreach_sub_(kept, [tensor.detach() for tensor in after])
    return kept


def sums(tensor: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Three sweeps: the smallest and the largest come together."""
    low, high = torch.aminmax(tensor)
    return low, high, torch.sum(tensor), sum_of_squares(tensor)


def exponents(tensor: Tensor) -> Tensor:
    """Reads them from the bits: exact, where a logarithm may round."""
    return ((tensor.view(torch.int32) >> 23) & 255) - 127


def count(numbers: Tensor, length: int) -> Tensor:
    """Returns how often each of 0 … length-1 occurs."""
    return torch.bincount(numbers, minlength=length).to(torch.float32)


def apart(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Reading changes nothing where operations run as they are called."""
    return list(tensors)


def total(tensor: Tensor) -> Tensor:
    """The sum."""
    return torch.sum(tensor)


def in_turn(makers: Sequence[Callable[[], Any]]) -> list[Any]:
    """Nothing to arrange: operations run as they are called."""
    return [make() for make in makers]


def can_branch() -> bool:
    """A branch is an `if`."""
    return True


def take(tensor: Tensor, places: Any) -> Tensor:
    """Returns the lines at these places."""
    return tensor[torch.as_tensor(places, device=tensor.device)]


def shared(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Nothing to share: nothing is traced."""
    return function(*tensors)


def of_each(function: Callable[..., Tensor], *tensors: Sequence[Tensor]) -> Tensor:
    """All at once: one question, whether all are well, instead of many."""
    return function(*tensors)


def dense(gradient: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Gradients are dense here."""
    del shape
    return gradient
