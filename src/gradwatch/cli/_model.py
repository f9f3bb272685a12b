"""Loading a model file: safely, on the backend that was asked for."""

from __future__ import annotations

import importlib
import json
import os
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import click

from .._errors import GradwatchError, quoted
from ._common import one_sentence, options

BACKENDS = ("tensorflow", "jax", "torch")
_SAFE = ("safe_mode", "unsafe_deserialization")


backend_option = click.option(
    "--backend",
    type=click.Choice(BACKENDS),
    help="Keras backend (default: KERAS_BACKEND, or the configuration of Keras).",
)

model_options = options(
    click.argument("model", type=click.Path()),
    backend_option,
    click.option(
        "--unsafe-load",
        is_flag=True,
        help="Turn off Keras's safe mode. This allows the file to run any code that is "
        "stored in it, such as that of Lambda layers, on this machine, with your "
        "rights. Only for files that you trust.",
    ),
    click.option(
        "--import",
        "modules",
        multiple=True,
        metavar="MODULE",
        help="Python module to import first, which registers custom layers. May be "
        "repeated.",
    ),
)
"""The argument MODEL and the options of loading it."""


def load(
    ctx: click.Context,
    *,
    model: str,
    backend: str | None,
    unsafe_load: bool,
    modules: tuple[str, ...],
) -> Any:
    """Returns the model in a file.

    Raises:
        GradwatchError: If there is none, or it cannot be loaded; it names the flag that
            would help.
    """
    _require_file(model)
    keras = import_keras(backend)
    here = os.getcwd()
    if modules and here not in sys.path:
        sys.path.insert(0, here)  # a console script does not import from where it runs
    for module in modules:
        with one_sentence(ctx, f"`--import {module}`"):
            importlib.import_module(module)
    # The optimizer's state is of no use here, and often not in the file.
    warnings.filterwarnings("ignore", "Skipping variable loading for optimizer")
    try:
        with one_sentence(ctx, f"Loading {model!r}"):
            return keras.models.load_model(model, safe_mode=not unsafe_load)
    except GradwatchError as error:
        why = str(error)
    own = [] if modules else _own_classes(model)
    if any(word in why for word in _SAFE) and not unsafe_load:
        why = (
            f"`MODEL` must load in Keras's safe mode. Received: {model!r}, which holds "
            "code of its own, such as a Lambda layer. If you trust the file, "
            "`--unsafe-load` allows it to run that code."
        )
    elif own:
        why = (
            f"`MODEL` must be of classes that are known. Received: {model!r}, with "
            f"{quoted(own)}, and it did not load. Name the Python module that "
            f"registers {'them' if len(own) > 1 else 'it'} with `--import`."
        )
    raise GradwatchError(why)


def _require_file(path: str) -> None:
    file, what = Path(path), ""
    if not file.exists():
        what = "which does not exist"
    elif file.is_dir():
        what = "which is a directory"
    elif file.suffix != ".keras":
        what = f"which ends in {file.suffix!r}" if file.suffix else "without a suffix"
    elif not zipfile.is_zipfile(file):
        what = "which is not of that format"
    elif "config.json" not in zipfile.ZipFile(file).namelist():
        what = "which holds no model"
    if what:
        raise GradwatchError(
            f"`MODEL` must be a file that `model.save('name.keras')` wrote. Received: "
            f"{path!r}, {what}. Save the model in this format and give that file."
        )


def import_keras(backend: str | None) -> Any:
    """Imports Keras quietly, on the backend that was asked for."""
    if backend is not None and "keras" not in sys.modules:
        os.environ["KERAS_BACKEND"] = backend
    # TensorFlow logs processors and drivers on each start.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        import keras
    except ImportError as error:
        asked = backend or os.environ.get("KERAS_BACKEND", "tensorflow")
        raise GradwatchError(
            f"Keras must find the framework it runs on. Received: {asked!r}, which "
            f'cannot be imported ({error}). `pip install "gradwatch[{asked}]"` brings '
            "it; `--backend` chooses another."
        ) from None
    runs = keras.config.backend()
    if backend is not None and backend != runs:
        raise GradwatchError(
            f"`--backend` must be given before Keras starts. Received: {backend!r}, "
            f"but Keras runs on {runs!r} in this process. Start a new one."
        )
    return keras


def _own_classes(path: str) -> list[str]:
    """Returns the registered names in a file that are not of Keras."""
    names: dict[str, None] = {}

    def note(part: dict[str, Any]) -> dict[str, Any]:
        if not str(part.get("module")).startswith("keras"):
            names[str(part.get("registered_name") or "")] = None
        return part

    with zipfile.ZipFile(path) as file:
        json.loads(file.read("config.json"), object_hook=note)
    return list(filter(None, names))
