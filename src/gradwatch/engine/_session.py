"""A session: what is tapped during one forward pass, and what was seen.

Layers are tapped by shadowing `call` on the instance for as long as the session is
open. Keras looks `call` up on the instance from `Operation.__call__`, and so do
`TimeDistributed` and user code that never use `__call__`; no class is touched, other
threads run the original, and when the session closes nothing is left.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import keras

from .._keras import call_signature, get_keras_mask, get_stateless_scope, set_keras_mask
from ..backends import Recorder, Tensor, current
from ..select import NOTHING, Selection, Tap, Tree
from ._leaf import Leaf, path_text

_open: ContextVar[tuple[Session, ...]] = ContextVar("gradwatch_sessions", default=())
"""The sessions open in this context, outermost first."""


@dataclass(slots=True)
class Facts:
    """What a session saw of the forward pass."""

    calls: Counter[str] = field(default_factory=Counter)
    order: dict[str, None] = field(default_factory=dict)
    """Addresses in the order in which the layers were first called."""
    loops: set[str] = field(default_factory=set)
    """RNN layers that were called: their cells run inside, seen or not."""
    hidden: set[str] = field(default_factory=set)
    """Tapped layers whose tensors live inside a loop, a branch or a map."""
    not_float: dict[Leaf, str] = field(default_factory=dict)
    """Tapped tensors without a gradient of their own, and their dtype."""
    specs: dict[Leaf, tuple[tuple[int, ...], str]] = field(default_factory=dict)
    """Shape and dtype of each leaf."""
    raised_in: str | None = None
    """The innermost layer that raised."""
    in_target: str = ""
    """The shapes that a target which raised was given."""
    ruled: int = 0
    """How many operations got another backward rule."""


class Session:
    """Taps one forward pass."""

    def __init__(
        self,
        tree: Tree,
        selection: Selection,
        recorder: Recorder,
        *,
        reads: Selection = NOTHING,
        given: Mapping[Leaf, Tensor] | None = None,
        differentiate: bool = True,
    ) -> None:
        self.tree = tree
        self.given = given or {}
        """Tensors that take the place of what layers give."""
        self.read: dict[Leaf, Tensor] = {}
        """The tensors that the target reads, as they go on into the model."""
        self.differentiate = differentiate
        self.addresses = {id(n.layer): a for a, n in tree.layers.items()}
        self.recorder = recorder
        self.facts = Facts()
        self._taps = _by_position(selection)
        self._reads = _by_position(reads)
        self._per_call: dict[str, list[str]] = {}
        for name in selection.per_call:
            self._per_call.setdefault(selection.weights[name].layer, []).append(name)
        self._probed: set[str] = set()
        self._probing = 0
        self._depth: Counter[str] = Counter()

    def forget(self) -> None:
        """Starts over: the next call of a layer is its first."""
        self.facts = Facts()
        self.read.clear()

    @contextlib.contextmanager
    def open(self, *, alone: bool = True) -> Iterator[Session]:
        """Shadows `call` on every layer of the model; restores it, whatever happens.

        Args:
            alone: Whether sessions that are open already see nothing meanwhile; tapes
                in tapes each see everything.
        """
        shadowed: list[_Shadow] = []
        token = _open.set((self,) if alone else (*_open.get(), self))
        try:
            shadowed.extend(
                _shadow(node.layer, method)
                for node in self.tree.layers.values()
                for method in ("call", "quantized_call")
                if hasattr(node.layer, method)
            )
            yield self
        finally:
            _open.reset(token)
            for shadow in reversed(shadowed):
                shadow.release()

    def run(
        self,
        layer: Any,
        address: str,
        call: Callable[..., Any],
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Calls a layer, with the taps that are wanted on it."""
        if self._depth[address]:  # `quantized_call` falling back on `call`
            return call(*args, **kwargs)
        number = self._count(layer, address)
        probe = int(number == 0)
        self._depth[address] += 1
        self._probing += probe
        try:
            with self.recorder.place(address):
                args, kwargs = self._tap_inputs(layer, address, number, args, kwargs)
                with self._own_weights(address, number):
                    outputs = call(*args, **kwargs)
                self.facts.raised_in = None  # what was raised inside was handled
                return self._tap(address, "output", number, outputs)
        except Exception:
            if self.facts.raised_in is None:
                self.facts.raised_in = address
            raise
        finally:
            self._depth[address] -= 1
            self._probing -= probe

    def _count(self, layer: Any, address: str) -> int:
        """Returns the number of this call; 0 for one whose result is thrown away."""
        if self._probing:
            return 0
        parent = self.tree.layers[address].parent
        owner = self.tree.layers[parent].layer if parent else self.tree.model
        if isinstance(owner, keras.layers.StackedRNNCells) and not self._depth[parent]:
            return 0  # Keras asks each stacked cell for the shape of its output first
        if address not in self._probed and _probes_its_cell(owner, layer):
            self._probed.add(address)
            return 0
        self.facts.calls[address] += 1
        self.facts.order.setdefault(address)
        if isinstance(layer, keras.layers.RNN):
            self.facts.loops.add(address)
        # Each call of an RNN probes its cell anew.
        self._probed -= {a for a in self._probed if a.rpartition("/")[0] == address}
        return self.facts.calls[address]

    # taps -----------------------------------------------------------------------------

    def _tap_inputs(
        self, layer: Any, address: str, number: int, args: Any, kwargs: Any
    ) -> tuple[Any, Any]:
        position = (address, "input")
        if not number or (position not in self._taps and position not in self._reads):
            return args, kwargs
        named = _named_arguments(layer, args, kwargs)
        with_tensors = [
            name
            for name, value in named.items()
            if "mask" not in name
            and any(self.recorder.is_dense(t) for t in keras.tree.flatten(value))
        ]
        single = len(with_tensors) == 1
        tapped = {
            name: self._tap(
                address, "input", number, named[name], () if single else (name,)
            )
            for name in with_tensors
        }
        names = list(named)
        args = tuple(
            tapped.get(names[i], value) if i < len(names) else value
            for i, value in enumerate(args)
        )
        kwargs = {name: tapped.get(name, value) for name, value in kwargs.items()}
        return args, kwargs

    def _tap(
        self, address: str, at: str, number: int, value: Any, prefix: Any = ()
    ) -> Any:
        taps = self._taps.get((address, at), [])
        reads = self._reads.get((address, at), [])
        calls = {tap.call for tap in (*taps, *reads)}
        if not number or not calls & {None, number}:
            return value
        flat = keras.tree.flatten_with_path(value)
        marked = []
        for path, tensor in flat:
            leaf = Leaf("activation", address, at, number, path_text((*prefix, *path)))
            if keras.ops.is_tensor(tensor) and _means(taps, leaf):
                tensor = self._mark(leaf, tensor)
            # Read after it is marked: a gradient at the very tensor that the target
            # reads passes through the mark.
            if keras.ops.is_tensor(tensor) and _means(reads, leaf):
                self._read(leaf, tensor)
            marked.append(tensor)
        return keras.tree.pack_sequence_as(value, marked) if flat else value

    def _read(self, leaf: Leaf, tensor: Any) -> None:
        dtype = keras.backend.standardize_dtype(tensor.dtype)
        dense = self.recorder.is_dense(tensor) and "float" in dtype
        if dense and self.recorder.can_leave(tensor):
            self.read[leaf] = tensor

    def _mark(self, leaf: Leaf, tensor: Any) -> Any:
        dtype = keras.backend.standardize_dtype(tensor.dtype)
        known = tuple(size for size in tensor.shape if size is not None)
        self.facts.specs[leaf] = (known, dtype)
        if not self.recorder.is_dense(tensor) or "float" not in dtype:
            self.facts.not_float[leaf] = dtype
            return tensor
        if not self.recorder.can_leave(tensor):
            self.facts.hidden.add(leaf.address)
            return tensor
        mask = get_keras_mask(tensor)
        marked = self.given.get(leaf, tensor)
        if self.differentiate:
            marked = self.recorder.mark(leaf, marked, keep=True)
        if mask is not None and marked is not tensor:
            set_keras_mask(marked, mask)
        return marked

    # weights, call by call ------------------------------------------------------------

    @contextlib.contextmanager
    def _own_weights(self, address: str, number: int) -> Iterator[None]:
        """Gives each call of a layer its own copy of the layer's weights."""
        names = self._per_call.get(address, ())
        scope = get_stateless_scope() if names else None
        if scope is None or not number:
            yield
            return
        before: dict[int, Tensor] = {}
        for name in names:
            variable = self.tree.weights[name].variable
            value = scope.state_mapping[id(variable)]
            leaf = Leaf("weight", name, call=number)
            if not self.recorder.can_leave(value):
                self.facts.hidden.add(address)
                continue
            self.facts.specs[leaf] = (tuple(variable.shape), variable.dtype)
            before[id(variable)] = value
            # A copy, so that torch does not take the parameter for the leaf.
            own = keras.ops.copy(value)
            scope.state_mapping[id(variable)] = self.recorder.mark(
                leaf, own, keep=False
            )
        try:
            yield
        finally:
            scope.state_mapping.update(before)


def _by_position(selection: Selection) -> dict[tuple[str, str], list[Tap]]:
    """Returns the taps of each layer's input and output."""
    taps: dict[tuple[str, str], list[Tap]] = {}
    for tap in selection.taps:
        taps.setdefault((tap.address, tap.at), []).append(tap)
    return taps


def _means(taps: list[Tap], leaf: Leaf) -> bool:
    """Whether one of the taps is on this call and this tensor of a layer."""
    return any(
        tap.call in (None, leaf.call) and tap.path in ("", leaf.path) for tap in taps
    )


class _Shadow:
    """Stands in for a method of one layer while any session is open on it.

    Sessions of several threads, or one inside another, share it; the last one to close
    takes it away. Each call finds the sessions of its own thread.
    """

    def __init__(self, layer: Any, method: str) -> None:
        self.layer = layer
        self.method = method
        self.had = layer.__dict__.get(method)
        self.original = getattr(layer, method)
        self.users = 0
        # Keras reads the signature to say which arguments an error was raised with.
        functools.update_wrapper(self, self.original, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = self.original
        if not _symbolic((args, kwargs)):
            for session in reversed(_open.get()):
                address = session.addresses.get(id(self.layer))
                if address is not None:
                    call = functools.partial(session.run, self.layer, address, call)
        return call(*args, **kwargs)

    def release(self) -> None:
        with _shadowing:
            self.users -= 1
            if self.users:
                return
            if self.had is None:
                self.layer.__dict__.pop(self.method, None)
            else:
                self.layer.__dict__[self.method] = self.had


_shadowing = threading.Lock()


def _shadow(layer: Any, method: str) -> _Shadow:
    with _shadowing:
        shadow = layer.__dict__.get(method)
        if not isinstance(shadow, _Shadow):
            shadow = _Shadow(layer, method)
            # Not setattr: Keras and torch would look into it, and track it.
            layer.__dict__[method] = shadow
        shadow.users += 1
        return shadow


def _symbolic(structure: Any) -> bool:
    return any(
        isinstance(leaf, keras.KerasTensor) for leaf in keras.tree.flatten(structure)
    )


def _named_arguments(layer: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Returns the arguments of a call by name, positional ones first."""
    signature = call_signature(layer)
    if signature is None:  # a plain operation
        signature = inspect.signature(type(layer).call)
        signature = signature.replace(parameters=[*signature.parameters.values()][1:])
    names = [
        p.name
        for p in signature.parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    names += [f"arg{i}" for i in range(len(names), len(args))]
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _probes_its_cell(owner: Any, layer: Any) -> bool:
    """Whether this is the cell of a loop that calls it once to learn shapes."""
    is_cell = isinstance(owner, keras.layers.RNN) and owner.cell is layer
    return is_cell and not owner.unroll and current().PROBES_RNN_CELLS
