"""A run that is followed while it is written is the run that is read at the end."""

import shutil

import numpy as np
import pytest

from gradwatch.run import Reader, RunWriter, _reader, open_run

from .records import LAYOUT, layout_of, record


def same(store, directory):
    """Whether what was read is what `open_run` reads, to the last bit."""
    run = open_run(directory)
    assert store.steps.tolist() == run.steps.tolist()
    for mine, read in zip(store.records(), run.records(), strict=True):
        assert mine.layout == read.layout
        assert mine.totals == read.totals
        np.testing.assert_array_equal(
            mine.rows.view(np.uint64), read.rows.view(np.uint64)
        )
    assert store.findings == run.findings
    assert store.notes == run.notes


def test_what_is_told_piece_by_piece_is_what_is_read_at_once(tmp_path):
    """After each record, finding, note and change of layout."""
    reader = Reader(tmp_path / "a")
    assert reader.read()  # not there yet
    with RunWriter(tmp_path / "a") as writer:
        writer.note("run", {"model": "m"})
        for step in range(12):
            layout = LAYOUT if step < 7 else layout_of("x/kernel", "y/kernel")
            writer.write(record(step, layout, histograms=step % 3 == 0))
            if step == 5:
                writer.finding(5, {"symptom": "clipping"})
            assert reader.read()
            same(reader.store, tmp_path / "a")
    assert reader.read()
    same(reader.store, tmp_path / "a")
    assert reader.waiting == 0


def test_histograms_are_read_from_the_file_when_they_are_looked_at(tmp_path):
    """They stay where they are, and are the ones that were written."""
    written = [record(step, histograms=True) for step in range(3)]
    with RunWriter(tmp_path) as writer:
        for each in written:
            writer.write(each)
    reader = Reader(tmp_path)
    reader.read()
    [chunk] = reader.store.chunks
    for each, counts in zip(written, chunk.counts, strict=True):
        np.testing.assert_array_equal(counts.read(), each.histograms)


def test_a_restart_in_a_second_file_supersedes(tmp_path):
    """A training that goes back to step 4 replaces what followed."""
    reader = Reader(tmp_path)
    for steps in (range(8), range(4, 6)):
        with RunWriter(tmp_path) as writer:
            for step in steps:
                writer.write(record(step, norm=len(steps)))
        reader.read()
    assert reader.store.steps.tolist() == [0, 1, 2, 3, 4, 5]
    same(reader.store, tmp_path)


@pytest.mark.parametrize("size", [64, 700, 4096])
def test_slices_may_be_smaller_than_a_record(tmp_path, monkeypatch, size):
    """Wherever a slice ends, nothing is lost and nothing is told twice."""
    monkeypatch.setattr(_reader, "_SLICE", size)
    with RunWriter(tmp_path) as writer:
        for step in range(9):
            writer.write(record(step, histograms=True))
    reader = Reader(tmp_path)
    assert reader.read()
    same(reader.store, tmp_path)


def test_reading_may_be_cut_short_and_goes_on(tmp_path, monkeypatch):
    """A view that has no time gets a slice at a time, and all of it in the end."""
    monkeypatch.setattr(_reader, "_SLICE", 2048)
    with RunWriter(tmp_path) as writer:
        for step in range(20):
            writer.write(record(step))
    reader, turns = Reader(tmp_path), 1
    while not reader.read(seconds=-1):
        assert reader.waiting > 0
        turns += 1
    assert turns > 3
    same(reader.store, tmp_path)


def test_a_file_that_was_not_looked_at_is_not_all(tmp_path):
    """Also where the first one was read to its end, and the time was over then."""
    for steps in (range(3), range(3, 5)):
        with RunWriter(tmp_path) as writer:
            for step in steps:
                writer.write(record(step))
    reader = Reader(tmp_path)
    assert not reader.read(seconds=-1)
    assert reader.store.steps.tolist() == [0, 1, 2]
    assert reader.read(seconds=-1)
    same(reader.store, tmp_path)


def test_a_torn_record_waits_and_a_damaged_one_ends_the_file(tmp_path):
    """The unfinished end of a file is read when it is whole."""
    with RunWriter(tmp_path) as writer:
        for step in range(3):
            writer.write(record(step))
    [path] = tmp_path.iterdir()
    data = path.read_bytes()
    path.write_bytes(data[:-5])
    reader = Reader(tmp_path)
    reader.read()
    before = len(reader.store)
    path.write_bytes(data)
    reader.read()
    assert len(reader.store) == 3 >= before
    spoiled = bytearray(data)
    spoiled[len(data) // 2] ^= 255
    path.write_bytes(spoiled)
    again = Reader(tmp_path)
    with pytest.warns(RuntimeWarning, match="is damaged"):
        assert again.read()
    assert again.read()
    assert again.waiting == 0


def test_a_directory_that_was_begun_anew_is_noticed(tmp_path):
    """Who deletes a run and trains again sees the new one, from its start."""
    with RunWriter(tmp_path / "a") as writer:
        writer.write(record(0))
    reader = Reader(tmp_path / "a")
    reader.read()
    assert not reader.lost()
    shutil.rmtree(tmp_path / "a")
    assert reader.lost()
    assert reader.again().directory == reader.directory


def test_files_of_others_are_passed_over(tmp_path):
    """Neither another program's events nor notes beside the run disturb."""
    with RunWriter(tmp_path) as writer:
        writer.write(record(0))
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "events.out.tfevents.1.other").write_bytes(b"")
    reader = Reader(tmp_path)
    assert reader.read()
    assert reader.store.steps.tolist() == [0]
