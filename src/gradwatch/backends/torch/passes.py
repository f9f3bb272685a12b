"""One forward and one backward pass: autograd, eager."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..._errors import GradwatchError
from .._common import shapes, suspicious, unscaled, without_cut
from .._flow import Flow, Verdict, analyse
from .._protocol import Leaf, Outcome, Passed, Program, Recorder, Tensor
from .graph import Log


class TorchRecorder(Recorder):
    """Marks tensors by a clone that is part of the graph."""

    def __init__(self) -> None:
        self.leaves: dict[Leaf, Tensor] = {}
        self.kept: dict[Leaf, Tensor] = {}
        self.stack: list[str] = [""]
        self.thawed: list[Tensor] = []

    def mark(self, leaf: Leaf, tensor: Tensor, *, keep: bool) -> Tensor:
        """A parameter is its own leaf: wrapped torch modules read it directly."""
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        marked = tensor if is_parameter else tensor.clone()
        if not marked.requires_grad:
            marked.requires_grad_(True)
            if is_parameter:
                self.thawed.append(marked)
        tensor = self.leaves[leaf] = marked
        if keep:
            self.kept[leaf] = tensor.detach()
        return tensor

    def can_leave(self, tensor: Tensor) -> bool:
        """Inside `vmap`, tensors are wrapped and end with it."""
        return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)

    def is_dense(self, tensor: object) -> bool:
        """Sparse layouts are left alone."""
        return isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided

    @contextlib.contextmanager
    def layer(self, address: str) -> Iterator[None]:
        """The stack of layers being called."""
        self.stack.append(address)
        try:
            yield
        finally:
            self.stack.pop()

    def forget(self) -> None:
        """Starts over."""
        self.leaves.clear()
        self.kept.clear()

    def freeze_again(self) -> None:
        """Gives frozen parameters back as they were."""
        for parameter in self.thawed:
            parameter.requires_grad_(False)


class TorchRunner:
    """Runs the program; torch builds its graph anew each time."""

    compiled = False
    facts: Any = None

    def __init__(self, program: Program, variables: Sequence[Any]) -> None:
        self.program = program
        self.variables = variables
        self.outputs: dict[str, tuple[int, ...]] = {}

    def __call__(self, tensors: Sequence[Tensor]) -> Passed:
        """Runs forward and backward once."""
        recorder = TorchRecorder()
        try:
            return self._run(recorder, tensors)
        finally:
            recorder.freeze_again()

    def _run(self, recorder: TorchRecorder, tensors: Sequence[Tensor]) -> Passed:
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
        recorder: TorchRecorder,
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
        self, recorder: TorchRecorder, tensors: Sequence[Tensor]
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
        recorder = TorchRecorder()
        log = Log(recorder.stack)
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
    gradients = iter(
        torch.autograd.grad(target, usable, retain_graph=True, allow_unused=True)
        if usable
        else ()
    )
    return [next(gradients) if s.requires_grad else None for s in sources]


class TorchTape:
    """The tape behind `gradwatch.Tape`: torch's own graph."""

    def __init__(self) -> None:
        self.recorder = TorchRecorder()
        self._frozen: list[Tensor] = []

    def __enter__(self) -> TorchTape:
        return self

    def __exit__(self, *exception: object) -> None:
        self._thaw(False)

    def watch(self, variable: Any) -> None:
        """Frozen parameters take part in the graph until the tape is left."""
        self.watch_tensor(variable.value)

    def watch_tensor(self, tensor: Tensor) -> None:
        """Makes a plain tensor part of the graph until the tape is left."""
        if not tensor.requires_grad:
            self._frozen.append(tensor)
            tensor.requires_grad_(True)

    def _thaw(self, on: bool) -> None:
        for parameter in self._frozen:
            parameter.requires_grad_(on)

    def gradient(self, target: Tensor, sources: Sequence[Any]) -> list[Any]:
        """Differentiates; may be called more than once."""
        native = [s if torch.is_tensor(s) else s.value for s in sources]
        self._thaw(True)
        try:
            return gradient_of(target.sum(), native)
        except RuntimeError as error:
            if "modified by an inplace operation" not in str(error):
                raise
            raise GradwatchError(
                "On torch, a tape must be asked before the weights change: the graph "
                "holds the weights, not copies. Received: a question after an update. "
                "Call `tape.gradients(loss)` before the optimizer's step."
            ) from error
        finally:
            self._thaw(False)

    def native_gradient(
        self, target: Tensor, sources: Sequence[Any], **options: Any
    ) -> list[Any]:
        """Differentiates; TensorFlow's further arguments have no meaning here."""
        if options:
            raise GradwatchError(
                "`tape.gradient` takes further arguments on TensorFlow only. Received: "
                f"{', '.join(options)}. Leave them out."
            )
        return self.gradient(target, sources)

    def detached(self, target: Tensor) -> Tensor:
        """Returns the value of the target."""
        return target.detach()
