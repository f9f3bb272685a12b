"""A disk that is full, gone or forbidden costs a warning, and never the training."""

import errno
import os
import shutil
import warnings

import pytest

from gradwatch.run import RunWriter, open_run

from .records import LAYOUT, layout_of, record


class Disk:
    """Stands between the writer and `os.write`; says how it fails."""

    def __init__(self, monkeypatch):
        self.room = None  # bytes a write may have; None for all
        self.error = None
        self.attempts = 0
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, descriptor, data):
        self.attempts += 1
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error))
        if self.room is not None:
            data = data[: self.room]
        return self._write(descriptor, data)


@pytest.fixture
def disk(monkeypatch):
    """A disk that a test lets fail."""
    return Disk(monkeypatch)


def write(writer, steps, clock, seconds):
    """Steps that take so long each."""
    for step in steps:
        clock.now += seconds
        writer.write(record(step, histograms=True))


FAILURES = [("error", errno.ENOSPC), ("error", errno.EIO), ("room", 0), ("room", 37)]


@pytest.mark.parametrize(("how", "value"), FAILURES)
def test_a_full_disk_is_one_warning_and_recording_resumes(
    tmp_path, disk, clock, how, value
):
    """Errors and short writes alike; what was written before and after is whole."""
    with RunWriter(tmp_path) as writer:
        writer.write(record(0, histograms=True))
        setattr(disk, how, value)
        with pytest.warns(RuntimeWarning, match=r"step 1 .*Training goes on") as seen:
            write(writer, range(1, 6), clock, 2)
        assert len(seen) == 1
        assert writer.dropped == 5
        setattr(disk, how, None)
        clock.now += 2
        for step in range(6, 9):
            writer.write(record(step, histograms=True))
        assert writer.dropped == 5
    run = open_run(tmp_path)
    assert run.steps.tolist() == [0, 6, 7, 8]
    assert run.notes["dropped"] == {"count": 5, "first_step": 1, "last_step": 5}
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(("how", "value"), FAILURES)
def test_a_disk_full_from_the_start_gives_a_whole_file_later(
    tmp_path, disk, clock, how, value
):
    """Version, start, notes and metadata come with the first record that fits."""
    writer = RunWriter(tmp_path)
    writer.note("model", {"name": "demo"})
    setattr(disk, how, value)
    with pytest.warns(RuntimeWarning, match="step 0 "):
        writer.write(record(0))
    setattr(disk, how, None)
    clock.now += 2
    writer.write(record(1))
    writer.close()
    run = open_run(tmp_path)
    assert run.steps.tolist() == [1]
    assert run.notes["model"] == {"name": "demo"}
    [file] = tmp_path.iterdir()
    assert file.read_bytes().count(b"brain.Event:2") == 1


def test_a_failing_disk_is_asked_once_a_second(tmp_path, disk, clock):
    """Else each step would wait for a disk that takes its time to say no."""
    writer = RunWriter(tmp_path)
    disk.error = errno.EIO
    with pytest.warns(RuntimeWarning, match="Input/output error"):
        write(writer, range(1000), clock, 0.01)
    assert disk.attempts <= 11
    assert writer.dropped == 1000


def test_a_file_that_cannot_be_cut_back_is_left_for_a_new_one(
    tmp_path, disk, clock, monkeypatch
):
    """What follows half a record would be lost to every reader."""
    writer = RunWriter(tmp_path)
    writer.write(record(0))

    def refuse(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", refuse)
        disk.room = 50
        with pytest.warns(RuntimeWarning, match="step 1 "):
            writer.write(record(1))
    disk.room = None
    clock.now += 2
    writer.write(record(2))
    writer.close()
    assert len(list(tmp_path.iterdir())) == 2
    assert open_run(tmp_path).steps.tolist() == [0, 2]


def test_the_kernels_own_limit_leaves_no_half_record(tmp_path, clock):
    """A real short write: the file may not grow, then it may."""
    resource = pytest.importorskip("resource")  # not on Windows
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    writer = RunWriter(tmp_path)
    writer.write(record(0))
    [file] = tmp_path.iterdir()
    size = file.stat().st_size
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, hard))
        with pytest.warns(RuntimeWarning, match="step 1 "):
            writer.write(record(1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert file.stat().st_size == size
    clock.now += 2
    writer.write(record(2))
    writer.close()
    assert open_run(tmp_path).steps.tolist() == [0, 2]


def test_a_file_in_the_way_is_a_warning(tmp_path):
    """Not an error: the training was started, and goes on."""
    (tmp_path / "run").write_text("mine")
    with RunWriter(tmp_path / "run") as writer:
        with pytest.warns(RuntimeWarning, match=r"could not write step 0 to '.*run'"):
            writer.write(record(0))
        writer.finding(0, {"rule": "x"})
        writer.note("a", {})
        writer.flush()
    assert writer.dropped == 2
    assert (tmp_path / "run").read_text() == "mine"


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.EMFILE])
def test_a_directory_that_may_not_be_written_to_is_a_warning(
    tmp_path, monkeypatch, code
):
    """Read-only, forbidden, or too many open files."""

    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("gradwatch.run._event_file.os.open", refuse)
    with RunWriter(tmp_path) as writer:
        with pytest.warns(RuntimeWarning, match=os.strerror(code)):
            writer.write(record(0))
    assert writer.dropped == 1


def test_a_name_that_no_disk_knows_is_a_warning(tmp_path):
    """A zero byte in a path is refused by Python itself."""
    writer = RunWriter(str(tmp_path / "a\0b"))
    with pytest.warns(RuntimeWarning, match="null"):
        writer.write(record(0))
    writer.close()


@pytest.mark.parametrize("gone", ["directory", "file"])
def test_what_is_deleted_meanwhile_is_made_again(tmp_path, gone):
    """With all that a reader needs: names, columns, notes."""
    path = tmp_path / "deep" / "run"
    writer = RunWriter(path)
    writer.note("model", {"name": "demo"})
    writer.write(record(0, histograms=True))
    if gone == "directory":
        shutil.rmtree(tmp_path / "deep")
    else:
        [file] = path.iterdir()
        file.unlink()
    writer.write(record(1, histograms=True))
    writer.write(record(2))
    writer.close()
    run = open_run(path)
    assert run.steps.tolist() == [1, 2]
    assert run.names == ("conv1/kernel", "conv1/bias", "head/kernel")
    assert run["conv1/kernel"].histogram_steps.tolist() == [1]
    assert run.notes == {"model": {"name": "demo"}}


def test_a_file_that_was_replaced_is_not_written_to(tmp_path):
    """Another one of the same name is somebody else's."""
    writer = RunWriter(tmp_path)
    writer.write(record(0))
    [file] = tmp_path.iterdir()
    file.rename(tmp_path / "moved")
    file.write_text("")
    writer.write(record(1))
    writer.close()
    assert file.read_text() == ""
    assert open_run(tmp_path).steps.tolist() == [1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows does not fork")
def test_a_forked_process_writes_to_a_file_of_its_own(tmp_path, monkeypatch):
    """The parent's file would be torn by two writers that cut back."""
    writer = RunWriter(tmp_path)
    writer.write(record(0))
    real = os.getpid()
    # Not a real fork: the frameworks that are loaded here have threads.
    monkeypatch.setattr(os, "getpid", lambda: real + 1)
    writer.write(record(1))
    writer.close()
    assert len(list(tmp_path.iterdir())) == 2
    assert open_run(tmp_path).steps.tolist() == [0, 1]


def test_a_file_that_was_closed_behind_our_back_is_left_for_a_new_one(tmp_path):
    """Daemons close whatever is open."""
    writer = RunWriter(tmp_path)
    writer.write(record(0))
    os.close(writer._file._descriptor)
    writer.write(record(1))
    writer.close()
    assert open_run(tmp_path).steps.tolist() == [0, 1]


def test_nothing_is_on_disk_before_the_first_record(tmp_path):
    """A monitor that is made and never used leaves no directory."""
    writer = RunWriter(tmp_path / "run")
    writer.note("model", {"name": "demo"})
    assert not (tmp_path / "run").exists()
    writer.write(record(0))
    [file] = (tmp_path / "run").iterdir()
    assert "tfevents" in file.name


def test_the_working_directory_may_change(tmp_path, monkeypatch):
    """A relative path means what it meant when the writer was made."""
    monkeypatch.chdir(tmp_path)
    writer = RunWriter("run")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    writer.write(record(0))
    writer.close()
    assert open_run(tmp_path / "run").steps.tolist() == [0]


def test_an_empty_file_does_not_stay_behind(tmp_path, disk):
    """A disk that never had room for one record shows no trace of the attempt."""
    disk.error = errno.ENOSPC
    with RunWriter(tmp_path) as writer:
        with pytest.warns(RuntimeWarning, match="No space left"):
            writer.write(record(0))
    assert list(tmp_path.iterdir()) == []


def test_a_closed_writer_goes_on_in_a_new_file_and_supersedes_nothing(tmp_path):
    """What a monitor notes after the end does not cost the last step."""
    writer = RunWriter(tmp_path)
    writer.write(record(0))
    writer.write(record(1))
    writer.close()
    writer.note("overhead", {"share": 0.01})
    writer.finding(0, {"rule": "late"})
    writer.write(record(2))
    writer.close()
    writer.close()
    run = open_run(tmp_path)
    assert run.steps.tolist() == [0, 1, 2]
    assert run.overhead == {"share": 0.01}
    assert [finding["rule"] for finding in run.findings] == ["late"]


def test_non_finite_and_empty_records_are_written(tmp_path):
    """NaN and infinity everywhere, no line at all: nothing raises, nothing warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with RunWriter(tmp_path, native_every_seconds=0) as writer:
            for step, value in enumerate([float("nan"), float("inf"), -float("inf")]):
                columns = dict.fromkeys(("norm", "mean"), value)
                totals = {"global_norm": value, "update_norm": 1, "weight_norm": 0}
                writer.write(record(step, LAYOUT, totals=totals, **columns))
            writer.write(record(3, layout_of()))
        assert open_run(tmp_path).steps.tolist() == [0, 1, 2, 3]
