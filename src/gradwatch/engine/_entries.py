"""From leaves to named entries: what a result is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..backends import Sparse, current
from ..select import Selection, Tree
from ._leaf import Leaf
from ._reasons import Reason, frozen, of_dtype, uncounted, untapped
from ._session import Facts

KINDS = ("weight", "activation", "input")


@dataclass(frozen=True, slots=True)
class Entry:
    """One gradient, or the reason why there is none."""

    name: str
    leaf: Leaf
    kind: str
    shape: tuple[int, ...]
    dtype: str
    gradient: Any = None
    value: Any = None
    reason: Reason | None = None
    depth: int = 0
    """The position in the order of computation."""


def dense(gradient: Any) -> Any:
    """Returns a gradient with all its rows, also where a backend gives only some."""
    return current().dense(gradient) if isinstance(gradient, Sparse) else gradient


def entries(
    facts: Facts,
    gradients: Mapping[Leaf, Any],
    kept: Mapping[Leaf, Any],
    explain: Callable[[Leaf], Reason],
) -> list[Entry]:
    """Names every leaf of a pass: weights first, then activations, then inputs."""
    depth = {address: number for number, address in enumerate(facts.order)}
    found: dict[str, Entry] = {}
    for leaf in sorted(facts.specs, key=lambda leaf: KINDS.index(leaf.kind)):
        gradient = gradients.get(leaf)
        if leaf.address in facts.hidden and gradient is None:
            continue  # `absent` says why
        reason = None
        if gradient is None:
            dtype = facts.not_float.get(leaf)
            reason = explain(leaf) if dtype is None else of_dtype(leaf, dtype)
        name = leaf.name(facts.calls)
        if name in found:  # a weight and a layer of one name
            name += ":output"
        found[name] = Entry(
            name,
            leaf,
            leaf.kind,
            *facts.specs[leaf],
            gradient,
            kept.get(leaf),
            reason,
            _depth(leaf, depth),
        )
    return list(found.values())


def absent(selection: Selection, tree: Tree, facts: Facts) -> list[Entry]:
    """Names what was never reached: frozen weights, layers that did not run."""
    weights = [
        _lacking(name, name, node.variable, frozen(name))
        for name, node in selection.frozen.items()
    ]
    weights += [
        _lacking(name, address, selection.weights[address].variable, reason)
        for name, address, reason in uncounted(selection, tree, facts)
    ]
    taps = [
        Entry(name, Leaf("activation", name), "activation", (), "", reason=reason)
        for name, reason in untapped(selection, tree, facts)
    ]
    return weights + taps


def _lacking(name: str, address: str, variable: Any, reason: Reason) -> Entry:
    leaf = Leaf("weight", address)
    shape = tuple(variable.shape)
    return Entry(name, leaf, "weight", shape, variable.dtype, reason=reason)


def _depth(leaf: Leaf, depth: dict[str, int]) -> int:
    if leaf.kind == "input":
        return -1
    address = leaf.address
    while address and address not in depth:
        address = address.rpartition("/")[0]
    return depth.get(address, len(depth))
