"""One forward and one backward pass: autograd, eager."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .._common import shapes, suspicious, unscaled, without_cut
from .._flow import Flow, Verdict, analyse
from .._protocol import Leaf, Outcome, Passed, Program, Runner, Tensor
from .paths import Log
from .recorder import Recorder


class Eager:
    """Runs the program; torch builds its graph anew each time."""

    compiled = False
    facts: Any = None

    def __init__(self, program: Program, variables: Sequence[Any]) -> None:
        self.program = program
        self.variables = variables
        self.outputs: dict[str, tuple[int, ...]] = {}

    def __call__(self, tensors: Sequence[Tensor]) -> Passed:
        """Runs forward and backward once."""
        recorder = Recorder()
        try:
            return self._run(recorder, tensors)
        finally:
            recorder.freeze_again()

    def _run(self, recorder: Recorder, tensors: Sequence[Tensor]) -> Passed:
        try:
            return self._differentiate(recorder, tensors)
        except RuntimeError as error:
            unknown = re.search(r"derivative for aten::(\w+) is not impl", str(error))
            if unknown is None:
                raise
        # torch refuses the whole backward pass; the others just cut the path there.
        recorder.forget()
        return self._differentiate(recorder, tensors, _Cutting(unknown[1]))

    def _differentiate(
        self,
        recorder: Recorder,
        tensors: Sequence[Tensor],
        cutting: AbstractContextManager[Any] | None = None,
    ) -> Passed:
        with cutting or contextlib.nullcontext():
            outcome, target = self._forward(recorder, tensors)
        gradients = {
            leaf: unscaled(gradient, outcome.scale)
            for leaf, gradient in zip(
                recorder.leaves,
                gradient_of(target, list(recorder.leaves.values())),
                strict=True,
            )
        }
        verdicts: dict[Leaf, Verdict] = {}
        if suspicious(gradients):
            verdicts = self._explain(tensors)
        self.facts, self.outputs = outcome.facts, shapes(outcome.outputs)
        return Passed(
            outcome.value.detach(),
            {name: tensor.detach() for name, tensor in outcome.outputs.items()},
            without_cut(gradients, verdicts),
            recorder.kept,
            outcome.facts,
            verdicts,
            {name: tensor.detach() for name, tensor in outcome.extras.items()},
        )

    def _forward(
        self, recorder: Recorder, tensors: Sequence[Tensor]
    ) -> tuple[Outcome, Tensor]:
        with torch.enable_grad():
            values = [v.value for v in self.variables]
            outcome = self.program(recorder, values, tensors)
            target = outcome.value
            if outcome.scale is not None:
                target = target * outcome.scale.to(target.dtype)
        return outcome, target

    def _explain(self, tensors: Sequence[Tensor]) -> dict[Leaf, Verdict]:
        """Runs forward once more and writes down every operation."""
        recorder = Recorder()
        log = Log(recorder)
        try:
            with torch.enable_grad(), log:
                values = [v.value for v in self.variables]
                outcome = self.program(recorder, values, tensors)
        finally:
            recorder.freeze_again()
        leaves = {leaf: id(tensor) for leaf, tensor in recorder.leaves.items()}
        outputs = {name: id(tensor) for name, tensor in outcome.outputs.items()}
        return analyse(Flow(log.steps, leaves, id(outcome.value), outputs))


class _Cutting(TorchFunctionMode):
    """Cuts the gradient at an operation for which torch defines none."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.names = {name, f"__{name.replace('_divide', 'div')}__"}

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        del types
        if getattr(func, "__name__", "") in self.names:
            args = [a.detach() if torch.is_tensor(a) else a for a in args]
        return func(*args, **(kwargs or {}))


def gradient_of(target: Tensor, sources: Sequence[Tensor]) -> list[Any]:
    """Differentiates without touching any `.grad`; keeps the graph for more."""
    if not target.requires_grad:
        return [None] * len(sources)
    usable = [s for s in sources if s.requires_grad]
    found = iter(
        torch.autograd.grad(target, usable, retain_graph=True, allow_unused=True)
        if usable
        else ()
    )
    return [next(found) if s.requires_grad else None for s in sources]


def prepare(
    program: Program,
    variables: Sequence[Any],
    tensors: Sequence[Tensor],
    *,
    compiled: bool,
) -> Runner:
    """Makes a program ready to run; torch has no compiled form of it."""
    del tensors, compiled
    return Eager(program, variables)
