"""What is done behind the training: in order, to the end, and without a trace."""

import copy
import threading

import keras
import pytest

from gradwatch.monitor import GradientMonitor
from gradwatch.monitor._assemble import Assembler
from gradwatch.monitor._behind import WAITING, Behind
from gradwatch.run import open_run

from .models import fit, mlp

LONG = 300.0
"""Seconds that nothing here takes: a bound for what would otherwise wait for ever."""


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """However busy the machine: nothing waits because it is late."""
    monkeypatch.setattr("gradwatch.monitor._behind.LATE", LONG)


def threads():
    return [t for t in threading.enumerate() if "_work" in t.name]


def test_jobs_are_done_in_their_order_and_all_of_them():
    """Also if there are more than may wait."""
    done = []
    behind = Behind(done.append)
    for number in range(10 * WAITING):
        behind.put(number)
    behind.drain()
    assert done == list(range(10 * WAITING))
    assert behind.seconds > 0
    behind.close()


def test_closing_does_what_waits_and_ends_the_thread():
    """Nothing that was put is lost, and a later job starts it again."""
    gate, done, others = threading.Event(), [], threads()

    def job(number):
        gate.wait(LONG)
        done.append(number)

    behind = Behind(job)
    for number in range(5):
        behind.put(number)
    assert done == []
    gate.set()
    behind.close()
    assert done == [0, 1, 2, 3, 4]
    assert set(threads()) <= set(others)
    behind.close()  # nothing to close
    behind.put(5)  # starts again
    behind.close()
    assert done[-1] == 5


def test_the_thread_itself_may_close():
    """The collector may run on any thread, and what it finds may end a training."""
    gate, done = threading.Event(), []

    def job(number):
        gate.wait(LONG)
        if number == 0:
            behind.close()
        done.append(number)

    behind = Behind(job)
    for number in range(WAITING + 1):  # as many as may wait
        behind.put(number)
    (thread,) = (t for t in threads() if t is behind._running[0])
    gate.set()
    thread.join(LONG)
    assert not thread.is_alive()
    assert done == list(range(WAITING + 1))


def brings(behind, gate, *, waits):
    """One more job is brought while the gate is shut; whether that waits is known."""
    brought = threading.Event()

    def bring():
        behind.put(-1)
        brought.set()

    threading.Thread(target=bring).start()
    # Who need not wait is waited for, however busy the machine. Who must wait is not
    # done after any time: a moment is enough to see one who does not.
    assert brought.wait(0.3 if waits else LONG) is not waits
    gate.set()
    assert brought.wait(LONG)
    behind.close()


def test_who_brings_more_than_may_wait_waits():
    """A slow disk slows the training down; it does not fill the memory."""
    gate = threading.Event()
    behind = Behind(lambda number: gate.wait(LONG))
    for number in range(WAITING + 1):
        behind.put(number)
    brings(behind, gate, waits=True)


@pytest.mark.parametrize("late", [True, False])
def test_who_comes_when_a_job_is_late_waits(monkeypatch, late):
    """A process that is killed loses the last second, not the last jobs."""
    gate = threading.Event()
    behind = Behind(lambda number: gate.wait(LONG))
    behind.put(0)
    behind.put(1)
    if late:
        monkeypatch.setattr("gradwatch.monitor._behind.LATE", -1.0)
    brings(behind, gate, waits=late)


def test_a_job_that_fails_is_the_last():
    """Its error is kept with its arguments, for whoever warns of it."""
    done = []

    def job(number):
        if number == 2:
            raise ValueError("of its own")
        done.append(number)

    behind = Behind(job)
    for number in range(5):
        behind.put(number)
    behind.close()
    assert done == [0, 1]
    error, arguments = behind.failed
    assert str(error) == "of its own"
    assert arguments == (2,)


def test_of_a_training_no_thread_is_left(tmp_path):
    """What was started for a `fit` ends with it."""
    others = threads()
    fit(mlp(), GradientMonitor(tmp_path, every=1))
    assert set(threads()) <= set(others)


def test_a_monitor_can_be_copied(tmp_path):
    """Tuners copy the callbacks they are given, for each of their trainings."""
    monitor = GradientMonitor(tmp_path, every=1)
    for _ in range(2):
        fit(mlp(), copy.deepcopy(monitor))
    assert open_run(tmp_path).steps.tolist() == [0, 1, 2, 3]


class Freeze(keras.callbacks.Callback):
    """Freezes a layer after the first step, and lets the thread go after the third."""

    def __init__(self, gate):
        super().__init__()
        self._gate = gate

    def on_train_batch_end(self, batch, logs=None):
        if batch == 0:
            self.model.get_layer("hidden").trainable = False
        if batch == 2:
            self._gate.set()


@pytest.mark.skipif(keras.config.backend() == "jax", reason="is compiled once")
def test_what_waits_keeps_its_names(tmp_path, monkeypatch):
    """Steps that run before it is written may send the numbers of others."""
    gate, record = threading.Event(), Assembler.record

    def held(*given):
        gate.wait(LONG)
        return record(*given)

    monkeypatch.setattr(Assembler, "record", held)
    fit(mlp(run_eagerly=True), GradientMonitor(tmp_path, every=1), Freeze(gate))
    run = open_run(tmp_path)
    assert run["hidden/kernel"].steps.tolist() == [0]
    assert run["head/kernel"].steps.tolist() == [0, 1, 2, 3]
