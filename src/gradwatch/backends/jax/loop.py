"""The way to the host from a training loop of the user's own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from numpy.typing import NDArray

from .._protocol import Parts, Tensor
from .recorder import _level as level
from .stream import Stream


class LoopStream(Stream):
    """For a loop of the user's own, in whose compiled step there is no way but a call.

    The step asks the host whether it is due, and calls it with what it has to send.

    Args:
        ask: Gives the detail of a step, by its number.
        receive: Gets what a step sent, its number and its detail.
        start: The number of the first step; what is compiled counts for itself.
    """

    def __init__(
        self,
        ask: Callable[[int], int],
        receive: Callable[[int, dict[str, Parts], int], None],
        start: int,
        foreseen: bool = True,
    ) -> None:
        super().__init__(1)
        del start, foreseen  # each step asks for itself
        self.ran = 0
        self._ask, self._receive = ask, receive
        self._open = True
        self._step: Any = 0
        self._begun = False
        self._last = -1
        self.several = False
        """Whether there are several optimizers, whose counts may differ."""

    def begin(self, iterations: Tensor) -> None:
        """Asks the host; inside a compiled step, each time it runs."""
        if level() == self._level and self._begun:
            return  # a second optimizer of the same step
        self._level, self._sent, self._begun = level(), {}, True
        if isinstance(iterations, jax.core.Tracer):
            self._step = iterations
            shape = jax.ShapeDtypeStruct((), jnp.int32)  # type: ignore[no-untyped-call]
            self._detail = io_callback(self._asked, shape, iterations)
            return
        step = int(iterations)
        if self.several:  # one that is applied rarely must not count backwards
            step = max(step, self._last + 1)
        self._step = self._last = step
        self._detail = int(self._asked(step))

    def _asked(self, iterations: Any) -> NDArray[np.int32]:
        detail = self._ask(int(iterations)) if self._open else 0
        self.ran += self._open
        return np.asarray(detail, np.int32)

    def applied(self) -> None:
        """The step is over."""
        sent, self._sent, self._begun = self._sent, {}, False
        if not sent:
            return
        if isinstance(self._detail, jax.core.Tracer):
            jax.lax.cond(
                self._detail > 0,
                functools.partial(
                    jax.debug.callback, self._arrived, self._step, self._detail, sent
                ),
                lambda: None,
            )
        elif self._detail:
            self._arrived(self._step, self._detail, sent)

    def _arrived(self, step: Any, detail: Any, sent: dict[str, Parts]) -> None:
        if self._open:
            found = {
                key: {name: np.asarray(part) for name, part in parts.items()}
                for key, parts in sent.items()
            }
            self._receive(int(step), found, int(detail))

    def close(self) -> None:
        """Waits for what is on its way; then nothing is due any more."""
        jax.effects_barrier()  # type: ignore[no-untyped-call]
        self._open = False
