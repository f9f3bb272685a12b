"""A leaf: one tensor to differentiate with respect to, and its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Leaf:
    """A weight, an activation or an input; the key of all results of a pass.

    Attributes:
        kind: `"weight"`, `"activation"` or `"input"`.
        address: The address of the weight or of the layer, or the name of the input.
        at: `"output"` or `"input"` of the layer.
        call: Number of the call, from 1; 0 where calls are not told apart.
        path: Path of the tensor in a structure, such as `[1]` or `[key]`.
    """

    kind: str
    address: str
    at: str = "output"
    call: int = 0
    path: str = ""

    def name(self, calls: Mapping[str, int]) -> str:
        """Returns the displayed name, given the number of calls of each layer."""
        if self.kind == "input":
            return self.address
        if self.kind == "activation":
            many = calls.get(self.address, 1) > 1
            side = ":input" if self.at == "input" else ""
            return f"{self.address}{f'@{self.call}' if many else ''}{side}{self.path}"
        if not self.call:
            return self.address
        layer, _, own = self.address.rpartition("/")
        return f"{layer}@{self.call}/{own}" if layer else f"{own}@{self.call}"


def path_text(path: tuple[object, ...]) -> str:
    """Formats a path into a structure as `[1][key]`."""
    return "".join(f"[{part}]" for part in path)
