"""The equations of a pass: paths through them, and each one as it is evaluated."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from .._flow import Cut, Flow, Operation
from .._names import canonical, operation
from .._protocol import Leaf, See

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
    closed: ClosedJaxpr, leaves: list[Leaf], names: list[str], addresses: list[str]
) -> Flow:
    """Draws an equation list: its last inputs are the leaves, then target, outputs."""
    jaxpr = closed.jaxpr
    drawing = _Drawing(addresses)
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

    def __init__(self, addresses: list[str]) -> None:
        self.addresses = addresses
        self.steps: list[Operation] = []
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
            address = _address_of(eqn, self.addresses) or outer
            bodies = list(_bodies(eqn))
            for body, given, rounds in bodies:
                inner: _Names = {}
                # Each has its own number: a loop also feeds its own results in.
                self._join(given, names, body.invars, inner)
                self.add(body, inner, address)
                self._join(body.outvars, inner, eqn.outvars, names)
                for result, next_round in rounds:
                    self._join([result], inner, [next_round], inner)
            if bodies:
                continue
            inputs = [self.ident(var, names) for var in eqn.invars]
            for var in eqn.outvars:
                step = Operation(
                    inputs, self.ident(var, names), _cut(eqn, var, address)
                )
                self.steps.append(step)

    def _join(self, sources: Any, names: _Names, sinks: Any, others: _Names) -> None:
        for source, sink in zip(sources, sinks, strict=True):
            step = Operation([self.ident(source, names)], self.ident(sink, others))
            self.steps.append(step)


def _bodies(eqn: Any) -> Iterator[tuple[Any, list[Any], list[Any]]]:
    """Yields the equation lists inside an equation, and what goes in.

    For a loop, the last is each result with where the next round reads it.
    """
    name, params, given = eqn.primitive.name, eqn.params, list(eqn.invars)
    if name == "scan":
        jaxpr, skip = params["jaxpr"].jaxpr, params["num_consts"]
        carried = jaxpr.outvars[: params["num_carry"]]
        next_round = jaxpr.invars[skip : skip + params["num_carry"]]
        yield jaxpr, given, [*zip(carried, next_round, strict=True)]
    elif name == "while":
        jaxpr, skip = params["body_jaxpr"].jaxpr, params["body_nconsts"]
        rounds = [*zip(jaxpr.outvars, jaxpr.invars[skip:], strict=True)]
        yield jaxpr, given[params["cond_nconsts"] :], rounds
    elif name == "cond":
        for branch in params["branches"]:
            yield branch.jaxpr, given[1:], []
    elif name in _INLINED:
        for key in ("jaxpr", "call_jaxpr"):
            jaxpr = getattr(params.get(key), "jaxpr", params.get(key))
            if jaxpr is not None and len(jaxpr.invars) == len(given):
                yield jaxpr, given, []
                return


def _address_of(eqn: Any, addresses: list[str]) -> str:
    numbers = re.findall(r"\bgw(\d+)\b", str(eqn.source_info.name_stack))
    return addresses[int(numbers[-1])] if numbers else ""


def _cut(eqn: Any, var: Any, address: str) -> Cut | None:
    name = operation(eqn.primitive.name)
    if name == "stop_gradient":
        return Cut("stop_gradient", name, address)
    if not jnp.issubdtype(var.aval.dtype, jnp.inexact):
        return Cut("integer", name, address)
    if name in _ZERO_GRADIENT:
        return Cut("not_differentiable", name, address)
    return None


def traced(function: Callable[[], Any], see: See) -> None:
    """Runs a function, and tells of each primitive, also inside loops."""
    closed = jax.make_jaxpr(function)()
    _Evaluation(see).run(closed, [])


class _Evaluation:
    """Evaluates equations as JAX would, but looks at each."""

    def __init__(self, see: See) -> None:
        self._see = see

    def run(self, closed: ClosedJaxpr, arguments: list[Any]) -> list[Any]:
        jaxpr = closed.jaxpr
        values: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
        values |= dict(zip(jaxpr.invars, arguments, strict=True))

        def read(atom: Any) -> Any:
            return atom.val if isinstance(atom, Literal) else values[atom]

        for equation in jaxpr.eqns:
            given = [read(atom) for atom in equation.invars]
            results = self._equation(equation, given)
            values |= dict(zip(equation.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _equation(self, equation: Any, given: list[Any]) -> list[Any]:
        params = equation.params
        match equation.primitive.name:
            case "cond":
                return self.run(params["branches"][int(given[0])], given[1:])
            case "while":
                return self._while(params, given)
            case "scan":
                return self._scan(params, given)
        for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
            part = params.get(name)
            jaxpr = getattr(part, "jaxpr", part)
            if jaxpr is not None and len(jaxpr.invars) == len(given):
                closed = (
                    part if isinstance(part, ClosedJaxpr) else ClosedJaxpr(part, [])
                )
                return self.run(closed, given)
        bound = equation.primitive.get_bind_params(params)
        # Before 0.8 JAX gave the functions of an equation apart.
        functions, options = bound if isinstance(bound, tuple) else ((), bound)
        results = equation.primitive.bind(*functions, *given, **options)
        if not equation.primitive.multiple_results:
            results = [results]
        exponent = [params["y"]] if "y" in params else []
        self._see(
            canonical(equation.primitive.name),
            _floats([*given, *exponent]),
            _floats(results),
        )
        return list(results)

    def _while(self, params: Any, given: list[Any]) -> list[Any]:
        first, second = params["cond_nconsts"], params["body_nconsts"]
        condition, body = given[:first], given[first : first + second]
        carry = given[first + second :]
        while bool(self.run(params["cond_jaxpr"], [*condition, *carry])[0]):
            carry = self.run(params["body_jaxpr"], [*body, *carry])
        return carry

    def _scan(self, params: Any, given: list[Any]) -> list[Any]:
        fixed, many = params["num_consts"], params["num_carry"]
        carry, rows = given[fixed : fixed + many], given[fixed + many :]
        steps = range(params["length"])
        stacked: dict[int, list[Any]] = {}
        for step in reversed(steps) if params["reverse"] else steps:
            each = [row[step] for row in rows]
            out = self.run(params["jaxpr"], [*given[:fixed], *carry, *each])
            carry, stacked[step] = out[:many], out[many:]
        columns = zip(*(stacked[step] for step in steps), strict=True)
        return [*carry, *(jnp.stack(column) for column in columns)]


def _floats(values: list[Any]) -> list[np.ndarray]:
    floats = []
    for value in values:
        if isinstance(value, int | float) and not isinstance(value, bool):
            floats.append(np.asarray(value, "float64"))
        elif hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jnp.floating):
            floats.append(np.asarray(value))
    return floats
