"""The batch in a file: `.npz` with `x` and `y` or inputs by name, or one `.npy`."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from typing import Any

import click
import numpy as np

from .._errors import GradwatchError, counted, quoted
from ._common import options
from ._model import load

_LABELS = "y:"


data_options = options(
    click.option(
        "--data",
        required=True,
        type=click.Path(),
        metavar="FILE",
        help="The batch: an .npz with x and y (or an array for each input by its name, "
        "and y; y:NAME for each of several outputs; sample_weight), or an .npy with x. "
        "Make one with numpy.savez('batch.npz', x=x, y=y).",
    ),
    click.option(
        "--rows",
        type=click.IntRange(min=1),
        metavar="N",
        help="Use only the first N examples.",
    ),
)


def opened(ctx: click.Context, *, data: str, rows: int | None, **how: Any) -> Any:
    """Returns the model of `model_options`, and the batch in the structure it takes.

    Returns:
        The model; and the inputs, the labels, and a weight for each example, `None` for
        what the file does not hold.

    Raises:
        GradwatchError: If a file cannot be read, or the batch does not fit the model.
    """
    arrays = _arrays(data)
    lengths = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        each = ", ".join(f"{name!r} has {n:,}" for name, n in lengths.items())
        raise GradwatchError(
            "`--data` must hold as many examples in each array. Received: "
            f"{data!r}, where {each}. Cut them to one length."
        )
    model = load(ctx, **how)
    own = {name: array[:rows] for name, array in arrays.items()}
    weight, y = own.pop("sample_weight", None), own.pop("y", None)
    labels = {name: own.pop(name) for name in [*own] if name.startswith(_LABELS)}
    by_output = {name.removeprefix(_LABELS): a for name, a in labels.items()}
    given: Any = (by_output or None) if y is None else y
    return model, (_inputs(data, own, model), given, weight)


def _arrays(path: str) -> dict[str, np.ndarray]:
    rule, what = "hold at least one array", "which is empty"
    try:
        # Without pickles: a file of data must not run code.
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"x": loaded}
        with loaded:
            arrays = {name: loaded[name] for name in loaded.files}
        # Any other zip file, such as a model, opens as well: it holds bytes.
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise ValueError("not arrays")
        if arrays:
            return arrays
    except (FileNotFoundError, IsADirectoryError) as error:
        rule, what = "be an .npz or .npy file", "which does not exist"
        what = "a directory" if isinstance(error, IsADirectoryError) else what
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        objects = "Object arrays" in str(error)
        what = "which holds Python objects" if objects else "which NumPy cannot read"
        rule = "hold plain arrays of numbers"
    raise GradwatchError(
        f"`--data` must {rule}. Received: {path!r}, {what}. Make it with "
        "`numpy.savez('batch.npz', x=x, y=y)`."
    )


def _inputs(path: str, own: Mapping[str, np.ndarray], model: Any) -> Any:
    from .._keras import functional_of, input_structure

    expected = input_structure(functional_of(model) or model)
    if expected is None:  # a model of its own class: only it knows what it takes
        return own["x"] if set(own) == {"x"} else dict(own)
    import keras

    tensors = keras.tree.flatten(expected)
    takes = {tensor.name: tuple(tensor.shape) for tensor in tensors}
    alone = len(takes) == 1 and set(own) == {"x"}
    if alone:
        own = dict.fromkeys(takes, own["x"])
    if set(own) != set(takes):
        single = "as `x`, or " if len(takes) == 1 else ""
        raise GradwatchError(
            f"`--data` must hold the model's {counted(len(takes), 'input')} {single}by "
            f"name: {quoted(takes)}. Received: {path!r}, which holds "
            f"{quoted(own) or 'none of them'}. Make it with "
            f"`numpy.savez('batch.npz', {', '.join(f'{name}=…' for name in takes)})`."
        )
    for name, (_, *inner) in takes.items():
        array, shown = own[name], "x" if alone else name
        empty, sizes = array.shape[:1] == (0,), array.shape[1:]
        fits = len(array.shape) == 1 + len(inner) and not empty
        if fits and all(n in (None, m) for n, m in zip(inner, sizes, strict=True)):
            continue
        wanted = ", ".join(["batch", *("any" if n is None else str(n) for n in inner)])
        out = "Reshape or resize it as for `model.predict`."
        if array.shape == tuple(inner):
            out = f"The batch axis is missing: save `{shown}[None]`."
        elif empty:
            out = "Save at least one example."
        elif array.size and [*sizes, 1] == inner:
            out = f"The last axis is missing: save `{shown}[..., None]`."
        raise GradwatchError(
            f"`--data` must fit the model, which takes ({wanted}). Received: {shown!r} "
            f"of shape {array.shape} in {path!r}. {out}"
        )
    return keras.tree.map_structure(lambda tensor: own[tensor.name], expected)
