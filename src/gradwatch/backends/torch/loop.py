"""The way to the host from a training loop of the user's own."""

from __future__ import annotations

from collections.abc import Callable

from .._protocol import Parts
from .stream import Stream


class LoopStream(Stream):
    """For a loop of the user's own: the step ends when the last optimizer is done.

    Args:
        ask: Gives the detail of a step, by its number.
        receive: Gets what a step sent, its number and its detail.
        start: The number of the first step.
    """

    def __init__(
        self,
        ask: Callable[[int], int],
        receive: Callable[[int, dict[str, Parts], int], None],
        start: int,
        foreseen: bool = True,
    ) -> None:
        super().__init__(1)
        del foreseen  # each step asks for itself
        self.ran = 0
        self._ask, self._receive, self._next = ask, receive, start
        self.arm([ask(start)])

    def applied(self) -> None:
        """The step is over."""
        detail = self._armed[0]
        self._sent.append({})
        _, sent = self.take()
        self._receive(self._next, sent.get(0, {}), detail)
        self._next += 1
        self.ran += 1
        self.arm([self._ask(self._next)])

    def close(self) -> None:
        """Nothing is due any more."""
        self.arm([0])
