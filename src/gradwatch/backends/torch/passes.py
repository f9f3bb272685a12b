"""One forward and one backward pass: autograd, eager."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..._errors import GradwatchError
from .._common import passed, scaled, suspicious, unscaled
from .._flow import Flow, Verdict, analyse
from .._protocol import Leaf, Outcome, Passed, Program, Recorder, Tensor
from .graph import Log


class OpenTensors(Recorder):
    """Says which tensors can be marked."""

    def can_leave(self, tensor: Tensor) -> bool:
        """Returns whether it is not wrapped by `vmap`, with which it would end."""
        return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)

    def is_dense(self, tensor: object) -> bool:
        """Returns whether it is dense; sparse layouts are left alone."""
        return isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided


class TorchRecorder(OpenTensors):
    """Marks tensors by a clone that is part of the graph."""

    def __init__(self) -> None:
        self.leaves: dict[Leaf, Tensor] = {}
        self.kept: dict[Leaf, Tensor] = {}
        self.stack: list[str] = [""]
        self.thawed = contextlib.ExitStack()
        """Freezes frozen parameters again when it is left."""

    def mark(self, leaf: Leaf, tensor: Tensor, *, keep: bool) -> Tensor:
        """A parameter is its own leaf: wrapped torch modules read it directly."""
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        marked = tensor if is_parameter else tensor.clone()
        if not marked.requires_grad:
            marked.requires_grad_(True)
            if is_parameter:
                self.thawed.callback(marked.requires_grad_, False)
        tensor = self.leaves[leaf] = marked
        if keep:
            self.kept[leaf] = tensor.detach()
        return tensor

    @contextlib.contextmanager
    def layer(self, address: str) -> Iterator[None]:
        """The stack of layers being called."""
        self.stack.append(address)
        try:
            yield
        finally:
            self.stack.pop()


class TorchRunner:
    """Runs the program; torch builds its graph anew each time, and compiles nothing."""

    compiled = False

    def __init__(
        self,
        program: Program,
        variables: Sequence[Any],
        tensors: Sequence[Tensor],
        *,
        compiled: bool,
    ) -> None:
        del tensors, compiled  # for those who trace
        self.program = program
        self.variables = variables

    def __call__(self, tensors: Sequence[Tensor]) -> Passed:
        """Runs forward and backward once."""
        try:
            return self._differentiate(tensors, contextlib.nullcontext())
        except RuntimeError as error:
            unknown = re.search(r"derivative for aten::(\w+) is not impl", str(error))
            if unknown is None:
                raise
        # torch refuses the whole backward pass; the others just cut the path there.
        return self._differentiate(tensors, _Cutting(unknown[1]))

    def _differentiate(
        self, tensors: Sequence[Tensor], mode: AbstractContextManager[Any]
    ) -> Passed:
        recorder = TorchRecorder()
        with recorder.thawed:
            outcome, target = self._forward(recorder, tensors, mode)
            raw = gradient_of(target, list(recorder.leaves.values()))
            gradients = {
                leaf: unscaled(gradient, outcome.scale)
                for leaf, gradient in zip(recorder.leaves, raw, strict=True)
            }
            verdicts: dict[Leaf, Verdict] = {}
            if suspicious(gradients):
                verdicts = self._explain(tensors)
        detached = replace(
            outcome,
            value=outcome.value.detach(),
            outputs={name: tensor.detach() for name, tensor in outcome.outputs.items()},
            extras={name: tensor.detach() for name, tensor in outcome.extras.items()},
        )
        return passed(detached, gradients, recorder.kept, verdicts)

    def _forward(
        self,
        recorder: TorchRecorder,
        tensors: Sequence[Tensor],
        mode: AbstractContextManager[Any],
    ) -> tuple[Outcome, Tensor]:
        with torch.enable_grad():
            with mode:
                values = [v.value for v in self.variables]
                outcome = self.program(recorder, values, tensors)
            return outcome, scaled(outcome)

    def _explain(self, tensors: Sequence[Tensor]) -> dict[Leaf, Verdict]:
        """Runs forward once more and writes down every operation."""
        recorder = TorchRecorder()
        log = Log(recorder.stack)
        with recorder.thawed:
            outcome, _ = self._forward(recorder, tensors, log)
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


class TorchTape(contextlib.AbstractContextManager["TorchTape"]):
    """The tape behind `gradwatch.Tape`: torch's own graph."""

    def __init__(self) -> None:
        self.recorder = TorchRecorder()
        self._frozen: list[Tensor] = []

    def __exit__(self, *exception: object) -> None:
        self._thaw(False)

    def watch(self, tensor: Tensor) -> None:
        """Makes a tensor or a parameter part of the graph until the tape is left."""
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
