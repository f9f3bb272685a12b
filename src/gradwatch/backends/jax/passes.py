"""One forward and one backward pass: a pure function, traced once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, get_opaque_trace_state, jaxpr_as_fun

from .._common import scaled, unscaled
from .._flow import analyse
from .._protocol import Leaf, Outcome, Passed, Recorder, Tensor
from .graph import flow_of


def level() -> Any:
    """Tells one trace from another: the outer function from a loop's body."""
    return get_opaque_trace_state(convention="nnx")  # type: ignore[no-untyped-call]


class JaxRecorder(Recorder):
    """Adds a zero at each leaf; without zeros given, only learns which there are."""

    def __init__(self, zeros: dict[Leaf, Tensor] | None, addresses: list[str]) -> None:
        self.zeros = zeros
        self.addresses = addresses
        self.leaves: dict[Leaf, Any] = {}
        self.kept: dict[Leaf, Tensor] = {}
        self._level = level()

    def mark(self, leaf: Leaf, tensor: Tensor, *, keep: bool) -> Tensor:
        """The gradient at a tensor is the gradient of what is added to it."""
        self.leaves[leaf] = jax.typeof(tensor)
        if self.zeros is not None:
            tensor = tensor + self.zeros[leaf]
        if keep:
            self.kept[leaf] = tensor
        return tensor

    def can_leave(self, tensor: Tensor) -> bool:
        """Inside a scan, a branch, a map or a nested jit the trace is another one."""
        del tensor
        return bool(level() == self._level)

    def is_dense(self, tensor: object) -> bool:
        """Sparse arrays of JAX are another class."""
        return isinstance(tensor, jax.Array)

    @contextlib.contextmanager
    def layer(self, address: str) -> Iterator[None]:
        """The name stack of an equation tells its layer; names must not hold "/"."""
        self.addresses.append(address)
        with jax.named_scope(f"gw{len(self.addresses) - 1}"):
            yield


class JaxRunner:
    """A program as an equation list, compiled or interpreted; holds no model."""

    def __init__(
        self,
        program: Any,
        variables: Sequence[Any],
        tensors: Sequence[Tensor],
        *,
        compiled: bool,
    ) -> None:
        self.compiled = compiled
        self.variables = [*variables]
        leaves = _discover(program, self.variables, tensors)
        addresses: list[str] = []
        holder: dict[str, Any] = {}

        def forward(values: Any, batch: Any, zeros: list[Tensor]) -> Any:
            recorder = JaxRecorder(dict(zip(leaves, zeros, strict=True)), addresses)
            outcome: Outcome = program(recorder, values, batch)
            holder.update(outcome=outcome, kept=list(recorder.kept))
            kept = list(recorder.kept.values())
            outputs, extras = list(outcome.outputs.values()), outcome.extras
            target = scaled(outcome)
            return target, outcome.value, outputs, kept, extras, outcome.scale

        closed, result = jax.make_jaxpr(forward, return_shape=True)(
            [v.value for v in self.variables], list(tensors), list(leaves.values())
        )
        outcome = holder["outcome"]
        self.facts = outcome.facts
        names = list(outcome.outputs)
        self.verdicts = analyse(flow_of(closed, list(leaves), names, addresses))
        connected = [leaf for leaf in leaves if self.verdicts[leaf].connected]
        self._names = (names, holder["kept"], list(leaves), connected)
        run = _differentiated(closed, result, leaves, connected)
        self._run = jax.jit(run) if compiled else run

    def __call__(self, tensors: Sequence[Tensor]) -> Passed:
        """Runs forward and backward once, on the variables' values of now."""
        names, kept_names, leaves, connected = self._names
        values = [v.value for v in self.variables]
        value, outputs, kept, extras, some = self._run(values, list(tensors))
        gradients: dict[Leaf, Any] = dict.fromkeys(leaves)
        gradients.update(zip(connected, some, strict=True))
        return Passed(
            value,
            dict(zip(names, outputs, strict=True)),
            gradients,
            dict(zip(kept_names, kept, strict=True)),
            self.facts,
            self.verdicts,
            extras,
        )


def _discover(
    program: Any, variables: list[Any], tensors: Sequence[Tensor]
) -> dict[Leaf, Any]:
    """Runs the program on shapes alone, to learn its leaves and its variables.

    A variable that Keras does not list (the state of a stateful RNN) would be baked
    into the compiled function as a constant: the program names those it met, and they
    become arguments.
    """
    while True:
        recorder: list[JaxRecorder] = []

        def look(values: Any, batch: Any, into: list[JaxRecorder] = recorder) -> Tensor:
            into[:] = [JaxRecorder(None, [])]
            return program(into[0], values, batch).value

        jax.eval_shape(look, [v.value for v in variables], list(tensors))
        unlisted = [v for v in program.unlisted if not any(v is w for w in variables)]
        if not unlisted:
            return recorder[0].leaves
        variables += unlisted


def _differentiated(
    closed: ClosedJaxpr, result: Any, leaves: Any, connected: list[Leaf]
) -> Any:
    """Returns the function from values and batch to everything a pass gives."""
    function = jaxpr_as_fun(closed)
    structure = jax.tree.structure(result)

    def run(values: list[Tensor], batch: list[Tensor]) -> Any:
        zeros = {n: jnp.zeros(spec.shape, spec.dtype) for n, spec in leaves.items()}

        def target(some: list[Tensor]) -> Any:
            given = zeros | dict(zip(connected, some, strict=True))
            flat = function(*values, *batch, *given.values())
            out = jax.tree.unflatten(structure, flat)
            return out[0], out[1:]

        start = [zeros[leaf] for leaf in connected]
        (_, rest), gradients = jax.value_and_grad(target, has_aux=True)(start)
        value, outputs, kept, extras, scale = rest
        gradients = [unscaled(g, scale) for g in gradients]
        return value, outputs, kept, extras, gradients

    return run
