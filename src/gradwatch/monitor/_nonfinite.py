"""Autopsies of a running training: where its first non-finite value came from."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import keras

from .._errors import GradwatchError
from ..backends import current
from ..diagnose import (
    Autopsy,
    Finding,
    Measured,
    autopsy,
    nonfinite_counts,
    write_autopsy,
)
from ._failsafe import Caught
from ._replay import Offence, ReplayBuffer, assign, find_offence, restoring

OnNonfinite = str | None

_HEALTHY = "none"
_NOT_AGAIN = (
    "When it was recorded this step was not finite; made once more, on the batch that "
    "was kept, it is. So it is with data that change after they were handed over, as "
    "in a buffer that a generator fills again, and with a learning rate that a "
    "callback sets in the middle of an epoch."
)


def check(on_nonfinite: OnNonfinite) -> None:
    """Raises an error if `on_nonfinite` is none of what it may be."""
    if on_nonfinite not in (None, "autopsy"):
        raise GradwatchError(
            '`on_nonfinite` must be "autopsy" or None. Received: '
            f"{on_nonfinite!r}. To stop or warn as well, pass `on_finding`."
        )


class NonfiniteExaminer:
    """Waits for the first non-finite value, and finds where it came from.

    Runs on the trainer's thread, between two steps.

    Args:
        directory: The directory of the run.
        model: The model that trains.
        optimizers: Those that train it.
        untapped: A context in which the model is not watched.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        model: Any,
        optimizers: Sequence[Any],
        untapped: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._directory = directory
        self._model = model
        self._untapped = untapped
        self._buffer: ReplayBuffer | None = ReplayBuffer(model, optimizers)
        self._is_broken = False
        self._is_done = False

    def before(self, step: int, batch: int = 0) -> None:
        """Prepares for a step that is about to be made on this batch of its epoch."""
        if self._buffer is not None and not self._is_broken:
            finite = self._buffer.before(step, begins_epoch=batch == 0)
            self._is_broken = not finite

    def keep(self, batch: Any) -> None:
        """Remembers the batch of the step."""
        if self._buffer is not None:
            self._buffer.keep(batch)

    def look(self, held: Finding | None, step: int) -> Finding | None:
        """Returns the finding, if there is one now; nothing is kept after it.

        Weights that broke may be noticed before the first record which shows it, or
        after: the one that comes second is the same news, and is dropped.

        Args:
            held: The finding of the rules in a record.
            step: The latest step.
        """
        if self._is_done:
            return None
        finding, buffer = held, self._buffer
        if buffer is not None and (held is not None or self._is_broken):
            self._buffer = None
            failed = _warning(
                "gradwatch could not find out where the first non-finite value came "
                "from",
                "The training goes on.",
            )
            with Caught(failed):
                finding = self._examine(buffer, held, step)
        self._is_done = finding is not None
        return finding

    def last_look(self, held: Finding | None, step: int) -> Finding | None:
        """Returns the same when the training is over: the last steps count as well."""
        if self._buffer is not None and not self._is_broken:
            self._is_broken = not self._buffer.is_sound()
        return self.look(held, step)

    def _examine(
        self, buffer: ReplayBuffer, held: Finding | None, step: int
    ) -> Finding | None:
        model, variables = self._model, buffer.variables
        with self._untapped(), restoring(model, variables):
            offence = find_offence(model, buffer, None if held is None else held.step)
            if offence is None:
                warnings.warn(
                    "gradwatch made the latest steps once more, and all were finite: "
                    "where the first non-finite value came from cannot be told. A "
                    "training that does not repeat itself (data made in the step, "
                    "devices that add up in any order) is like that.",
                    RuntimeWarning,
                    stacklevel=2,
                )
                return held
            assign(variables, offence.values)
            current().set_random_state(offence.random_state)
            result = self._write(offence, self._autopsy(offence))
        return _finding(result, held, step)

    def _autopsy(self, offence: Offence) -> Autopsy:
        x, y, weight = keras.utils.unpack_x_y_sample_weight(offence.batch)
        notes: list[str] = []
        result = Autopsy(found=False)
        # A `train_step` of the user's own may take other data.
        with Caught(lambda e: notes.append(f"The step could not be looked into: {e}")):
            result = autopsy(self._model, x, y, sample_weight=weight)
        if not result.found and not offence.proved:
            notes.append(_NOT_AGAIN)
        notes = [*result.notes, *notes]
        return dataclasses.replace(result, notes=tuple(notes), step=offence.step)

    def _write(self, offence: Offence, result: Autopsy) -> Autopsy:
        """Returns the autopsy, with the directory that it could be written to."""
        model, data = self._model, result.to_dict()
        failed = _warning(
            f"gradwatch could not write the autopsy of step {offence.step} into "
            f"{os.fspath(self._directory)!r}",
            "The finding is in the run.",
        )
        with Caught(failed):
            path = write_autopsy(
                self._directory, model, offence.batch, data, offence.random_state
            )
            return dataclasses.replace(result, directory=os.fspath(path))
        return result


def _warning(what: str, then: str) -> Callable[[Exception], None]:
    """Returns a function that warns of an exception, and says how it goes on."""

    def warn(error: Exception) -> None:
        message = f"{what}: {type(error).__name__}: {error}. {then}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)

    return warn


def _finding(result: Autopsy, held: Finding | None, step: int) -> Finding:
    """Returns the finding of the rules, with what is known now."""
    at = step if result.step is None else result.step
    held = held or Finding(
        "nonfinite",
        step=step,
        healthy=_HEALTHY,
        confidence=0.99,
        measured=Measured("nonfinite_gradients", None, high=0.0),
    )
    if not result.found:
        return dataclasses.replace(held, since=min(at, held.step))
    evidence: dict[str, Any] = {"first": f"{result.where} {result.address!r}"}
    evidence["cause"] = result.cause if result.sure else f"likely {result.cause}"
    where = f" The batch is in {result.directory!r}." if result.directory else ""
    return dataclasses.replace(
        held,
        addresses=(result.address,) if result.address else held.addresses,
        since=at,
        evidence=evidence | nonfinite_counts(held),
        try_first=f"{result.try_first}{where}".strip() or held.try_first,
    )
