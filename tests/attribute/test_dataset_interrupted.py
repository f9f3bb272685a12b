"""Whatever ends it costs the batch in hand, and the same call goes on from there."""

import errno
import functools
import os
import shutil
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
from gradwatch.attribute._dataset._store import DatasetStore

from .datasets import (
    DATA,
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
    """A store that was never interrupted."""
    return made(tmp_path_factory.mktemp("whole") / "why.zarr")


def failing(number, error=BoomError):
    """A method that fails at one call, and leaves no trace in the question."""

    def before(call):
        if call == number:
            raise error

    return Doubled(before)


def nothing_whole(path):
    """What is at `path` is not taken for a whole store, by us or by others."""
    import zarr

    if path.exists():
        assert not zarr.open_group(path, mode="r").attrs.get("complete", False)


# somebody, or something, ends it ------------------------------------------------------


WHEN = [(BoomError, number) for number in range(5)] + [(KeyboardInterrupt, 2)]


@pytest.mark.parametrize(("error", "done"), WHEN)
def test_an_error_costs_the_batch_in_hand(tmp_path, whole, error, done):
    """At each batch: those before are safe, are not made again, and none is lost."""
    path = tmp_path / "why.zarr"
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
    same(made(path, method=method), whole)
    assert method.sizes == [4, 4, 4, 4, 2][done:]
    assert [path.name for path in tmp_path.iterdir()] == ["why.zarr"]


def test_an_export_of_a_store_made_in_two_goes_is_that_of_one_made_in_one(
    tmp_path, whole
):
    """Byte for byte, words included."""
    path = tmp_path / "why.zarr"
    with pytest.raises(BoomError, match="safe in"):
        made(path, method=failing(3))
    made(path).export(tmp_path / "two.npz")
    whole.export(tmp_path / "one.npz")
    assert (tmp_path / "two.npz").read_bytes() == (tmp_path / "one.npz").read_bytes()


def test_data_that_fails_is_gone_on_with(tmp_path, whole):
    """A generator that raises; then the same data in another form."""

    def breaks():
        yield from batches()[:2]
        raise BoomError

    with pytest.raises(BoomError, match="safe in"):
        made(tmp_path / "why.zarr", breaks)
    method = Doubled()
    same(made(tmp_path / "why.zarr", lambda: iter(batches()), method), whole)
    assert method.sizes == [4, 4, 2]


def test_an_endless_generator_runs_until_it_is_interrupted(tmp_path):
    """What it gave is there, and `num_batches` makes a whole store of it."""

    def endless():
        number = 0
        while True:
            yield np.full((2, 3), number, "float32")
            number += 1

    options = {"to": tmp_path / "why.zarr", "batch_size": 4}
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
from zarr.storage import LocalStore

put = LocalStore.set

def killer(number):
    seen = []

    async def killed(self, key, *args, **options):
        # Files of the third batch: some are written, and then the process is gone.
        if number:
            seen.append(key)
            if len(seen) == number:
                path = self.root / key
                path.parent.mkdir(parents=True, exist_ok=True)
                path.with_suffix(".torn.partial").write_bytes(b"half")
                os.kill(os.getpid(), signal.SIGKILL)
        await put(self, key, *args, **options)

    return killed

datasets.small()
# A process for each, without importing everything again.
for number, path in {paths!r}:
    child = os.fork()
    if not child:
        def before(call):
            if call == 2:
                LocalStore.set = killer(number)

        datasets.made(path, method=datasets.Doubled(before))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(keras.config.backend() != "torch", reason="one backend is enough")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no such call here")
def test_a_killed_process_costs_the_batch_in_hand(tmp_path, whole):
    """A real `kill -9`, at each of the eight writes of the third batch."""
    paths = [(number, str(tmp_path / f"{number}.zarr")) for number in range(1, 9)]
    tests = Path(__file__).parents[1]
    code = KILLED.format(tests=str(tests), paths=paths)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tests.parent / "src")},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.stdout.split() == ["-9"] * 8, done.stderr
    for _, name in paths:
        path = Path(name)
        nothing_whole(path)
        assert len(reopened(path)) == 8
        assert np.array_equal(np.asarray(reopened(path).values), 2 * DATA[:8])
        assert len(made(path, num_batches=2)) == 8
        assert np.array_equal(np.asarray(reopened(path).values), 2 * DATA[:8])
        method = Doubled()
        same(made(path, method=method), whole)
        assert method.sizes == [4, 4, 2]
        assert not list(path.rglob("*.partial"))


# a full disk, and what is torn --------------------------------------------------------


def full_disk(patch, number):
    """From this write on, the library finds no room."""
    from zarr.storage import LocalStore

    put, seen = LocalStore.set, []

    async def full(self, *args, **options):
        seen.append(1)
        if len(seen) >= number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        await put(self, *args, **options)

    patch.setattr(LocalStore, "set", full)


@pytest.mark.parametrize("number", range(1, 30, 2))
def test_a_full_disk_costs_the_batch_in_hand(tmp_path, whole, number, monkeypatch):
    """The library fails to write a chunk, the shape of an array or the attributes."""
    path = tmp_path / "why.zarr"
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        full_disk(patch, number)
        made(path)
    nothing_whole(path)
    done = DatasetStore(path).rows // 4
    method = Doubled()
    same(made(path, method=method), whole)
    assert len(method.sizes) == 5 - done


def test_a_write_left_by_a_failed_call_is_not_in_the_way(tmp_path, whole, monkeypatch):
    """Zarr writes in threads: one of them may make the group between two looks."""
    import zarr

    own = zarr.open_group

    def late(path, mode):
        group = own(path, mode=mode)
        if mode == "a":
            raise zarr.errors.ContainsGroupError("A group exists in store.")
        return group

    monkeypatch.setattr(zarr, "open_group", late)
    same(made(tmp_path / "why.zarr"), whole)


def test_a_disk_full_at_the_very_end_costs_nothing(tmp_path, whole, monkeypatch):
    """All batches are there; the next call marks the store, and runs no model."""
    path = tmp_path / "why.zarr"
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(DatasetStore, "finish", no_room)
        made(path)
    nothing_whole(path)
    assert len(reopened(path)) == len(DATA)
    method = Doubled()
    same(made(path, method=method), whole)
    assert method.sizes == []


def no_room(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("kind", ["npz", "parquet"])
def test_an_export_to_a_full_disk_leaves_what_was_there(
    tmp_path, whole, kind, monkeypatch
):
    """No half of a file, under its name or another."""
    path = tmp_path / f"why.{kind}"
    path.write_text("before")
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(os, "fsync", no_room)
        whole.export(path)
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def no_row_of_batches(path, group):
    """The room for it is there, but not the row: the process ended between."""
    group["batches"].resize((4, 4))
    return 3


def short_column(path, group):
    group["values"].resize((11, 3))
    return 2


def no_column(path, group):
    shutil.rmtree(path / "score")
    return 0


def more_than_counts(path, group):
    group["delta"].resize((15,))
    return 3


def no_batches(path, group):
    shutil.rmtree(path / "batches")
    return 0


TORN = [no_row_of_batches, short_column, no_column, more_than_counts, no_batches]


@pytest.mark.parametrize("tear", TORN, ids=lambda tear: tear.__name__)
def test_what_is_torn_is_made_again(tmp_path, whole, tear):
    """A row without its numbers, or numbers without a row: only whole batches count."""
    import zarr

    path = tmp_path / "why.zarr"
    with pytest.raises(BoomError, match="safe in"):
        made(path, method=failing(3))
    left = tear(path, zarr.open_group(path, mode="r+"))
    if left:
        assert len(reopened(path)) == 4 * left
    method = Doubled()
    same(made(path, method=method), whole)
    assert len(method.sizes) == 5 - left


def test_a_kill_while_a_store_is_deleted_leaves_none_under_its_name(
    tmp_path, whole, monkeypatch
):
    """It was renamed before; the next call begins anew, and tidies up."""
    path = tmp_path / "why.zarr"
    made(path)
    with monkeypatch.context() as patch, pytest.raises(BoomError, match="killed"):

        def killed(*_, **options):
            if not options:
                raise BoomError("killed")

        patch.setattr(shutil, "rmtree", killed)
        made(path, resume=False)
    assert not path.exists()
    same(made(path), whole)


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
        small(), many, gw.class_score(0), to=tmp_path / "why.zarr", method=Noted()
    )
    assert most == [(0, 0)] * 6


def test_the_peak_of_memory_does_not_grow_with_the_data(tmp_path):
    """Ten times the batches take as much, the export included."""

    def peak(count):
        def many():
            for number in range(count):
                yield np.full((64, 1000), number, "float32")

        path = tmp_path / f"{count}.zarr"
        tracemalloc.start()
        found = attribute_dataset(
            small(), many, gw.class_score(0), to=path, method=Doubled()
        )
        found.export(tmp_path / f"{count}.npz")
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        size = (tmp_path / f"{count}.npz").stat().st_size
        assert size > count * 64 * 1000 * 4
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
    path = tmp_path / "why.zarr"
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
        options = {"to": tmp_path / "why.zarr", "method": method, "batch_size": 4}
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
        options = {"to": tmp_path / "why.zarr", "method": method, "batch_size": 4}
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
        shutil.rmtree(tmp_path / "why.zarr")


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
    path = tmp_path / "why.zarr"
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
    path = tmp_path / "why.zarr"
    made(path)
    with pytest.raises(gw.GradwatchError, match="`data` must .* same batches"):
        made(path, data())
    method = Doubled()
    assert made(path, method=method).complete
    assert method.sizes == []


def test_a_store_finished_early_grows(tmp_path, whole):
    """`num_batches` was the end of it; a call for more goes on from there."""
    path = tmp_path / "why.zarr"
    assert len(made(path, num_batches=2)) == 8
    assert len(made(path, num_batches=1)) == 8
    method = Doubled()
    assert len(made(path, num_batches=3, method=method)) == 12
    assert method.sizes == [4]
    with pytest.raises(BoomError, match="4 batches"):
        made(path, num_batches=5, method=failing(1))
    assert not reopened(path).complete
    same(made(path), whole)
    assert len(made(path, num_batches=2)) == len(DATA)


def test_two_do_not_write_to_one_store(tmp_path):
    """The second one is told, and takes nothing away from the first."""
    pytest.importorskip("fcntl")
    path, tried = tmp_path / "why.zarr", []

    def before(call):
        if call == 2:
            with pytest.raises(gw.GradwatchError, match="`to` .*being written"):
                made(path)
            tried.append(call)

    assert len(made(path, method=Doubled(before))) == len(DATA)
    assert tried == [2]
    assert contents(reopened(path))[1] == [4, 4, 4, 4, 2]


@pytest.mark.parametrize("mistake", ["data", "empty", "method"])
@pytest.mark.parametrize("finished", [True, False])
def test_beginning_again_with_a_mistake_deletes_nothing(tmp_path, mistake, finished):
    """What is there is let go when the first new batch is explained, and not before."""
    path = tmp_path / "why.zarr"
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
    """The other one ends as if undisturbed."""
    path = tmp_path / "why.zarr"

    def meanwhile(number):
        if number == 2:
            with pytest.raises(gw.GradwatchError, match="`to` .*no other process"):
                made(path, resume=False)

    assert len(made(path, method=Doubled(meanwhile))) == len(DATA)


def test_functions_are_known_by_their_code_and_defaults(tmp_path):
    """The same function goes on; variables it closes over are not followed."""

    def method(factor):
        def first(model, x, target, scale=factor, **settings):
            return Doubled()(model, x, target, factor=scale) if settings else first

        return first

    path = tmp_path / "why.zarr"
    made(path, method=method(2.0))
    assert len(made(path, method=method(2.0))) == len(DATA)
    with pytest.raises(gw.GradwatchError, match="`to` must be .*`method`"):
        made(path, method=method(3.0))
    like = functools.partial(gw.smoothgrad, method=gw.saliency, samples=2)
    made(path, method=like, resume=False)
    with pytest.raises(gw.GradwatchError, match="`to` must be .*`method`"):
        made(path, method=functools.partial(like, samples=3))
