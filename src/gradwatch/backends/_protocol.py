"""The contract between a framework and the rest of the package.

A `Backend` has two halves. *A pass* runs a program forward and backward once: value,
gradients, the reasons for missing ones, each operation by itself. *A watched step*
(`Backend.watching`) streams numbers out of a training step that Keras or the user runs.

A *program* is one forward pass written without any framework: it asks a `Recorder` to
mark each tensor whose gradient is wanted (a *leaf*), and returns the number to
differentiate. A backend runs it forward and backward, compiled where the framework can.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ._flow import Verdict

if TYPE_CHECKING:
    from ._streams import LoopStream, Stream

Tensor = Any
Parts = dict[str, Any]
"""Arrays by name, as sent out of a training step under one key."""
Taken = tuple[int, dict[int, dict[str, Parts]]]
"""Number of steps that ran, and what each sent, by step index and key."""
Leaf = Any
"""Hashable identifier of a marked tensor; only the room that marks it reads it."""
See = Callable[[str, list[np.ndarray], list[np.ndarray]], None]
"""Receives the name of an operation, its floating-point inputs and its outputs."""
Noted = tuple[dict[Leaf, Tensor], dict[Leaf, Tensor], list[Leaf]]
"""Activations, their gradients, and the leaves that live inside a loop or a branch."""


@dataclass(frozen=True, slots=True)
class Sparse:
    """A gradient of which only some rows are not zero; repeated indices add up."""

    indices: Tensor
    values: Tensor
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a program."""

    value: Tensor
    """The target."""
    scale: Tensor | None
    """The loss scale: `value * scale` is differentiated, gradients divided by it."""
    outputs: dict[str, Tensor]
    facts: Any
    """Facts that the program learned while it ran; the backend only passes them on."""
    extras: dict[str, Tensor] = field(default_factory=dict)
    """Further tensors that the program wants back."""


@dataclass(frozen=True, slots=True)
class LoopHost:
    """The host's side of a custom loop.

    Attributes:
        ask: Returns the detail of a step, by its number; with False as well, of one
            that is not about to run.
        receive: Gets the number of a step, what it sent, and its detail.
        start: Number of the first step.
        foreseen: True if `ask` can be asked about steps to come.
    """

    ask: Callable[..., int]
    receive: Callable[[int, dict[str, Parts], int], None]
    start: int
    foreseen: bool


class Recorder(Protocol):
    """The backend's side of a running program."""

    def mark(self, leaf: Leaf, tensor: Tensor, *, keep: bool) -> Tensor:
        """Returns a tensor equal to `tensor`, whose gradient is wanted."""

    def can_leave(self, tensor: Tensor) -> bool:
        """Returns whether the tensor is visible outside of loops and branches."""

    def is_dense(self, tensor: object) -> bool:
        """Returns whether it is a plain tensor of the framework, not ragged."""

    def layer(self, address: str) -> AbstractContextManager[None]:
        """Notes that operations inside the `with` belong to this layer."""

    def read(self, variable: Any) -> None:
        """Notes that the program reads a variable; most recorders need not know."""
        del variable


class Probe(Recorder, Protocol):
    """A recorder for training steps: notes what passes, and differentiates nothing."""

    def take(self) -> Noted:
        """Returns what was noted and can be used here, and starts over."""


Program = Callable[[Recorder, Sequence[Tensor], Sequence[Tensor]], Outcome]


@dataclass(frozen=True, slots=True)
class Passed:
    """One forward and one backward pass."""

    value: Tensor
    outputs: dict[str, Tensor]
    gradients: Mapping[Leaf, Tensor | Sparse | None]
    kept: Mapping[Leaf, Tensor]
    facts: Any
    verdicts: Mapping[Leaf, Verdict] = field(default_factory=dict)
    extras: Mapping[str, Tensor] = field(default_factory=dict)


class Runner(Protocol):
    """A program made ready to run on batches of one signature."""

    compiled: bool
    """True if it holds a compiled pass and nothing of the model, and may be kept."""

    def __call__(self, tensors: Sequence[Tensor]) -> Passed:
        """Runs forward and backward once."""


class NativeTape(Protocol):
    """The framework's part of `gradwatch.Tape`."""

    @property
    def recorder(self) -> Any:
        """Marks the tensors of the forward pass."""

    def __enter__(self) -> NativeTape:
        """Starts to record."""

    def __exit__(self, *exception: object) -> None:
        """Stops recording; the tape may be asked afterwards."""

    def watch(self, tensor: Tensor) -> None:
        """Makes a plain tensor, or a frozen weight, part of the graph."""

    def gradient(self, target: Tensor, sources: Sequence[Any]) -> list[Any]:
        """Differentiates; may be called more than once."""

    def native_gradient(
        self, target: Tensor, sources: Sequence[Any], **options: Any
    ) -> list[Any]:
        """Differentiates, with results as the framework's own tape gives them."""


class Sweep(Protocol):
    """Measures tensors inside a training step.

    `detail` says how much of the step is recorded, as a number or a tensor: 1 for rows,
    2 for histograms as well.
    """

    gated: bool
    """True if a call does nothing in a step of detail 0; else the caller branches."""

    def measure(
        self, tensors: Sequence[Tensor], detail: Any, scale: Tensor | None = None
    ) -> tuple[Parts, Sequence[Tensor]]:
        """Returns the `rows` and the `counts` of histograms, and equal tensors.

        A step that goes on with the tensors it is given back measures a tensor before
        it is used: it is in the cache then, and its memory can be used again after it.

        Args:
            tensors: Dense, of any float type.
            detail: How much of the step is recorded.
            scale: Factor of the loss, by which the tensors are divided.
        """

    def sample(self, tensors: Sequence[Tensor], detail: Any) -> Any:
        """Returns copies of blocks of weights that are about to change."""

    def moves(self, sample: Any, tensors: Sequence[Tensor], detail: Any) -> Tensor:
        """Returns norms before the update and of it, each with its standard error.

        Args:
            sample: Copies of blocks, from before the update.
            tensors: The weights after it.
            detail: How much of the step is recorded.
        """

    def norms(self, tensors: Sequence[Tensor], detail: Any) -> Tensor:
        """Returns the norm of each tensor; what is not finite shows in it."""


class Backend(ABC):
    """One framework. The methods below are the pass; `watching` is the watched step.

    The defaults hold for a framework whose functions are pure.
    """

    ASSIGNMENTS_CUT = True
    """True if a forward pass assigns to variables, which cuts their gradients."""
    PROBES_RNN_CELLS = True
    """True if an RNN loop calls its cell once more than there are steps."""
    COMPILES_FIRST = False
    """True if a single pass is faster compiled than operation by operation."""
    tape: Callable[[], NativeTape] | None = None
    """Returns a new tape, where the framework records operations as they run."""
    watching: WatchedStep

    @abstractmethod
    def prepare(
        self,
        program: Any,
        variables: Sequence[Any],
        tensors: Sequence[Tensor],
        *,
        compiled: bool,
    ) -> Runner:
        """Makes a program ready to run on batches like these tensors."""

    def once(
        self, program: Any, variables: Sequence[Any], tensors: Sequence[Tensor]
    ) -> Passed | None:
        """Runs a program uncompiled, where that is faster than to compile it.

        Returns:
            None if it is not faster, or if a compiled pass could give another result.
        """
        del program, variables, tensors
        return None

    @abstractmethod
    def traced(self, function: Callable[[], Any], see: See) -> None:
        """Runs a function and reports every operation, in the order of execution.

        Below Keras: layers may call `keras.ops`, the framework itself, or a loop.

        Args:
            function: Returns a list of tensors; runs eagerly and in this thread.
            see: Called after each operation.
        """

    @abstractmethod
    def is_eager(self, tensor: Tensor) -> bool:
        """Returns whether the tensor has a value now."""

    def with_rows(self, tensor: Any, count: int) -> Any:
        """Returns an output of a model whose number of rows is known.

        A compiled pass on TensorFlow may lose the batch size on its way: a layer that
        splits strings cannot say how many it has made. Only of an output without a
        size it is taken to be that of the batch, which is checked when the pass runs.
        """
        del count
        return tensor

    def raw_state(self, layers: Sequence[Any]) -> list[Any]:
        """Returns the state of layers that Keras does not protect."""
        del layers
        return []

    def restored(self, raw: Sequence[Any]) -> AbstractContextManager[None]:
        """Gives raw state its values back when the `with` ends."""
        del raw
        return contextlib.nullcontext()

    def synchronise(self, model: Any) -> None:
        """Gives variables their values, where `fit` holds them elsewhere."""
        del model

    def random_state(self) -> list[np.ndarray]:
        """Returns the framework's own random state; the seeds of Keras are variables.

        Empty where the framework has none.
        """
        return []

    def set_random_state(self, states: Sequence[np.ndarray]) -> None:
        """Sets the framework's own random state; an empty one leaves it as it is."""
        del states


class WatchedStep(ABC):
    """Streams numbers out of a training step.

    The defaults hold where Keras keeps no traced step (JAX and torch).
    """

    STATELESS = False
    """True if training goes through `stateless_apply`."""
    KEEPS_TRACES = False
    """True if a step trains what was trainable when it was traced, whatever is now."""
    END_OF_DATA: tuple[type[Exception], ...] = (StopIteration,)
    """Errors by which a train function says that there is no further batch."""

    @abstractmethod
    def stream(self, model: Any) -> Stream:
        """Returns the way out of the steps of `model.fit`."""

    @abstractmethod
    def loop_stream(self, host: LoopHost) -> LoopStream:
        """Returns the way out of the steps of a custom loop."""

    @abstractmethod
    def probe(self) -> Probe:
        """Returns a recorder of activations and their gradients."""

    @abstractmethod
    def is_tensor(self, value: object) -> bool:
        """Returns whether this is a dense tensor of known shape."""

    @abstractmethod
    def rebuild(
        self,
        model: Any,
        stream: Any,
        before: Callable[[int], Any],
        after: Callable[..., Any],
        keep: Callable[[Any], None] | None = None,
    ) -> Any:
        """Returns a new train function that reports each execution.

        Args:
            model: The model.
            stream: Carries what the steps send.
            before: Gets the number of steps that are about to run.
            after: Gets the logs, and returns them.
            keep: Gets the batch of each step.
        """

    @abstractmethod
    def one_step(self, model: Any, train_function: Any, batch: Any) -> Any:
        """Runs one training step on a batch, and returns its logs."""

    def tracing(self) -> bool:
        """Returns whether the code that runs now may be traced again before it counts.

        TensorFlow traces a function that makes variables twice; the first trace only
        makes them.
        """
        return False

    def written(
        self, train_function: Any, variables: Sequence[Any]
    ) -> list[bool] | None:
        """Returns which variables a train function writes; None if that is not fixed.

        Keras on JAX and torch decides at each `fit` which variables are trained.
        """
        del train_function, variables
        return None

    def as_written(self, function: Callable[..., Any]) -> Any:
        """Protects a function from being rewritten by AutoGraph."""
        return function
