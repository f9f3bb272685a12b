"""Whatever ends it costs the batch in hand, and the same call goes on from there."""

import errno
import os
import subprocess
import sys
import tracemalloc
import weakref
from pathlib import Path

import keras
import numpy as np
import pytest

import gradwatch as gw
from gradwatch.attribute import AttributedDataset, attribute_dataset
from gradwatch.attribute._dataset._journal import Journal

from .datasets import (
    DATA,
    KINDS,
    LABELS,
    Doubled,
    batches,
    contents,
    made,
    reopened,
    same,
    small,
)


class BoomError(Exception):
    pass


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """For each kind of store, one that was never interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    return {kind: made(folder / f"why.{kind}") for kind in KINDS}


def failing(number, error=BoomError):
    """A method that fails at one call, and leaves no trace in the question."""

    def before(call):
        if call == number:
            raise error

    return Doubled(before)


def parts(path):
    return path.with_name(path.name + ".parts")


def nothing_whole(path):
    """What is at `path` is not taken for a whole store, by us or by others."""
    if path.suffix == ".zarr":
        import zarr

        if path.exists():
            assert zarr.open_group(path, mode="r").attrs["complete"] is False
    else:
        assert not path.exists()


# somebody, or something, ends it ------------------------------------------------------


WHEN = [(BoomError, number) for number in range(5)] + [(KeyboardInterrupt, 2)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("error", "done"), WHEN)
def test_an_error_costs_the_batch_in_hand(tmp_path, whole, kind, error, done):
    """At each batch: those before are safe, are not made again, and none is lost."""
    path = tmp_path / f"why.{kind}"
    safe = f"{done} batch.*the same call goes on" if done else "^$"
    with pytest.raises(error, match=safe):
        made(path, method=failing(done, error))
    nothing_whole(path)
    if done:
        so_far = reopened(path)
        assert not so_far.complete
        assert "not complete" in repr(so_far)
        assert len(so_far) == 4 * done
        assert np.array_equal(np.asarray(so_far.values), 2 * DATA[: 4 * done])
    else:
        assert list(tmp_path.iterdir()) == []
    method = Doubled()
    same(made(path, method=method), whole[kind])
    assert method.sizes == [4, 4, 4, 4, 2][done:]
    assert not parts(path).exists()


def test_a_file_made_in_two_goes_is_the_file_made_in_one(tmp_path, whole):
    """Byte for byte, words included."""
    path = tmp_path / "why.npz"
    with pytest.raises(BoomError, match="safe in"):
        made(path, method=failing(3))
    made(path)
    assert path.read_bytes() == whole["npz"].path.read_bytes()


def test_data_that_fails_is_gone_on_with(tmp_path, whole):
    """A generator that raises; then the same data in another form."""

    def breaks():
        yield from batches()[:2]
        raise BoomError

    with pytest.raises(BoomError, match="safe in"):
        made(tmp_path / "why.npz", breaks)
    method = Doubled()
    same(made(tmp_path / "why.npz", lambda: iter(batches()), method), whole["npz"])
    assert method.sizes == [4, 4, 2]


def test_an_endless_generator_runs_until_it_is_interrupted(tmp_path):
    """What it gave is there, and `num_batches` makes a whole store of it."""

    def endless():
        number = 0
        while True:
            yield np.full((2, 3), number, "float32")
            number += 1

    options = {"to": tmp_path / "why.npz", "batch_size": 4}
    ask = lambda method, **more: attribute_dataset(  # noqa: E731
        small(), endless, gw.class_score(0), method=method, **options, **more
    )
    with pytest.raises(KeyboardInterrupt, match="safe in"):
        ask(failing(6, KeyboardInterrupt))
    method = Doubled()
    found = ask(method, num_batches=reopened(options["to"]).num_batches)
    assert (len(found), found.complete, method.sizes) == (12, True, [])


KILLED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from attribute import datasets

write, lines = os.write, []

def torn(descriptor, data):
    # Half of the line of the third batch, and the process is gone.
    if bytes(data[:7]) == b'{{"rows"':
        lines.append(1)
        if len(lines) == 3:
            write(descriptor, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
    return write(descriptor, data)

datasets.small()
for path in {paths!r}:  # A process for each, without importing everything again.
    child = os.fork()
    if not child:
        os.write = torn
        datasets.made(path)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(keras.config.backend() != "torch", reason="one backend is enough")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no such call here")
def test_a_killed_process_costs_the_batch_in_hand(tmp_path, whole):
    """A real `kill -9`, in the middle of a write."""
    paths = {kind: tmp_path / f"why.{kind}" for kind in KINDS}
    tests = Path(__file__).parents[1]
    code = KILLED.format(tests=str(tests), paths=[*map(str, paths.values())])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tests.parent / "src")},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.stdout.split() == ["-9"] * 3, done.stderr
    for kind, path in paths.items():
        nothing_whole(path)
        assert not (parts(path) / "batches.jsonl").read_bytes().endswith(b"\n")
        assert len(reopened(path)) == 8
        method = Doubled()
        same(made(path, method=method), whole[kind])
        assert method.sizes == [4, 4, 2]


# a full disk, and what is torn --------------------------------------------------------


class Disk:
    """Stands between the store and the system; fails at one write."""

    def __init__(self, monkeypatch, number, room):
        self.number, self.room, self.writes = number, room, 0
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, descriptor, data):
        self.writes += 1
        if self.number <= self.writes:
            if self.room and self.writes == self.number:
                return self._write(descriptor, data[: self.room])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._write(descriptor, data)


# Three columns and a line make four writes a batch.
@pytest.mark.parametrize("room", [0, 5])
@pytest.mark.parametrize("write", range(1, 13))
def test_a_full_disk_costs_the_batch_in_hand(tmp_path, whole, write, room, monkeypatch):
    """At each write, of nothing or of a part; nothing torn is left behind."""
    path = tmp_path / "why.npz"
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        Disk(patch, write, room)
        made(path)
    done = (write - 1) // 4
    assert parts(path).exists() == bool(done)
    for column, size in (("0", 48), ("1", 16), ("2", 16)) if done else ():
        assert (parts(path) / f"{column}.column").stat().st_size == size * done
    method = Doubled()
    same(made(path, method=method), whole["npz"])
    assert len(method.sizes) == 5 - done


@pytest.mark.parametrize("number", [2, 9, 16])
def test_a_full_disk_in_a_zarr_store(tmp_path, whole, number, monkeypatch):
    """The library fails to write a chunk or the shape of an array."""
    from zarr.storage import LocalStore

    path, put, seen = tmp_path / "why.zarr", LocalStore.set, []

    async def full(self, *args):
        seen.append(1)
        if len(seen) >= number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        await put(self, *args)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(LocalStore, "set", full)
        made(path)
    nothing_whole(path)
    same(made(path), whole["zarr"])


@pytest.mark.parametrize("kind", ["npz", "parquet"])
def test_a_disk_full_at_the_very_end_costs_nothing(tmp_path, whole, kind, monkeypatch):
    """All batches are there; the next call joins them, and runs no model."""
    path = tmp_path / f"why.{kind}"
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):

        def full(descriptor):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patch.setattr(os, "fsync", full)
        made(path)
    nothing_whole(path)
    assert not (parts(path) / "whole.new").exists()
    assert len(reopened(path)) == len(DATA)
    method = Doubled()
    same(made(path, method=method), whole[kind])
    assert method.sizes == []


def cut_line(folder):
    lines = folder / "batches.jsonl"
    lines.write_bytes(lines.read_bytes()[:-3])
    return 2


def cut_end_of_line(folder):
    lines = folder / "batches.jsonl"
    lines.write_bytes(lines.read_bytes()[:-1])
    return 2


def cut_column(folder):
    os.truncate(folder / "0.column", 48 * 2 - 1)
    return 1


def no_column(folder):
    (folder / "1.column").unlink()
    return 0


def more_than_counts(folder):
    with open(folder / "2.column", "ab") as file:
        file.write(b"torn" * 100)
    return 3


TORN = [cut_line, cut_end_of_line, cut_column, no_column, more_than_counts]


@pytest.mark.parametrize("tear", TORN, ids=lambda tear: tear.__name__)
def test_what_is_torn_is_made_again(tmp_path, whole, tear):
    """A line without an end, or numbers that are missing: only whole batches count."""
    path = tmp_path / "why.npz"
    with pytest.raises(BoomError, match="safe in"):
        made(path, method=failing(3))
    left = tear(parts(path))
    if left:
        assert len(reopened(path)) == 4 * left
        with pytest.raises(BoomError, match="safe in"):
            made(path, method=failing(0))
        lines = (parts(path) / "batches.jsonl").read_bytes()
        assert (lines.count(b"\n"), lines[-1:]) == (left, b"\n")
    method = Doubled()
    same(made(path, method=method), whole["npz"])
    assert len(method.sizes) == 5 - left
    assert path.read_bytes() == whole["npz"].path.read_bytes()


def test_a_kill_between_the_file_and_the_cleaning_up_costs_nothing(
    tmp_path, whole, monkeypatch
):
    """Both are there then: the file is whole, the rest is deleted."""
    path = tmp_path / "why.npz"
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "remove", lambda self: None)
        made(path)
    assert parts(path).exists()
    method = Doubled()
    same(made(path, method=method), whole["npz"])
    assert (method.sizes, parts(path).exists()) == ([], False)


# memory -------------------------------------------------------------------------------


def test_one_batch_is_alive_at_a_time(tmp_path):
    """When the next one is made, those before are gone: data, and answers."""
    alive, answers, most = weakref.WeakSet(), weakref.WeakSet(), []

    class Array(np.ndarray):
        __hash__ = object.__hash__

    def many():
        for number in range(6):
            most.append((len(alive), len(answers)))
            batch = np.full((2, 3), number, "float32").view(Array)
            alive.add(batch)
            yield batch
            del batch

    class Noted(Doubled):
        def __call__(self, model, x, target, **options):
            found = super().__call__(model, x, target, **options)
            answers.add(found)
            return found

    attribute_dataset(
        small(), many, gw.class_score(0), to=tmp_path / "why.npz", method=Noted()
    )
    assert most == [(0, 0)] * 6


def test_the_peak_of_memory_does_not_grow_with_the_data(tmp_path):
    """Ten times the batches take as much, joining included."""

    def peak(count):
        def many():
            for number in range(count):
                yield np.full((64, 1000), number, "float32")

        path = tmp_path / f"{count}.npz"
        tracemalloc.start()
        attribute_dataset(small(), many, gw.class_score(0), to=path, method=Doubled())
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert path.stat().st_size > count * 64 * 1000 * 4
        return most

    peak(3)
    few, many = peak(6), peak(60)
    assert many < 1.2 * few


# the same question? -------------------------------------------------------------------


def begun(path, **options):
    with pytest.raises(BoomError, match="safe in"):
        made(path, method=failing(2), **options)


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"factor": 3.0}, r"`factor` \(there not given, here 3.0\)"),
        ({"batch_size": 3}, r"`batch_size` \(there 4, here 3\)"),
        ({"keep": ("values", "score")}, "`keep`"),
        ({"method": gw.saliency}, r"`method` \(there doubled, here saliency\)"),
    ],
)
def test_another_question_is_refused(tmp_path, finished, options, what):
    """The message names what differs; `resume=False` begins again."""
    path = tmp_path / "why.npz"
    made(path) if finished else begun(path)
    with pytest.raises(gw.GradwatchError, match=f"`to` must be .*{what}.*resume=False"):
        made(path, **options)
    found = made(path, resume=False, **options)
    assert len(found) == len(DATA)


def test_other_weights_are_refused_and_other_names_are_not(tmp_path):
    """The same model built again goes on; one number of one weight is another model."""

    def built(nudge=0.0):
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3)])
        model.layers[0].set_weights([np.eye(3) + nudge, np.zeros(3)])
        return model

    def ask(model, method):
        options = {"to": tmp_path / "why.npz", "method": method, "batch_size": 4}
        return attribute_dataset(model, (DATA, LABELS), "label", **options)

    with pytest.raises(BoomError, match="safe in"):
        ask(built(), failing(2))
    with pytest.raises(gw.GradwatchError, match="`model` .its weights or layers"):
        ask(built(1e-6), Doubled())
    method = Doubled()
    ask(built(), method)
    assert method.sizes == [4, 4, 2]


def test_another_target_is_refused(tmp_path):
    """Classes are compared by their numbers, functions by what they do."""

    def ask(target, method):
        options = {"to": tmp_path / "why.npz", "method": method, "batch_size": 4}
        return attribute_dataset(small(), (DATA, LABELS), target, **options)

    pairs = [
        (gw.class_score(LABELS), gw.class_score(LABELS.copy()), gw.class_score(0)),
        (lambda out: out[:, 1], lambda out: out[:, 1], lambda out: out[:, 2]),
    ]
    for first, like, unlike in pairs:
        with pytest.raises(BoomError, match="safe in"):
            ask(first, failing(2))
        with pytest.raises(gw.GradwatchError, match="differs in `target`"):
            ask(unlike, Doubled())
        method = Doubled()
        ask(like, method)
        assert method.sizes == [4, 4, 2]
        (tmp_path / "why.npz").unlink()


OTHER_DATA = {
    "shuffled": (lambda: (DATA[::-1].copy(), LABELS), "batch 0 that is another one"),
    "other labels": (lambda: (DATA, LABELS[::-1].copy()), "batch 0 that is another"),
    "shuffled later": (lambda: iter([batches()[0], batches()[2]]), "batch 1 that is"),
    "shorter": (lambda: iter(batches()[:1]), "1 batch where 2 are done"),
    "fewer rows": (lambda: (DATA[:4], LABELS[:4]), "1 batch where 2 are done"),
    "used up": (lambda: iter(batches()[2:]), "batch 0 that is another one"),
}


@pytest.mark.parametrize("name", OTHER_DATA)
def test_other_data_is_refused(tmp_path, name):
    """Shuffled, shorter, or a generator that has run already."""
    path = tmp_path / "why.npz"
    begun(path)
    data, what = OTHER_DATA[name]
    method = Doubled()
    with pytest.raises(gw.GradwatchError, match=f"`data` must .*{what}.*shuffle"):
        made(path, data(), method)
    assert method.sizes == []
    assert len(made(path)) == len(DATA)


@pytest.mark.parametrize("data", [lambda: (DATA[::-1], LABELS), lambda: DATA[:8]])
def test_other_data_is_refused_by_a_finished_store(tmp_path, data):
    """Old answers are not given for new data."""
    path = tmp_path / "why.npz"
    made(path)
    with pytest.raises(gw.GradwatchError, match="`data` must .* same batches"):
        made(path, data())
    method = Doubled()
    assert made(path, method=method).complete
    assert method.sizes == []


def test_a_store_finished_early_does_not_grow(tmp_path):
    """`num_batches` was the end of it; more of them need another store."""
    path = tmp_path / "why.npz"
    assert len(made(path, num_batches=2)) == 8
    for more in (None, 3):
        with pytest.raises(gw.GradwatchError, match="`num_batches` .* 2 batches"):
            made(path, num_batches=more)
    assert len(made(path, num_batches=2)) == 8
    assert len(made(path, num_batches=5, resume=False)) == len(DATA)
    assert len(made(path)) == len(DATA)


def test_two_do_not_write_to_one_store(tmp_path):
    """The second one is told, and takes nothing away from the first."""
    pytest.importorskip("fcntl")
    path, tried = tmp_path / "why.npz", []

    def before(call):
        if call == 2:
            with pytest.raises(gw.GradwatchError, match="`to` .*being written"):
                made(path)
            tried.append(call)

    assert len(made(path, method=Doubled(before))) == len(DATA)
    assert tried == [2]
    assert contents(reopened(path))[1] == [4, 4, 4, 4, 2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mistake", ["data", "empty", "method"])
@pytest.mark.parametrize("finished", [True, False])
def test_beginning_again_with_a_mistake_deletes_nothing(
    tmp_path, kind, mistake, finished
):
    """What is there is let go when the first new batch is explained, and not before."""
    path = tmp_path / f"why.{kind}"
    made(path) if finished else begun(path)
    before = contents(AttributedDataset.open(path))
    wrong = {"data": {"data": 3}, "empty": {"data": []}, "method": {"factors": 3}}
    with pytest.raises((gw.GradwatchError, TypeError), match="`data`|factors"):
        made(path, resume=False, **wrong[mistake])
    left = AttributedDataset.open(path)
    assert left.complete == finished
    assert contents(left)[1] == before[1]
    assert made(path, resume=False, factor=3.0)[0].settings["factor"] == 3.0


def test_beginning_again_does_not_take_away_what_another_writes(tmp_path):
    """The other one ends as if nobody had been there."""
    path = tmp_path / "why.npz"

    def meanwhile(number):
        if number == 2:
            with pytest.raises(gw.GradwatchError, match="`to` must be .*nobody else"):
                made(path, resume=False)

    assert len(made(path, method=Doubled(meanwhile))) == len(DATA)


def test_functions_that_hold_each_other_can_be_remembered(tmp_path):
    """The question is known again, however they go round."""

    def helpers(factor):
        def first(model, x, target, **settings):
            return Doubled()(model, x, target, factor=factor) if settings else second()

        def second():
            return first

        return first

    made(tmp_path / "why.npz", method=helpers(2.0))
    assert len(made(tmp_path / "why.npz", method=helpers(2.0))) == len(DATA)
    with pytest.raises(gw.GradwatchError, match="`to` must be .*`method`"):
        made(tmp_path / "why.npz", method=helpers(3.0))
