"""`Tape`: gradients by name in custom training loops."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import keras

from .._errors import AddressError, GradwatchError, TargetError
from .._keras import is_built
from ..backends import current
from ..engine import (
    Entry,
    Facts,
    Leaf,
    Reason,
    Session,
    absent,
    entries,
    not_recorded,
    note_layer,
)
from ..select import (
    NOTHING,
    Activations,
    Inputs,
    Selection,
    Selector,
    Tree,
    Weights,
    Wrt,
    require_model,
    resolve,
    selectors,
    walk,
)
from ._result import Gradients


class Tape:
    """Records a forward pass of a custom training loop, and gives gradients by name.

    Works on TensorFlow and torch. The tape is persistent: it can be queried several
    times, for several targets. `tape.gradient(loss, variables)` and `tape.watch(x)`
    work like those of `tf.GradientTape`. The block runs as it would without the tape:
    unlike `gradients`, it updates moving averages and seeds.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="a")])
    >>> x = keras.ops.ones((4, 3))
    >>> if keras.backend.backend() != "jax":
    ...     with gw.Tape(model, wrt=[gw.weights(), gw.activations("a")]) as tape:
    ...         loss = keras.ops.mean(model(x) ** 2)
    ...     names = list(tape.gradients(loss))
    ... else:  # JAX differentiates functions: use `gw.gradients`
    ...     names = ["a/kernel", "a/bias", "a"]
    >>> names
    ['a/kernel', 'a/bias', 'a']

    Args:
        model: The model whose weights and activations are named. None if only plain
            variables are requested.
        wrt: As in `gradients`. Default: every trainable weight.

    Raises:
        GradwatchError: On JAX, which has no tape.
    """

    def __init__(self, model: keras.Layer | None = None, *, wrt: Wrt = None) -> None:
        new = current().tape
        if new is None:
            raise GradwatchError(
                "`Tape` needs a backend that records operations as they run. "
                "Received: JAX, which differentiates functions. Use "
                "`gradwatch.gradients(model, x, y, wrt=…)`, which gives the same names "
                "and values."
            )
        if model is not None:
            require_model(model)
        elif wrt is not None:
            raise GradwatchError(
                "`wrt` selects from a model. Received: `wrt` without a model. Write "
                "`gradwatch.Tape(model, wrt=…)`."
            )
        self._model = model
        self._selectors = selectors(wrt)
        _check_selectors(self._selectors)
        self._new = new
        self._native: Any = None
        self._session: Session | None = None
        self._open = contextlib.ExitStack()
        self._closed = False

    def __enter__(self) -> Tape:
        if self._native is not None:
            raise GradwatchError(
                "A `Tape` records one `with` block. Received: a second one. Make a new "
                "`gradwatch.Tape(model)` for each step."
            )
        native = self._new()
        with contextlib.ExitStack() as stack:
            stack.enter_context(native)
            if self._model is not None:
                tree = walk(self._model)
                selection = self._selection(tree)
                for node in selection.weights.values():
                    if not node.trainable:
                        native.watch(node.variable.value)
                session = Session(tree, selection, native.recorder)
                stack.enter_context(session.open(alone=False))
                self._session = session
            self._open = stack.pop_all()
        self._native = native
        return self

    def __exit__(self, *exception: Any) -> None:
        self._open.__exit__(*exception)
        self._closed = True
        error = exception[1]
        if self._session is not None and isinstance(error, Exception):
            note_layer(error, self._session.tree, self._session.facts.raised_in)

    def _selection(self, tree: Tree) -> Selection:
        """Resolves the selectors; weights may come when the block builds the model."""
        taps = [s for s in self._selectors if isinstance(s, Activations)]
        with contextlib.suppress(*(() if is_built(tree.model) else (AddressError,))):
            chosen = self._selectors if tree.weights else taps
            return resolve(chosen, tree) if chosen else NOTHING
        return resolve(taps, tree) if taps else NOTHING

    def watch(self, tensor: Any) -> None:
        """Makes a plain tensor differentiable, like `tf.GradientTape.watch`.

        Args:
            tensor: A floating-point tensor or variable, or a structure of them.
        """
        native = self._entered()
        if self._closed:
            raise GradwatchError(
                "`watch` must be called inside the `with` block, before the tensor is "
                "used. Received: a call after the block."
            )
        for item in keras.tree.flatten(tensor):
            native.watch(_source("tensor", item))

    def gradient(self, target: Any, sources: Any, **options: Any) -> Any:
        """Returns gradients in the structure of `sources`, like `tf.GradientTape`.

        Args:
            target: A tensor computed inside the tape.
            sources: Variables or tensors, in any structure.
            **options: On TensorFlow, further arguments of `tf.GradientTape.gradient`.
        """
        native = self._entered()
        flat = native.native_gradient(target, keras.tree.flatten(sources), **options)
        return keras.tree.pack_sequence_as(sources, flat)

    def gradients(
        self, target: Any, variables: Mapping[str, Any] | None = None
    ) -> Gradients:
        """Returns the gradients of a target by name.

        Args:
            target: One number computed inside the tape, such as the loss.
            variables: Plain variables or tensors by name. Default: the selection of
                `wrt`.

        Raises:
            TargetError: If the target is not one number.
        """
        native = self._entered()
        _require_number(target)
        if variables is not None:
            result = _plain(native, target, variables)
        elif self._session is not None:
            result = self._named(native, target, self._session)
        else:
            raise GradwatchError(
                "`tape.gradients` must know what to name. Received: neither a model "
                "nor variables. Write `gradwatch.Tape(model)`, or "
                "`tape.gradients(target, {'w': w})`."
            )
        value = keras.ops.reshape(keras.ops.stop_gradient(target), ())
        return Gradients(result, target="the target", value=value)

    def _named(self, native: Any, target: Any, session: Session) -> list[Entry]:
        tree = walk(session.tree.model)  # The block may have built the model.
        selection, facts = self._selection(tree), session.facts
        sources = {Leaf("weight", n): w.variable for n, w in selection.weights.items()}
        return [
            *_differentiated(native, target, sources, session),
            *absent(selection, tree, facts),
        ]

    def _entered(self) -> Any:
        if self._native is None:
            raise GradwatchError(
                "A `Tape` has gradients once it has recorded something. Received: a "
                "tape that was never entered. Run the forward pass inside "
                "`with gradwatch.Tape(model) as tape:`."
            )
        return self._native


def _check_selectors(chosen: Iterable[Selector]) -> None:
    for selector in chosen:
        if isinstance(selector, Inputs):
            raise GradwatchError(
                "`wrt` of a `Tape` takes weights and activations. Received: "
                "`gradwatch.inputs()`. Watch your own tensor: `tape.watch(x)` inside "
                "the block, then `tape.gradients(loss, {'x': x})`."
            )
        if isinstance(selector, Weights) and selector.per_call:
            raise GradwatchError(
                "`wrt` of a `Tape` takes whole weights. Received: "
                "`weights(per_call=True)`, which needs a pass of its own. Use "
                "`gradwatch.gradients`."
            )


def _require_number(target: Any) -> None:
    shape = getattr(target, "shape", None)
    if shape is None:
        raise TargetError(
            "`target` must be a tensor computed inside the tape. Received: "
            f"{target!r} of type {type(target).__name__}."
        )
    if "float" not in keras.backend.standardize_dtype(target.dtype):
        raise TargetError(
            "`target` must be a floating-point number. Received: dtype "
            f"{keras.backend.standardize_dtype(target.dtype)}, which has no gradient. "
            "Use the score instead of the predicted class."
        )
    if math.prod(tuple(shape)) != 1:
        raise TargetError(
            f"`target` must be one number. Received: shape {tuple(shape)}. Reduce it "
            "inside the tape with `keras.ops.mean` or `keras.ops.sum`."
        )


def _plain(native: Any, target: Any, variables: Any) -> list[Entry]:
    named = isinstance(variables, Mapping) and len(variables) > 0
    if not named or not all(isinstance(name, str) for name in variables):
        raise GradwatchError(
            "`variables` must be a dict of names and variables or tensors. Received: "
            f"an object of type {type(variables).__name__}, empty or otherwise. Write "
            "`tape.gradients(target, {'w': w})`, or `tape.gradient(target, [w])` for a "
            "list."
        )
    sources = {
        Leaf("weight", name): _source("variables", item)
        for name, item in variables.items()
    }
    return _differentiated(native, target, sources, None)


def _unrelated(leaf: Leaf) -> Reason:
    """Returns the reason for a plain tensor; no fact of a pass is known of it."""
    return Reason(
        "not_on_path",
        f"Nothing this tape recorded leads from the target to {leaf.address!r}. A "
        "plain tensor must be watched with `tape.watch(tensor)` before it is used, "
        "and the target computed inside the `with` block.",
    )


def _differentiated(
    native: Any, target: Any, weights: Mapping[Leaf, Any], session: Session | None
) -> list[Entry]:
    """Returns the entries of weights, and of the tensors that a session has tapped."""
    facts = session.facts if session else Facts()
    for leaf, weight in weights.items():
        dtype = keras.backend.standardize_dtype(weight.dtype)
        facts.specs[leaf] = (tuple(weight.shape), dtype)
    recorder = native.recorder
    taps, kept = (recorder.leaves, recorder.kept) if session else ({}, {})
    explain = partial(not_recorded, facts=facts) if session else _unrelated
    sources = {**weights, **taps}
    gradients = native.gradient(target, list(sources.values()))
    return entries(facts, dict(zip(sources, gradients, strict=True)), kept, explain)


def _source(argument: str, item: Any) -> Any:
    """Returns the tensor of a source; raises if it cannot have a gradient."""
    tensor = item.value if isinstance(item, keras.Variable) else item
    if not keras.ops.is_tensor(tensor) and not hasattr(tensor, "assign"):
        received = (
            f"an object of type {type(item).__name__}. Make it a tensor before the "
            "forward pass uses it: `keras.ops.convert_to_tensor(…)`."
        )
    elif "float" not in (dtype := keras.backend.standardize_dtype(tensor.dtype)):
        received = f"dtype {dtype}, which has no gradient."
    else:
        return tensor
    raise GradwatchError(
        f"`{argument}` must hold floating-point tensors or variables. Received: "
        f"{received}"
    )
