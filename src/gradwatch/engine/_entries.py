"""Entries: the leaves of a pass by name, each with a gradient or a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras

from ..backends import Sparse
from ..select import Leaf, Selection, Tree, WeightNode
from ._reasons import Reason, frozen, hidden, loop_around, not_called, of_dtype
from ._session import Facts

KINDS = ("weight", "activation", "input")


@dataclass(frozen=True, slots=True)
class Entry:
    """One gradient, or the reason why there is none.

    `depth` is the position of its layer in the order of computation.
    """

    name: str
    leaf: Leaf
    shape: tuple[int, ...] = ()
    dtype: str = ""
    gradient: Any = None
    value: Any = None
    reason: Reason | None = None
    depth: int = 0

    @property
    def kind(self) -> str:
        """`"weight"`, `"activation"` or `"input"`."""
        return self.leaf.kind


def dense(gradient: Any) -> Any:
    """Returns a gradient with all of its rows, also where a backend gives only some."""
    if not isinstance(gradient, Sparse):
        return gradient
    rows = gradient.shape[0]
    return keras.ops.segment_sum(gradient.values, gradient.indices, rows)


def entries(
    facts: Facts,
    gradients: Mapping[Leaf, Any],
    kept: Mapping[Leaf, Any],
    explain: Callable[[Leaf], Reason],
) -> list[Entry]:
    """Names every leaf of a pass: weights first, then activations, then inputs."""
    depth = {address: number for number, address in enumerate(facts.calls)}
    named: dict[str, Entry] = {}
    for leaf in sorted(facts.specs, key=lambda leaf: KINDS.index(leaf.kind)):
        gradient, reason = gradients.get(leaf), None
        if leaf.address in facts.hidden and gradient is None:
            continue  # `absent` gives the reason.
        if gradient is None:
            dtype = facts.not_float.get(leaf)
            reason = explain(leaf) if dtype is None else of_dtype(leaf, dtype)
        name = leaf.name(facts.calls)
        if name in named:  # A weight and a layer share this name.
            name += ":output"
        spec, value = facts.specs[leaf], kept.get(leaf)
        named[name] = Entry(
            name, leaf, *spec, gradient, value, reason, _depth(leaf, depth)
        )
    return list(named.values())


def absent(selection: Selection, tree: Tree, facts: Facts) -> Iterator[Entry]:
    """Yields the leaves that were never reached.

    Frozen weights; weights requested per call of which no call was seen; and taps that
    met no tensor.
    """
    for name, node in selection.frozen.items():
        yield _weight_entry(name, node, frozen(name))
    seen = {leaf.address for leaf in facts.specs if leaf.kind == "weight" and leaf.call}
    for address in selection.per_call:
        node = selection.weights[address]
        if address not in seen and node.layer:
            reason = _not_run(node.layer, tree, facts) or not_called(node.layer)
            name = Leaf("weight", address, call=1).name({})
            yield _weight_entry(name, node, reason)
    reached = {(leaf.address, leaf.at) for leaf in facts.specs}
    for tap in selection.taps:
        address = tap.address
        absence = _not_run(address, tree, facts)
        if absence is None:
            if (address, tap.at) in reached:
                continue
            text = f"The layer {address!r} was called, but no tensor is its {tap.at}."
            absence = Reason("integer", text, address)
        name = tap.name({address: 2} if tap.call else {})
        yield Entry(name, Leaf("activation", name), reason=absence)


def _not_run(address: str, tree: Tree, facts: Facts) -> Reason | None:
    """Returns why no call of a layer was seen; None if one was."""
    in_loop = loop_around(address, tree) in facts.loops
    if address in facts.hidden or (in_loop and not facts.calls[address]):
        return hidden(address, tree)
    return None if facts.calls[address] else not_called(address)


def _weight_entry(name: str, node: WeightNode, reason: Reason) -> Entry:
    shape, dtype = tuple(node.variable.shape), node.variable.dtype
    return Entry(name, Leaf("weight", node.address), shape, dtype, reason=reason)


def _depth(leaf: Leaf, depth: dict[str, int]) -> int:
    if leaf.kind == "input":
        return -1
    address = leaf.address
    while address and address not in depth:
        address = address.rpartition("/")[0]
    return depth.get(address, len(depth))
