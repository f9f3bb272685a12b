"""The way of numbers from inside a training step to the host.

A stream has two sides. Inside the step, `due` says whether numbers are wanted,
`snapshot` keeps values that the step is about to overwrite, and `emit` sends. On the
host, `arm` says before an execution which of its steps are recorded, and `take` fetches
after it what they sent. Both sides are called by the thread that trains.

The classes here serve steps whose detail is known when Python runs them: eager steps,
and compiled ones that are compiled once per detail. A backend that needs another way
overrides them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from ._kernels import BaseKernels
from ._protocol import Parts, Taken, Tensor

Read = Callable[[Tensor], Sequence[Tensor]]
Made = Callable[[], Sequence[Tensor]]


class Stream(ABC):
    """Carries numbers out of the steps of `fit`.

    Args:
        kernels: The reductions to use inside the step.
    """

    def __init__(self, kernels: BaseKernels) -> None:
        self._kernels = kernels
        self._armed: list[int] = []
        self._sent: dict[str, Parts] = {}
        self._finished: list[dict[str, Parts]] = []

    # inside the step ------------------------------------------------------------------

    @property
    def kernels(self) -> BaseKernels:
        """The reductions to use inside the step."""
        return self._kernels

    def begin(self, iterations: Tensor) -> None:
        """Announces that an optimizer is about to be applied."""
        del iterations  # the host of `fit` knows the number of each step

    def due(self, detail: int) -> Any:
        """Returns whether this much of the step is recorded: a bool, or a tensor."""
        return self.detail >= detail

    @property
    def detail(self) -> int:
        """Detail of the step that runs now; 0 if nothing of it is recorded."""
        index = len(self._finished)  # past what was armed, if arming failed
        return self._armed[index] if index < len(self._armed) else 0

    @abstractmethod
    def snapshot(self, key: str, due: Any, values: Sequence[Tensor]) -> list[Tensor]:
        """Returns the values as they are now, to be used only if the step is due."""

    def read_early(
        self, due: Any, tensor: Tensor, read: Read
    ) -> tuple[Tensor, Made | None]:
        """Reads a tensor before others use it, where that saves memory traffic.

        Returns:
            The tensor to use from now on, and a function that gives what was read;
            None if nothing is gained, and the tensor is to be read later.
        """
        del due, read
        return tensor, None

    def emit(self, key: str, due: Any, measure: Callable[[], Parts]) -> None:
        """Sends what `measure` gives, if the step is due; else it is not called."""
        if due:
            self._sent[key] = measure()

    def step(self, train_step: Callable[..., Any], *args: Any) -> Any:
        """Runs one eager training step."""
        self._sent = {}
        result = train_step(*args)
        self.finish(self._sent)
        return result

    # on the host ----------------------------------------------------------------------

    def finish(self, sent: dict[str, Parts]) -> None:
        """Keeps what a step sent until it is taken."""
        self._sent = {}
        self._finished.append(sent)

    def arm(self, details: Sequence[int]) -> None:
        """Sets how much of each of the next steps is recorded; 0 is nothing."""
        self._armed, self._finished = list(details), []

    def take(self) -> Taken:
        """Returns the number of steps since `arm`, and what they sent."""
        sent = {
            index: {key: self.arrays(parts) for key, parts in by_key.items()}
            for index, by_key in enumerate(self._finished)
            if by_key
        }
        return len(self._finished), sent

    def arrays(self, parts: Parts) -> dict[str, NDArray[Any]]:
        """Returns what was sent under one key as arrays."""
        return {name: self.array(part) for name, part in parts.items()}

    @abstractmethod
    def array(self, tensor: Tensor) -> NDArray[Any]:
        """Returns the value of a tensor; waits for it if need be."""

    @abstractmethod
    def wait(self, logs: Any) -> None:
        """Returns when the steps that gave these logs are done."""


class LoopStream(Stream):
    """Carries numbers out of a custom loop, whose steps are not announced.

    This class serves eager steps: the first question about a step asks the host, and
    the end of the last optimizer's `apply` is the end of the step. A backend adds
    the way out of steps that its framework compiles.

    Args:
        kernels: The reductions to use inside the step.
        ask: Returns the detail of a step, by its number.
        receive: Gets the number of a step, what it sent, and its detail.
        start: Number of the first step.
    """

    def __init__(
        self,
        kernels: BaseKernels,
        ask: Callable[[int], int],
        receive: Callable[[int, dict[str, Parts], int], None],
        start: int,
    ) -> None:
        super().__init__(kernels)
        self._ran = 0
        self._ask, self._receive, self._start = ask, receive, start
        self._open = True
        self._current: int | None = None

    @property
    def ran(self) -> int:
        """Number of steps so far."""
        return self._ran

    @property
    def detail(self) -> int:
        """Detail of the step that runs now; the host is asked once per step."""
        if self._current is None:
            number = self._start + self.ran
            self._current = self._ask(number) if self._open else 0
        return self._current

    def applied(self) -> None:
        """Ends the step: hands over what it sent."""
        number, detail = self._start + self.ran, self.detail
        sent, self._sent, self._current = self._sent, {}, None
        if self._open:
            received = {key: self.arrays(parts) for key, parts in sent.items()}
            self._receive(number, received, detail)
        self._advance()

    def _advance(self) -> None:
        self._ran += 1

    def close(self) -> None:
        """Ends watching: nothing is due any more."""
        self._open, self._current = False, None
