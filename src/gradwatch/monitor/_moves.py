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
from ..backends import Tensor, current
from ..summarise import Move, read_move

METHODS = ("assign", "assign_add", "assign_sub")


class Moves:
    """What one optimizer writes to some variables in one step.

    Args:
        optimizer: Calls its own `assign`, `assign_add` and `assign_sub`.
        stream: Where the step sends what it measures.
        due: Whether it does.
        variables: By their place in the step.
        failed: Is told of a failure of ours, which must not become the user's.
    """

    def __init__(
        self,
        optimizer: Any,
        stream: Any,
        due: Any,
        variables: dict[int, Any],
        failed: Callable[[Exception], None],
    ) -> None:
        self._failed = failed
        self._optimizer, self._stream, self._due = optimizer, stream, due
        self._places = {id(_own(v)): place for place, v in variables.items()}
        self._heard: dict[int, Callable[[], Any]] = {}

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Shadows the methods on the instance."""
        methods = METHODS if self._places else ()
        for method in methods:
            original = getattr(self._optimizer, method)
            self._optimizer.__dict__[method] = partial(self._write, method, original)
        try:
            yield
        finally:
            for method in methods:
                self._optimizer.__dict__.pop(method, None)

    def before(self, place: int) -> Any:
        """Returns what `changes` takes for a variable before the update."""
        return self._heard[place]()

    def _write(self, method: str, original: Any, variable: Any, value: Any) -> Any:
        place = self._places.get(id(_own(variable)))
        if place is not None and place not in self._heard:
            try:
                value = self._listen(place, method, _own(variable), value)
            except Exception as error:  # noqa: BLE001 - ours must not end a training
                self._failed(error)
        return original(variable, value)

    def _listen(self, place: int, method: str, variable: Any, value: Any) -> Any:
        watching, stream = current().watching, self._stream
        made = None
        if method != "assign" and watching.is_tensor(value):
            read = partial(read_move, variable, kernels=watching.kernels)
            value, made = stream.early(self._due, value, read)
        if made is None:
            [kept] = stream.snapshot(f"{place}", self._due, [variable])
            self._heard[place] = partial(watching.value, kept)
        else:
            self._heard[place] = lambda: Move(*made())
        return value


def can_listen(optimizer: Any, variable: Any, value: Tensor) -> bool:
    """Whether a variable is written once, and as the optimizer says.

    A class of somebody else may write as it likes. What decays, averages or constrains
    a weight writes it a second time; what accumulates or skips writes in a branch, from
    where nothing comes out.
    """
    return (
        current().watching.LISTENS
        and current().watching.kernels.can_branch()
        and is_keras_optimizer(optimizer)
        and not isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        and not optimizer.gradient_accumulation_steps
        and optimizer.weight_decay is None
        and not (optimizer.use_ema and optimizer.ema_overwrite_frequency)
        and getattr(variable, "constraint", None) is None
        and not getattr(variable, "overwrite_with_gradient", False)
        and keras.backend.standardize_dtype(value.dtype) == "float32"
    )


def _own(variable: Any) -> Any:
    """The variable of the framework, as one object however it is handed round."""
    return variable.value if isinstance(variable, keras.Variable) else variable
