"""The callback that draws attributions while a model is trained."""

from __future__ import annotations

import contextlib
import inspect
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from .._errors import GradwatchError, quoted, require
from .._keras import step_count
from ..run import ImageWriter
from ._checked import is_count
from ._method import made_by, require_method
from ._panels import MOST
from ._path import integrated_gradients
from ._problem import explained
from ._result import Attribution


class AttributionImages(keras.callbacks.Callback):
    """Draws what drives some predictions, into TensorBoard's Images tab, as they learn.

    The same examples are explained again and again, once before training and then as
    often as asked; the slider of the tab shows how the reasons change. The model trains
    as it would without them, bit for bit. `tensorboard --logdir runs` shows the
    pictures.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> model.compile("sgd", "mse")
    >>> x, y = np.ones((8, 3)), np.ones((8, 2))
    >>> images = gw.AttributionImages("runs/a", x[:2], gw.class_score(1), steps=5)
    >>> history = model.fit(x, y, epochs=2, verbose=0, callbacks=[images])
    >>> images.drawn  # before training, and after each epoch of one step
    [0, 1, 2]

    What it costs: one call of the method for the chosen examples each time, compiled
    once, and about a second to draw them. A failure of its own is one warning, after
    which the training goes on without pictures.

    Args:
        directory: Of the run; the pictures go to the folder `attributions` in it. It
            may be that of a `GradientMonitor`: steps are counted alike.
        x: Inputs to explain, usually of the validation data.
        target: What is explained, as in `saliency`; with a class for each example,
            `class_score(classes)`.
        method: Any method that is called with a model, inputs and a target.
        every: `"epoch"`, or a number of steps.
        layer: The layer to attribute to, for methods that take one.
        count: Maximum number of examples drawn, up to 8: the first ones of `x`.
        plot: Words for `Attribution.plot`, such as `{"tokens": …, "titles": …}`.
        **options: Further arguments of the method, such as `steps=20`.

    Attributes:
        drawn: The steps at which a picture was drawn.

    Raises:
        GradwatchError: If an argument is none of what it may be; when training starts,
            if the method refuses the model, the inputs or the target.
    """

    def __init__(  # noqa: PLR0913 - what is explained, how, when, and how it looks
        self,
        directory: str | os.PathLike[str],
        x: Any,
        target: Any,
        method: Callable[..., Attribution] = integrated_gradients,
        *,
        every: int | str = "epoch",
        layer: Any = None,
        count: int = 8,
        plot: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        rule = "`every` must be a number of steps from 1, or 'epoch'."
        require(every == "epoch" or is_count(every), rule, every)
        require_method(method)
        rule = f"`count` must be a number of examples from 1 to {MOST}, which fit a "
        require(is_count(count) and count <= MOST, f"{rule}picture.", count)
        rule = "`plot` must be a dict of words for `Attribution.plot`, such as "
        rule += "`{'theme': 'dark'}`, or None."
        require(plot is None or isinstance(plot, Mapping), rule, plot)
        self._every = None if every == "epoch" else int(every)
        self._method = method
        self._x, rows = _first(x, int(count))
        self._target = explained(target)
        # Once, so that it is the same to what was compiled for it. With fewer classes
        # than examples, the method says it better.
        with contextlib.suppress(IndexError):
            self._target = self._target.for_rows(np.arange(rows))
        self._options = options if layer is None else {"layer": layer, **options}
        _check_words(method, (None, x, target), self._options, "options")
        self._plot = dict(plot or {})
        _check_words(Attribution.plot, (None,), self._plot, "plot")
        # TensorBoard follows one growing file of a folder at a time.
        self._writer = ImageWriter(Path(directory) / "attributions")
        self._warned = self._stopped = False
        self._step = self._epoch_start = 0
        self.drawn: list[int] = []

    # what Keras calls -----------------------------------------------------------------

    def on_train_begin(self, logs: Any = None) -> None:
        """Draws the model as it is, which also shows that it can be drawn."""
        del logs
        iterations = step_count(getattr(self.model, "optimizer", None))
        self._step = 0 if iterations is None else int(iterations.value)
        # What was asked for may be impossible: say so before the training.
        self._draw(GradwatchError, ImportError)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Records the step at which the epoch begins."""
        del epoch, logs
        self._epoch_start = self._step

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Draws every `every` steps."""
        del logs
        before, self._step = self._step, self._epoch_start + batch + 1
        every = self._every
        if every is not None and before // every < self._step // every:
            self._draw()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Draws, if `every` is `"epoch"`."""
        del epoch, logs
        if self._every is None:
            self._draw()

    def on_train_end(self, logs: Any = None) -> None:
        """Closes the file."""
        del logs
        self._writer.close()

    # pictures -------------------------------------------------------------------------

    def _draw(self, *refusals: type[Exception]) -> None:
        """Draws the model as it is now; other errors than refusals become a warning."""
        if self._stopped:
            return
        try:
            question = (self._method, self.model, self._x, self._target)
            attribution = made_by(*question, **self._options)
            png, size = _png(attribution.plot(**self._plot))
            own = getattr(self._method, "__name__", "attribution")
            parts = (attribution.method or own, attribution.layer)
            tag = "/".join(part for part in parts if part)
            self._writer.write(self._step, tag, png, size)
            self.drawn.append(self._step)
        except refusals:
            raise
        except Exception as error:  # noqa: BLE001 - ours must not end a training
            again = isinstance(error, OSError)  # a disk may have room the next time
            self._stopped = not again
            if self._warned:
                return
            self._warned = True
            goes_on = " It is tried again the next time." if again else ""
            warnings.warn(
                f"gradwatch could not draw attributions at step {self._step}: "
                f"{type(error).__name__}: {error}.{goes_on} The training goes on; what "
                f"was drawn before is in {str(self._writer.directory)!r}.",
                RuntimeWarning,
                stacklevel=2,
            )


def _png(figure: Any) -> tuple[bytes, tuple[int, int]]:
    png = figure._repr_png_()
    # Width and height are the first numbers of a PNG, as the figure was rounded to.
    width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
    return png, (width, height)


def _first(x: Any, count: int) -> tuple[Any, int]:
    flat = [part for part in keras.tree.flatten(x) if part is not None]
    try:
        rows = len(flat[0])
        cut = keras.tree.map_structure(lambda part: part[:count], x)
    except (TypeError, IndexError, KeyError):
        rows = 0
    rule = "`x` must be a batch of inputs: an array, or a structure of arrays, with at "
    rule += "least one example."
    way_out = "Take a batch of a dataset first: `next(iter(dataset))[0]`."
    require(rows > 0, rule, type(x).__name__, way_out)
    return cut, min(rows, count)


def _check_words(
    function: Any, given: tuple[Any, ...], words: Mapping[str, Any], argument: str
) -> None:
    """Raises if a function does not take these arguments."""
    signature = inspect.signature(function)
    try:
        signature.bind(*given, **words)
    except TypeError as error:
        name = getattr(function, "__name__", repr(function))
        raise GradwatchError(
            f"`{argument}` must be arguments that `{name}` takes. Received: "
            f"{quoted(map(str, words))}; {error}. It takes "
            f"{quoted([*signature.parameters][len(given) :], 20)}."
        ) from None
