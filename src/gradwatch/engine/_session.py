"""A session: the taps on one forward pass, and what was learned from it.

A layer is tapped by shadowing `call` on the instance while the session is open. Keras
looks `call` up on the instance, from `Operation.__call__` and from wrappers such as
`TimeDistributed`, and so does user code that never uses `__call__`. No class is
changed, other threads run the original, and closing the session restores every layer.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import keras

from .._keras import get_keras_mask, get_stateless_scope, set_keras_mask
from .._shadow import Shadows
from ..backends import Recorder, Tensor, current
from ..select import NOTHING, LayerNode, Leaf, Selection, Tree, path_text

_open: ContextVar[tuple[Session, ...]] = ContextVar("gradwatch_sessions", default=())
"""The sessions open in this context, outermost first."""


@dataclass(slots=True)
class Facts:
    """Facts that a session learns from a forward pass.

    Attributes:
        calls: Number of calls of each layer, in the order of their first calls.
        loops: RNN layers that were called. Their cells ran too, tapped or not.
        hidden: Tapped layers whose tensors live inside a loop, a branch or a map.
        not_float: The dtype of each tapped tensor that cannot have a gradient.
        specs: Shape and dtype of each leaf.
        raised_in: The innermost layer that raised.
        in_target: The shapes that were passed to a target that raised.
        ruled: Number of operations whose backward rule was replaced.
    """

    calls: Counter[str] = field(default_factory=Counter)
    loops: set[str] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)
    not_float: dict[Leaf, str] = field(default_factory=dict)
    specs: dict[Leaf, tuple[tuple[int, ...], str]] = field(default_factory=dict)
    raised_in: str | None = None
    in_target: str = ""
    ruled: int = 0


@dataclass(eq=False)
class Session:
    """Taps one forward pass.

    Args:
        tree: The addresses of the model.
        selection: The weights and activations to mark for differentiation.
        recorder: The backend's side of the pass.
        reads: Activations that the target reads; they end up in `read`.
        given: Tensors that replace the outputs of layers.
        differentiate: False for a forward pass without marks.
    """

    tree: Tree
    selection: Selection
    recorder: Recorder
    reads: Selection = NOTHING
    given: Mapping[Leaf, Tensor] = field(default_factory=dict)
    differentiate: bool = True
    facts: Facts = field(init=False, default_factory=Facts)
    read: dict[Leaf, Tensor] = field(init=False, default_factory=dict)
    _probed: set[str] = field(init=False, default_factory=set)
    _probing: int = field(init=False, default=0)
    _depth: Counter[str] = field(init=False, default_factory=Counter)

    def __post_init__(self) -> None:
        self._taps = _by_position(self.selection)
        self._reads = _by_position(self.reads)

    def forget(self) -> None:
        """Starts over: the next call of a layer counts as its first."""
        self.facts = Facts()
        self.read.clear()

    @contextlib.contextmanager
    def open(self, *, alone: bool = True) -> Iterator[Session]:
        """Taps every layer of the model inside the block.

        Args:
            alone: Whether sessions that are already open are suspended meanwhile.
                Nested tapes pass False, so that each of them sees every call.
        """
        token = _open.set((self,) if alone else (*_open.get(), self))
        try:
            with Shadows() as shadows:
                for node in self.tree.layers.values():
                    for method in ("call", "quantized_call"):
                        if hasattr(node.layer, method):
                            around = functools.partial(self._around, node)
                            shadows.put(node.layer, method, around)
                yield self
        finally:
            _open.reset(token)

    def _around(
        self, node: LayerNode, call: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Calls a layer, with the taps that were requested on it."""
        address = node.address
        # Symbolic calls infer shapes; `quantized_call` may fall back on `call`.
        nested = self._depth[address] > 0
        tensors = keras.tree.flatten((args, kwargs))
        symbolic = any(isinstance(tensor, keras.KerasTensor) for tensor in tensors)
        if self not in _open.get() or nested or symbolic:
            return call(*args, **kwargs)
        number = self._count(node.layer, address)
        probe = int(number == 0)
        self._depth[address] += 1
        self._probing += probe
        try:
            with self.recorder.layer(address):
                args, kwargs = self._tap_inputs(node, number, args, kwargs)
                with self._own_weights(address, number):
                    outputs = call(*args, **kwargs)
                self.facts.raised_in = None  # An error inside was handled.
                return self._tap(address, "output", number, outputs)
        except Exception:
            if self.facts.raised_in is None:
                self.facts.raised_in = address
            raise
        finally:
            self._depth[address] -= 1
            self._probing -= probe

    def _count(self, layer: Any, address: str) -> int:
        """Returns the number of this call; 0 if its result is discarded."""
        if self._probing:
            return 0
        parent = self.tree.layers[address].parent
        owner: Any = self.tree.layers[parent].layer if parent else self.tree.model
        if isinstance(owner, keras.layers.StackedRNNCells) and not self._depth[parent]:
            return 0  # Keras first calls each stacked cell to learn its output shape.
        # Where loops are compiled, an RNN first calls its cell to learn shapes.
        is_cell = isinstance(owner, keras.layers.RNN) and owner.cell is layer
        probes = is_cell and not owner.unroll and current().PROBES_RNN_CELLS
        if probes and address not in self._probed:
            self._probed.add(address)
            return 0
        self.facts.calls[address] += 1
        if isinstance(layer, keras.layers.RNN):
            self.facts.loops.add(address)
        # Every call of an RNN probes its cell again.
        self._probed -= {a for a in self._probed if a.rpartition("/")[0] == address}
        return self.facts.calls[address]

    # taps -----------------------------------------------------------------------------

    def _tap_inputs(
        self, node: LayerNode, number: int, args: Any, kwargs: Any
    ) -> tuple[Any, Any]:
        position = (node.address, "input")
        if not number or (position not in self._taps and position not in self._reads):
            return args, kwargs
        named = _named_arguments(node.layer, args, kwargs)
        with_tensors = [
            name
            for name, value in named.items()
            if "mask" not in name
            and any(self.recorder.is_dense(t) for t in keras.tree.flatten(value))
        ]
        single = len(with_tensors) == 1
        for name in with_tensors:
            prefix = () if single else (name,)
            named[name] = self._tap(*position, number, named[name], prefix)
        # Positional arguments come first in `named`, in their order.
        args = tuple(named.values())[: len(args)]
        return args, {name: named[name] for name in kwargs}

    def _tap(
        self, address: str, at: str, number: int, value: Any, prefix: Any = ()
    ) -> Any:
        taps = self._taps.get((address, at), [])
        reads = self._reads.get((address, at), [])
        if not number or not (taps or reads):
            return value
        flat = keras.tree.flatten_with_path(value)
        marked = []
        for path, tensor in flat:
            leaf = Leaf("activation", address, at, number, path_text((*prefix, *path)))
            if keras.ops.is_tensor(tensor) and _means(taps, leaf):
                tensor = self.mark(leaf, tensor)
            # Mark before reading: a gradient at the tensor that the target reads must
            # pass through the mark.
            if keras.ops.is_tensor(tensor) and _means(reads, leaf):
                self._read(leaf, tensor)
            marked.append(tensor)
        return keras.tree.pack_sequence_as(value, marked) if flat else value

    def _read(self, leaf: Leaf, tensor: Any) -> None:
        dtype = keras.backend.standardize_dtype(tensor.dtype)
        dense = self.recorder.is_dense(tensor) and "float" in dtype
        if dense and self.recorder.can_leave(tensor):
            self.read[leaf] = tensor

    def mark(self, leaf: Leaf, tensor: Any) -> Any:
        """Marks a tensor for differentiation, if it can have a gradient."""
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
        """Uses a separate copy of the layer's weights for each of its calls."""
        weights, per_call = self.selection.weights, self.selection.per_call
        names = [name for name in per_call if weights[name].layer == address]
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
            # A copy: torch would otherwise differentiate the parameter itself.
            own = self.recorder.mark(leaf, keras.ops.copy(value), keep=False)
            scope.state_mapping[id(variable)] = own
        try:
            yield
        finally:
            scope.state_mapping.update(before)


def _by_position(selection: Selection) -> dict[tuple[str, str], list[Leaf]]:
    """Returns the taps of each layer's input and output."""
    taps: dict[tuple[str, str], list[Leaf]] = {}
    for tap in selection.taps:
        taps.setdefault((tap.address, tap.at), []).append(tap)
    return taps


def _means(taps: list[Leaf], leaf: Leaf) -> bool:
    """Returns whether one of the taps selects this call and this tensor."""
    return any(
        tap.call in (0, leaf.call) and tap.path in ("", leaf.path) for tap in taps
    )


def _named_arguments(layer: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Returns the arguments of a call by name, positional arguments first."""
    names = [
        p.name
        for p in inspect.signature(layer.call).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    names += [f"arg{i}" for i in range(len(names), len(args))]
    return {**dict(zip(names, args, strict=False)), **kwargs}
