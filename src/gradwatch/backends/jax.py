"""JAX: a pure function of the variables, the batch, and a zero added at each leaf."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Literal, get_opaque_trace_state, jaxpr_as_fun

from ._common import shapes, unscaled
from ._flow import Cut, Flow, Step, analyse
from ._protocol import Leaf, Outcome, Passed, Program, Runner, Sparse, Tensor

HAS_TAPE = False
PROBES_RNN_CELLS = False

_ZERO_GRADIENT = {"floor", "ceil", "round", "sign"}
_INLINED = (
    "jit",
    "pjit",
    "closed_call",
    "custom_jvp_call",
    "custom_vjp_call",
    "remat2",
)


def _level() -> Any:
    """Tells one trace from another: the outer function from a loop's body."""
    return get_opaque_trace_state(convention="nnx")  # type: ignore[no-untyped-call]


class Recorder:
    """Adds a zero at each leaf; without zeros given, only learns which there are."""

    def __init__(self, zeros: dict[Leaf, Tensor] | None, places: list[str]) -> None:
        self.zeros = zeros
        self.places = places
        self.leaves: dict[Leaf, Any] = {}
        self.kept: dict[Leaf, Tensor] = {}
        self._level = _level()

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
        return bool(_level() == self._level)

    def is_dense(self, tensor: object) -> bool:
        """Sparse arrays of JAX are another class."""
        return isinstance(tensor, jax.Array)

    @contextlib.contextmanager
    def place(self, address: str) -> Iterator[None]:
        """The name stack of an equation tells its layer; names must not hold "/"."""
        self.places.append(address)
        with jax.named_scope(f"gw{len(self.places) - 1}"):
            yield


class Traced:
    """A program as an equation list, compiled or interpreted; holds no model."""

    def __init__(
        self,
        program: Any,
        variables: list[Any],
        tensors: Sequence[Tensor],
        *,
        compiled: bool,
    ) -> None:
        self.compiled = compiled
        self.variables = variables
        leaves = _discover(program, variables, tensors)
        places: list[str] = []
        holder: dict[str, Any] = {}

        def forward(values: Any, batch: Any, zeros: list[Tensor]) -> Any:
            recorder = Recorder(dict(zip(leaves, zeros, strict=True)), places)
            outcome: Outcome = program(recorder, values, batch)
            target = outcome.value
            if outcome.scale is not None:
                target = target * outcome.scale.astype(target.dtype)
            holder.update(outcome=outcome, kept=list(recorder.kept))
            scale = [] if outcome.scale is None else [outcome.scale]
            kept = list(recorder.kept.values())
            return target, outcome.value, list(outcome.outputs.values()), kept, scale

        closed, result = jax.make_jaxpr(forward, return_shape=True)(
            [v.value for v in variables], list(tensors), list(leaves.values())
        )
        outcome = holder["outcome"]
        self.facts = outcome.facts
        self.outputs = shapes(outcome.outputs)
        names = list(outcome.outputs)
        self.verdicts = analyse(_flow(closed, list(leaves), names, places))
        connected = [leaf for leaf in leaves if self.verdicts[leaf].connected]
        self._names = (names, holder["kept"], list(leaves), connected)
        run = _differentiated(closed, result, leaves, connected)
        self._run = jax.jit(run) if compiled else run

    def __call__(self, tensors: Sequence[Tensor]) -> Passed:
        """Runs forward and backward once, on the variables' values of now."""
        names, kept_names, leaves, connected = self._names
        values = [v.value for v in self.variables]
        value, outputs, kept, found = self._run(values, list(tensors))
        gradients: dict[Leaf, Any] = dict.fromkeys(leaves)
        gradients.update(zip(connected, found, strict=True))
        return Passed(
            value,
            dict(zip(names, outputs, strict=True)),
            gradients,
            dict(zip(kept_names, kept, strict=True)),
            self.facts,
            self.verdicts,
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
        recorder: list[Recorder] = []

        def look(values: Any, batch: Any, into: list[Recorder] = recorder) -> Tensor:
            into[:] = [Recorder(None, [])]
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
    free = [leaf for leaf in leaves if leaf in set(connected)]

    def run(values: list[Tensor], batch: list[Tensor]) -> Any:
        def target(some: list[Tensor]) -> Any:
            given = dict(zip(free, some, strict=True))
            zeros = [
                given[leaf] if leaf in given else jnp.zeros(spec.shape, spec.dtype)
                for leaf, spec in leaves.items()
            ]
            out = jax.tree.unflatten(structure, function(*values, *batch, *zeros))
            return out[0], out[1:]

        start = [jnp.zeros(leaves[leaf].shape, leaves[leaf].dtype) for leaf in free]
        (_, rest), gradients = jax.value_and_grad(target, has_aux=True)(start)
        value, outputs, kept, scale = rest
        gradients = [unscaled(g, scale[0] if scale else None) for g in gradients]
        return value, outputs, kept, gradients

    return run


# paths --------------------------------------------------------------------------------


def _flow(
    closed: ClosedJaxpr, leaves: list[Leaf], names: list[str], places: list[str]
) -> Flow:
    jaxpr = closed.jaxpr
    drawing = _Drawing(places)
    scope: _Names = {}
    drawing.add(jaxpr, scope, "")
    zeros = jaxpr.invars[len(jaxpr.invars) - len(leaves) :]
    outputs = jaxpr.outvars[2 : 2 + len(names)]
    return Flow(
        drawing.steps,
        {n: drawing.ident(v, scope) for n, v in zip(leaves, zeros, strict=True)},
        drawing.ident(jaxpr.outvars[0], scope),
        {n: drawing.ident(v, scope) for n, v in zip(names, outputs, strict=True)},
    )


_Names = dict[Any, int]


class _Drawing:
    """Equations as steps; a call is drawn as what it calls, under names of its own."""

    def __init__(self, places: list[str]) -> None:
        self.places = places
        self.steps: list[Step] = []
        self._number = itertools.count()

    def ident(self, var: Any, names: _Names) -> int:
        if isinstance(var, Literal):
            return next(self._number)
        if var not in names:
            names[var] = next(self._number)
        return names[var]

    def add(self, jaxpr: Any, names: _Names, outer: str) -> None:
        for eqn in jaxpr.eqns:
            place = _place(eqn, self.places) or outer
            body = _body(eqn)
            if body is not None:
                self._add_call(eqn, body, names, place)
                continue
            inputs = [self.ident(var, names) for var in eqn.invars]
            for var in eqn.outvars:
                step = Step(inputs, self.ident(var, names), _cut(eqn, var, place))
                self.steps.append(step)

    def _add_call(self, eqn: Any, body: Any, names: _Names, place: str) -> None:
        inner: _Names = {
            mine: self.ident(theirs, names)
            for mine, theirs in zip(body.invars, eqn.invars, strict=True)
        }
        self.add(body, inner, place)
        for theirs, mine in zip(eqn.outvars, body.outvars, strict=True):
            source = self.ident(mine, inner)
            self.steps.append(Step([source], self.ident(theirs, names)))


def _body(eqn: Any) -> Any:
    if eqn.primitive.name not in _INLINED:
        return None
    for key in ("jaxpr", "call_jaxpr"):
        body = eqn.params.get(key)
        if body is not None:
            body = getattr(body, "jaxpr", body)
            if len(body.invars) == len(eqn.invars):
                return body
    return None


def _place(eqn: Any, places: list[str]) -> str:
    found = re.findall(r"\bgw(\d+)\b", str(eqn.source_info.name_stack))
    return places[int(found[-1])] if found else ""


def _cut(eqn: Any, var: Any, place: str) -> Cut | None:
    name = eqn.primitive.name
    if name == "stop_gradient":
        return Cut("stop_gradient", name, place)
    if not jnp.issubdtype(var.aval.dtype, jnp.inexact):
        return Cut("integer", name, place)
    if name in _ZERO_GRADIENT:
        return Cut("not_differentiable", name, place)
    return None


# --------------------------------------------------------------------------------------


def prepare(
    program: Program,
    variables: Sequence[Any],
    tensors: Sequence[Tensor],
    *,
    compiled: bool,
) -> Runner:
    """Makes a program ready to run on batches like these tensors."""
    return Traced(program, list(variables), tensors, compiled=compiled)


def raw_state(layers: Sequence[Any]) -> list[Any]:
    """Returns nothing: a pure function has no state."""
    del layers
    return []


def restored(raw: Sequence[Any]) -> contextlib.AbstractContextManager[None]:
    """Nothing to do: a pure function changes nothing."""
    del raw
    return contextlib.nullcontext()


def protected(layers: Sequence[Any]) -> contextlib.AbstractContextManager[None]:
    """Nothing to do: a pure function changes nothing."""
    return restored(layers)


def synchronise(model: Any) -> None:
    """Inside `fit` the variables hold no values until they are fetched."""
    if hasattr(model, "jax_state_sync") and not getattr(
        model, "_jax_state_synced", True
    ):
        model.jax_state_sync()


def dense(gradient: Sparse) -> Tensor:
    """Returns all rows of a sparse gradient."""
    zeros = jnp.zeros(gradient.shape, gradient.values.dtype)
    return zeros.at[gradient.indices].add(gradient.values)


def is_eager(tensor: Tensor) -> bool:
    """Whether the tensor has a value now."""
    return not isinstance(tensor, jax.core.Tracer)
