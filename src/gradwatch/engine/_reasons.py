"""Reasons for missing gradients: sentences that name the cause and the layer."""

from __future__ import annotations

from dataclasses import dataclass

import keras

from ..backends import Cut, Verdict
from ..select import Leaf, Tree
from ._session import Facts


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason why there is no gradient. Prints as a sentence.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, name="a")])
    >>> model.get_layer("a").trainable = False
    >>> g = gw.gradients(model, np.ones((2, 3)), target=gw.output())
    >>> g.missing["a/bias"].cause
    'frozen'

    `cause` is one of `"frozen"`, `"integer"`, `"not_called"`, `"inside_loop"`,
    `"stop_gradient"`, `"not_differentiable"`, `"other_output"`, `"not_on_path"`,
    `"lost"`, or `"none"` if there is a gradient after all. `address` is that
    of the layer that cuts the path: `"target"` for the target, and empty for the
    model's own `call`.
    """

    cause: str
    sentence: str
    address: str = ""

    def __str__(self) -> str:
        return self.sentence


def frozen(name: str) -> Reason:
    """Returns the reason for a frozen weight that was not requested by name."""
    return Reason(
        "frozen",
        "It is frozen (trainable=False), so training does not use its gradient. "
        f"`wrt=gradwatch.weights({name!r})` gives it all the same.",
        name,
    )


def of_dtype(leaf: Leaf, dtype: str) -> Reason:
    """Returns the reason for a tensor that is not a floating-point tensor."""
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
    """Returns the reason for a layer that did not run."""
    return Reason(
        "not_called",
        f"The layer {address!r} was not called in this pass, or only inside a function "
        "that was compiled before. Check that the model's `call` uses it.",
        address,
    )


def hidden(address: str, tree: Tree) -> Reason:
    """Returns the reason for a tensor that cannot leave a loop."""
    parent = tree.layers[address].parent
    outer = f"`gradwatch.activations({parent!r})`" if parent else "the enclosing layer"
    way_out = "try `compiled=False`"
    if loop_around(address, tree) is not None:
        way_out = "build the RNN with `unroll=True, use_cudnn=False`"
    return Reason(
        "inside_loop",
        f"The layer {address!r} runs inside a compiled loop, branch, map or fused "
        f"kernel, whose tensors cannot be let out. Ask for {outer}, or {way_out}.",
        address,
    )


def loop_around(address: str, tree: Tree) -> str | None:
    """Returns the RNN whose loop runs a layer, as its cell or below its cell."""
    while address:
        parent = tree.layers[address].parent
        if parent and isinstance(tree.layers[parent].layer, keras.layers.RNN):
            return parent
        address = parent
    return None


def from_verdict(
    leaf: Leaf, verdict: Verdict | None, facts: Facts, num_outputs: int
) -> Reason:
    """Returns the reason for a leaf that the target does not reach."""
    layer = _layer_of(leaf)
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
    if verdict.connected:
        text = (
            "The target depends on it, but the backend gives no gradient: an operation "
            f"on the way, after {layer!r}, defines none."
        )
        return Reason("lost", text, layer)
    if leaf.kind == "weight" and not _called(layer, facts):
        return not_called(layer)
    text = (
        "The target does not depend on it: it is computed, or read, but nothing on the "
        "way to the target uses it."
    )
    return Reason("not_on_path", text, layer)


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
    """Returns the reason for a leaf that a tape has no path to.

    A tape does not record operations, so the cut cannot be named.
    """
    if not facts.calls:
        return Reason(
            "not_called",
            "Nothing of the model ran inside this tape: the forward pass must be "
            "inside the `with` block.",
        )
    layer = _layer_of(leaf)
    if leaf.kind == "weight" and not _called(layer, facts):
        return not_called(layer)
    return Reason(
        "not_on_path",
        "Nothing this tape recorded leads from the target to it by differentiable "
        "steps. The loss must be computed inside the `with` block, too; "
        "`gradwatch.why_none(model, x, y, name)` names a cut.",
        layer,
    )


def _layer_of(leaf: Leaf) -> str:
    return leaf.address.rpartition("/")[0] if leaf.kind == "weight" else leaf.address


def _called(address: str, facts: Facts) -> bool:
    """Returns whether a layer, or one below it, was called.

    The cell of an RNN counts as called with the RNN: its loop may be compiled.
    """
    inside = any(f"{seen}/".startswith(f"{address}/") for seen in facts.calls)
    in_loop = any(address.startswith(f"{loop}/") for loop in facts.loops)
    return not address or inside or in_loop


TARGET = "target"
"""The address of operations that belong to the target, not to the model."""

# One function of Keras may be many operations of a framework: name the one that was
# written in the model.
_FAMILIAR = ("argmax", "argmin", "round", "floor", "ceil", "sign", "cast", "top_k")


def _cut(cuts: tuple[Cut, ...]) -> Reason:
    stops = [cut for cut in cuts if cut.kind == "stop_gradient"]
    known = [cut for name in _FAMILIAR for cut in cuts if cut.operation == name]
    first = [*stops, *known, *cuts][0]
    where = _where(first.address)
    elsewhere = [cut for cut in cuts if cut.address != first.address]
    names = {cut: f"`{cut.operation}` " for cut in elsewhere}
    names |= {cut: "" for cut in elsewhere if cut.operation == first.operation}
    rest = {f"{name}{_where(cut.address)}" for cut, name in names.items()}
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
    return Reason(first.kind, text, first.address)


def _where(address: str) -> str:
    if address == TARGET:
        return "in the target"
    return f"in layer {address!r}" if address else "in the model's own `call`"
