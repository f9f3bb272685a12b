"""Selectors of weights, activations and inputs, for `wrt=`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .._errors import GradwatchError, arg, listing, renamed
from ._patterns import Pattern, as_pattern

POSITIONS = ("output", "input")


@dataclass(frozen=True, slots=True)
class Weights:
    """Selects weights. Made by `gradwatch.weights`."""

    pattern: Pattern = None
    per_call: bool = False


@dataclass(frozen=True, slots=True)
class Activations:
    """Selects activations. Made by `gradwatch.activations`."""

    pattern: Pattern = "**"
    at: str = "output"


@dataclass(frozen=True, slots=True)
class Inputs:
    """Selects inputs of the model. Made by `gradwatch.inputs`."""

    pattern: Pattern = None


Selector: TypeAlias = Weights | Activations | Inputs
Wrt: TypeAlias = Selector | Sequence[Selector] | None


def weights(pattern: Pattern = None, *, per_call: bool = False) -> Weights:
    """Selects weights by name: `weights("conv1/kernel")`, `weights("dense*")`.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="a")])
    >>> model.compile(loss="mse")
    >>> g = gw.gradients(model, np.ones((4, 3)), np.ones((4, 2)), wrt=gw.weights("a"))
    >>> list(g)
    ['a/kernel', 'a/bias']

    Args:
        pattern: An address, a unique last part of one, a glob (`*` stays within one
            part of an address, `**` crosses `/`), a compiled regular expression, an
            index, a layer class, a layer object, a variable, or a list of these. A
            layer stands for all weights below it. None: every trainable weight.
            Frozen weights and moving averages are included only on request: frozen
            weights by any pattern, moving averages by their full address.
        per_call: Also gives the share of each call of a layer that is called several
            times, as `conv@1/kernel`, `conv@2/kernel`; `conv/kernel` is their sum.

    Returns:
        A selector for `wrt=`.
    """
    chosen = None if pattern is None else as_pattern(pattern, "weights")
    return Weights(chosen, bool(per_call))


def activations(pattern: Pattern = None, *, at: str = "output") -> Activations:
    """Selects activations of layers by name: `activations("block_*")`.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="a")])
    >>> g = gw.gradients(
    ...     model, np.ones((4, 3)), target=gw.class_score(1), wrt=gw.activations("a")
    ... )
    >>> g.to_numpy()["a"][0]
    array([0., 1.], dtype=float32)

    Args:
        pattern: An address, a unique last part of one, a glob, a compiled regular
            expression, an index, a layer class, a layer object, or a list of these;
            `conv@2` is the second call of a shared layer, `lstm[1]` one tensor of a
            structure. None: every layer.
        at: `"output"` or `"input"` of the layer.

    Returns:
        A selector for `wrt=`.

    Raises:
        GradwatchError: If `at` is neither.
    """
    if at not in POSITIONS:
        raise GradwatchError(
            f"`at` must be one of {POSITIONS}. Received: {at!r}. 'output' is what "
            "comes out of the layer, 'input' what goes in."
        )
    chosen = "**" if pattern is None else as_pattern(pattern, "activations")
    return Activations(chosen, at)


def at_layer(layer: Any, role: str, near: str = "") -> Activations:
    """Returns the selector for a `layer=` argument.

    Args:
        layer: Anything that `activations` takes, or a selector that it made.
        role: What the layer is there for, to end "must name the layer …".
        near: A suggestion, for the message.

    Raises:
        GradwatchError: If no layer is named.
    """
    if layer is None:
        raise GradwatchError(
            f"{arg('layer')} must name the layer {role}. Received: None.{near} "
            f"{listing()} lists them all."
        )
    if isinstance(layer, Activations):
        return layer
    with renamed(activations="layer"):
        return activations(layer)


def inputs(pattern: Pattern = None) -> Inputs:
    """Selects inputs of the model: all of them, or by name or position.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> g = gw.gradients(
    ...     model, np.ones((4, 3)), target=gw.class_score(1), wrt=gw.inputs()
    ... )
    >>> list(g)
    ['inputs']

    Args:
        pattern: A name or key of an input, a position, a glob, a compiled regular
            expression, or a list of these. None: all inputs.

    Returns:
        A selector for `wrt=`.
    """
    return Inputs(None if pattern is None else as_pattern(pattern, "inputs"))
