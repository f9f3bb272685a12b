"""Going on where an earlier call stopped, if it is the same question and data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..._errors import GradwatchError
from ._data import Batch, Source, unpacked
from ._fingerprint import check_same, checksum
from ._store import Store, Whole


def take_up(store: Store, question: dict[str, list[str]]) -> None:
    """Finds out how far an earlier call came, and forgets what it did not finish."""
    journal = store.journal
    if journal.exists:
        journal.lock()
    if journal.exists and journal.read():
        if journal.batches:
            check_same(journal.head["question"], question, str(store.path))
        columns = store.columns()
        journal.fit(columns.whole())
        columns.cut(journal.rows)
        journal.trim()
    else:
        store.discard()


def check_finished(
    found: Whole, batches: Source, num_batches: int | None, path: str
) -> None:
    """Raises when a finished store is not the answer to what is asked."""
    done = found.batches
    more = num_batches is None or num_batches > len(done)
    if not found.ended and more:
        raise GradwatchError(
            "`num_batches` must not be more than a finished store has. Received: "
            f"{num_batches} for {path!r}, which was finished after "
            f"{in_batches(len(done))}. Give another path, or `resume=False` to begin "
            "again."
        )
    if found.ended and batches.total not in (None, len(done)):
        raise _other_data(
            f"{in_batches(batches.total or 0)} where the store has {len(done)}"
        )
    if batches.at is not None:
        for number in {0, len(done) - 1}:
            _check_same_batch(unpacked(batches.at(number)), done[number], number)
    else:
        for batch in batches.walk():
            _check_same_batch(unpacked(batch), done[0], 0)
            break


def after(batches: Source, done: Sequence[dict[str, Any]]) -> Iterator[Batch]:
    """Gives the batches behind those that are done, which must be the same as then."""
    number = 0
    if batches.at is not None:
        if batches.total is not None and batches.total < len(done):
            raise _other_data(f"{in_batches(batches.total)} where {len(done)} are done")
        for number in sorted({0, len(done) - 1}) if done else ():
            _check_same_batch(unpacked(batches.at(number)), done[number], number)
        number = len(done)
        while batches.total is None or number < batches.total:
            yield unpacked(batches.at(number))
            number += 1
        return
    walk = batches.walk()
    for number, line in enumerate(done):
        try:
            _check_same_batch(unpacked(next(walk)), line, number)
        except StopIteration:
            raise _other_data(
                f"{in_batches(number)} where {len(done)} are done"
            ) from None
    # No name for the batch: it would keep it while the next one is made.
    yield from map(unpacked, walk)


def _check_same_batch(batch: Batch, line: dict[str, Any], number: int) -> None:
    if checksum((batch.x, batch.y)) != line["crc"]:
        raise _other_data(f"a batch {number} that is another one than in the store")


def _other_data(what: str) -> GradwatchError:
    return GradwatchError(
        "`data` must give the same batches in the same order as when the store was "
        f"begun, to go on with it. Received: {what}. Do not shuffle (or with a seed "
        "and `reshuffle_each_iteration=False`), give a fresh generator, and seed what "
        "is random; or give another path, or `resume=False` to begin again."
    )


def in_batches(number: int) -> str:
    """Returns the number and its noun."""
    return f"{number:,} batch" + ("" if number == 1 else "es")
