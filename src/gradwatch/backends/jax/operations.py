"""Every primitive of a function: its equations, evaluated one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from .._operations import See, canonical

COMPILES_FIRST = True
"""Each primitive is compiled by itself anyway: all at once is four times faster."""


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
        inside = _LOOPS.get(equation.primitive.name)
        if inside is not None:
            return inside(self, equation.params, given)
        for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
            part = equation.params.get(name)
            jaxpr = getattr(part, "jaxpr", part)
            if jaxpr is not None and len(jaxpr.invars) == len(given):
                closed = (
                    part if isinstance(part, ClosedJaxpr) else ClosedJaxpr(part, [])
                )
                return self.run(closed, given)
        bound = equation.primitive.get_bind_params(equation.params)
        # Before 0.8 JAX gave the functions of an equation apart.
        functions, params = bound if isinstance(bound, tuple) else ((), bound)
        results = equation.primitive.bind(*functions, *given, **params)
        if not equation.primitive.multiple_results:
            results = [results]
        exponent = [equation.params["y"]] if "y" in equation.params else []
        self._see(
            canonical(equation.primitive.name),
            _floats([*given, *exponent]),
            _floats(results),
        )
        return list(results)

    def _cond(self, params: Any, given: list[Any]) -> list[Any]:
        return self.run(params["branches"][int(given[0])], given[1:])

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


_LOOPS: dict[str, Callable[[Any, Any, list[Any]], list[Any]]] = {
    "cond": _Evaluation._cond,
    "while": _Evaluation._while,
    "scan": _Evaluation._scan,
}


def _floats(values: list[Any]) -> list[np.ndarray]:
    found = []
    for value in values:
        if isinstance(value, int | float) and not isinstance(value, bool):
            found.append(np.asarray(value, "float64"))
        elif hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jnp.floating):
            found.append(np.asarray(value))
    return found
