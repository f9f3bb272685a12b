"""Draws the equations of a forward pass, to see where gradients are cut."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Literal

from .._flow import Cut, Flow, Step, operation
from .._protocol import Leaf

_ZERO_GRADIENT = {"floor", "ceil", "round", "sign"}
_INLINED = (
    "jit",
    "pjit",
    "closed_call",
    "custom_jvp_call",
    "custom_vjp_call",
    "remat2",
)


def flow_of(
    closed: ClosedJaxpr, leaves: list[Leaf], names: list[str], places: list[str]
) -> Flow:
    """Draws an equation list: its last inputs are the leaves, then target, outputs."""
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
        """Returns the number of a variable; a constant is a new one each time."""
        if isinstance(var, Literal):
            return next(self._number)
        if var not in names:
            names[var] = next(self._number)
        return names[var]

    def add(self, jaxpr: Any, names: _Names, outer: str) -> None:
        """Adds the steps of an equation list."""
        for eqn in jaxpr.eqns:
            place = _place(eqn, self.places) or outer
            bodies = list(_bodies(eqn))
            for body in bodies:
                self._add_body(eqn, body, names, place)
            if bodies:
                continue
            inputs = [self.ident(var, names) for var in eqn.invars]
            for var in eqn.outvars:
                step = Step(inputs, self.ident(var, names), _cut(eqn, var, place))
                self.steps.append(step)

    def _add_body(self, eqn: Any, body: _Body, names: _Names, place: str) -> None:
        inner: _Names = {}
        for mine, theirs in zip(body.jaxpr.invars, body.given, strict=True):
            # Each has its own number: a loop also feeds its own results in.
            self._join(theirs, names, mine, inner)
        self.add(body.jaxpr, inner, place)
        for mine, theirs in zip(body.jaxpr.outvars, eqn.outvars, strict=True):
            self._join(mine, inner, theirs, names)
        for result, again in body.rounds:
            self._join(result, inner, again, inner)

    def _join(self, source: Any, names: _Names, sink: Any, others: _Names) -> None:
        step = Step([self.ident(source, names)], self.ident(sink, others))
        self.steps.append(step)


@dataclass(frozen=True, slots=True)
class _Body:
    """An equation list inside an equation, and what goes in."""

    jaxpr: Any
    given: list[Any]
    rounds: list[tuple[Any, Any]] = field(default_factory=list)
    """For a loop: each result, and where the next round reads it."""


def _bodies(eqn: Any) -> Iterator[_Body]:
    name, params, given = eqn.primitive.name, eqn.params, list(eqn.invars)
    if name == "scan":
        jaxpr, skip = params["jaxpr"].jaxpr, params["num_consts"]
        carried = jaxpr.outvars[: params["num_carry"]]
        again = jaxpr.invars[skip : skip + params["num_carry"]]
        yield _Body(jaxpr, given, list(zip(carried, again, strict=True)))
    elif name == "while":
        jaxpr, skip = params["body_jaxpr"].jaxpr, params["body_nconsts"]
        inside = given[params["cond_nconsts"] :]
        rounds = list(zip(jaxpr.outvars, jaxpr.invars[skip:], strict=True))
        yield _Body(jaxpr, inside, rounds)
    elif name == "cond":
        for branch in params["branches"]:
            yield _Body(branch.jaxpr, given[1:])
    elif name in _INLINED:
        for key in ("jaxpr", "call_jaxpr"):
            jaxpr = getattr(params.get(key), "jaxpr", params.get(key))
            if jaxpr is not None and len(jaxpr.invars) == len(given):
                yield _Body(jaxpr, given)
                return


def _place(eqn: Any, places: list[str]) -> str:
    found = re.findall(r"\bgw(\d+)\b", str(eqn.source_info.name_stack))
    return places[int(found[-1])] if found else ""


def _cut(eqn: Any, var: Any, place: str) -> Cut | None:
    name = operation(eqn.primitive.name)
    if name == "stop_gradient":
        return Cut("stop_gradient", name, place)
    if not jnp.issubdtype(var.aval.dtype, jnp.inexact):
        return Cut("integer", name, place)
    if name in _ZERO_GRADIENT:
        return Cut("not_differentiable", name, place)
    return None
