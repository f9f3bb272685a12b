"""The way of numbers from inside a training step to the host.

A stream has two sides. Inside the step, `due` says whether numbers are wanted, `branch`
computes only then, and `emit` sends. On the host, `arm` says before an execution which
of its steps are recorded, and `take` fetches after it what they sent. Both sides are
called by the thread that trains.

The classes here serve steps whose detail is known when Python runs them: eager steps,
and compiled ones that are compiled once per detail. A backend that needs another way
overrides them.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from keras import ops
from numpy.typing import NDArray

from ._kernels import BaseKernels
from ._protocol import LoopHost, Parts, Sweep, Taken, Tensor

Tie = Callable[[Tensor], Tensor]
"""Returns an equal scalar, which the compiled step has only after something else."""


class Stream(ABC):
    """Carries numbers out of the steps of `fit`.

    Args:
        kernels: The operations of the lean way.
        native: The native way to measure inside the step; None where it cannot go.
    """

    def __init__(self, kernels: BaseKernels, native: Sweep | None) -> None:
        self._kernels = kernels
        self._native = native
        self.is_quiet = False
        """True if the next execution is one step, of which nothing is recorded."""
        self._armed: list[int] = []
        self._sent: dict[str, Parts] = {}
        self._finished: list[dict[str, Parts]] = []

    # inside the step ------------------------------------------------------------------

    @property
    def kernels(self) -> BaseKernels:
        """The operations of the lean way."""
        return self._kernels

    @property
    def native(self) -> Sweep | None:
        """The native way to measure inside the step; None where it cannot go."""
        return self._native

    @property
    def skips(self) -> bool:
        """True if this step is not recorded, and no later one runs what it traces."""
        return False

    def vector(self, *numbers: Any) -> Tensor:
        """Returns some numbers of the step as one tensor."""
        return ops.stack([ops.cast(number, "float32") for number in numbers])

    def begin(self, iterations: Tensor) -> None:
        """Announces that an optimizer is about to be applied."""
        del iterations  # the host of `fit` knows the number of each step

    @property
    def wanted(self) -> Any:
        """Detail of the step that runs, or is traced: a number, or a tensor."""
        return self.detail

    def due(self, detail: int) -> Any:
        """Returns whether this much of the step is recorded: a bool, or a tensor."""
        return self.wanted >= detail

    @property
    def detail(self) -> int:
        """Detail of the step that runs now; 0 if nothing of it is recorded."""
        index = len(self._finished)  # past what was armed, if arming failed
        return self._armed[index] if index < len(self._armed) else 0

    def branch(self, due: Any, make: Callable[[], Any]) -> Any:
        """Returns what `make` gives; in a step that is not due, anything of its shape.

        Args:
            due: True, or a tensor.
            make: Computes nested tensors.
        """
        del due
        return make()

    def ordered(self, sample: Any) -> AbstractContextManager[Tie | None]:
        """Has weights change only after their sample was taken.

        Otherwise the framework would copy them. Where the order of the program is not
        enough, the `with` gives a function: the step must use what it makes of the
        scalars that the update depends on.
        """
        del sample
        return contextlib.nullcontext()

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
        if not self.is_quiet:  # it is not taken then
            self._finished.append(sent)

    def arm(self, details: Sequence[int]) -> None:
        """Sets how much of each of the next steps is recorded; 0 is nothing.

        It holds until the next call: many steps in a row may be quiet.
        """
        self._armed, self._finished = list(details), []
        self.is_quiet = self._armed == [0]

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


class LoopStream(Stream):
    """Carries numbers out of a custom loop, whose steps are not announced.

    This class serves eager steps: the first question about a step asks the host, and
    the end of the last optimizer's `apply` is the end of the step. A backend adds
    the way out of steps that its framework compiles.

    Args:
        kernels: The operations of the lean way.
        native: The native way to measure inside the step; None where it cannot go.
        host: Is asked about each step, and gets what it sent.
    """

    def __init__(
        self, kernels: BaseKernels, native: Sweep | None, host: LoopHost
    ) -> None:
        super().__init__(kernels, native)
        self._ran = 0
        self._host = host
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
            number = self._host.start + self.ran
            self._current = self._host.ask(number) if self._open else 0
        return self._current

    def applied(self) -> None:
        """Ends the step: hands over what it sent."""
        number, detail = self._host.start + self.ran, self.detail
        sent, self._sent, self._current = self._sent, {}, None
        if self._open:
            received = {key: self.arrays(parts) for key, parts in sent.items()}
            self._host.receive(number, received, detail)
        self._advance()

    def _advance(self) -> None:
        self._ran += 1

    def close(self) -> None:
        """Ends watching: nothing is due any more."""
        self._open, self._current = False, None
