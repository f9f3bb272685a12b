"""torch: autograd, eager; the parameters themselves are the leaves."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ._common import shapes, suspicious, unscaled
from ._flow import Cut, Flow, Step, Verdict, analyse
from ._protocol import Leaf, Outcome, Passed, Program, Runner, Sparse, Tensor

HAS_TAPE = True
PROBES_RNN_CELLS = True

_ZERO_GRADIENT = {"floor", "ceil", "round", "sign", "trunc", "sgn", "floor_divide"}


class Recorder:
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
    def place(self, address: str) -> Iterator[None]:
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
        with _Cutting(unknown[1]):
            return self._differentiate(recorder, tensors)

    def _differentiate(self, recorder: Recorder, tensors: Sequence[Tensor]) -> Passed:
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
            gradients = {
                leaf: gradient if verdicts[leaf].connected else None
                for leaf, gradient in gradients.items()
            }
        self.facts, self.outputs = outcome.facts, shapes(outcome.outputs)
        return Passed(
            outcome.value.detach(),
            {name: tensor.detach() for name, tensor in outcome.outputs.items()},
            gradients,
            recorder.kept,
            outcome.facts,
            verdicts,
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
        log = _Log(recorder)
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


class _Log(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down each operation as a step; keeps tensors, so that ids stay unique."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.recorder = recorder
        self.steps: list[Step] = []
        self._alive: list[Any] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        inputs = [t for t in tree_leaves((args, kwargs)) if torch.is_tensor(t)]
        name = func._schema.name.split("::")[-1].rstrip("_")
        for tensor in tree_leaves(out):
            if torch.is_tensor(tensor):
                cut = _cut(name, tensor, self.recorder.stack[-1])
                self.steps.append(Step([id(t) for t in inputs], id(tensor), cut))
        self._alive.append((inputs, out))
        return out


def _cut(name: str, tensor: Tensor, place: str) -> Cut | None:
    if name == "detach":
        return Cut("stop_gradient", "stop_gradient", place)
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return Cut("integer", name, place)
    if name in _ZERO_GRADIENT:
        return Cut("not_differentiable", name, place)
    return None


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


def raw_state(layers: Sequence[Any]) -> list[Any]:
    """Returns the buffers of wrapped torch modules, which Keras does not protect."""
    return [b for layer in layers for b in getattr(layer, "buffers", list)()]


@contextlib.contextmanager
def restored(raw: Sequence[Any]) -> Iterator[None]:
    """Gives buffers their values, and torch its random state, back."""
    before = [buffer.clone() for buffer in raw]
    with torch.random.fork_rng():
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, value in zip(raw, before, strict=True):
                    buffer.copy_(value)


def protected(layers: Sequence[Any]) -> contextlib.AbstractContextManager[None]:
    """Protects what a pass could change outside of Keras's own variables."""
    return restored(raw_state(layers))


def synchronise(model: Any) -> None:
    """Nothing to do: variables always hold their values."""


def dense(gradient: Sparse) -> Tensor:
    """Returns all rows of a sparse gradient."""
    zeros = torch.zeros(gradient.shape, dtype=gradient.values.dtype)
    return zeros.index_add(0, gradient.indices, gradient.values)


def is_eager(tensor: Tensor) -> bool:
    """Whether the tensor has a value now: in torch it always has."""
    del tensor
    return True


class Tape:
    """What `gradwatch.Tape` stands on: torch's own graph."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self._frozen: list[Tensor] = []

    def __enter__(self) -> Tape:
        return self

    def __exit__(self, *exception: object) -> None:
        self._thaw(False)

    def watch(self, variable: Any) -> None:
        """Frozen parameters take part in the graph until the tape is left."""
        if not variable.value.requires_grad:
            self._frozen.append(variable.value)
            variable.value.requires_grad_(True)

    def watch_tensor(self, tensor: Tensor) -> None:
        """Makes a plain tensor part of the graph."""
        tensor.requires_grad_(True)

    def _thaw(self, on: bool) -> None:
        for parameter in self._frozen:
            parameter.requires_grad_(on)

    def gradient(self, target: Tensor, sources: Sequence[Any]) -> list[Any]:
        """Differentiates; may be asked again."""
        native = [s if torch.is_tensor(s) else s.value for s in sources]
        self._thaw(True)
        try:
            return gradient_of(target, native)
        finally:
            self._thaw(False)

    native_gradient = gradient

    def detached(self, target: Tensor) -> Tensor:
        """Returns the value of the target."""
        return target.detach()
