"""Patterns: names, globs and objects in, the addresses they match out."""

from __future__ import annotations

import functools
import numbers
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import keras

from .._errors import (
    AddressError,
    GradwatchError,
    arg,
    closest,
    counted,
    listing,
    quoted,
)
from .._keras import producer_of
from ._tree import Tree

Pattern: TypeAlias = Any
"""An address, its unique last part, a glob, a compiled regular expression, an index,
a layer class, a layer object, a variable, or a list of these."""


Name: TypeAlias = str | re.Pattern[str]
"""An address, its last part, a glob or a regular expression."""


@dataclass(frozen=True, eq=False, slots=True)
class TheVariable:
    """A variable as a pattern, compared by identity; Keras compares by value."""

    variable: keras.Variable

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TheVariable) and other.variable is self.variable

    def __hash__(self) -> int:
        return id(self.variable)

    def __repr__(self) -> str:
        shape = tuple(self.variable.shape)
        return f"the variable {self.variable.path!r} of shape {shape}"


def as_pattern(pattern: Any, argument: str) -> Pattern:
    """Returns a pattern that can be compared and hashed: lists become a flat tuple.

    Raises:
        GradwatchError: If it is not a pattern.
    """
    if isinstance(pattern, list | tuple):
        if not pattern:
            raise GradwatchError(
                f"{arg(argument)} must hold at least one pattern. Received: an empty "
                "list. Leave it out to select all."
            )
        parts = [as_pattern(item, argument) for item in pattern]
        return tuple(part for item in parts for part in each(item))
    if isinstance(pattern, keras.Variable):
        return TheVariable(pattern)
    if isinstance(pattern, keras.KerasTensor) and producer_of(pattern) is not None:
        return producer_of(pattern)
    if isinstance(pattern, TheVariable | str | re.Pattern | type | keras.Operation):
        return pattern
    if isinstance(pattern, numbers.Integral) and not isinstance(pattern, bool):
        return int(pattern)
    kinds = "a layer class, a layer object, a variable, "
    way_out = f" {listing()} lists the addresses."
    if argument == "inputs":
        kinds = way_out = ""
    raise GradwatchError(
        f"{arg(argument)} must be a name, a glob, a compiled regular expression, an "
        f"index, {kinds}or a list of these. Received: {described(pattern)}.{way_out}"
    )


def each(pattern: Pattern) -> tuple[Pattern, ...]:
    """Returns the patterns of a list of them, or the only one."""
    return pattern if isinstance(pattern, tuple) else (pattern,)


def described(value: object) -> str:
    """Describes a value briefly, without memory addresses or contents."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"a {type(value).__name__} of shape {tuple(shape)}"
    if callable(value) and hasattr(value, "__name__"):
        return f"the function `{value.__name__}` itself"
    text = repr(value)
    short = len(text) < 80 and " at 0x" not in text
    return text if short else f"a {type(value).__name__}"


def is_glob(pattern: Name) -> bool:
    """Returns whether a pattern has wildcards; `lstm[1]` is an address, not a glob."""
    return isinstance(pattern, re.Pattern) or "*" in pattern or "?" in pattern


@functools.lru_cache(maxsize=256)
def glob_regex(pattern: str) -> re.Pattern[str]:
    """Returns the regular expression of a glob.

    `*` and `?` stay within one part of an address, `**` crosses `/`. As in a
    `.gitignore` file, a glob may start at any part: `conv*` matches `block/conv_1`.
    """
    wild = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*|\*|\?)", pattern)
    regex = "".join(wild.get(part) or re.escape(part) for part in parts)
    return re.compile("(?:.*/)?" + regex)


def matching(pattern: Name, names: Sequence[str]) -> list[str]:
    """Returns the names that match a glob, a regular expression or a last part."""
    if isinstance(pattern, re.Pattern):
        return [name for name in names if pattern.search(name)]
    if pattern in names:
        return [pattern]
    if is_glob(pattern):
        regex = glob_regex(pattern)
        return [name for name in names if regex.fullmatch(name)]
    return [name for name in names if name.endswith("/" + pattern)]


def by_index(index: int, names: Sequence[str], what: str) -> str:
    """Returns the name at an index; negative indices count from the end."""
    count = len(names)
    if not -count <= index < count:
        raise AddressError(
            f"{arg('wrt')} must be an index from {-count} to {count - 1}, for the "
            f"{counted(count, what)} of the model. Received: {index}. The {what}s are "
            f"{quoted(names, 4)}."
        )
    return names[index]


def layer_addresses(pattern: Pattern, tree: Tree) -> list[str]:
    """Returns the layer addresses that match a pattern, in the model's order.

    Raises:
        AddressError: If nothing matches, or a short name matches several layers.
    """
    names = list(tree.layers)
    if isinstance(pattern, int):
        return [by_index(pattern, names, "layer")]
    if isinstance(pattern, TheVariable):
        raise AddressError(
            f"{arg('wrt')} must name layers here. Received: {pattern!r}, a variable. "
            "Write `gradwatch.weights(variable)`."
        )
    if isinstance(pattern, keras.Operation):
        return [_of_object(pattern, tree)]
    if isinstance(pattern, type):
        if matches := [n for n in names if isinstance(tree.layers[n].layer, pattern)]:
            return matches
        if issubclass(pattern, keras.layers.InputLayer):
            raise AddressError(is_an_input(pattern.__name__, tree))
        kinds = sorted({type(node.layer).__name__ for node in tree.layers.values()})
        raise AddressError(
            f"{arg('wrt')} must name at least one layer of the model. Received: the "
            f"class {pattern.__name__}, of which {tree.model.name!r} has no layer. It "
            f"has: {quoted(kinds)}. {listing()} lists them all."
        )
    matches = with_aliases(pattern, names, tree.aliases)
    if len(matches) > 1 and not is_glob(pattern):
        raise AddressError(ambiguous(str(pattern), matches))
    if not matches:
        raise AddressError(unknown(pattern, names, "layer", (), tree))
    return matches


def with_aliases(
    pattern: Name, names: Sequence[str], aliases: Mapping[str, str]
) -> list[str]:
    """Returns the names that match a pattern, also by an alias, in order."""
    if isinstance(pattern, str) and pattern in names:
        return [pattern]
    hits = matching(pattern, [*names, *aliases])
    meant = {aliases.get(hit, hit) for hit in hits}
    return [name for name in names if name in meant]


def _of_object(layer: keras.Operation, tree: Tree) -> str:
    if layer is tree.model:
        raise AddressError(
            f"{arg('wrt')} must name layers inside the model. Received: the model "
            f"{tree.model.name!r} itself. Its output is its last layer's output."
        )
    if layer.name in tree.input_layers and isinstance(layer, keras.layers.InputLayer):
        raise AddressError(is_an_input(layer.name, tree))
    for address, node in tree.layers.items():
        if node.layer is layer:
            return address
    twin = matching(layer.name, list(tree.layers))
    hint = f" This model has a layer of that name: {twin[0]!r}." if twin else ""
    raise AddressError(
        f"{arg('wrt')} must be a layer of the model {tree.model.name!r}. Received: "
        f"{layer.name!r} ({type(layer).__name__}), which belongs to another model."
        f"{hint} {listing()} lists them all."
    )


def is_an_input(name: str, tree: Tree) -> str:
    """Returns the message for an input where a layer or weight is expected."""
    return (
        f"{arg('wrt')} must name layers that compute something. Received: "
        f"{name!r}, which is an input of {tree.model.name!r}. "
        "`gradwatch.inputs()` selects the inputs."
    )


def ambiguous(pattern: str, matches: Sequence[str]) -> str:
    """Returns the message for a short name that matches several addresses."""
    return (
        f"{arg('wrt')} must name one address, or be a glob to mean several. Received: "
        f"{pattern!r}, which is the last part of {len(matches)}: {quoted(matches)}. "
        f"Write one of these, or '**/{pattern}' for all of them."
    )


def unknown(
    pattern: Name, names: Sequence[str], what: str, also: Sequence[str], tree: Tree
) -> str:
    """Returns the message for a name without a match; `also` has further candidates."""
    if isinstance(pattern, str) and matching(pattern, sorted(tree.input_layers)):
        return is_an_input(pattern, tree)
    hint = ""
    if what == "layer" and (weights := matching(pattern, list(tree.weights))):
        way_out = f"`gradwatch.weights({pattern!r})`"
        hint = f" It is the weight {weights[0]!r}: use {way_out}."
    text = pattern if isinstance(pattern, str) else pattern.pattern
    near = closest(text.strip("*?.^$/"), [*names, *also])
    shown = f"Closest: {quoted(near)}." if near else f"It has {quoted(names, 4)}."
    return (
        f"{arg('wrt')} must name at least one {what} of the model. Received: "
        f"{pattern!r}, which matches none of the {counted(len(names), what)} of "
        f"{tree.model.name!r}. {shown} {listing()} lists them all.{hint}"
    )
