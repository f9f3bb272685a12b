"""The worker thread does its jobs in order, to the end, and leaves no trace."""

import copy
import os
import threading
import time

import keras
import pytest

from gradwatch.monitor import GradientMonitor
from gradwatch.monitor._assemble import Assembler
from gradwatch.monitor._worker import MAX_QUEUED, Worker
from gradwatch.run import open_run

from .models import fit, mlp

LONG = 300.0
"""Seconds that nothing here takes: a bound for what would otherwise wait for ever."""


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """However busy the machine: nothing waits because it is late."""
    monkeypatch.setattr("gradwatch.monitor._worker.MAX_SECONDS", LONG)


def threads():
    return [t for t in threading.enumerate() if "gradwatch" in t.name]


def each(job):
    """A function of the worker, which gets all items that wait."""
    return lambda items: [job(item) for item in items]


def put(worker, job, numbers):
    """Has a job done with each of these numbers, which are also its step."""
    work = each(job)
    for number in numbers:
        worker.put(number, work, number)


def closed(worker):
    """What the jobs returned, after all of them."""
    worker.close(-1, lambda items: items, None)
    return [value for result in worker.results for value in result.value]


def test_jobs_are_done_in_their_order_and_all_of_them():
    """Also if there are more than may wait; each reports what it returned."""
    done = []
    worker = Worker()
    put(worker, done.append, range(10 * MAX_QUEUED))
    worker.drain()
    assert done == list(range(10 * MAX_QUEUED))
    assert closed(worker) == [None] * (len(done) + 1)


def test_jobs_of_one_kind_that_wait_are_done_together():
    """One call for them all; another kind between them keeps their order."""
    gate, calls = threading.Event(), []

    def first(items):
        gate.wait(LONG)
        calls.append(("first", items))

    def second(items):
        calls.append(("second", items))

    worker = Worker()
    worker.put(0, first, 0)
    while not worker.bursts:  # it has taken that one, and waits at the gate
        time.sleep(0.01)
    for step, work in enumerate([first, first, second, first], start=1):
        worker.put(step, work, step)
    gate.set()
    worker.drain()
    kinds = [("first", [0]), ("first", [1, 2]), ("second", [3]), ("first", [4])]
    assert calls == kinds
    assert [result.step for result in worker.results] == [0, 1, 3, 4]
    closed_bursts = worker.bursts
    assert closed_bursts % 2 == 0
    worker.close(-1, first, 5)


def test_bursts_tell_when_the_worker_works():
    """Odd while it does: the steps beside it are not compared with others."""
    gate, seen = threading.Event(), []
    worker = Worker()

    def work(items):
        seen.append(worker.bursts)
        gate.wait(LONG)

    assert worker.bursts == 0
    worker.put(0, work, 0)
    gate.set()
    worker.drain()
    assert seen == [1]
    worker.close(-1, work, 0)
    assert worker.bursts % 2 == 0


def test_closing_does_what_waits_and_ends_the_thread():
    """Nothing that was put is lost, and a later job starts it again."""
    gate, done, others = threading.Event(), [], threads()

    def job(number):
        gate.wait(LONG)
        done.append(number)

    worker = Worker()
    put(worker, job, range(5))
    assert done == []
    gate.set()
    worker.close(5, each(job), 5)
    assert done == [0, 1, 2, 3, 4, 5]
    assert set(threads()) <= set(others)
    worker.close(6, each(job), 6)  # no thread runs: it is done at once
    put(worker, job, [7])  # starts again
    closed(worker)
    assert done[-2:] == [6, 7]


def test_the_thread_itself_may_close():
    """The collector may run on any thread, and what it finds may end a training."""
    gate, done = threading.Event(), []

    def job(number):
        gate.wait(LONG)
        if number == 0:
            worker.close(-1, done.extend, -1)
        done.append(number)

    worker = Worker()
    put(worker, job, range(MAX_QUEUED + 1))  # as many as may wait
    (thread,) = (t for t in threads() if t is worker._thread)
    gate.set()
    thread.join(LONG)
    assert not thread.is_alive()
    assert done == [*range(MAX_QUEUED + 1), -1]


def brings(worker, gate, *, waits):
    """One more job is brought while the gate is shut; whether that waits is known."""
    brought = threading.Event()

    def bring():
        worker.put(-1, lambda items: items, None)
        brought.set()

    threading.Thread(target=bring).start()
    # A put that need not wait is waited for, however busy the machine. One that must
    # wait is not done after any time: a moment is enough to see that it is.
    assert brought.wait(0.3 if waits else LONG) is not waits
    gate.set()
    assert brought.wait(LONG)
    closed(worker)


def test_the_trainer_waits_if_too_many_jobs_wait():
    """A slow disk slows the training down; it does not fill the memory."""
    gate = threading.Event()
    worker = Worker()
    put(worker, lambda number: gate.wait(LONG), range(MAX_QUEUED + 1))
    brings(worker, gate, waits=True)


@pytest.mark.parametrize("late", [True, False])
def test_the_trainer_waits_if_a_job_is_late(monkeypatch, late):
    """A process that is killed loses the last second, not the last jobs."""
    gate = threading.Event()
    worker = Worker()
    put(worker, lambda number: gate.wait(LONG), range(2))
    if late:
        monkeypatch.setattr("gradwatch.monitor._worker.MAX_SECONDS", -1.0)
    brings(worker, gate, waits=late)


def test_after_a_job_that_fails_only_the_last_is_done():
    """Its error is reported with its step; the last one closes the file."""
    done = []

    def job(number):
        if number == 2:
            raise ValueError("of its own")
        done.append(number)

    worker = Worker()
    for number in range(5):
        put(worker, job, [number])
        worker.drain()  # those that wait together fail together
    worker.close(5, each(job), 5)
    assert done == [0, 1, 5]
    (failure,) = (result for result in worker.results if result.error is not None)
    assert str(failure.error) == "of its own"
    assert failure.step == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
def test_a_forked_process_starts_a_thread_of_its_own():
    """The thread is not copied with the process."""
    worker = Worker()
    put(worker, lambda number: number, [0])
    worker.drain()
    child = os.fork()
    if child == 0:
        put(worker, lambda number: number, [1, 2])
        os._exit(0 if closed(worker) == [0, 1, 2, None] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert closed(worker) == [0, None]


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
    gate, records = threading.Event(), Assembler.records

    def held(*given):
        gate.wait(LONG)
        return records(*given)

    monkeypatch.setattr(Assembler, "records", held)
    fit(mlp(run_eagerly=True), GradientMonitor(tmp_path, every=1), Freeze(gate))
    run = open_run(tmp_path)
    assert run["hidden/kernel"].steps.tolist() == [0]
    assert run["head/kernel"].steps.tolist() == [0, 1, 2, 3]
