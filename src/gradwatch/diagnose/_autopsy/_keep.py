"""Keeps the autopsy of a training in the directory of its run, and gives it back."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from ...backends import current
from ...engine import array_of, seeds_of
from ._kept import BATCH, FOLDER, FORMAT, FOUND, WEIGHTS


def write_autopsy(
    run: str | os.PathLike[str],
    model: Any,
    batch: Any,
    found: Mapping[str, Any],
    chance: Sequence[Any] = (),
) -> Path:
    """Writes what was found, the batch, and the weights that the model has now.

    And the random state of the framework before the step, where it has one.

    What was found comes last: where it is, the rest is whole.

    Raises:
        OSError: If the disk does not take it.
    """
    directory = Path(run) / FOLDER / f"step-{found['step']}"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / FOUND).unlink(missing_ok=True)
    model.save_weights(directory / WEIGHTS, overwrite=True)
    # Keras keeps no seeds with the weights; dropout is to drop the same again.
    seeds = {f"seed.{i}": array_of(seed) for i, seed in enumerate(seeds_of(model))}
    chances = {f"chance.{i}": state for i, state in enumerate(chance)}
    arrays: dict[str, Any] = _arrays(batch) | seeds | chances
    np.savez(directory / BATCH, **arrays)
    unfinished = directory / f"{FOUND}.part"
    text = json.dumps({"format": FORMAT, **found}, indent=1)
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, directory / FOUND)
    return directory


def _arrays(batch: Any) -> dict[str, Any]:
    """Names each array of a batch: `x`, or `x.image` where there are several."""
    parts = keras.utils.unpack_x_y_sample_weight(batch)
    found = {}
    for name, part in zip(("x", "y", "sample_weight"), parts, strict=True):
        for path, leaf in keras.tree.flatten_with_path(part):
            if leaf is not None:
                place = ".".join([name, *(str(key) for key in path)])
                found[place] = keras.ops.convert_to_numpy(leaf)
    return found


def restore(directory: str | os.PathLike[str], model: Any) -> tuple[Any, Any, Any]:
    """Gives a model the weights from before the step; returns its batch."""
    path = Path(directory)
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and not optimizer.built:
        optimizer.build(model.trainable_variables)  # its state is in the file as well
    model.load_weights(path / WEIGHTS)
    with np.load(path / BATCH) as stored:
        arrays = {name: stored[name] for name in stored.files}
    for number, seed in enumerate(seeds_of(model)):
        seed.assign(arrays[f"seed.{number}"])
    chances = [name for name in arrays if name.startswith("chance.")]
    current().set_random_state([arrays[name] for name in chances])
    return _part(arrays, "x"), _part(arrays, "y"), _part(arrays, "sample_weight")


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
