"""While it trains: findings are recorded, told once, and acted upon as was asked."""

import dataclasses
import sys
import time
import warnings
from functools import partial

import keras
import numpy as np
import pytest
from keras import layers

import gradwatch as gw
from gradwatch.diagnose import RuleEngine
from gradwatch.monitor._recorder import FindingHandler, StepRecorder, Training
from gradwatch.monitor._worker import Judgement, Result, RunKeeper, Worker
from gradwatch.run import RunWriter

from .models import QUICK

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(64, 8)).astype("float32")
Y = (X[:, :1] > 0).astype("float32")


def sick():
    """Sigmoids all the way down."""
    hidden = [layers.Dense(16, "sigmoid", name=f"hidden_{i}") for i in range(8)]
    model = keras.Sequential([keras.Input((8,)), *hidden, layers.Dense(1, name="out")])
    model.compile(keras.optimizers.SGD(0.01), "mse", **QUICK)
    return model


def healthy():
    hidden = [layers.Dense(16, "relu", name=f"hidden_{i}") for i in range(3)]
    model = keras.Sequential([keras.Input((8,)), *hidden, layers.Dense(1, name="out")])
    model.compile(keras.optimizers.SGD(0.01), "mse", **QUICK)
    return model


def fit(model, monitor, callbacks=(), epochs=2):
    """16 steps."""
    callbacks = [monitor, *callbacks]
    return model.fit(
        X, Y, batch_size=8, epochs=epochs, verbose=0, shuffle=False, callbacks=callbacks
    )


def test_findings_are_in_the_monitor_and_in_the_run(tmp_path):
    """The same, whether found while training, read back, or looked for afterwards."""
    monitor = gw.GradientMonitor(tmp_path, every=1)
    fit(sick(), monitor)
    (finding,) = monitor.findings
    assert finding.symptom == "vanishing"
    assert finding.addresses[0].startswith("hidden_0/")
    assert (finding.since, finding.step) == (0, 4)
    run = gw.open_run(tmp_path)
    (kept,) = run.findings
    assert gw.Finding.from_dict(kept).to_json() == finding.to_json()
    for what in (run, tmp_path, monitor):
        (again,) = gw.diagnose(what)
        assert again.to_json() == finding.to_json()


def test_nothing_is_found_in_a_healthy_training(tmp_path):
    """Neither while it runs nor afterwards."""
    monitor = gw.GradientMonitor(tmp_path, every=1, on_finding="raise")
    fit(healthy(), monitor)
    assert monitor.findings == ()
    gw.assert_healthy(tmp_path)


def test_a_warning_is_given_once(tmp_path):
    """With the whole finding as its text."""
    monitor = gw.GradientMonitor(tmp_path, every=1, on_finding="warn")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", gw.UnhealthyTraining)
        fit(sick(), monitor)
    mine = [w for w in told if w.category is gw.UnhealthyTraining]
    assert len(mine) == 1
    assert "vanish along depth" in str(mine[0].message)


def test_stop_ends_fit_well_and_keras_restores_its_best_weights(tmp_path):
    """`fit` returns early; `EarlyStopping` does what it does after any `fit`."""
    best = keras.callbacks.EarlyStopping("loss", restore_best_weights=True, patience=99)
    monitor = gw.GradientMonitor(tmp_path, every=1, on_finding="stop")
    model = sick()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gw.UnhealthyTraining)
        history = fit(model, monitor, [best], epochs=5)
    assert len(history.epoch) == 1
    assert best.best_weights is not None
    for mine, kept in zip(model.get_weights(), best.best_weights, strict=True):
        np.testing.assert_array_equal(mine, kept)
    assert gw.open_run(tmp_path).steps[-1] < 8


def test_stop_keeps_what_a_checkpoint_has(tmp_path):
    """Two good epochs, then NaN: the file, and the weights, are of the second."""
    kept = tmp_path / "best.weights.h5"
    best = keras.callbacks.ModelCheckpoint(
        kept, monitor="loss", save_best_only=True, save_weights_only=True
    )
    early = keras.callbacks.EarlyStopping(
        "loss", restore_best_weights=True, patience=99
    )
    monitor = gw.GradientMonitor(tmp_path / "run", every=1, on_finding="stop")
    model, twin = healthy(), healthy()
    twin.set_weights(model.get_weights())

    def batches():
        for step in range(100):
            some = slice(8 * (step % 8), 8 * (step % 8) + 8)
            # Of inputs a ReLU may make zeros, and the loss would be finite.
            yield X[some], Y[some] * np.float32(np.nan if step == 20 else 1.0)

    given = {"steps_per_epoch": 8, "shuffle": False, "verbose": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gw.UnhealthyTraining)
        history = model.fit(
            batches(), epochs=10, callbacks=[monitor, best, early], **given
        )
    assert len(history.epoch) == 3
    twin.fit(batches(), epochs=2, **given)
    for mine, theirs in zip(model.get_weights(), twin.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    model.load_weights(kept)
    for mine, theirs in zip(model.get_weights(), twin.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.fixture
def slow_rules(monkeypatch):
    """Rules that are not done with a record before several more steps are."""
    see = RuleEngine.read

    def late(self, record):
        time.sleep(0.15)
        return see(self, record)

    monkeypatch.setattr(RuleEngine, "read", late)


@pytest.mark.usefixtures("slow_rules")
def test_no_epoch_begins_before_all_was_looked_at(tmp_path):
    """However far behind the rules are: what is to end does not go on."""
    stop = gw.GradientMonitor(tmp_path / "stop", every=1, on_finding="stop")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gw.UnhealthyTraining)
        history = fit(sick(), stop, epochs=5)
    assert len(history.epoch) == 1
    model = sick()
    angry = gw.GradientMonitor(tmp_path / "raise", every=1, on_finding="raise")
    with pytest.raises(gw.UnhealthyError, match=r"\[vanishing\]"):
        fit(model, angry, epochs=5)
    assert gw.open_run(tmp_path / "raise").steps[-1] < 8
    assert "train_step" not in model.__dict__
    assert "apply" not in model.optimizer.__dict__


def test_raise_ends_fit_with_the_findings_and_leaves_nothing(tmp_path):
    """The model is as before, and what was recorded is on disk."""
    model = sick()
    monitor = gw.GradientMonitor(tmp_path, every=1, on_finding="raise")
    with pytest.raises(gw.UnhealthyError, match=r"\[vanishing\]") as error:
        fit(model, monitor)
    assert [f.symptom for f in error.value.findings] == ["vanishing"]
    assert "train_step" not in model.__dict__
    assert "apply" not in model.optimizer.__dict__
    assert [f["symptom"] for f in gw.open_run(tmp_path).findings] == ["vanishing"]


def test_a_function_gets_each_finding_once(tmp_path):
    """It may do what it likes."""
    told = []
    monitor = gw.GradientMonitor(tmp_path, every=1, on_finding=told.append)
    fit(sick(), monitor)
    assert [finding.symptom for finding in told] == ["vanishing"]


def interrupted(call, function, number, meanwhile):
    """Calls the first; before an instruction of the function in it, does another thing.

    As a second thread would, but at a moment that is chosen. Returns whether there is
    an instruction of that number.
    """
    seen, before = -1, sys.gettrace()

    def trace(frame, event, argument):
        nonlocal seen
        if frame.f_code is not function.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen += 1
            if seen == number:
                meanwhile()
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return seen >= number


def judged(step):
    """The result of a job in which the rules found something."""
    finding = gw.Finding("vanishing", step=step)
    return Result(step, value=Judgement(findings=[finding]))


def test_what_is_found_while_another_is_acted_on_is_told_once(tmp_path):
    """The rules run on a thread of their own: results may come at any moment."""
    keeper = RunKeeper(RunWriter(tmp_path), None, None, holds_nonfinite=False)
    number, more = 0, True
    while more:
        told = []
        recorder = StepRecorder(
            tmp_path, 1, False, [], lambda f, told=told: told.append(f)
        )
        worker = Worker(recorder.results)
        recorder._training = Training(None, keeper, worker, None)
        worker.results.append(judged(0))
        news = partial(worker.results.append, judged(1))
        act = partial(recorder.act, None)
        more = interrupted(act, StepRecorder._collect, number, news)
        if not more:
            news()
        act()
        assert [finding.step for finding in told] == [0, 1], number
        number += 1
    assert number > 10


def test_a_second_fit_is_looked_at_anew(tmp_path):
    """What was found is found again: it may be another model by then."""
    told = []
    monitor = gw.GradientMonitor(tmp_path, every=1, on_finding=told.append)
    model = sick()
    fit(model, monitor)
    fit(model, monitor)
    assert len(told) == 2


def test_a_function_that_fails_ends_the_training_as_its_own_error(tmp_path):
    """It is the user's code: its error is not hidden."""

    def fail(finding):
        raise RuntimeError("no more of this")

    monitor = gw.GradientMonitor(tmp_path, every=1, on_finding=fail)
    with pytest.raises(RuntimeError, match="no more of this"):
        fit(sick(), monitor)


def test_a_wrong_word_is_refused(tmp_path):
    """With what it may be."""
    with pytest.raises(gw.GradwatchError, match='"warn", "stop", "raise"'):
        gw.GradientMonitor(tmp_path, on_finding="halt")


def test_a_model_that_is_frozen_altogether_is_said_to_be(tmp_path):
    """Nothing can be recorded: frozen at random it is a finding, else a warning."""
    told = []
    model = healthy()
    model.trainable = False
    model.compile("sgd", "mse", **QUICK)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("ignore")  # Keras has its own word for it
        warnings.filterwarnings("always", "gradwatch", RuntimeWarning)
        fit(model, gw.GradientMonitor(tmp_path / "a", every=1, on_finding=told.append))
        assert [finding.symptom for finding in told] == ["frozen"]
        assert [f["symptom"] for f in gw.open_run(tmp_path / "a").findings] == [
            "frozen"
        ]
        assert said == []
        for layer in model.layers:
            layer.kernel.assign(np.eye(*layer.kernel.shape))
        fit(model, gw.GradientMonitor(tmp_path / "b", every=1))
    assert ["is trainable" in str(warning.message) for warning in said] == [True]


def losses_of(path, every):
    """The recorded losses of the same training."""
    keras.utils.set_random_seed(0)
    fit(healthy(), gw.GradientMonitor(path, every=every))
    run = gw.open_run(path)
    return run.steps, run.totals.loss


def test_the_loss_of_each_step_is_recorded(tmp_path):
    """That of its own batch, though Keras gives means over the epoch."""
    _, seen = losses_of(tmp_path, every=1)
    keras.utils.set_random_seed(0)
    model = healthy()
    expected = []
    for step in range(16):
        some = slice(8 * (step % 8), 8 * (step % 8) + 8)
        expected.append(model.train_on_batch(X[some], Y[some]))
        model.reset_metrics()
    np.testing.assert_allclose(seen, expected, rtol=1e-3)


@pytest.mark.parametrize("every", [2, 3])
def test_the_loss_between_records_is_a_mean(tmp_path, every):
    """Over the steps since the record before, or since the epoch began."""
    _, one_by_one = losses_of(tmp_path / "each", every=1)
    steps, losses = losses_of(tmp_path / "some", every)
    for place, step in enumerate(steps):
        before = steps[place - 1] if place else -1
        since = max(before + 1, 8 * (step // 8))
        expected = one_by_one[since : step + 1].mean()
        np.testing.assert_allclose(losses[place], expected, rtol=1e-3)


def test_rows_that_never_move_are_counted(tmp_path):
    """A vocabulary of 500 of which ten are used."""
    model = keras.Sequential(
        [
            keras.Input((4,), dtype="int32"),
            layers.Embedding(500, 4, name="embed"),
            layers.Flatten(),
            layers.Dense(1, name="out"),
        ]
    )
    model.compile(keras.optimizers.Adam(0.01), "mse", **QUICK)
    tokens = RANDOM.integers(0, 10, size=(64, 4)).astype("int32")
    monitor = gw.GradientMonitor(tmp_path, every=1)
    model.fit(tokens, Y, batch_size=8, verbose=0, callbacks=[monitor])
    (finding,) = monitor.findings
    assert finding.symptom == "idle-rows"
    assert finding.addresses == ("embed/embeddings",)
    assert finding.evidence["rows"] == 500
    assert gw.open_run(tmp_path).notes["rows"]["embed/embeddings"]["moved"] == 10


def test_tensorboard_shows_findings_as_text(tmp_path):
    """Under the Text tab, by a plain reader."""
    from tensorboard.backend.event_processing import event_accumulator

    fit(sick(), gw.GradientMonitor(tmp_path, every=1))
    events = event_accumulator.EventAccumulator(str(tmp_path)).Reload()
    assert events.PluginTagToContent("text").keys() == {"findings"}
    (shown,) = events.Tensors("findings")
    assert b"[vanishing]" in shown.tensor_proto.string_val[0]
    assert shown.step == 4


def test_a_loop_of_ones_own_is_looked_at_as_well(tmp_path):
    """Gradients that fall tenfold from layer to layer, applied by hand."""
    model = sick()
    optimizer = keras.optimizers.SGD(1e-3)
    optimizer.build(model.trainable_variables)
    grads = [
        keras.ops.ones(variable.shape) * 10.0 ** (place // 2 - 8)
        for place, variable in enumerate(model.trainable_variables)
    ]
    with gw.watch(model, optimizer, tmp_path, every=1) as loop:
        for _ in range(6):
            optimizer.apply(grads, model.trainable_variables)
    assert [finding.symptom for finding in loop.findings] == ["vanishing"]
    assert gw.diagnose(loop) == loop.findings


def test_a_training_that_recovers_says_so_in_the_run_too(tmp_path):
    """It is one finding, with its end, wherever it is read."""
    model = sick()
    optimizer = keras.optimizers.SGD(1e-3)
    optimizer.build(model.trainable_variables)
    variables = model.trainable_variables

    def gradients(decades):
        return [
            keras.ops.ones(variable.shape) * 10.0 ** (decades * (place // 2 - 8))
            for place, variable in enumerate(variables)
        ]

    with gw.watch(model, optimizer, tmp_path, every=1) as loop:
        for step in range(16):
            optimizer.apply(gradients(1 if step < 7 else 0), variables)
    (finding,) = loop.findings
    assert (finding.symptom, finding.since, finding.until) == ("vanishing", 0, 6)
    run = gw.open_run(tmp_path)
    assert [values["until"] for values in run.findings] == [6]
    assert gw.diagnose(run) == loop.findings


def test_the_end_of_a_finding_is_kept_and_not_acted_on():
    """A function that was called for it is not called again."""
    told = []
    handler = FindingHandler(told.append)
    finding = gw.Finding("vanishing", since=0, step=4)
    for until in (None, 9, None):
        handler.add(dataclasses.replace(finding, until=until))
        handler.act(None)
        assert handler.findings == [dataclasses.replace(finding, until=until)]
    assert told == [finding]
    handler.begin()
    handler.add(finding)  # of another training
    assert len(handler.findings) == 2
