"""What a shell may offer when a key is pressed: found without Keras, in a moment."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

_MOST = 500  # directories that are looked into: a key was pressed, and somebody waits
_SUFFIX = ".gradwatch"  # of the event files that are ours


def runs(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offers the directories of runs, and where there are none, directories."""
    del ctx, param
    found = [CompletionItem(path) for path in _runs(incomplete)]
    return found or [CompletionItem(incomplete, type="dir")]


def _runs(incomplete: str) -> Iterator[str]:
    head, tail = os.path.split(incomplete)
    looked = 0
    todo = [
        path
        for path in _directories(Path(head or "."))
        if path.name.startswith(tail) and (tail or not path.name.startswith("."))
    ]
    depth = dict.fromkeys(todo, 0)
    while todo and looked < _MOST:
        path = todo.pop(0)
        looked += 1
        inside = _names(path)
        if any(name.endswith(_SUFFIX) and "tfevents" in name for name in inside):
            yield str(path) if head else str(path).removeprefix("./")
        elif depth[path] < 2:
            for below in _directories(path):
                depth[below] = depth[path] + 1
                todo.append(below)


def _names(path: Path) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _directories(path: Path) -> list[Path]:
    return sorted(p for name in _names(path) if (p := path / name).is_dir())


def layers(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offers the layers of the model that was named, as its file lists them."""
    del param
    try:
        # The model is among what is left over where an option waits for its value.
        given = [ctx.params.get("model"), *ctx.args]
        path = next(str(word) for word in given if str(word).endswith(".keras"))
        with zipfile.ZipFile(path) as file:
            config = json.loads(file.read("config.json"))
        names = list(_layers(config, ""))
    except (KeyError, OSError, StopIteration, ValueError, zipfile.BadZipFile):
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _layers(config: Any, above: str) -> Iterator[str]:
    for layer in config.get("config", {}).get("layers", ()):
        if layer.get("class_name") == "InputLayer":
            continue
        name = above + str(layer["config"]["name"])
        yield name
        yield from _layers(layer, f"{name}/")
