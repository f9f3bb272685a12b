"""Attributions of a whole dataset."""

from __future__ import annotations

import contextlib
import gc
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..._errors import GradwatchError, counted
from ...select import require_model
from .._integrated_gradients import integrated_gradients
from .._result import Attribution
from .._rows import checked_batch_size
from ._data import Batch, Source, source
from ._fingerprint import check_same, checksum, digests
from ._layout import (
    Arrays,
    Kind,
    arrays_of,
    check_kinds,
    checked_keep,
    plain,
    words_of,
)
from ._opened import AttributedDataset, store_at
from ._progress import shown
from ._resume import after, check_finished, in_batches, take_up
from ._store import Store
from ._target import target_of

KEEP = ("values", "score", "delta", "baseline_score")


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
    keep: Sequence[str] = KEEP,
    **settings: Any,
) -> AttributedDataset:
    """Explains every example of a dataset, and writes the answers to disk as it goes.

    Of any length: one batch is in memory at a time. Whatever ends it, an exception,
    Ctrl-C, a full disk or a kill, costs the batch in hand; the same call goes on behind
    the last batch done. What is at `to` is whole, or marked as not.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> x, y = np.random.default_rng(0).normal(size=(100, 3)), np.arange(100) % 2
    >>> d = gw.attribute.attribute_dataset(model, (x, y), "label", to="why.npz")
    >>> len(d), d.values.shape
    (100, (100, 3))
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
            label; or a function of two arguments, `x` and `y` of a batch, that gives
            the target of the batch.
        to: Where the answers go, a path that ends in `.npz`, `.zarr` (needs
            `gradwatch[zarr]`) or `.parquet` (needs `gradwatch[pandas]`). Until it is
            finished there is a directory of that name and `.parts` beside it.
        method: Any function of `gradwatch.attribute` that gives an `Attribution`.
        batch_size: The most rows that go through the model at a time; arrays are cut
            into batches of so many examples (without it, 32).
        num_batches: Stop after so many batches. None: when the data ends.
        resume: False begins again, and deletes what is there as soon as the first new
            batch is explained.
        progress: A bar in a terminal or notebook (None), also lines in a log (True),
            nothing (False).
        keep: What is kept of each batch: `"values"`, `"score"`, and of `"delta"`,
            `"baseline_score"`, `"activation"` and `"inputs"` what you like.
        settings: Further arguments of the method, such as `layer` or `steps`.

    Returns:
        The store, open for reading.

    Raises:
        GradwatchError: When an argument cannot be used, the data is empty, or the store
            was made in another way; the message says why.
    """
    require_model(model)
    store = _ready(to, method, num_batches)
    if checked_batch_size(batch_size) is not None:
        settings["batch_size"] = batch_size
    given = {"method": method, "target": target, "keep": checked_keep(keep), **settings}
    question = digests(model, given)
    batches = source(data, batch_size)
    finished = store.whole()  # raises when it is not ours
    if finished is not None and resume:
        check_same(finished.head["question"], question, str(to))
        check_finished(finished, batches, num_batches, str(to))
        store.journal.remove()
        return AttributedDataset(store.path, finished)
    try:
        if resume:
            take_up(store, question)
        with _told(store):
            maker = _Maker(model, target, method, settings, checked_keep(keep))
            _run(store, batches, maker, question, num_batches, progress)
            store.finish()
    finally:
        store.journal.close()
    made = AttributedDataset.open(to)
    _report(made)
    return made


def _ready(to: Any, method: Any, num_batches: int | None) -> Store:
    store = store_at(to, "to")
    store.require()
    if not store.path.parent.is_dir():
        raise GradwatchError(
            f"`to` must be in a directory that exists. Received: {os.fspath(to)!r}. "
            f"Make {str(store.path.parent)!r} first."
        )
    if not callable(method):
        raise GradwatchError(
            "`method` must be a function such as `gradwatch.saliency`. Received: "
            f"{method!r}."
        )
    whole = isinstance(num_batches, int | np.integer) and not isinstance(
        num_batches, bool
    )
    if num_batches is not None and (not whole or num_batches < 1):
        raise GradwatchError(
            f"`num_batches` must be a whole number from 1, or None. Received: "
            f"{num_batches!r}."
        )
    return store


@contextlib.contextmanager
def _told(store: Store) -> Iterator[None]:
    """Whatever happens, the user learns what is safe; nothing is left of nothing."""
    try:
        yield
    except BaseException as error:
        done = len(store.journal.batches)
        if not done and store.journal.held:
            with contextlib.suppress(OSError):
                store.journal.remove()
                store.discard()
        elif done and store.journal.exists:
            error.add_note(
                f"attribute_dataset: {in_batches(done)} ({store.journal.rows:,} "
                f"examples) are safe in {str(store.journal.directory)!r}; the same "
                "call goes on from there."
            )
        raise


class _Maker:
    """Makes the rows of one batch."""

    def __init__(
        self, model: Any, target: Any, method: Any, settings: Any, keep: Sequence[str]
    ) -> None:
        self.model, self.target, self.method = model, target, method
        self.settings, self.keep = settings, keep

    def explained(self, batch: Batch, start: int) -> Attribution:
        target = target_of(self.target, batch, start)
        # NaN is a finding here, counted and reported, and not a reason to end.
        with np.errstate(invalid="ignore", over="ignore"):
            found = self.method(self.model, batch.x, target, **self.settings)
        if not isinstance(found, Attribution):
            raise GradwatchError(
                "`method` must give an `Attribution`. Received: "
                f"{getattr(self.method, '__name__', self.method)!r}, which gives an "
                f"object of type {type(found).__name__}."
            )
        return found


def _run(
    store: Store,
    batches: Source,
    maker: _Maker,
    question: dict[str, list[str]],
    num_batches: int | None,
    progress: bool | None,
) -> None:
    journal = store.journal
    stream = after(batches, journal.batches)
    total = min(
        (n for n in (batches.total, num_batches) if n is not None), default=None
    )
    with shown(progress, total, len(journal.batches), store.path.name) as advance:
        while not journal.ended and not _enough(journal.batches, num_batches):
            batch = next(stream, None)
            if batch is None:
                if not journal.batches:
                    raise _empty()
                journal.end()
                break
            number, start = len(journal.batches), journal.rows
            line: dict[str, Any] = {
                "rows": batch.rows,
                "crc": checksum((batch.x, batch.y)),
            }
            found = maker.explained(batch, start)
            del batch  # Before the next one is made: one at a time is enough.
            arrays = arrays_of(found, maker.keep)
            if not number:
                kinds = {name: Kind.of(a) for name, a in arrays.items()}
                head = {n: [kind.dtype, kind.shape] for n, kind in kinds.items()}
                words = words_of(found)
                # What was there is let go now, when the question is known to work.
                if not journal.held:
                    store.clear()
                journal.begin({"question": question, "columns": head, "words": words})
            check_kinds(arrays, journal.kinds, number)
            common, own = journal.head["words"]["settings"], plain(found.settings)
            unlike = {n: v for n, v in own.items() if common.get(n) != v}
            line |= {"nonfinite": _nonfinite(found), "settings": unlike}
            _write(store, arrays, line)
            del found, arrays
            # Cycles of this batch, before they are many; the old ones are left alone.
            gc.collect(1)
            advance(len(journal.batches), journal.rows)
        if batches.total == len(journal.batches):
            journal.end()


def _write(store: Store, arrays: Arrays, line: dict[str, Any]) -> None:
    """Writes the numbers, and then that they are whole."""
    columns, start = store.columns(), store.journal.rows
    try:
        columns.append(arrays, start)
        store.journal.append(line)
    except BaseException:
        # Room for others. If this fails too, the next call does it.
        with contextlib.suppress(Exception):
            columns.cut(start)
        raise


def _enough(done: Sequence[Any], num_batches: int | None) -> bool:
    return num_batches is not None and len(done) >= num_batches


def _empty() -> GradwatchError:
    return GradwatchError(
        "`data` must give at least one batch. Received: none. A generator can be used "
        "only once: give the function that makes it, or a fresh one."
    )


def _nonfinite(found: Attribution) -> int:
    """Returns how many examples have a number that is not finite."""
    good = np.isfinite(found.score)
    for place in found.places:
        rows = place.values.reshape(len(place.values), -1)
        good &= np.isfinite(rows).all(axis=1)
    return int((~good).sum())


def _report(made: AttributedDataset) -> None:
    if made.nonfinite:
        bad = made.nonfinite_batches
        where = ", ".join(map(str, bad[:8])) + (", …" if len(bad) > 8 else "")
        warnings.warn(
            f"attribute_dataset: {made.nonfinite} of {counted(len(made), 'example')} "
            f"have numbers that are not finite, in {in_batches(len(bad))} ({where}). "
            "They are in the store as they are; `gradwatch.autopsy(model, x)` says "
            "where such numbers begin.",
            stacklevel=3,
        )
