"""Why a gradient is missing, in a sentence that names the cause and the place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import keras

from ..backends import Cut, Verdict
from ..select import Selection, Tap, Tree
from ._leaf import Leaf
from ._session import Facts


@dataclass(frozen=True, slots=True)
class Reason:
    """Why there is no gradient. Prints as a sentence.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, name="a")])
    >>> model.get_layer("a").trainable = False
    >>> g = gw.gradients(model, np.ones((2, 3)), target=gw.output())
    >>> g.missing["a/bias"].cause
    'frozen'

    `cause` is one of `"frozen"`, `"integer"`, `"not_called"`, `"inside_loop"`,
    `"stop_gradient"`, `"not_differentiable"`, `"other_output"`, `"not_on_path"`,
    `"lost"`, or `"none"` when there is a gradient after all. `place` is the address
    where the path is cut; `"target"` in the target, empty in the model's own `call`.
    """

    cause: str
    sentence: str
    place: str = ""

    def __str__(self) -> str:
        return self.sentence


def frozen(name: str) -> Reason:
    """For a weight that is not trainable and was not asked for by name."""
    return Reason(
        "frozen",
        "It is frozen (trainable=False), so training does not use its gradient. "
        f"`wrt=gradwatch.weights({name!r})` gives it all the same.",
        name,
    )


def of_dtype(leaf: Leaf, dtype: str) -> Reason:
    """For a tensor that is no floating-point number."""
    hint = "Ask for the output of the layer that turns it into floating point."
    if leaf.kind == "input":
        hint = (
            "Ask for the output of the layer that reads it, for instance the "
            "embedding: `gradwatch.activations(…)`."
        )
    return Reason(
        "integer",
        f"Its dtype is {dtype}, and a gradient exists only for dense floating-point "
        f"tensors. {hint}",
        leaf.address,
    )


def not_called(address: str) -> Reason:
    """For a layer that did not run."""
    return Reason(
        "not_called",
        f"The layer {address!r} was not called in this pass, or only inside a function "
        "that was compiled before. Check that the model's `call` uses it.",
        address,
    )


def hidden(address: str, tree: Tree) -> Reason:
    """For a tensor that cannot leave a loop."""
    parent = tree.layers[address].parent
    outer = f"`gradwatch.activations({parent!r})`" if parent else "the enclosing layer"
    way_out = "try `compiled=False`"
    if _loop_around(address, tree) is not None:
        way_out = "build the RNN with `unroll=True, use_cudnn=False`"
    return Reason(
        "inside_loop",
        f"The layer {address!r} runs inside a compiled loop, branch, map or fused "
        f"kernel, whose tensors cannot be let out. Ask for {outer}, or {way_out}.",
        address,
    )


def _loop_around(address: str, tree: Tree) -> str | None:
    """Returns the RNN in whose loop a layer runs as the cell, or below the cell."""
    while address:
        parent = tree.layers[address].parent
        if parent and isinstance(tree.layers[parent].layer, keras.layers.RNN):
            return parent
        address = parent
    return None


def from_verdict(
    leaf: Leaf, verdict: Verdict | None, facts: Facts, num_outputs: int
) -> Reason:
    """For a leaf that the target does not reach."""
    layer = leaf.address
    if leaf.kind == "weight":
        layer = leaf.address.rpartition("/")[0]
    if verdict is None:
        return Reason(
            "lost",
            "No gradient reaches it, and the operations could not be traced to say "
            "where it is cut.",
            layer,
        )
    if verdict.cuts:
        return _cut(verdict.cuts)
    if verdict.other_outputs:
        return _unread(verdict.other_outputs, num_outputs, layer)
    if not verdict.connected and leaf.kind == "weight" and not _called(layer, facts):
        return not_called(layer)
    if not verdict.connected:
        text = (
            "The target does not depend on it: it is computed, or read, but nothing "
            "on the way to the target uses it."
        )
        return Reason("not_on_path", text, layer)
    text = (
        "The target depends on it, but the backend gives no gradient: an operation on "
        f"the way, after {layer!r}, defines none."
    )
    return Reason("lost", text, layer)


def _unread(outputs: tuple[str, ...], num_outputs: int, layer: str) -> Reason:
    if num_outputs == 1:
        text = (
            "The target does not depend on the model's output at all. Compute it from "
            "the outputs that the target function is given."
        )
        return Reason("not_on_path", text, TARGET)
    names = ", ".join(repr(name) for name in outputs)
    text = (
        f"Only the output {names} depends on it, and the target does not look at that. "
        f"Use `target=gradwatch.output({outputs[0]!r})` or a loss that includes it."
    )
    return Reason("other_output", text, layer)


def not_recorded(leaf: Leaf, facts: Facts) -> Reason:
    """For a leaf that a tape has no path to; a tape does not know operations."""
    if not facts.order:
        return Reason(
            "not_called",
            "Nothing of the model ran inside this tape: the forward pass must be "
            "inside the `with` block.",
        )
    layer = leaf.address
    if leaf.kind == "weight":
        layer = leaf.address.rpartition("/")[0]
        if not _called(layer, facts):
            return not_called(layer)
    return Reason(
        "not_on_path",
        "Nothing this tape recorded leads from the target to it by differentiable "
        "steps. The loss must be computed inside the `with` block, too; "
        "`gradwatch.why_none(model, x, y, name)` names a cut.",
        layer,
    )


def _called(address: str, facts: Facts) -> bool:
    """The cell of an RNN counts as called with it: its loop may be compiled."""
    return (
        not address
        or any(
            seen == address or seen.startswith(address + "/") for seen in facts.order
        )
        or any(address.startswith(loop + "/") for loop in facts.loops)
    )


TARGET = "target"
"""The place of operations that belong to the target, not to the model."""

# One line of Keras may be many operations of a framework: name the one people wrote.
_FAMILIAR = ("argmax", "argmin", "round", "floor", "ceil", "sign", "cast", "top_k")


def _cut(cuts: tuple[Cut, ...]) -> Reason:
    stops = [cut for cut in cuts if cut.kind == "stop_gradient"]
    known = [cut for name in _FAMILIAR for cut in cuts if cut.operation == name]
    first = [*stops, *known, *cuts][0]
    where = _where(first.place)
    elsewhere = [cut for cut in cuts if cut.place != first.place]
    rest = {
        _where(cut.place)
        if cut.operation == first.operation
        else f"`{cut.operation}` {_where(cut.place)}"
        for cut in elsewhere
    }
    also = f" (also {', '.join(sorted(rest))})" if rest else ""
    if first.kind == "stop_gradient":
        text = (
            f"`stop_gradient` {where}{also} cuts every path from the target. Remove it "
            "if this part is meant to learn."
        )
    elif first.kind == "integer":
        text = (
            f"It is turned into whole numbers or truth values {where}{also}, by the "
            f"operation `{first.operation}`, and no gradient passes through those. Use "
            "a soft version, such as a softmax for an argmax."
        )
    else:
        text = (
            f"The operation `{first.operation}` {where}{also} is not differentiable or "
            "is flat almost everywhere, so no gradient passes. Use a smooth version of "
            "it."
        )
    return Reason(first.kind, text, first.place)


def _where(place: str) -> str:
    if place == TARGET:
        return "in the target"
    return f"in layer {place!r}" if place else "in the model's own `call`"


def untapped(
    selection: Selection, tree: Tree, facts: Facts
) -> Iterator[tuple[str, Reason]]:
    """Yields the taps that found no tensor, by name, with the reason."""
    reached = {(leaf.address, leaf.at) for leaf in facts.specs}
    for tap in selection.taps:
        address = tap.address
        in_loop = _loop_around(address, tree) in facts.loops
        if address in facts.hidden or (in_loop and not facts.calls[address]):
            reason = hidden(address, tree)
        elif (address, tap.at) in reached:
            continue
        elif not facts.calls[address]:
            reason = not_called(address)
        else:
            text = f"The layer {address!r} was called, but no tensor is its {tap.at}."
            reason = Reason("integer", text, address)
        yield _tap_name(tap), reason


def uncounted(
    selection: Selection, tree: Tree, facts: Facts
) -> Iterator[tuple[str, str, Reason]]:
    """Yields the weights asked for call by call whose calls were not seen."""
    seen = {leaf.address for leaf in facts.specs if leaf.kind == "weight" and leaf.call}
    for address in selection.per_call:
        layer = selection.weights[address].layer
        if address in seen or not layer:
            continue
        in_loop = layer in facts.hidden or _loop_around(layer, tree) in facts.loops
        reason = hidden(layer, tree) if in_loop else not_called(layer)
        yield Leaf("weight", address, call=1).name({}), address, reason


def _tap_name(tap: Tap) -> str:
    call = f"@{tap.call}" if tap.call else ""
    side = ":input" if tap.at == "input" else ""
    return f"{tap.address}{call}{side}{tap.path}"
