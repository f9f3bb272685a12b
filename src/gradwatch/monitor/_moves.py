"""Listens to an optimizer writing its variables.

The plain way to an update is to copy every weight before the step and to subtract it
after: six sweeps over the memory of the model. Keras's own optimizers end in one
`assign_sub(variable, value)`, and the value is the update: where they do, it is read
there, while it is still in the cache.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import keras

from .._keras import is_keras_optimizer
from .._shadow import Shadows
from ..backends import Stream, Tensor, current
from ..summarise import Move, read_move

METHODS = ("assign", "assign_add", "assign_sub")


class Moves:
    """The weights of one call before the update: copies, or what is added to them.

    Args:
        optimizer: Calls its own `assign`, `assign_add` and `assign_sub`.
        stream: Carries what the step sends.
        due: Whether the step is recorded.
        failed: Gets a failure of ours, which must not become the user's.
    """

    def __init__(
        self,
        optimizer: Any,
        stream: Stream,
        due: Any,
        failed: Callable[[Exception], None],
    ) -> None:
        self._failed = failed
        self._optimizer, self._stream, self._due = optimizer, stream, due
        self._indices: dict[int, int] = {}
        self._before: dict[int, Callable[[], Any]] = {}

    def copied(self, copies: dict[int, Tensor]) -> None:
        """Takes copies of weights, by index."""
        for index, copy in copies.items():
            self._before[index] = partial(_same, copy)

    def listen(self, variables: dict[int, Any]) -> None:
        """Waits for these variables, by index, to be written."""
        self._indices = {id(_native(v)): index for index, v in variables.items()}

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Shadows the methods on the optimizer while it makes its update."""
        with Shadows(everywhere=True) as shadows:
            for method in METHODS if self._indices else ():
                shadows.put(self._optimizer, method, partial(self._write, method))
            yield

    def before(self, index: int) -> Tensor | Move:
        """Returns what `changes` takes for a weight before the update."""
        return self._before[index]()

    def _write(self, method: str, original: Any, variable: Any, value: Any) -> Any:
        index = self._indices.get(id(_native(variable)))
        if index is not None and index not in self._before:
            try:
                value = self._read(index, method, _native(variable), value)
            except Exception as error:  # noqa: BLE001 - ours must not end a training
                self._failed(error)
        return original(variable, value)

    def _read(self, index: int, method: str, variable: Any, value: Any) -> Any:
        """Reads the update, and returns the value to write: it waits for that."""
        made = None
        if method != "assign" and current().watching.is_tensor(value):
            look = partial(read_move, variable, kernels=self._stream.kernels)
            value, made = self._stream.read_early(self._due, value, look)
        if made is None:
            [copy] = self._stream.snapshot(f"{index}", self._due, [variable])
            self._before[index] = partial(_same, copy)
        else:
            self._before[index] = lambda: Move(*made())
        return value


def can_listen(optimizer: Any, variable: Any, value: Tensor) -> bool:
    """Returns whether a variable is written once, and as the optimizer says.

    A class from elsewhere may write as it likes. Decay, averages and constraints write
    a weight a second time; accumulation and skipped steps write in a branch, from where
    nothing comes out.
    """
    return (
        current().watching.LISTENS
        and is_keras_optimizer(optimizer)
        and not isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        and not optimizer.gradient_accumulation_steps
        and optimizer.weight_decay is None
        and not (optimizer.use_ema and optimizer.ema_overwrite_frequency)
        and getattr(variable, "constraint", None) is None
        and not getattr(variable, "overwrite_with_gradient", False)
        and keras.backend.standardize_dtype(value.dtype) == "float32"
    )


def _native(variable: Any) -> Any:
    """Returns the framework's variable, which is one object however it is passed."""
    return variable.value if isinstance(variable, keras.Variable) else variable


def _same(value: Tensor) -> Tensor:
    return value
