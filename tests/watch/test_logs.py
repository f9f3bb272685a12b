"""Two headline numbers are in Keras's own logs, for whoever reads those."""

import csv
import math

import keras
import numpy as np
import pytest

from gradwatch.monitor import GradientMonitor
from gradwatch.record import open_run

from .models import fit, mlp


@pytest.fixture(scope="module")
def model():
    return mlp()


@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_other_callbacks_see_the_headline(tmp_path, model, first):
    """`History` and `CSVLogger`, before and after the monitor in the list."""
    logger = keras.callbacks.CSVLogger(str(tmp_path / "log.csv"))
    monitor = GradientMonitor(tmp_path / "run", every=1, histograms=False)
    model.optimizer.iterations.assign(0)
    both = [monitor, logger] if first else [logger, monitor]
    history = fit(model, *both, epochs=2).history
    totals = open_run(tmp_path / "run").totals
    ends = [3, 7]
    np.testing.assert_allclose(history["grad_norm"], totals.global_norm[ends], 1e-6)
    np.testing.assert_allclose(history["update_ratio"], totals.update_ratio[ends], 1e-6)
    with open(tmp_path / "log.csv", encoding="utf-8") as file:
        lines = [*csv.DictReader(file)]
    found = [float(line["grad_norm"]) for line in lines]
    np.testing.assert_allclose(found, history["grad_norm"], 1e-6)


class Batches(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(dict(logs))


def test_the_newest_number_stays_until_the_next(tmp_path, model):
    """Between records the logs hold the last one; before the first, NaN."""
    batches = Batches()
    monitor = GradientMonitor(tmp_path, every=lambda s: s % 4 == 1, histograms=False)
    model.optimizer.iterations.assign(0)
    fit(model, monitor, batches)
    found = [float(logs["grad_norm"]) for logs in batches.seen]
    (norm,) = open_run(tmp_path).totals.global_norm
    assert math.isnan(found[0])
    np.testing.assert_allclose(found[1:], [norm] * 3, 1e-6)


def test_metrics_of_the_model_are_not_added_to(tmp_path, model):
    """`evaluate` and a later unwatched `fit` know nothing of the headline."""
    fit(model, GradientMonitor(tmp_path, every=1, histograms=False))
    assert set(fit(model).history) == {"loss"}
    assert [m.name for m in model.metrics] == ["loss"]


def test_the_monitor_says_what_it_has_seen(tmp_path, model):
    """`latest` is the newest record, `overhead` what all of it cost."""
    monitor = GradientMonitor(tmp_path, every=2)
    assert monitor.latest is None
    model.optimizer.iterations.assign(0)
    fit(model, monitor)
    assert monitor.latest.step == 2
    run = open_run(tmp_path)
    np.testing.assert_array_equal(
        [line.norm[-1] for line in map(run.__getitem__, run)],
        monitor.latest.rows[:, 0],
    )
    for overhead in (monitor.overhead, run.overhead):
        assert overhead["records"] == 2
        assert overhead["steps"] == 4


def test_where_every_step_is_recorded_the_sums_are_timed_alone(
    tmp_path, model, monkeypatch
):
    """After a training long enough to be worth it; a short one says that none was."""
    short, long = (GradientMonitor(tmp_path / name, every=1) for name in "ab")
    fit(model, short)
    assert short.overhead["in_step_ms"] is None
    assert short.overhead["share"] is None
    monkeypatch.setattr("gradwatch.monitor._host._WORTH_IT", 0.0)
    before = [np.array(w) for w in model.get_weights()]
    fit(model, long, epochs=0)
    assert long.overhead["in_step_ms"] is None  # nothing was recorded
    for weight, kept in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, kept)
    fit(model, long)
    overhead = open_run(tmp_path / "b").overhead
    assert overhead["compared_with"] == "the sums alone"
    assert 0 < overhead["in_step_ms"] < 1e3 * overhead["seconds"]
    assert overhead["share"] > 0
