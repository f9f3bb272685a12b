"""The loss of the steps since the last record, from what Keras says of an epoch."""

from __future__ import annotations

from typing import Any

import keras

from .._keras import loss_tracker


class LossReader:
    """Turns the mean over an epoch into the mean since the last record.

    The "loss" in the logs of Keras is the mean over all batches of the epoch so far. A
    `train_step` of the user's own may give that of the batch instead: it is taken for
    what it is.

    Args:
        model: The model that is trained.
    """

    def __init__(self, model: Any) -> None:
        self._running = _is_running(model)
        self._batches = 0
        self._mean = 0.0

    def read(self, logs: Any, batches: int) -> float | None:
        """Returns the loss, or None if the logs have none.

        Args:
            logs: What the step returned.
            batches: Of this epoch, up to now.
        """
        if not isinstance(logs, dict) or "loss" not in logs:
            return None
        mean = float(logs["loss"])
        if not self._running:
            return mean
        if batches <= self._batches:  # another epoch
            self._batches, self._mean = 0, 0.0
        since = batches - self._batches
        loss = (mean * batches - self._mean * self._batches) / since
        self._batches, self._mean = batches, mean
        return loss


def _is_running(model: Any) -> bool:
    """Whether the loss in the logs is a mean over the epoch."""
    trainers = (keras.Model, keras.Sequential)
    own = any(type(model).train_step is trainer.train_step for trainer in trainers)
    if own:
        return True
    tracker = loss_tracker(model)
    return any(
        metric.name == "loss" and metric is not tracker
        for metric in getattr(model, "metrics", ())
    )
