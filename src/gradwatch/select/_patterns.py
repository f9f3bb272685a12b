"""Patterns: from what a person writes to the addresses that are meant."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import keras

from .._errors import AddressError, closest, counted, quoted
from ._tree import Tree

Pattern: TypeAlias = Any
"""An address, its unique last part, a glob, a compiled regular expression, an index,
a layer class, a layer object, or a list of these."""


def is_glob(pattern: str) -> bool:
    """Only `*` and `?` are wild: `lstm[1]` is an address, not a character class."""
    return "*" in pattern or "?" in pattern


@functools.lru_cache(maxsize=256)
def glob_regex(pattern: str) -> re.Pattern[str]:
    """Returns the regular expression of a glob.

    `*` and `?` stay within one part of an address, `**` crosses `/`. As in a
    `.gitignore`, a glob may begin at any part: `conv*` finds `block/conv_1`.
    """
    out = []
    position = 0
    while position < len(pattern):
        if pattern.startswith("**", position):
            out.append(".*")
            position += 2
            continue
        char = pattern[position]
        out.append({"*": "[^/]*", "?": "[^/]"}.get(char) or re.escape(char))
        position += 1
    return re.compile("(?:.*/)?" + "".join(out))


def matching(pattern: str | re.Pattern[str], names: Sequence[str]) -> list[str]:
    """Returns the names a glob, a regular expression or a last part stands for."""
    if isinstance(pattern, re.Pattern):
        return [name for name in names if pattern.search(name)]
    if pattern in names:
        return [pattern]
    if is_glob(pattern):
        regex = glob_regex(pattern)
        return [name for name in names if regex.fullmatch(name)]
    return [name for name in names if name.endswith("/" + pattern)]


def by_index(index: int, names: Sequence[str], argument: str, what: str) -> str:
    """Returns the name at a position, which may count from the end."""
    if not -len(names) <= index < len(names):
        raise AddressError(
            f"`{argument}` must be an index below {len(names)}, the number of {what}s. "
            f"Received: {index}. `gradwatch.layers(model)` lists them all."
        )
    return names[index]


def layer_addresses(pattern: Pattern, tree: Tree, argument: str) -> list[str]:
    """Returns the layer addresses a pattern stands for, in the model's order.

    Raises:
        AddressError: When nothing matches, or a short name fits several layers.
    """
    names = list(tree.layers)
    if isinstance(pattern, bool) or not isinstance(
        pattern, str | re.Pattern | int | type | keras.Operation | list | tuple
    ):
        raise AddressError(_wrong_type(pattern, argument))
    if isinstance(pattern, list | tuple):
        found = {a for item in pattern for a in layer_addresses(item, tree, argument)}
        return [name for name in names if name in found]
    if isinstance(pattern, int):
        return [by_index(pattern, names, argument, "layer")]
    if isinstance(pattern, type):
        found_list = [n for n in names if isinstance(tree.layers[n].layer, pattern)]
        if not found_list:
            raise AddressError(_no_such_class(pattern, tree, argument))
        return found_list
    if isinstance(pattern, keras.Operation):
        return [_of_object(pattern, tree, argument)]
    return _by_name(pattern, names, tree, argument)


def _by_name(
    pattern: str | re.Pattern[str], names: list[str], tree: Tree, argument: str
) -> list[str]:
    if isinstance(pattern, str) and pattern in tree.aliases:
        return [tree.aliases[pattern]]
    found = matching(pattern, names)
    exact = isinstance(pattern, str) and not is_glob(pattern)
    if exact and len(found) > 1:
        raise AddressError(ambiguous(str(pattern), found, argument))
    if not found:
        raise AddressError(_no_such_layer(pattern, names, tree, argument))
    return found


def _of_object(layer: keras.Operation, tree: Tree, argument: str) -> str:
    if layer is tree.model:
        raise AddressError(
            f"`{argument}` must name layers inside the model. Received: the model "
            f"{tree.model.name!r} itself. Its output is its last layer's output."
        )
    address = tree.address_of(layer)
    if address is None:
        twin = matching(layer.name, list(tree.layers))
        hint = f" This model has a layer of that name: {twin[0]!r}." if twin else ""
        raise AddressError(
            f"`{argument}` must be a layer of the model {tree.model.name!r}. Received: "
            f"{layer.name!r} ({type(layer).__name__}), which belongs to another model."
            f"{hint} `gradwatch.layers(model)` lists them all."
        )
    return address


def ambiguous(pattern: str, found: Sequence[str], argument: str) -> str:
    """Returns the sentence for a short name that fits several addresses."""
    return (
        f"`{argument}` must name one address, or be a glob to mean several. Received: "
        f"{pattern!r}, which is the last part of {len(found)}: {quoted(found)}. Write "
        f"one of these, or '**/{pattern}' for all of them."
    )


def _no_such_layer(
    pattern: str | re.Pattern[str], names: list[str], tree: Tree, argument: str
) -> str:
    text = pattern if isinstance(pattern, str) else pattern.pattern
    if isinstance(pattern, str) and matching(pattern, sorted(tree.input_layers)):
        return (
            f"`{argument}` must name layers that compute something. Received: "
            f"{pattern!r}, which is an input of {tree.model.name!r}. "
            "`gradwatch.inputs()` selects the inputs."
        )
    weights = matching(pattern, list(tree.weights))
    hint = ""
    if weights:
        hint = f" It is the weight {weights[0]!r}: use `gradwatch.weights({text!r})`."
    return unknown(text, names, "layer", tree, argument) + hint


def unknown(
    text: str, names: Sequence[str], what: str, tree: Tree, argument: str
) -> str:
    """Returns the sentence for a name that matches nothing."""
    near = closest(text, names)
    shown = f" Closest: {quoted(near)}." if near else ""
    return (
        f"`{argument}` must name at least one {what} of the model. Received: {text!r}, "
        f"which matches none of the {counted(len(names), what)} of "
        f"{tree.model.name!r}.{shown} `gradwatch.layers(model)` lists them all."
    )


def _no_such_class(pattern: type, tree: Tree, argument: str) -> str:
    kinds = sorted({type(node.layer).__name__ for node in tree.layers.values()})
    return (
        f"`{argument}` must name at least one layer of the model. Received: the class "
        f"{pattern.__name__}, of which {tree.model.name!r} has no layer. It has: "
        f"{quoted(kinds)}. `gradwatch.layers(model)` lists them all."
    )


def _wrong_type(pattern: object, argument: str) -> str:
    return (
        f"`{argument}` must be an address, a glob, a compiled regular expression, an "
        "index, a layer class, a layer object, or a list of these. Received: "
        f"{pattern!r} of type {type(pattern).__name__}. `gradwatch.layers(model)` "
        "lists the addresses."
    )
