"""Completions for the shell, found without Keras and at once."""

from __future__ import annotations

import itertools
import json
import os
import zipfile
from collections.abc import Iterator
from typing import Any

import click
from click.shell_completion import CompletionItem

_MOST = 500  # directories that are searched, so that the shell answers at once
_SUFFIX = ".gradwatch"  # of our event files


def runs(_: Any, __: Any, incomplete: str) -> list[CompletionItem]:
    """Offers the directories of runs, and where there are none, directories."""
    items = [CompletionItem(path) for path in _runs(incomplete)]
    return items or [CompletionItem(incomplete, type="dir")]


def _runs(incomplete: str) -> Iterator[str]:
    """Yields the runs below a directory, at most three levels down."""
    head, tail = os.path.split(incomplete)
    walk = os.walk(head or ".", followlinks=True)
    for path, below, files in itertools.islice(walk, _MOST):
        below.sort()
        inner = os.path.relpath(path, head or ".")
        depth = inner.count(os.sep) + 1
        if inner == ".":
            hidden = () if tail else (".",)
            below[:] = [
                n for n in below if n.startswith(tail) and not n.startswith(hidden)
            ]
        elif any("tfevents" in name and name.endswith(_SUFFIX) for name in files):
            yield os.path.join(head, inner)
            below.clear()
        elif depth == 3:
            below.clear()


def layers(ctx: click.Context, _: Any, incomplete: str) -> list[CompletionItem]:
    """Offers the layers of the model, as its file lists them."""
    try:
        # The model is still among the arguments while an option waits for its value.
        arguments = map(str, [ctx.params.get("model"), *ctx.args])
        path = next(text for text in arguments if text.endswith(".keras"))
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
