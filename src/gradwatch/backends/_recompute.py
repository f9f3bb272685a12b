"""Recomputing a tensor of a step that XLA compiles, so that it can be read.

XLA computes a product and the sum that uses it in one loop, and rounds once where two
loops would round twice. Reading the product makes two loops of it, and the last bit of
the training changes: without this, a watched training of weights alone is not that of
an unwatched one (in `fit` on JAX, in a custom loop also with TensorFlow's XLA). So what
is read is not the product of the step: it is recomputed, from tensors that are in
memory anyway, such as results of matrix products, reductions and weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ._protocol import Tensor

DEPTH = 64
"""Maximum length of a chain of operations that is recomputed."""


def recompute(
    tensors: Sequence[Tensor],
    inputs: Callable[[Tensor], Sequence[Tensor] | None],
    make: Callable[[Tensor, list[Tensor]], Tensor],
    hide: Callable[[Tensor], Tensor],
) -> list[Tensor]:
    """Returns equal tensors that share no product with the step.

    Args:
        tensors: Tensors of the step that is being traced.
        inputs: Returns what a tensor is made of; None if it is in memory anyway.
        make: Makes a tensor once more, of other inputs.
        hide: Hides from the compiler that a tensor is the same as another.
    """
    made: dict[int, Tensor] = {}
    alive: list[Tensor] = []  # or else an `id` might be used twice

    def copy_of(tensor: Tensor, depth: int = 0) -> Tensor:
        result = made.get(id(tensor))
        if result is None:
            alive.append(tensor)
            parts = inputs(tensor) if depth < DEPTH else None
            if parts is None:
                result = hide(tensor)
            else:
                result = make(tensor, [copy_of(part, depth + 1) for part in parts])
            made[id(tensor)] = result
        return result

    return [copy_of(tensor) for tensor in tensors]
