"""Our own failures are one warning, and training goes on as if unwatched."""

import keras
import numpy as np
import pytest

import gradwatch.monitor._recorder
from gradwatch.monitor import GradientMonitor
from gradwatch.run import open_run

from .models import arrays, fit, single, warned


def trained(*callbacks):
    """All that a training leaves in a model."""
    keras.utils.set_random_seed(5)
    model = single()
    fit(model, *callbacks, epochs=2)
    return arrays([*model.variables, *model.optimizer.variables])


@pytest.fixture(scope="module")
def expected():
    return trained()


def assert_trained(found, expected):
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.tobytes() == theirs.tobytes()


def broken(*_, **__):
    raise RuntimeError("of our own")


PLACES = {
    "at the start of training": "gradwatch.monitor._monitor.Fit",
    "at the start of the run": "gradwatch.monitor._recorder.RunWriter",
    "while steps are chosen": "gradwatch.monitor._recorder.StepRecorder.detail",
    "in the step": "gradwatch.monitor._optimizer.applied",
    "before the update": "gradwatch.monitor._optimizer.totals_of",
    "in the activations": "gradwatch.monitor._watching.sweep_of",
    "in the assembler": "gradwatch.monitor._assemble.Assembler.records",
    "in the writer": "gradwatch.run.RunWriter.write",
    "in the layers": "gradwatch.monitor._watching.Session",
}


@pytest.mark.parametrize("place", PLACES)
def test_a_failure_of_ours_is_one_warning(tmp_path, monkeypatch, expected, place):
    """Wherever it is: training ends with the same bits, and nothing left behind."""
    monkeypatch.setattr(PLACES[place], broken)
    monitor = GradientMonitor(tmp_path, every=1, activations=True)
    with warned() as said:
        found = trained(monitor)
    (message,) = said
    assert "of our own" in message
    assert "step 0" in message
    assert_trained(found, expected)


def test_what_was_recorded_before_a_failure_is_kept(tmp_path, monkeypatch, expected):
    """The warning names the step from which on there is nothing."""
    recorder = gradwatch.monitor._recorder.StepRecorder
    record = recorder.record

    def sometimes(self, step, *sent):
        if step == 5:
            raise RuntimeError("of our own")
        record(self, step, *sent)

    monkeypatch.setattr(recorder, "record", sometimes)
    with warned() as said:
        found = trained(GradientMonitor(tmp_path, every=1, histograms=False))
    (message,) = said
    assert "at step 5: RuntimeError: of our own" in message
    assert_trained(found, expected)
    assert open_run(tmp_path).steps.tolist() == [0, 1, 2, 3, 4]


def test_a_schedule_that_raises_is_one_warning(tmp_path, expected):
    """A function of the user's is asked by us: it ends watching, not training."""
    with warned() as said:
        found = trained(GradientMonitor(tmp_path, every=lambda step: 1 // 0))
    (message,) = said
    assert "ZeroDivisionError" in message
    assert_trained(found, expected)


def test_a_directory_that_cannot_be_made_is_one_warning(tmp_path, expected):
    """A file stands where the run should go."""
    (tmp_path / "taken").write_text("a file")
    with warned() as said:
        found = trained(GradientMonitor(tmp_path / "taken" / "run", every=1))
    (message,) = said
    assert "taken" in message
    assert_trained(found, expected)


class Delete(keras.callbacks.Callback):
    def __init__(self, directory, monitor):
        super().__init__()
        self._directory = directory
        self._monitor = monitor

    def on_train_batch_end(self, batch, logs=None):
        if batch == 1:
            assert self._monitor.latest is not None  # by now it is on disk
            for file in self._directory.iterdir():
                file.unlink()
            self._directory.rmdir()


def test_a_directory_deleted_while_training_is_survived(tmp_path, expected):
    """Training goes on; at most one warning is given, and later steps are there."""
    directory = tmp_path / "run"
    monitor = GradientMonitor(directory, every=1, histograms=False)
    with warned() as said:
        keras.utils.set_random_seed(5)
        model = single()
        fit(model, monitor, Delete(directory, monitor))
        fit(model, monitor)
    assert_trained(arrays([*model.variables, *model.optimizer.variables]), expected)
    assert len(said) <= 1
    assert {4, 5, 6, 7} <= set(open_run(directory).steps.tolist())


class Sink:
    """Takes what it is given; or does not."""

    def __init__(self, fails=()):
        self.fails, self.calls = fails, []

    def start(self, info):
        self._call("start", info)

    def write(self, step, numbers):
        self._call("write", step, numbers)

    def close(self):
        self._call("close")

    def _call(self, name, *what):
        self.calls.append((name, *what))
        if name in self.fails:
            raise ConnectionError(name)


def test_sinks_get_the_numbers_of_each_record(tmp_path, expected):
    """Start, every recorded step, close."""
    sink = Sink()
    found = trained(GradientMonitor(tmp_path, every=3, sinks=[sink]))
    assert_trained(found, expected)
    assert [call[0] for call in sink.calls] == ["start", *["write"] * 3, "close"]
    assert [call[1] for call in sink.calls[1:-1]] == [0, 3, 6]
    run = open_run(tmp_path)
    norms = [call[2]["hidden/kernel/norm"] for call in sink.calls[1:-1]]
    np.testing.assert_allclose(norms, run["hidden/kernel"].norm)
    assert sink.calls[0][1]["model"] == "demo"


@pytest.mark.parametrize("where", ["start", "write", "close"])
def test_a_sink_that_raises_is_one_warning(tmp_path, expected, where):
    """The run on disk is complete all the same, and so is what others receive."""
    good = Sink()
    monitor = GradientMonitor(tmp_path, every=1, sinks=[Sink(fails=where), good])
    with warned() as said:
        found = trained(monitor)
    (message,) = said
    assert "Sink could not" in message
    assert_trained(found, expected)
    assert open_run(tmp_path).steps.tolist() == [*range(8)]
    assert len(good.calls) == 10
