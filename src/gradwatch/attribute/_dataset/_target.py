"""The target of each batch of a dataset."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from ..._errors import TargetError
from ...targets import Target, class_score
from ._batches import DatasetBatch

LABEL = "label"


def target_of(target: Any, batch: DatasetBatch, start: int) -> Any:
    """Returns the target of one batch.

    Args:
        target: What the caller gave, for the whole dataset.
        batch: The batch.
        start: The number of its first example in the dataset.

    Raises:
        TargetError: If there are no labels, or no class for these examples.
    """
    if isinstance(target, str) and target == LABEL:
        return class_score(_classes(batch))
    if isinstance(target, Target):
        try:
            return target.for_rows(np.arange(start, start + batch.rows))
        except IndexError:
            raise TargetError(
                "`target` must be one class for all examples of the dataset, or one "
                f"for each. Received: {target}, which has none for the examples from "
                f"{start} to {start + batch.rows - 1}. If `data` has labels, "
                "`target='label'` explains each example's own."
            ) from None
    if isinstance(target, str):
        raise TargetError(
            "`target` must be a target, 'label', a function of the outputs, or a "
            f"function of `x` and `y`. Received: {target!r}."
        )
    if _takes_a_batch(target):
        return target(batch.x, batch.y)
    return target


def _takes_a_batch(target: Any) -> bool:
    """Returns whether it is a function of `(x, y)`, and not of the outputs."""
    if not callable(target):
        return False
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return False
    needed = [
        p
        for p in parameters
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        and p.default is p.empty
    ]
    return len(needed) == 2


def _classes(batch: DatasetBatch) -> np.ndarray:
    labels = batch.y
    if not isinstance(labels, np.ndarray):
        what = "none" if labels is None else f"a {type(labels).__name__}"
        raise TargetError(
            "`target='label'` needs one array of labels with each batch. Received: "
            f"{what}. Let `data` give `(x, y)`, or write the target as a function: "
            "`target=lambda x, y: gradwatch.class_score(…)`."
        )
    if labels.ndim == 2 and labels.shape[1] > 1:  # one-hot
        return np.asarray(labels.argmax(axis=1))
    labels = labels.reshape(len(labels), -1)[:, 0] if labels.ndim <= 2 else labels
    whole = labels.ndim == 1 and bool(np.all(labels == np.round(labels)))
    if not whole:
        raise TargetError(
            "`target='label'` needs classes: whole numbers, one per example, or "
            f"one-hot. Received: labels of shape {batch.y.shape} and dtype "
            f"{batch.y.dtype}. Write the target as a function: "
            "`target=lambda x, y: gradwatch.class_score(…)`."
        )
    return labels.astype("int64")
