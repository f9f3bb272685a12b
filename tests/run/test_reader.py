"""A run that is followed while it is written is the run that is read at the end."""

import shutil

import numpy as np
import pytest

from gradwatch.run import Reader, Run, RunWriter, open_run

from .records import LAYOUT, layout_of, record


def same(live, directory):
    """Whether what was read is what `open_run` reads, to the last bit."""
    run = open_run(directory)
    assert live.steps.tolist() == run.steps.tolist()
    for mine, read in zip(live.records(), run.records(), strict=True):
        assert mine.layout == read.layout
        assert mine.totals == read.totals
        np.testing.assert_array_equal(
            mine.rows.view(np.uint64), read.rows.view(np.uint64)
        )
    assert live.findings == run.findings
    assert live.notes == run.notes


def test_what_is_read_piece_by_piece_is_what_is_read_at_once(tmp_path):
    """After each record, finding, note and change of layout."""
    run = Run(Reader(tmp_path / "a"))
    assert run.refresh()  # not there yet
    with RunWriter(tmp_path / "a") as writer:
        writer.note("run", {"model": "m"})
        for step in range(12):
            layout = LAYOUT if step < 7 else layout_of("x/kernel", "y/kernel")
            writer.write(record(step, layout, histograms=step % 3 == 0))
            if step == 5:
                writer.finding(5, {"symptom": "clipping"})
            assert run.refresh()
            same(run, tmp_path / "a")
    assert run.refresh()
    same(run, tmp_path / "a")
    assert run.share == 1


def test_histograms_are_read_from_the_file_when_they_are_looked_at(tmp_path):
    """They stay where they are, and are the ones that were written."""
    written = [record(step, histograms=True) for step in range(3)]
    with RunWriter(tmp_path) as writer:
        for each in written:
            writer.write(each)
    run = Run(Reader(tmp_path))
    run.refresh()
    [chunk] = run.store.chunks
    for each, counts in zip(written, chunk.counts, strict=True):
        np.testing.assert_array_equal(counts(), each.histograms)


def test_a_restart_in_a_second_file_supersedes(tmp_path):
    """A training that goes back to step 4 replaces what followed."""
    run = Run(Reader(tmp_path))
    for steps in (range(8), range(4, 6)):
        with RunWriter(tmp_path) as writer:
            for step in steps:
                writer.write(record(step, norm=len(steps)))
        run.refresh()
    assert run.steps.tolist() == [0, 1, 2, 3, 4, 5]
    assert run.restarts == 2
    same(run, tmp_path)


def test_a_series_keeps_its_histograms_when_the_run_goes_back(tmp_path):
    """They are unpacked later, but are those of the steps that it has."""
    written = [record(step, histograms=True) for step in range(6)]
    run = Run(Reader(tmp_path))
    with RunWriter(tmp_path) as writer:
        for each in written:
            writer.write(each)
        run.refresh()
        series = run["head/kernel"]
        writer.write(record(2))
        run.refresh()
    assert run.steps.tolist() == [0, 1, 2]
    assert series.histogram_steps.tolist() == [0, 1, 2, 3, 4, 5]
    row = LAYOUT.names.index("head/kernel")
    np.testing.assert_array_equal(
        series.histograms, [each.histograms[row] for each in written]
    )


def test_reading_may_be_cut_short_and_goes_on(tmp_path):
    """A view that has no time gets a record at a time, and all of it in the end."""
    with RunWriter(tmp_path) as writer:
        for step in range(20):
            writer.write(record(step, histograms=True))
    run, shares = Run(Reader(tmp_path)), [0.0]
    while not run.refresh(seconds=-1):
        assert shares[-1] < run.share <= 1
        shares.append(run.share)
    assert len(shares) > 3
    assert run.share == 1
    same(run, tmp_path)


def test_a_file_that_was_not_read_is_not_all(tmp_path):
    """Also where the first one was read to its end, and the time was over then."""
    for steps in (range(3), range(3, 5)):
        with RunWriter(tmp_path, native_every_seconds=None) as writer:
            for step in steps:
                writer.write(record(step))
    run = Run(Reader(tmp_path))
    while run.num_records < 3:
        assert not run.refresh(seconds=-1)
    assert run.steps.tolist() == [0, 1, 2]
    assert not run.refresh(seconds=-1)
    assert run.refresh()
    same(run, tmp_path)


def test_a_torn_record_waits_and_a_damaged_one_ends_the_file(tmp_path):
    """The unfinished end of a file is read when it is whole."""
    with RunWriter(tmp_path) as writer:
        for step in range(3):
            writer.write(record(step))
    [path] = tmp_path.iterdir()
    data = path.read_bytes()
    path.write_bytes(data[:-5])
    run = Run(Reader(tmp_path))
    run.refresh()
    before = run.num_records
    path.write_bytes(data)
    run.refresh()
    assert run.num_records == 3 >= before
    spoiled = bytearray(data)
    spoiled[len(data) // 2] ^= 255
    path.write_bytes(spoiled)
    again = Run(Reader(tmp_path))
    with pytest.warns(RuntimeWarning, match="is damaged"):
        assert again.refresh()
    assert again.refresh()
    assert again.share == 1


def test_a_directory_that_was_begun_anew_is_read_from_its_start(tmp_path):
    """After a run was deleted and trained again, only the new one is there."""
    with RunWriter(tmp_path / "a") as writer:
        writer.note("run", {"model": "old"})
        for step in range(5):
            writer.write(record(step))
    run = Run(Reader(tmp_path / "a"))
    run.refresh()
    assert not run.deleted
    before = run.version, run.restarts
    shutil.rmtree(tmp_path / "a")
    assert run.refresh()
    assert (run.deleted, run.num_records, run.notes) == (True, 0, {})
    assert run.version > before[0]
    assert run.restarts > before[1]
    with RunWriter(tmp_path / "a") as writer:
        writer.write(record(3))
    run.refresh()
    same(run, tmp_path / "a")


def test_a_window_keeps_the_newest_records(tmp_path):
    """A live view of a long run must not fill the memory."""
    run = Run(Reader(tmp_path, window=20))
    with RunWriter(tmp_path) as writer:
        for step in range(100):
            writer.write(record(step))
            run.refresh()
    assert run.num_records == 100
    assert 20 <= len(run.steps) <= 40
    assert run.steps[-1] == run["head/kernel"].steps[-1] == 99


def test_the_end_of_a_training_is_seen(tmp_path):
    """And that it goes on after all."""
    run = Run(Reader(tmp_path))
    with RunWriter(tmp_path) as writer:
        writer.write(record(0))
        run.refresh()
        assert not run.ended
        writer.note("overhead", {"seconds": 1.0, "steps": 1})
    run.refresh()
    assert run.ended
    with RunWriter(tmp_path) as writer:
        writer.write(record(1))
        run.refresh()
    assert not run.ended


def test_files_of_others_are_passed_over(tmp_path):
    """Neither another program's events nor notes beside the run disturb."""
    with RunWriter(tmp_path) as writer:
        writer.write(record(0))
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "events.out.tfevents.1.other").write_bytes(b"")
    run = Run(Reader(tmp_path))
    assert run.refresh()
    assert run.steps.tolist() == [0]
