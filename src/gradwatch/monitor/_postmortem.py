"""What is done when a number of a training is not finite."""

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
from ._again import Offence, as_it_was, assign, find_offence
from ._lookback import Lookback

OnNonfinite = str | None

_HEALTHY = "none"
_NOT_AGAIN = (
    "When it was recorded this step was not finite; made once more, on the batch that "
    "was kept, it is. So it is with data that change after they were handed over, as "
    "in a buffer that a generator fills again, and with a learning rate that a "
    "callback sets in the middle of an epoch."
)


def check(on_nonfinite: OnNonfinite) -> None:
    """Raises an error for what `on_nonfinite` cannot be."""
    if on_nonfinite not in (None, "autopsy"):
        raise GradwatchError(
            '`on_nonfinite` must be "autopsy" or None. Received: '
            f"{on_nonfinite!r}. To stop or warn as well, pass `on_finding`."
        )


class Postmortem:
    """Waits for the first number that is not finite, and finds where it came from.

    Args:
        directory: Of the run.
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
        self._lookback: Lookback | None = Lookback(model, optimizers)
        self._broken = False
        self._is_told = False

    def before(self, step: int, batch: int = 0) -> None:
        """A step is about to be made, on this batch of its epoch."""
        if self._lookback is not None and not self._broken:
            self._broken = not self._lookback.before(step, begins=batch == 0)

    def keep(self, batch: Any) -> None:
        """The step is made on this batch."""
        if self._lookback is not None:
            self._lookback.keep(batch)

    def look(self, told: Finding | None, step: int) -> Finding | None:
        """Returns the finding, if there is one now; nothing is kept after it.

        Weights that broke may be noticed before the first record which shows it, or
        after: whichever comes second is the same news, and is not told again.

        Args:
            told: What the rules found in a record.
            step: The latest step.
        """
        if self._is_told:
            return None
        found = self._look(told, step)
        self._is_told = found is not None
        return found

    def _look(self, told: Finding | None, step: int) -> Finding | None:
        lookback = self._lookback
        if lookback is None or (told is None and not self._broken):
            return told
        self._lookback = None
        try:
            return self._examine(lookback, told, step)
        except Exception as error:  # noqa: BLE001 - ours must not end a training
            warnings.warn(
                "gradwatch could not find out where the first non-finite value came "
                f"from: {type(error).__name__}: {error}. The training goes on.",
                RuntimeWarning,
                stacklevel=2,
            )
            return told

    def last_look(self, told: Finding | None, step: int) -> Finding | None:
        """As `look`, when the training is over: the last steps count as well."""
        if self._lookback is not None and not self._broken:
            self._broken = not self._lookback.is_sound()
        return self.look(told, step)

    def _examine(
        self, lookback: Lookback, told: Finding | None, step: int
    ) -> Finding | None:
        model, variables = self._model, lookback.variables
        with self._untapped(), as_it_was(model, variables):
            offence = find_offence(model, lookback, None if told is None else told.step)
            if offence is None:
                warnings.warn(
                    "gradwatch made the latest steps once more, and all were finite: "
                    "where the first non-finite value came from cannot be told. A "
                    "training that does not repeat itself (data made in the step, "
                    "devices that add up in any order) is like that.",
                    RuntimeWarning,
                    stacklevel=2,
                )
                return told
            assign(variables, offence.values)
            current().set_random_state(offence.chance)
            found = self._autopsy(offence)
            directory = self._write(offence, found)
        found = dataclasses.replace(found, directory=directory)
        return _finding(found, told, step)

    def _autopsy(self, offence: Offence) -> Autopsy:
        x, y, weight = keras.utils.unpack_x_y_sample_weight(offence.batch)
        try:
            found = autopsy(self._model, x, y, sample_weight=weight)
        except Exception as error:  # noqa: BLE001 - a step of one's own takes other data
            note = f"The step could not be looked into: {error}"
            found = Autopsy(found=False, notes=(note,))
        if not found.found and not offence.proved:
            found = dataclasses.replace(found, notes=(*found.notes, _NOT_AGAIN))
        return dataclasses.replace(found, step=offence.step)

    def _write(self, offence: Offence, found: Autopsy) -> str | None:
        try:
            where = write_autopsy(
                self._directory,
                self._model,
                offence.batch,
                found.to_dict(),
                offence.chance,
            )
        except Exception as error:  # noqa: BLE001 - what was found is told all the same
            warnings.warn(
                f"gradwatch could not write the autopsy of step {offence.step} into "
                f"{os.fspath(self._directory)!r}: {type(error).__name__}: {error}. "
                "The finding is in the run.",
                RuntimeWarning,
                stacklevel=2,
            )
            return None
        return os.fspath(where)


def _finding(found: Autopsy, told: Finding | None, step: int) -> Finding:
    """The finding of the rules, with what is known now."""
    at = step if found.step is None else found.step
    told = told or Finding(
        "nonfinite",
        step=step,
        healthy=_HEALTHY,
        confidence=0.99,
        measured=Measured("nonfinite_gradients", None, high=0.0),
    )
    if not found.found:
        return dataclasses.replace(told, since=min(at, told.step))
    seen: dict[str, Any] = {"first": f"{found.where} {found.address!r}"}
    seen["cause"] = found.cause if found.sure else f"likely {found.cause}"
    where = f" The batch is in {found.directory!r}." if found.directory else ""
    return dataclasses.replace(
        told,
        addresses=(found.address,) if found.address else told.addresses,
        since=at,
        evidence=seen | nonfinite_counts(told),
        try_first=f"{found.try_first}{where}".strip() or told.try_first,
    )
