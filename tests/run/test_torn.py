"""Files that were cut off, damaged, or left by a process that was killed."""

import io
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from gradwatch.run import RunWriter, open_run
from gradwatch.run._event_file import TornError, frame, unframe

from .records import layout_of, record

SMALL = layout_of("a")


def run_of(path, steps=3):
    """A run of a few small steps, and where its last record begins."""
    writer = RunWriter(path, native_every_seconds=None)
    for step in range(steps - 1):
        writer.write(record(step, SMALL, histograms=True))
    [file] = path.iterdir()
    start = file.stat().st_size
    writer.write(record(steps - 1, SMALL, histograms=True))
    writer.close()
    return file, start


def test_a_last_record_cut_off_anywhere_is_left_out(tmp_path):
    """At every length of it the steps before are read, without a warning."""
    file, start = run_of(tmp_path)
    whole = file.read_bytes()
    assert len(whole) - start > 100
    for length in range(start, len(whole)):
        file.write_bytes(whole[:length])
        assert open_run(tmp_path).steps.tolist() == [0, 1], length
    file.write_bytes(whole)
    assert open_run(tmp_path).steps.tolist() == [0, 1, 2]


def test_a_damaged_byte_ends_the_file_there(tmp_path):
    """Whichever byte of a record is wrong, it is not taken for numbers."""
    file, start = run_of(tmp_path)
    whole = file.read_bytes()
    for at in range(start, len(whole), 7):
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        file.write_bytes(damaged)
        # A length that was damaged is caught by its own checksum, as the data are.
        with pytest.warns(RuntimeWarning, match=rf"damaged, at byte {start:,}"):
            run = open_run(tmp_path)
        assert run.steps.tolist() == [0, 1], at


def test_damage_in_the_middle_says_how_much_is_lost(tmp_path):
    """What comes after it cannot be found again; the steps before it are read."""
    file, start = run_of(tmp_path, steps=4)
    whole = bytearray(file.read_bytes())
    lost = len(whole) - start
    whole[start + 40] ^= 1
    file.write_bytes(whole)
    with pytest.warns(RuntimeWarning, match=rf"{file.name}.*last {lost:,} bytes"):
        assert open_run(tmp_path).steps.tolist() == [0, 1, 2]


def test_a_torn_file_does_not_hide_the_files_after_it(tmp_path):
    """A restarted process has a file of its own."""
    file, start = run_of(tmp_path)
    file.write_bytes(file.read_bytes()[: start + 20])
    with RunWriter(tmp_path) as writer:
        writer.write(record(2, SMALL))
        writer.write(record(3, SMALL))
    assert open_run(tmp_path).steps.tolist() == [0, 1, 2, 3]


def test_frames_are_those_of_tensorflow():
    """A known record of one byte, as TensorFlow writes it."""
    data = frame(b"a")
    assert data[:8] == (1).to_bytes(8, "little")
    assert len(data) == 8 + 4 + 1 + 4
    assert list(unframe(io.BytesIO(data * 2))) == [b"a", b"a"]
    stream = unframe(io.BytesIO(data + data[:-1]))
    assert next(stream) == b"a"
    with pytest.raises(TornError, match="unfinished"):
        next(stream)


KILLED = """
import os, signal, sys
sys.path[:0] = sys.argv[2:]
from gradwatch.run import RunWriter
from run.records import record
writer = RunWriter(sys.argv[1])
step = 0
while True:
    writer.write(record(step, histograms=True))
    print(step, flush=True)
    step += 1
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows has no SIGKILL")
def test_a_killed_process_loses_nothing_that_was_written(tmp_path):
    """Every step whose `write` returned is in the run."""
    tests = Path(__file__).parents[1]
    paths = [str(tests), str(tests.parent / "src")]
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "run"), *paths],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ,
        text=True,
    )
    with child:
        for line in child.stdout:
            if int(line) == 50:
                child.kill()
                break
        told = [int(line) for line in child.stdout.read().split()]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = open_run(tmp_path / "run")
    last = max([50, *told])
    assert run.steps.tolist()[: last + 1] == list(range(last + 1))
    assert len(run.steps) <= last + 2  # the one that was written and not yet told
    assert run["conv1/kernel"].norm.count() == len(run.steps)
