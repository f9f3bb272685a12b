"""What is done behind the training: in order, to the end, and without a trace."""

import copy
import threading

from gradwatch.monitor import GradientMonitor
from gradwatch.monitor._behind import WAITING, Behind
from gradwatch.record import open_run

from .models import fit, mlp


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
        gate.wait(10)
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


def test_who_brings_more_than_may_wait_waits():
    """A slow disk slows the training down; it does not fill the memory."""
    gate = threading.Event()
    behind = Behind(lambda number: gate.wait(10))
    for number in range(WAITING + 1):
        behind.put(number)
    brought = threading.Event()

    def bring():
        behind.put(-1)
        brought.set()

    threading.Thread(target=bring).start()
    assert not brought.wait(0.3)
    gate.set()
    assert brought.wait(10)
    behind.close()


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
