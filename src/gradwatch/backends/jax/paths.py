"""Draws the equations of a forward pass, to see where gradients are cut."""

from __future__ import annotations

import itertools
import re
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
    name = operation(eqn.primitive.name)
    if name == "stop_gradient":
        return Cut("stop_gradient", name, place)
    if not jnp.issubdtype(var.aval.dtype, jnp.inexact):
        return Cut("integer", name, place)
    if name in _ZERO_GRADIENT:
        return Cut("not_differentiable", name, place)
    return None
