"""A run that is followed while it is written is the run that is read at the end."""

import shutil

import numpy as np
import pytest

from gradwatch.record import Follower, RunWriter, open_run
from gradwatch.record import _follow as follow

from .records import LAYOUT, layout_of, record


class Heard:
    """Keeps what it is told, as `Contents` does: the slow twin."""

    def __init__(self):
        self.steps, self.findings, self.notes = {}, [], {}

    def restart(self, step):
        self.steps = {at: kept for at, kept in self.steps.items() if at < step}
        self.findings = [found for found in self.findings if found["step"] < step]

    def step(self, found):
        self.steps[found.step] = found

    def finding(self, step, finding):
        self.findings.append({"step": step, **finding})

    def note(self, key, facts):
        self.notes[key] = facts


def same(heard, directory):
    """Whether what was heard is what `open_run` reads, to the last bit."""
    run = open_run(directory)
    assert sorted(heard.steps) == run.steps.tolist()
    for read in run.records():
        found = heard.steps[read.step]
        assert found.layout == read.layout
        assert found.totals == read.totals
        np.testing.assert_array_equal(
            found.rows.view(np.uint32), read.rows.view(np.uint32)
        )
    assert tuple(heard.findings) == run.findings
    assert heard.notes == run.notes


def test_what_is_told_piece_by_piece_is_what_is_read_at_once(tmp_path):
    """After each record, finding, note and change of layout."""
    follower, heard = Follower(tmp_path / "a"), Heard()
    assert follower.tell(heard)  # not there yet
    with RunWriter(tmp_path / "a") as writer:
        writer.note("run", {"model": "m"})
        for step in range(12):
            layout = LAYOUT if step < 7 else layout_of("x/kernel", "y/kernel")
            writer.write(record(step, layout, histograms=step % 3 == 0))
            if step == 5:
                writer.finding(5, {"symptom": "clipping"})
            assert follower.tell(heard)
            same(heard, tmp_path / "a")
    assert follower.tell(heard)
    same(heard, tmp_path / "a")
    assert follower.waiting == 0


def test_histograms_are_read_from_the_file_when_they_are_looked_at(tmp_path):
    """They stay where they are, and are the ones that were written."""
    written = [record(step, histograms=True) for step in range(3)]
    with RunWriter(tmp_path) as writer:
        for each in written:
            writer.write(each)
    heard = Heard()
    Follower(tmp_path).tell(heard)
    for each in written:
        read = heard.steps[each.step].histograms.read()
        np.testing.assert_array_equal(read, each.histograms)


def test_a_restart_in_a_second_file_supersedes(tmp_path):
    """A training that goes back to step 4 replaces what followed."""
    follower, heard = Follower(tmp_path), Heard()
    for steps in (range(8), range(4, 6)):
        with RunWriter(tmp_path) as writer:
            for step in steps:
                writer.write(record(step, norm=len(steps)))
        follower.tell(heard)
    assert sorted(heard.steps) == [0, 1, 2, 3, 4, 5]
    same(heard, tmp_path)


@pytest.mark.parametrize("size", [64, 700, 4096])
def test_slices_may_be_smaller_than_a_record(tmp_path, monkeypatch, size):
    """Wherever a slice ends, nothing is lost and nothing is told twice."""
    monkeypatch.setattr(follow, "_SLICE", size)
    with RunWriter(tmp_path) as writer:
        for step in range(9):
            writer.write(record(step, histograms=True))
    heard = Heard()
    assert Follower(tmp_path).tell(heard)
    same(heard, tmp_path)


def test_reading_may_be_cut_short_and_goes_on(tmp_path, monkeypatch):
    """A listener that has no time gets a slice at a time, and all of it in the end."""
    monkeypatch.setattr(follow, "_SLICE", 2048)
    with RunWriter(tmp_path) as writer:
        for step in range(20):
            writer.write(record(step))
    follower, heard, turns = Follower(tmp_path), Heard(), 1
    while not follower.tell(heard, seconds=-1):
        assert follower.waiting > 0
        turns += 1
    assert turns > 3
    same(heard, tmp_path)


def test_a_file_that_was_not_looked_at_is_not_all(tmp_path):
    """Also where the first one was read to its end, and the time was over then."""
    for steps in (range(3), range(3, 5)):
        with RunWriter(tmp_path) as writer:
            for step in steps:
                writer.write(record(step))
    follower, heard = Follower(tmp_path), Heard()
    assert not follower.tell(heard, seconds=-1)
    assert sorted(heard.steps) == [0, 1, 2]
    assert follower.tell(heard, seconds=-1)
    same(heard, tmp_path)


def test_a_torn_record_waits_and_a_damaged_one_ends_the_file(tmp_path):
    """The unfinished end of a file is read when it is whole."""
    with RunWriter(tmp_path) as writer:
        for step in range(3):
            writer.write(record(step))
    [path] = tmp_path.iterdir()
    data = path.read_bytes()
    path.write_bytes(data[:-5])
    follower, heard = Follower(tmp_path), Heard()
    follower.tell(heard)
    before = len(heard.steps)
    path.write_bytes(data)
    follower.tell(heard)
    assert len(heard.steps) == 3 >= before
    spoiled = bytearray(data)
    spoiled[len(data) // 2] ^= 255
    path.write_bytes(spoiled)
    again = Follower(tmp_path)
    with pytest.warns(RuntimeWarning, match="is damaged"):
        assert again.tell(Heard())
    assert again.tell(Heard())
    assert again.waiting == 0


def test_a_directory_that_was_begun_anew_is_noticed(tmp_path):
    """Who deletes a run and trains again sees the new one, from its start."""
    with RunWriter(tmp_path / "a") as writer:
        writer.write(record(0))
    follower = Follower(tmp_path / "a")
    follower.tell(Heard())
    assert not follower.lost()
    shutil.rmtree(tmp_path / "a")
    assert follower.lost()
    assert follower.again().directory == follower.directory


def test_files_of_others_are_passed_over(tmp_path):
    """Neither another program's events nor notes beside the run disturb."""
    with RunWriter(tmp_path) as writer:
        writer.write(record(0))
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "events.out.tfevents.1.other").write_bytes(b"")
    heard = Heard()
    assert Follower(tmp_path).tell(heard)
    assert list(heard.steps) == [0]
