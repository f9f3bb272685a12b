"""Resolves selectors against a model: the selected weights, taps and inputs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import keras

from .._errors import AddressError, GradwatchError, arg, listing, quoted
from ._leaf import Leaf
from ._patterns import (
    Name,
    Pattern,
    TheVariable,
    ambiguous,
    by_index,
    described,
    each,
    is_glob,
    layer_addresses,
    matching,
    unknown,
    with_aliases,
)
from ._selectors import Activations, Inputs, Weights, Wrt
from ._tree import Tree, WeightNode

_SUFFIX = re.compile(r"(?P<base>.+?)(?:@(?P<call>\d+))?(?P<path>(?:\[[^\[\]]+\])*)")


@dataclass(frozen=True, slots=True)
class Selection:
    """Selectors, resolved against one model.

    A tap is the input or output of a layer: of every call if `call` is 0, and every
    tensor of it if `path` is empty.
    """

    weights: dict[str, WeightNode]
    per_call: tuple[str, ...]
    taps: tuple[Leaf, ...]
    inputs: tuple[Pattern, ...]
    frozen: dict[str, WeightNode]


NOTHING = Selection({}, (), (), (), {})


def resolve(wrt: Wrt, tree: Tree) -> Selection:
    """Resolves `wrt` against the addresses of a model.

    Raises:
        AddressError: If a pattern matches nothing or is ambiguous.
        GradwatchError: If `wrt` holds something that is not a selector.
    """
    chosen: dict[str, WeightNode] = {}
    per_call: set[str] = set()
    frozen: dict[str, WeightNode] = {}
    taps: dict[Leaf, None] = {}
    wanted_inputs: list[Pattern] = []
    pairs = [(s, pattern) for s in selectors(wrt) for pattern in each(s.pattern)]
    for selector, pattern in pairs:
        if isinstance(selector, Weights):
            matches = _weights(pattern, tree)
            if pattern is None:
                frozen |= {n: w for n, w in matches.items() if not w.trainable}
                matches = {n: w for n, w in matches.items() if w.trainable}
            chosen |= matches
            per_call |= set(matches) if selector.per_call else set()
        elif isinstance(selector, Activations):
            base, call, path = split_suffix(pattern, tree)
            for address in layer_addresses(base, tree):
                taps[Leaf("activation", address, selector.at, call, path)] = None
        else:
            wanted_inputs.append(pattern)
    in_order = {name: node for name, node in tree.weights.items() if name in chosen}
    frozen = {name: node for name, node in frozen.items() if name not in chosen}
    by_call = tuple(name for name in in_order if name in per_call)
    return Selection(in_order, by_call, tuple(taps), tuple(wanted_inputs), frozen)


def selectors(wrt: Wrt) -> list[Weights | Activations | Inputs]:
    """Returns the selectors of a `wrt` argument as a list; None means all weights."""
    if wrt is None:
        return [Weights()]
    items: list[Any] = list(wrt) if isinstance(wrt, list | tuple) else [wrt]
    if not items:
        raise GradwatchError(
            f"{arg('wrt')} must hold at least one selector. Received: an empty list. "
            "Leave it out for every trainable weight."
        )
    for item in items:
        if not isinstance(item, Weights | Activations | Inputs):
            raise GradwatchError(_not_a_selector(item))
    return items


def _not_a_selector(item: object) -> str:
    if isinstance(item, list | tuple | set | dict):
        return (
            f"{arg('wrt')} must be a selector or a flat list of selectors. Received: "
            f"a {type(item).__name__} inside or instead of it. Write "
            "`wrt=[gradwatch.weights(…), gradwatch.activations(…)]`."
        )
    if isinstance(item, keras.Operation | keras.Variable):
        name = "layer" if isinstance(item, keras.Operation) else "variable"
        shown = f"the {name} {item.name!r}"
    else:
        name = repr(item) if isinstance(item, str | int | re.Pattern) else "…"
        shown = described(item)
    return (
        f"{arg('wrt')} must say whether weights, activations or inputs are meant. "
        f"Received: {shown}. Write `gradwatch.weights({name})` for the weights of a "
        f"layer, `gradwatch.activations({name})` for its output, `gradwatch.inputs()` "
        "for the model's inputs, or a list of these."
    )


# weights ------------------------------------------------------------------------------


def _weights(pattern: Pattern, tree: Tree) -> dict[str, WeightNode]:
    if not tree.weights:
        raise AddressError(
            f"{arg('wrt')} asks for weights, so the model must have some. Received: "
            f"{tree.model.name!r}, which has none. Ask for `gradwatch.activations()` "
            "or `gradwatch.inputs()`."
        )
    if pattern is None:
        return tree.learnable
    if isinstance(pattern, int):
        name = by_index(pattern, list(tree.learnable), "weight")
        return {name: tree.weights[name]}
    if isinstance(pattern, TheVariable):
        own = pattern.variable
        if matches := {n: w for n, w in tree.weights.items() if w.variable is own}:
            return matches
        raise AddressError(
            f"{arg('wrt')} must be a weight of the model {tree.model.name!r}. "
            f"Received: {pattern!r}, which belongs to another model or layer. "
            f"{listing()} lists its weights."
        )
    if isinstance(pattern, str | re.Pattern):
        return _weights_by_name(pattern, tree)
    return _below(layer_addresses(pattern, tree), tree)


def _weights_by_name(pattern: Name, tree: Tree) -> dict[str, WeightNode]:
    wild = is_glob(pattern)
    if pattern in tree.weights:
        return {str(pattern): tree.weights[str(pattern)]}
    as_layer: list[str] = []
    if isinstance(pattern, str):
        as_layer = with_aliases(pattern, list(tree.layers), tree.aliases)
    if not wild and (pattern in tree.layers or pattern in tree.aliases):
        return _below(as_layer, tree)
    names = list(tree.learnable if wild else tree.weights)
    as_weight = with_aliases(pattern, names, tree.weight_aliases)
    if wild:  # A layer without weights is passed over.
        chosen = {*as_weight, *_below(as_layer, tree, strict=False)}
        if chosen:
            return {n: w for n, w in tree.learnable.items() if n in chosen}
    elif len(as_weight) + len(as_layer) > 1:
        raise AddressError(ambiguous(str(pattern), [*as_weight, *as_layer]))
    elif as_weight:
        return {as_weight[0]: tree.weights[as_weight[0]]}
    elif as_layer:
        return _below(as_layer, tree)
    owned = [f"{node.layer}/" for node in tree.weights.values()]
    owners = [a for a in tree.layers if any(o.startswith(f"{a}/") for o in owned)]
    raise AddressError(unknown(pattern, list(tree.weights), "weight", owners, tree))


def _below(
    addresses: Sequence[str], tree: Tree, *, strict: bool = True
) -> dict[str, WeightNode]:
    """Returns the weights of these layers and of all their sublayers.

    The layers are asked, not the addresses: a shared sublayer may have its address
    elsewhere in the tree.
    """
    inside: set[int] = set()
    for address in addresses:
        layer = tree.layers[address].layer
        variables = layer.variables if isinstance(layer, keras.Layer) else ()
        if strict and not variables:
            raise AddressError(
                f"{arg('wrt')} asks for the weights of a layer that has none. "
                f"Received: {address!r} ({type(layer).__name__}). Use "
                f"`gradwatch.activations({address!r})` for its output."
            )
        inside |= {id(v) for v in variables}
    return {n: w for n, w in tree.learnable.items() if id(w.variable) in inside}


# activations --------------------------------------------------------------------------


def split_suffix(pattern: Pattern, tree: Tree) -> tuple[Pattern, int, str]:
    """Splits `conv@2[1]` into the layer, the call and the path in the structure."""
    parts = _SUFFIX.fullmatch(pattern) if isinstance(pattern, str) else None
    if parts is None or matching(pattern, [*tree.layers, *tree.aliases]):
        return pattern, 0, ""
    call = int(parts["call"] or 0)
    if parts["call"] and not call:
        raise AddressError(
            f"{arg('wrt')} counts the calls of a layer from 1. Received: {pattern!r}. "
            f"The first call is '{parts['base']}@1'."
        )
    return parts["base"], call, parts["path"]


def matching_inputs(
    patterns: Iterable[Pattern], names: list[str], alias: str | None = None
) -> list[str]:
    """Returns the model inputs that match the patterns.

    Names are `inputs` for a single tensor and `inputs[key]` for a structure; a pattern
    may also be the bare key.

    Args:
        patterns: The patterns; None matches all inputs.
        names: The names of the inputs.
        alias: Another name of a single input.

    Raises:
        AddressError: If a pattern matches no input.
    """
    matches: set[str] = set()
    keys = {re.sub(r"^inputs\[(.*)\]$", r"\1", name): name for name in names}
    if alias is not None and len(names) == 1:
        keys[alias] = names[0]
    for pattern in patterns:
        if isinstance(pattern, keras.layers.InputLayer):
            pattern = pattern.name
        hits = names if pattern is None else []
        if isinstance(pattern, int):
            hits = [by_index(pattern, names, "input")]
        elif isinstance(pattern, str | re.Pattern):
            hits = with_aliases(pattern, names, keys)
        if not hits:
            raise AddressError(
                f"{arg('wrt')} must name an input of the model, by key, position or a "
                f"pattern. Received: inputs({described(pattern)}). The inputs of this "
                f"call are {quoted(names)}. `gradwatch.inputs()` selects them all."
            )
        matches |= set(hits)
    return [name for name in names if name in matches]
