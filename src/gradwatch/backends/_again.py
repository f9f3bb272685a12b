"""Computing a tensor of a compiled step a second time, for those who only look.

XLA computes products and sums that follow each other in one loop, and may round once
where two loops round twice. Whoever reads what is between them makes two loops of it,
and the training is no longer that of an unwatched one to the last bit. So what is read
is computed again, from what is in memory anyway: results of matrix products,
reductions, weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ._protocol import Tensor

DEPTH = 64
"""So many operations in a row are done again at most; before them it is as it is."""


def again(
    tensors: Sequence[Tensor],
    inputs: Callable[[Tensor], Sequence[Tensor] | None],
    make: Callable[[Tensor, list[Tensor]], Tensor],
    keep: Callable[[Tensor], Tensor],
) -> list[Tensor]:
    """Returns the same tensors, of which nobody else uses a part.

    Args:
        tensors: Of the step that is being traced.
        inputs: Gives what a tensor is made of, or None if it is in memory anyway.
        make: Makes a tensor again, of other inputs.
        keep: Hides from the compiler that a tensor is the same as another.
    """
    made: dict[int, Tensor] = {}
    seen: list[Tensor] = []  # or else an `id` might be given to another

    def of(tensor: Tensor, depth: int = 0) -> Tensor:
        found = made.get(id(tensor))
        if found is None:
            seen.append(tensor)
            parts = inputs(tensor) if depth < DEPTH else None
            if parts is None:
                found = keep(tensor)
            else:
                found = make(tensor, [of(part, depth + 1) for part in parts])
            made[id(tensor)] = found
        return found

    return [of(tensor) for tensor in tensors]
