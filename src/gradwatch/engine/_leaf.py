"""A leaf: one tensor whose gradient is wanted, and how it is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Leaf:
    """A weight, an activation or an input; the key of everything a pass gives."""

    kind: str
    """`"weight"`, `"activation"` or `"input"`."""
    address: str
    """Of the weight, or of the layer; the name itself for an input."""
    at: str = "output"
    call: int = 0
    """From 1; 0 where calls do not count."""
    path: str = ""
    """The place in a structure, as `[1]` or `[key]`."""

    def name(self, calls: Mapping[str, int]) -> str:
        """Returns the address as people see it, given how often layers were called."""
        if self.kind == "input":
            return self.address
        if self.kind == "weight":
            if not self.call:
                return self.address
            layer, _, own = self.address.rpartition("/")
            return f"{layer}@{self.call}/{own}" if layer else f"{own}@{self.call}"
        many = calls.get(self.address, 1) > 1
        call = f"@{self.call}" if many else ""
        side = ":input" if self.at == "input" else ""
        return f"{self.address}{call}{side}{self.path}"


def path_text(path: tuple[object, ...]) -> str:
    """Returns a path into a structure as `[1][key]`."""
    return "".join(f"[{part}]" for part in path)
