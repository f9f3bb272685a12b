"""One forward and one backward pass: a pure function, traced once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from .._common import shapes, unscaled
from .._flow import analyse
from .._protocol import Leaf, Outcome, Passed, Program, Runner, Tensor
from .paths import flow_of
from .recorder import Recorder


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
            outputs, extras = list(outcome.outputs.values()), outcome.extras
            return target, outcome.value, outputs, kept, extras, scale

        closed, result = jax.make_jaxpr(forward, return_shape=True)(
            [v.value for v in variables], list(tensors), list(leaves.values())
        )
        outcome = holder["outcome"]
        self.facts = outcome.facts
        self.outputs = shapes(outcome.outputs)
        names = list(outcome.outputs)
        self.verdicts = analyse(flow_of(closed, list(leaves), names, places))
        connected = [leaf for leaf in leaves if self.verdicts[leaf].connected]
        self._names = (names, holder["kept"], list(leaves), connected)
        run = _differentiated(closed, result, leaves, connected)
        self._run = jax.jit(run) if compiled else run

    def __call__(self, tensors: Sequence[Tensor]) -> Passed:
        """Runs forward and backward once, on the variables' values of now."""
        names, kept_names, leaves, connected = self._names
        values = [v.value for v in self.variables]
        value, outputs, kept, extras, found = self._run(values, list(tensors))
        gradients: dict[Leaf, Any] = dict.fromkeys(leaves)
        gradients.update(zip(connected, found, strict=True))
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
        value, outputs, kept, extras, scale = rest
        gradients = [unscaled(g, scale[0] if scale else None) for g in gradients]
        return value, outputs, kept, extras, gradients

    return run


def prepare(
    program: Program,
    variables: Sequence[Any],
    tensors: Sequence[Tensor],
    *,
    compiled: bool,
) -> Runner:
    """Makes a program ready to run on batches like these tensors."""
    return Traced(program, list(variables), tensors, compiled=compiled)
