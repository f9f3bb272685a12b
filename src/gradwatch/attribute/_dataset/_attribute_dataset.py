"""Attributions of a whole dataset."""

from __future__ import annotations

import contextlib
import gc
import itertools
import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..._errors import GradwatchError, counted, require
from ...select import require_model
from .._checked import check
from .._layout import checked_keep, header_of, plain_settings, to_columns
from .._method import made_by, require_method
from .._path import integrated_gradients
from .._progress import progress_bar
from .._result import Attribution
from ._batches import Batches, DatasetBatch, batches_of, target_of
from ._key import call_key, check_same_call, checksum
from ._opened import AttributedDataset
from ._store import DatasetStore


def attribute_dataset(  # noqa: PLR0913 - the data, the store, and how it is walked
    model: Any,
    data: Any,
    target: Any,
    *,
    to: str | os.PathLike[str],
    method: Callable[..., Attribution] = integrated_gradients,
    batch_size: int | None = None,
    num_batches: int | None = None,
    resume: bool = True,
    progress: bool | None = None,
    keep: Sequence[str] = ("values", "score", "delta", "baseline_score"),
    **settings: Any,
) -> AttributedDataset:
    """Explains every example of a dataset, and writes the results to disk as it goes.

    The dataset may be of any length: one batch is in memory at a time. Whatever ends
    the call, an exception, Ctrl-C, a full disk or a kill, costs the batch in hand; the
    same call goes on after the last batch done. A store is complete, or marked as not.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> x, y = np.random.default_rng(0).normal(size=(100, 3)), np.arange(100) % 2
    >>> d = gw.attribute.attribute_dataset(model, (x, y), "label", to="why.zarr")
    >>> len(d), d.values.shape
    (100, (100, 3))
    >>> d.export("why.npz")
    >>> np.load("why.npz")["delta"].shape
    (100,)

    Args:
        model: A Keras model or layer.
        data: Arrays (a dict or a list of them for several inputs), which are cut into
            batches; or what gives batches: a `tf.data.Dataset`, a
            `keras.utils.PyDataset`, a generator or a function that makes one, any
            iterable. As for `fit`, a tuple is `(x, y)` or `(x, y, sample_weight)`. To
            go on, it must give the same batches in the same order.
        target: What is explained, as in `saliency`, with one class for all examples of
            the dataset or one for each; or `"label"`, the score of each example's own
            label; or a function of two arguments, `x` and `y` of a batch, that returns
            the target of the batch.
        to: The store, a path that ends in `.zarr` (needs `gradwatch[zarr]`). The
            `export` method of the result writes `.npz` and `.parquet` files.
        method: Any function of `gradwatch.attribute` that returns an `Attribution`.
        batch_size: Maximum number of rows that go through the model at a time, and the
            number of examples in a batch cut from arrays (without it, 32).
        num_batches: Number of batches to stop after. None: when the data ends.
        resume: False begins again, and deletes what is there as soon as the first new
            batch is explained.
        progress: A bar in a terminal or notebook (None), also lines in a log (True),
            nothing (False).
        keep: The parts that are kept of each batch: `"values"`, `"score"`, and any of
            `"delta"`, `"baseline_score"`, `"activation"` and `"inputs"`.
        settings: Further arguments of the method, such as `layer` or `steps`.

    Returns:
        The store, open for reading.

    Raises:
        GradwatchError: If an argument cannot be used, the data is empty, or the store
            was made by another call; the message says why. A function is known by its
            code, not by the variables it closes over.
    """
    require_model(model)
    require_method(method)
    check(num_batches=num_batches, batch_size=batch_size)
    if batch_size is not None:
        settings["batch_size"] = batch_size
    keep = checked_keep(keep)
    asked = {"method": method, "target": target, "keep": keep, **settings}
    key = call_key(model, asked)
    batches = batches_of(data, batch_size)
    store = DatasetStore(to, write=True)

    def add(batch: DatasetBatch) -> None:
        """Explains and stores a batch."""
        chosen = target_of(target, batch, store.rows)
        # NaN is counted and reported, and not a reason to end.
        with np.errstate(invalid="ignore", over="ignore"):
            result = made_by(method, model, batch[0], chosen, **settings)
        arrays = to_columns(result, keep)
        if not len(store.batches):
            # What was there is deleted now, when the question is known to work.
            store.begin({"key": key, **header_of(result)}, arrays)
        store.append(arrays, checksum(batch), plain_settings(result.settings))

    with _writing(store):
        if not resume:
            store.forget()
        elif store.rows:
            check_same_call(store.header["key"], key, str(to))
        remaining = _remaining(batches, store)
        if not store.ended:
            _run(store, remaining, add, batches.total, num_batches, progress)
    return _warned(AttributedDataset.open(to))


@contextlib.contextmanager
def _writing(store: DatasetStore) -> Iterator[None]:
    """Notes on an error which batches are safe; leaves no store without a batch."""
    try:
        yield
    except BaseException as error:
        done = len(store.batches)
        if done and not store.complete:
            error.add_note(
                f"attribute_dataset: {in_batches(done)} ({store.rows:,} examples) are "
                f"safe in {str(store.path)!r}; the same call goes on from there."
            )
        elif store.begun and not done:
            with contextlib.suppress(OSError):
                store.discard()
        raise
    finally:
        store.close()


def _run(
    store: DatasetStore,
    remaining: Iterator[DatasetBatch],
    add: Callable[[DatasetBatch], None],
    total: int | None,
    num_batches: int | None,
    progress: bool | None,
) -> None:
    """Explains and stores the batches that are left."""
    most = min((n for n in (total, num_batches) if n is not None), default=None)
    done = len(store.batches)
    left = None if num_batches is None else max(num_batches - done, 0)
    bar = progress_bar(store.path.name, most, progress, done=done, patience=0)
    with bar as advance:
        # `map` lets go of a batch before the next one is made: one at a time is enough.
        for _ in map(add, itertools.islice(remaining, left)):
            # Cycles of this batch, before they are many; the old ones are left alone.
            gc.collect(1)
            advance(1, f"batches, {store.rows:,} examples")
    way_out = "A generator can be used only once: give the function that makes it, "
    way_out += "or a fresh one."
    require(store.rows > 0, "`data` must give at least one batch.", 0, way_out)
    done = len(store.batches)
    store.finish(ended=done < (num_batches or math.inf) or total == done)


# the same data as before --------------------------------------------------------------


def _remaining(batches: Batches, store: DatasetStore) -> Iterator[DatasetBatch]:
    """Returns the batches after those done, which must be the same as then.

    Where batches can be had by number, the first and the last are compared; else each
    as it goes by, or only the first, if no more are needed.
    """
    done, total = len(store.batches), batches.total
    if total is not None and (total < done or (store.ended and total > done)):
        raise _other_data(f"{in_batches(total)} where {done} are done")
    numbers = {0, done - 1} if batches.at else set(range(1 if store.ended else done))
    stream = batches.start(0)
    for number in sorted(numbers & set(range(done))):
        stream = batches.start(number) if batches.at else stream
        batch = next(stream, None)
        if batch is None and not store.ended:
            raise _other_data(f"{in_batches(number)} where {done} are done")
        if batch is not None and checksum(batch) != store.batches[number, 1]:
            raise _other_data(f"a batch {number} that is another one than in the store")
    return batches.start(done) if batches.at else stream


def _other_data(received: str) -> GradwatchError:
    return GradwatchError(
        "`data` must give the same batches in the same order as when the store was "
        f"begun, to go on with it. Received: {received}. Do not shuffle (or with a "
        "seed and `reshuffle_each_iteration=False`), give a fresh generator, and seed "
        "what is random; or give another path, or `resume=False` to begin again."
    )


def in_batches(number: int) -> str:
    """Returns the number and its noun."""
    return f"{number:,} batch" + ("" if number == 1 else "es")


def _warned(dataset: AttributedDataset) -> AttributedDataset:
    """Warns of numbers that are not finite."""
    if dataset.nonfinite:
        bad = dataset.nonfinite_batches
        numbers = ", ".join(map(str, bad[:8])) + (", …" if len(bad) > 8 else "")
        warnings.warn(
            f"attribute_dataset: {dataset.nonfinite} of "
            f"{counted(len(dataset), 'example')} have numbers that are not finite, in "
            f"{in_batches(len(bad))} ({numbers}). They are in the store as they are; "
            "`gradwatch.autopsy(model, x)` says where such numbers begin.",
            stacklevel=3,
        )
    return dataset
