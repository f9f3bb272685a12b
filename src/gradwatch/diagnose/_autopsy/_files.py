"""The files of an autopsy, in the directory of its run.

`runs/a/autopsy/step-123` holds the result (`autopsy.json`), the batch of that step with
the seeds of random layers (`batch.npz`), and the weights from before it
(`before.weights.h5`, for `model.load_weights`). Reading the result needs no Keras.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..._errors import GradwatchError, arg

_FOLDER = "autopsy"
_RESULT, _BATCH, _WEIGHTS = "autopsy.json", "batch.npz", "before.weights.h5"
_FORMAT = 1
_PARTS = ("x", "y", "sample_weight")


def write_autopsy(
    run: str | os.PathLike[str],
    model: Any,
    batch: Any,
    result: Mapping[str, Any],
    chance: Sequence[Any] = (),
) -> Path:
    """Writes the result, the batch, and the weights that the model has now.

    The result comes last: where it is, the rest is complete.

    Args:
        run: The directory of the run.
        model: The model, with the weights from before the step.
        batch: The batch of the step.
        result: The values of the autopsy.
        chance: The random state of the framework before the step, where it has one.

    Raises:
        OSError: If the disk does not take it.
    """
    import keras

    from ...engine import array_of, seeds_of

    directory = Path(run) / _FOLDER / f"step-{result['step']}"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / _RESULT).unlink(missing_ok=True)
    model.save_weights(directory / _WEIGHTS, overwrite=True)
    # Keras keeps no seeds with the weights; dropout is to drop the same again.
    arrays: dict[str, Any] = {
        f"seed.{i}": array_of(seed) for i, seed in enumerate(seeds_of(model))
    }
    arrays |= {f"chance.{i}": state for i, state in enumerate(chance)}
    parts = dict(zip(_PARTS, keras.utils.unpack_x_y_sample_weight(batch), strict=True))
    for path, leaf in keras.tree.flatten_with_path(parts):
        if leaf is not None:
            arrays[".".join(map(str, path))] = keras.ops.convert_to_numpy(leaf)
    np.savez(directory / _BATCH, **arrays)
    unfinished = directory / f"{_RESULT}.part"
    text = json.dumps({"format": _FORMAT, **result}, indent=1)
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, directory / _RESULT)
    return directory


def restore(directory: str | os.PathLike[str], model: Any) -> tuple[Any, Any, Any]:
    """Gives a model the weights from before the step; returns its batch."""
    from ...backends import current
    from ...engine import seeds_of

    path = Path(directory)
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and not optimizer.built:
        optimizer.build(model.trainable_variables)  # its state is in the file as well
    model.load_weights(path / _WEIGHTS)
    with np.load(path / _BATCH) as stored:
        arrays = {name: stored[name] for name in stored.files}
    for number, seed in enumerate(seeds_of(model)):
        seed.assign(arrays[f"seed.{number}"])
    chance = [name for name in arrays if name.startswith("chance.")]
    current().set_random_state([arrays[name] for name in chance])
    x, y, sample_weight = (_part(arrays, name) for name in _PARTS)
    return x, y, sample_weight


def _part(arrays: Mapping[str, Any], name: str) -> Any:
    """Puts a part of a batch together again: an array, or a dict or list of parts."""
    if name in arrays:
        return arrays[name]
    below = [key[len(name) + 1 :] for key in arrays if key.startswith(f"{name}.")]
    keys = list(dict.fromkeys(key.partition(".")[0] for key in below))
    if not keys:
        return None
    parts = {key: _part(arrays, f"{name}.{key}") for key in keys}
    return list(parts.values()) if all(key.isdigit() for key in keys) else parts


def read_latest(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns the values of the newest autopsy in a run, with its own directory.

    Raises:
        GradwatchError: If there is none, or it cannot be read.
    """
    path = Path(directory)
    files = [*path.glob(_RESULT)] or [*path.glob(f"{_FOLDER}/step-*/{_RESULT}")]
    if not files:
        state = "which is a file" if path.exists() else "which does not exist"
        state = "which has none" if path.is_dir() else state
        raise GradwatchError(
            f"{arg('directory')} must be that of a run with an autopsy. Received: "
            f"{os.fspath(directory)!r}, {state}. `GradientMonitor(…, "
            "on_nonfinite='autopsy')` writes one when a gradient is not finite."
        )
    file = max(files, key=lambda file: file.stat().st_mtime_ns)
    try:
        values = dict(json.loads(file.read_text(encoding="utf-8")))
        version = values.pop("format")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GradwatchError(
            f"An autopsy must be JSON of gradwatch. Received: {str(file)!r}, which "
            f"cannot be read ({type(error).__name__}). The batch and the weights "
            "beside it may still be good: run `gradwatch.autopsy(model, x, y)` on them."
        ) from None
    if version != _FORMAT:
        raise GradwatchError(
            f"An autopsy must be of format {_FORMAT}. Received: {str(file)!r}, of "
            f"format {version!r}. A newer gradwatch reads it."
        )
    return values | {"directory": str(file.parent)}
