"""A recorded step is short to read: it runs through few files of gradwatch."""

import sys
import threading
from functools import partial
from pathlib import Path

import keras
import pytest

import gradwatch
from gradwatch.monitor import GradientMonitor

from .models import fit, mlp

ROOT = Path(gradwatch.__file__).parent
STEPS = 4
"""Number of steps in an epoch. The last of the second is looked at: those before it
compile, with and without histograms, and fill caches."""
MOST = {"tensorflow": 25, "jax": 25, "torch": 31}
"""Maximum number of files. On torch nothing is compiled: the taps run at each step."""
MOST_OF_MONITOR = {"tensorflow": 8, "jax": 8, "torch": 10}


class Visits(keras.callbacks.Callback):
    """Notes the files whose functions run during one step, on both threads.

    It comes before the monitor in the list of callbacks, and `stop` after it.
    """

    def __init__(self):
        super().__init__()
        self.files = set()
        self._notes = False

    def __call__(self, frame, event, argument):
        if self._notes and event == "call":
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(ROOT):
                self.files.add(path.relative_to(ROOT).as_posix())

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_begin(self, batch, logs=None):
        self._notes = (self._epoch, batch) == (1, STEPS - 1)

    def stop(self, monitor, batch, logs=None):
        # By now the worker is done with it.
        assert monitor.latest.step == STEPS * self._epoch + batch
        self._notes = False


@pytest.fixture
def files(tmp_path):
    """The files that a recorded step runs through."""
    # With "epoch" TensorBoard's curves are written at each record, not each second.
    monitor = GradientMonitor(tmp_path, every=1, histograms="epoch")
    visits = Visits()
    stop = keras.callbacks.LambdaCallback()
    stop.on_train_batch_end = partial(visits.stop, monitor)
    before = sys.getprofile(), threading.getprofile()
    sys.setprofile(visits)
    threading.setprofile(visits)
    try:
        fit(mlp(), visits, monitor, stop, epochs=2)
    finally:
        sys.setprofile(before[0])
        threading.setprofile(before[1])
    return visits.files


def test_a_recorded_step_runs_through_few_files(files):
    """From the train function to the file on disk and the rules."""
    assert "monitor/_worker.py" in files
    assert "run/_writer.py" in files
    assert len(files) <= MOST[keras.config.backend()], "\n".join(sorted(files))


def test_a_recorded_step_runs_through_few_files_of_the_monitor(files):
    """The trainer's side, the worker's side, and what they share."""
    ours = sorted(file for file in files if file.startswith("monitor/"))
    assert len(ours) <= MOST_OF_MONITOR[keras.config.backend()], "\n".join(ours)
