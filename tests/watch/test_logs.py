"""Two headline numbers are in the logs that Keras hands to its callbacks."""

import csv
import math
from collections import Counter

import keras
import numpy as np
import pytest

from gradwatch._keras import hears_batches
from gradwatch.monitor import GradientMonitor
from gradwatch.monitor._schedule import Cost
from gradwatch.run import open_run

from .models import QUICK, WIDTH, X, Y, fit, mlp


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


class Counts(keras.callbacks.Callback):
    """Counts the calls of its methods, and hears each batch."""

    def __init__(self):
        super().__init__()
        self.calls = Counter()

    def on_train_begin(self, logs=None):
        self.calls["begin"] += 1

    def on_train_batch_end(self, batch, logs=None):
        self.calls["batch"] += 1
        assert "grad_norm" in logs

    def on_train_end(self, logs=None):
        self.calls["end"] += 1


@pytest.mark.parametrize("position", [0, 1, 2])
def test_every_callback_is_called_once(tmp_path, model, position):
    """Wherever the monitor stands, which adds a callback of its own, and takes it out.

    Keras goes through the list while that happens.
    """
    others = [Counts(), Counts()]
    monitor = GradientMonitor(tmp_path, every=2, histograms=False)
    callbacks = [*others[:position], monitor, *others[position:]]
    owner = keras.callbacks.CallbackList(
        callbacks, add_history=True, model=model, epochs=1
    )
    before = list(owner.callbacks)
    model.fit(X, Y, batch_size=2, verbose=0, callbacks=owner)
    for other in others:
        assert other.calls == {"begin": 1, "batch": len(X) // 2, "end": 1}
    assert owner.callbacks == before


def test_a_second_fit_with_a_callback_that_hears_batches_traces_nothing(
    tmp_path, model
):
    """The same train function serves: nothing is compiled again."""
    monitor = GradientMonitor(tmp_path, every=2, histograms=False)
    functions = []
    for _ in range(2):
        fit(model, monitor, Counts())
        functions.append(monitor._kept._function)
    assert functions[0] is functions[1]


class Evaluates(keras.callbacks.Callback):
    """Moves the metrics of the training after the last batch of an epoch."""

    def on_train_batch_end(self, batch, logs=None):
        if batch == 3:
            self.model.evaluate(X[:2], Y[:2], verbose=0)


def test_what_keras_reports_of_an_epoch_is_what_it_would(tmp_path):
    """It asks the metrics again when an epoch ends, also if a callback moved them."""
    told = []
    for monitors in ([], [GradientMonitor(tmp_path, every=2, histograms=False)]):
        keras.utils.set_random_seed(3)
        model = mlp(metrics=["mae"])
        told.append(fit(model, *monitors, Evaluates(), epochs=2).history)
        assert "_get_metrics_result_or_logs" not in vars(model)
    theirs, ours = told
    assert {name: ours[name] for name in theirs} == theirs
    assert set(ours) - set(theirs) == {"grad_norm", "update_ratio"}


class OwnNorm(keras.Model):
    """Tells a number by a name that is also ours."""

    def train_step(self, *args):
        found = super().train_step(*args)
        if isinstance(found, tuple):  # on JAX with the state of the training
            return {**found[0], "grad_norm": 42.0}, found[1]
        return {**found, "grad_norm": 42.0}


def test_numbers_of_a_train_step_keep_their_names(tmp_path):
    """Who logs a `grad_norm` of their own still finds it there."""
    inputs = keras.Input((WIDTH,))
    model = OwnNorm(inputs, keras.layers.Dense(2, name="out")(inputs))
    model.compile("sgd", "mse", **QUICK)
    history = fit(model, GradientMonitor(tmp_path, every=1, histograms=False)).history
    assert float(history["grad_norm"][0]) == 42.0
    assert 0 < history["update_ratio"][0] < 1


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


@pytest.mark.parametrize(("every", "epochs"), [(1, 1), (1, 2), (10, 1)])
def test_a_training_without_steps_to_compare_does_not_know_its_cost(
    tmp_path, model, every, epochs
):
    """Every step recorded, or the only recorded one compiled: not measured."""
    model.optimizer.iterations.assign(0)
    fit(model, GradientMonitor(tmp_path, every=every), epochs=epochs)
    overhead = open_run(tmp_path).overhead
    assert overhead["share"] is None
    assert overhead["record_ms"] is None
    assert overhead["host_ms"] > 0


def test_a_run_says_what_it_has_cost_so_far(tmp_path, model, monkeypatch):
    """One whose process is killed has said it; at the end it says it for all."""
    monkeypatch.setattr("gradwatch.monitor._schedule._REPORT_FIRST", 0.0)
    monkeypatch.setattr("gradwatch.monitor._schedule._REPORT_EVERY", math.inf)
    seen = []

    class Look(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            assert monitor.latest is not None  # by now it is on disk
            seen.append(open_run(tmp_path).overhead)

    monitor = GradientMonitor(tmp_path, every=1)
    fit(model, monitor, Look())
    assert [cost["records"] for cost in seen] == [1, 1, 1, 1]  # not at every step
    assert seen[0]["so_far"] is True
    assert open_run(tmp_path).overhead["records"] == 4
    assert "so_far" not in open_run(tmp_path).overhead


class Training:
    """The intervals of a training, as a clock would tell them."""

    def __init__(self):
        self.cost, self.bursts = Cost(), 0

    def step(self, seconds, recorded=False, bursts=0, idle=True):
        """One step; `bursts` is how often the worker began or ended within it."""
        self.cost.ran(1, recorded)
        self.bursts += bursts
        self.cost.took(seconds, self.bursts, idle=idle)


def timed(every, plain, extra, steps=1_000, first=5.0):
    """The cost of a training in which a record makes some steps slower."""
    training = Training()
    for step in range(steps):
        # A record makes its own step slower, and those in which the worker works: it
        # begins in the second after it, and ends in the third.
        slower = extra / 4 * {0: 2, 2: 1, 3: 1}.get(step % every, 0)
        seconds = first if step == 0 else plain + slower
        training.step(seconds, step % every == 0, int(step % every in (2, 3)))
    return training


@pytest.mark.parametrize("every", [5, 10, 50])
def test_the_cost_is_what_busy_steps_take_longer(every):
    """Whatever makes them slower, also where that is long after the recorded step."""
    cost = timed(every, plain=0.01, extra=0.002).cost
    assert cost.step == pytest.approx(0.01)
    # The work for the first record, whose own step compiled, is in it.
    assert cost.record == pytest.approx(0.002, rel=0.03)
    assert cost.spent == pytest.approx(cost.records * 0.002, rel=0.03)


def test_the_cost_of_a_record_is_not_known_before_the_worker_is_done_with_it():
    """Nor is anything before a step was seen in which nothing was done."""
    training = Training()
    training.step(0.01, recorded=True, idle=False)
    assert training.cost.is_open
    for bursts, idle in ((0, False), (0, False), (1, False), (1, True)):
        training.step(0.01, bursts=bursts, idle=idle)
        assert training.cost.is_open is not idle
        assert training.cost.record is None  # the first record compiled


def test_a_pause_and_the_end_of_an_epoch_are_not_ours():
    """Both are left out of the steps that are compared."""
    training = timed(10, plain=0.01, extra=0.002)
    for seconds in (3.0, None):
        training.step(seconds, recorded=True)
    assert training.cost.record == pytest.approx(0.002, rel=0.03)


def test_the_cost_of_the_next_record_follows_the_latest():
    """What was measured long ago counts for less, and all of it was spent."""
    training = timed(10, plain=0.01, extra=0.02)
    spent = training.cost.spent
    for step in range(10_000):
        training.step(0.01 + 0.002 * (step % 10 == 0), step % 10 == 0)
    assert training.cost.next_one == pytest.approx(0.002, rel=0.05)
    assert training.cost.spent == pytest.approx(spent + 1_000 * 0.002, rel=0.05)


# Trackers leave sockets and old names behind.
FOREIGN = "ignore::ResourceWarning", "ignore::DeprecationWarning"


@pytest.mark.filterwarnings(*FOREIGN)
def test_the_callback_of_wandb_logs_the_headline(tmp_path, model, monkeypatch):
    """Its own, for Keras: what it hands to `wandb.log` at the end of an epoch."""
    wandb = pytest.importorskip("wandb")
    for name in ("DIR", "CACHE_DIR", "CONFIG_DIR", "DATA_DIR"):
        monkeypatch.setenv(f"WANDB_{name}", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    from wandb.integration.keras import WandbMetricsLogger

    with wandb.init(mode="disabled"):
        logger, logged = WandbMetricsLogger(), []
        monkeypatch.setattr(wandb, "log", logged.append)
        monitor = GradientMonitor(tmp_path / "run", every=1, histograms=False)
        history = fit(model, logger, monitor, epochs=2).history
    for name in ("grad_norm", "update_ratio"):
        assert [logs[f"epoch/{name}"] for logs in logged] == history[name]


@pytest.mark.filterwarnings(*FOREIGN, "ignore::FutureWarning")
def test_the_callback_of_mlflow_logs_the_headline(tmp_path, model, monkeypatch):
    """Its own, for Keras: read back from a store of plain files."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = pytest.importorskip("mlflow")
    from mlflow.keras import MlflowCallback

    before, uri = mlflow.get_tracking_uri(), (tmp_path / "store").as_uri()
    mlflow.set_tracking_uri(uri)
    try:
        with mlflow.start_run() as run:
            monitor = GradientMonitor(tmp_path / "run", every=1, histograms=False)
            history = fit(model, MlflowCallback(), monitor, epochs=2).history
        mlflow.flush_async_logging()
        client = mlflow.MlflowClient(tracking_uri=uri)
        for name in ("grad_norm", "update_ratio"):
            found = client.get_metric_history(run.info.run_id, name)
            assert {m.step: m.value for m in found} == dict(enumerate(history[name]))
    finally:
        mlflow.set_tracking_uri(before)


def test_a_monitor_hears_no_ends_of_batches(tmp_path):
    """Or else Keras would run the callbacks of each batch on the training thread."""
    base = keras.callbacks.Callback
    for name in ("on_train_batch_end", "on_batch_end"):
        assert getattr(GradientMonitor, name) is getattr(base, name)
    monitor = GradientMonitor(tmp_path)
    lists = [
        keras.callbacks.CallbackList(some) for some in ([monitor], [monitor, Batches()])
    ]
    assert [hears_batches(callbacks) for callbacks in lists] == [False, True]
