"""`on_nonfinite="autopsy"`: the step that broke a training is found, and kept."""

import contextlib
import warnings

import keras
import numpy as np
import pytest
from keras import layers, ops

import gradwatch as gw
from gradwatch.monitor import _replay as replay

from .models import QUICK

RANDOM = np.random.default_rng(3)
ROWS, BATCH = 48, 2
X = RANDOM.uniform(0.5, 1, (ROWS, 3)).astype("float32")
Y = X.sum(axis=1, keepdims=True)
STEPS = ROWS // BATCH
SICK = 17
"""The step whose batch holds zeros; not one that is recorded."""
BAD = X.copy()
BAD[SICK * BATCH + 1] = 0


def build(**compiled):
    """A logarithm of the inputs, beside a layer that has nothing to do with it."""
    keras.utils.set_random_seed(7)
    inputs = keras.Input((3,), name="door")
    logs = layers.Lambda(ops.log, name="logs")(inputs)
    plain = layers.Dense(4, activation="tanh", name="plain")(inputs)
    both = layers.Concatenate(name="both")([logs, plain])
    dropped = layers.Dropout(0.3, seed=1, name="drop")(both)
    model = keras.Model(inputs, layers.Dense(1, name="out")(dropped))
    model.compile(keras.optimizers.Adam(0.01), "mse", **(QUICK | compiled))
    return model


def fit(model, *callbacks, x=BAD, y=Y, steps=STEPS, **options):
    options = {"batch_size": BATCH, "shuffle": False, "verbose": 0} | options
    rows = steps * BATCH
    return model.fit(x[:rows], y[:rows], callbacks=[*callbacks], **options)


def state(model):
    """All that a training changes."""
    every = [*model.variables, *model.optimizer.variables, *model.metrics_variables]
    return [keras.ops.convert_to_numpy(v.value) for v in every]


def same(ours, theirs):
    return all(
        np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        for a, b in zip(ours, theirs, strict=True)
    )


@contextlib.contextmanager
def heard():
    """Our own warnings; those of Keras about NumPy are not ours to see."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", "gradwatch", RuntimeWarning)
        yield said


def copy_every(steps, patch):
    """Copies the weights at this interval, however long a step takes here."""
    for bound in ("FEWEST", "MOST"):
        patch.setattr(replay, bound, steps)


@pytest.fixture(autouse=True)
def only_records_tell(monkeypatch):
    """After its first steps a training is over before the weights are copied again."""
    copy_every(1000, monkeypatch)


@pytest.fixture(scope="module")
def sick(tmp_path_factory):
    """A monitor, its run and the model, after a training that went wrong."""
    directory = tmp_path_factory.mktemp("runs") / "a"
    monitor = gw.GradientMonitor(directory, every=5, on_nonfinite="autopsy")
    model = build()
    with pytest.MonkeyPatch.context() as patch:
        copy_every(1000, patch)
        fit(model, monitor)
    return monitor, directory, model


def test_the_finding_names_the_layer_the_step_and_the_cause(sick):
    """Recorded was step 20; it was step 17, which was not recorded."""
    monitor, directory, _ = sick
    (finding,) = monitor.findings
    assert finding.symptom == "nonfinite"
    assert finding.addresses == ("logs",)
    assert (finding.since, finding.step) == (SICK, 20)
    assert finding.evidence["cause"] == "log of zero"
    assert finding.evidence["first"] == "activation 'logs'"
    (kept,) = gw.open_run(directory).findings
    (again,) = gw.diagnose(directory)
    assert gw.Finding.from_dict(kept).to_json() == finding.to_json() == again.to_json()


def test_it_is_printed_again_from_the_run(sick):
    """By the directory of the run, or of the autopsy in it."""
    _, directory, _ = sick
    found = gw.Autopsy.load(directory)
    assert (found.step, found.address, found.where) == (SICK, "logs", "activation")
    assert found.evidence["first_index"] == [1, 0]
    assert str(found).startswith(f"Step {SICK}.\n")
    assert found.directory in str(found)
    assert gw.Autopsy.load(found.directory) == found


def test_the_batch_and_the_weights_are_those_of_the_step(sick):
    """The weights are, bit for bit, those of a training that ended before it."""
    _, directory, _ = sick
    twin, restored = build(), build()
    x, y, weight = gw.Autopsy.load(directory).restore(restored)
    rows = slice(SICK * BATCH, (SICK + 1) * BATCH)
    assert np.array_equal(x, BAD[rows])
    assert np.array_equal(y, Y[rows])
    assert weight is None
    fit(twin, steps=SICK)
    untold = len(twin.metrics_variables)  # they are in no file of weights
    assert same(state(restored)[:-untold], state(twin)[:-untold])
    assert gw.autopsy(restored, x, y).cause == "log of zero"


def test_the_sick_training_goes_on_as_if_unobserved(sick):
    """Making its steps again leaves no trace: neither weights, seeds nor metrics."""
    _, _, model = sick
    twin = build()
    fit(twin)
    assert not np.isfinite(model.get_weights()[0]).all()
    assert same(state(model), state(twin))


COMPILED = {
    "torch": [{}],
    "jax": [{}, {"steps_per_execution": 4}],
    "tensorflow": [{}, {"steps_per_execution": 4}, {"jit_compile": True}],
}[keras.config.backend()]


@pytest.mark.parametrize("compiled", COMPILED, ids=str)
def test_a_healthy_training_is_the_same_bit_for_bit(tmp_path, compiled, monkeypatch):
    """Also with copies of the weights all the time, and several steps at once."""
    monkeypatch.setattr(replay, "FEWEST", 1)
    monkeypatch.setattr(replay, "SEEN", 1)
    monkeypatch.setattr(replay, "SHARE", 1e9)
    ours, theirs = (build(**compiled) for _ in range(2))
    monitor = gw.GradientMonitor(tmp_path, every=5, on_nonfinite="autopsy")
    told = fit(ours, monitor, x=X, epochs=2)
    untold = fit(theirs, x=X, epochs=2)
    assert same(state(ours), state(theirs))
    assert told.history["loss"] == untold.history["loss"]
    assert monitor.findings == ()
    assert not (tmp_path / "autopsy").exists()
    assert monitor.overhead["copying_seconds"] > 0


@pytest.mark.skipif(len(COMPILED) == 1, reason="torch makes one step at a time")
def test_the_step_is_found_among_several_of_one_execution(tmp_path):
    """Batches pass through the host one by one, also where Keras takes four."""
    monitor = gw.GradientMonitor(tmp_path, every=5, on_nonfinite="autopsy")
    fit(build(steps_per_execution=4), monitor)
    assert gw.Autopsy.load(tmp_path).step == SICK


@pytest.mark.parametrize(
    ("steps", "copies"),
    [(SICK + 1, 1000), (STEPS, 1000), (STEPS, 4)],
    ids=["the last", "some before", "copied"],
)
def test_what_no_record_shows_is_found_in_the_weights(
    tmp_path, steps, copies, monkeypatch
):
    """By the next copy of the weights; at the latest when training ends."""
    copy_every(copies, monkeypatch)
    monitor = gw.GradientMonitor(tmp_path, every=1000, on_nonfinite="autopsy")
    fit(build(), monitor, steps=steps)
    (finding,) = monitor.findings
    assert (finding.addresses, finding.since) == (("logs",), SICK)
    (again,) = gw.diagnose(tmp_path)  # of which no record tells
    assert again.to_json() == finding.to_json()
    with pytest.raises(gw.UnhealthyError, match="log of zero"):
        gw.assert_healthy(tmp_path)


def test_news_of_a_broken_step_is_told_once(tmp_path, monkeypatch):
    """A copy of the weights shows it before the record of step 20, which does too."""
    copy_every(3, monkeypatch)
    told = []
    monitor = gw.GradientMonitor(
        tmp_path, every=5, on_nonfinite="autopsy", on_finding=told.append
    )
    fit(build(), monitor)
    assert [(f.addresses, f.since) for f in told] == [(("logs",), SICK)]
    assert SICK < told[0].step < 20
    assert monitor.findings[0].to_json() == told[0].to_json()
    assert len(monitor.findings) == len(gw.open_run(tmp_path).findings) == 1
    assert [f.to_json() for f in gw.diagnose(tmp_path)] == [told[0].to_json()]


@pytest.mark.parametrize("step", [0, 1])
def test_the_first_steps_are_looked_at_as_well(tmp_path, step):
    """Before the first, an optimizer may not have made its variables yet."""
    x = X.copy()
    x[step * BATCH] = 0
    monitor = gw.GradientMonitor(tmp_path, every=1, on_nonfinite="autopsy")
    model, twin = build(), build()
    fit(model, monitor, x=x, steps=3)
    found = gw.Autopsy.load(tmp_path)
    assert (found.step, found.address) == (step, "logs")
    restored = build()
    found.restore(restored)
    if step:
        fit(twin, x=x, steps=step)
    assert same(restored.get_weights(), twin.get_weights())


def test_raise_has_the_layer(tmp_path):
    """What is done about a finding waits for the autopsy."""
    monitor = gw.GradientMonitor(
        tmp_path, every=1, on_nonfinite="autopsy", on_finding="raise"
    )
    model = build()
    with pytest.raises(gw.UnhealthyError, match="log of zero"):
        fit(model, monitor)
    assert gw.open_run(tmp_path).findings[0]["addresses"] == ["logs"]
    assert "train_step" not in vars(model)


def test_a_second_training_is_looked_at_as_well(tmp_path):
    """With the same monitor, on a model whose weights were mended."""
    monitor = gw.GradientMonitor(tmp_path, every=1, on_nonfinite="autopsy")
    model = build()
    fit(model, monitor, steps=SICK + 1)
    model.set_weights(build().get_weights())
    for variable in model.optimizer.variables:
        variable.assign(keras.ops.zeros_like(variable.value))
    fit(model, monitor, x=np.roll(BAD, BATCH, axis=0))
    assert [finding.addresses for finding in monitor.findings] == [("logs",)] * 2


class OwnLabels(keras.Model):
    """Takes batches that are no (x, y): the labels are among the inputs."""

    def __init__(self):
        super().__init__()
        self.logs = layers.Lambda(ops.log, name="logs")
        self.out = layers.Dense(1, name="out")

    def call(self, batch):
        return self.out(self.logs(batch["in"]))

    def compute_loss(self, x=None, y=None, y_pred=None, *args, **kwargs):
        return ops.mean(ops.square(y_pred - x["wanted"]))


def test_a_batch_of_any_structure_is_kept(tmp_path):
    """As it was: by the names of its parts."""
    monitor = gw.GradientMonitor(tmp_path, every=1, on_nonfinite="autopsy")
    batches = [
        {"in": BAD[i : i + BATCH], "wanted": Y[i : i + BATCH]}
        for i in range(0, ROWS, BATCH)
    ]
    given = {"steps_per_epoch": STEPS, "shuffle": False, "verbose": 0}
    keras.utils.set_random_seed(7)
    model = OwnLabels()
    model.compile("sgd", **QUICK)
    model.fit(((batch,) for batch in batches), callbacks=[monitor], **given)
    found = gw.Autopsy.load(tmp_path)
    assert (found.step, found.address) == (SICK, "logs")
    x, y, _ = found.restore(model)
    assert y is None
    assert np.array_equal(x["wanted"], batches[SICK]["wanted"])
    assert np.array_equal(x["in"], batches[SICK]["in"])
    (finding,) = monitor.findings
    assert (finding.symptom, finding.since) == ("nonfinite", SICK)


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("write_autopsy", "could not write the autopsy of step 17"),
        ("find_offence", "could not find out where"),
    ],
)
def test_a_failure_of_ours_is_a_warning(tmp_path, monkeypatch, place, told):
    """A full disk, or a fault of ours: the finding is told, training goes on."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"gradwatch.monitor._nonfinite.{place}", full)
    monitor = gw.GradientMonitor(tmp_path, every=1, on_nonfinite="autopsy")
    with heard() as said:
        history = fit(build(), monitor)
    assert [told in str(warning.message) for warning in said] == [True]
    assert len(history.history["loss"]) == 1
    (finding,) = monitor.findings
    assert (finding.symptom, finding.step) == ("nonfinite", SICK)
    with pytest.raises(gw.GradwatchError, match="`directory` must be that of a run"):
        gw.Autopsy.load(tmp_path)


def test_a_run_that_cannot_be_written_to_keeps_its_finding(tmp_path):
    """A file stands where the folder should be: the cause is told all the same."""
    (tmp_path / "autopsy").write_text("in the way")
    monitor = gw.GradientMonitor(tmp_path, every=5, on_nonfinite="autopsy")
    with heard() as said:
        fit(build(), monitor)
    (warning,) = said
    assert "could not write the autopsy of step 17" in str(warning.message)
    (finding,) = monitor.findings
    assert (finding.addresses, finding.evidence["cause"]) == (("logs",), "log of zero")
    assert "The batch is in" not in finding.try_first


class Batches(keras.utils.PyDataset):
    """The same batches, one by one."""

    def __len__(self):
        return STEPS

    def __getitem__(self, place):
        rows = slice(place * BATCH, (place + 1) * BATCH)
        return BAD[rows], Y[rows]


def generated():
    batches = Batches()
    while True:
        yield from (batches[place] for place in range(STEPS))


def as_tensors():
    from tensorflow import data  # what Keras takes on every backend

    return data.Dataset.from_tensor_slices((BAD, Y)).batch(BATCH)


@pytest.mark.parametrize("source", [Batches, generated, as_tensors])
def test_batches_come_from_anywhere(tmp_path, source):
    """From a generator, a `PyDataset`, a `tf.data.Dataset`: each is kept."""
    monitor = gw.GradientMonitor(tmp_path, every=5, on_nonfinite="autopsy")
    model = build()
    model.fit(
        source(), steps_per_epoch=STEPS, shuffle=False, verbose=0, callbacks=[monitor]
    )
    found = gw.Autopsy.load(tmp_path)
    assert (found.step, found.address, found.cause) == (SICK, "logs", "log of zero")
    x, y, _ = found.restore(build())
    rows = slice(SICK * BATCH, (SICK + 1) * BATCH)
    assert np.array_equal(x, BAD[rows])
    assert np.array_equal(y, Y[rows])


def test_mixed_precision_tells_a_broken_step_from_a_skipped_one(tmp_path):
    """A scale that overflows is halved, and no finding; the log of zero is one."""
    model = build()
    scaled = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.Adam(0.01), initial_scale=2.0**127
    )
    model.compile(scaled, "mse", **QUICK)
    monitor = gw.GradientMonitor(tmp_path, every=1, on_nonfinite="autopsy")
    fit(model, monitor)
    assert len(gw.open_run(tmp_path).skipped_steps) > 1
    (finding,) = monitor.findings
    assert (finding.addresses, finding.since) == (("logs",), SICK)


def test_steps_that_are_finite_the_second_time_are_said_to_be(tmp_path, monkeypatch):
    """A training that does not repeat itself cannot be looked into."""
    monkeypatch.setattr(replay, "is_broken", lambda *_: False)
    monitor = gw.GradientMonitor(tmp_path, every=1000, on_nonfinite="autopsy")
    with heard() as said:
        fit(build(), monitor)
    assert ["all were finite" in str(warning.message) for warning in said] == [True]
    assert monitor.findings == ()


def test_a_recorded_step_that_is_finite_the_second_time_says_so(tmp_path, monkeypatch):
    """Its batch may have changed since, as a buffer that is filled again."""
    monkeypatch.setattr(replay, "is_broken", lambda *_: False)
    monkeypatch.setattr(
        "gradwatch.monitor._nonfinite.autopsy", lambda *_, **__: gw.Autopsy(False)
    )
    monitor = gw.GradientMonitor(tmp_path, every=1, on_nonfinite="autopsy")
    fit(build(), monitor, steps=SICK + 1)
    assert "a generator fills again" in str(gw.Autopsy.load(tmp_path))


def test_a_wrong_word_is_refused(tmp_path):
    """Before anything else."""
    with pytest.raises(gw.GradwatchError, match="`on_nonfinite` must be"):
        gw.GradientMonitor(tmp_path, on_nonfinite="stop")


def test_copies_are_as_rare_as_they_are_dear(monkeypatch):
    """A copy of 1 s between steps of 2 s: every 100 steps, for half a per cent.

    No copy is spent on finding that out, and compilation does not count.
    """
    clock = [0.0]
    monkeypatch.setattr(replay.time, "perf_counter", lambda: clock[0])

    def slow(variables):
        clock[0] += 1.0
        return [np.zeros(2, "float32") for _ in variables]

    monkeypatch.setattr(replay, "copied", slow)
    monkeypatch.setattr(replay, "FEWEST", 8)
    model = build()
    back = replay.ReplayBuffer(model, [model.optimizer])
    copies = []
    for step in range(450):
        before = clock[0]
        assert back.before(step)
        if clock[0] > before:
            copies.append(step)
        back.keep(X[:2])
        clock[0] += 2.0 if step else 60.0
    assert copies == [0, 100, 200, 300, 400]
    assert [s.step for s in back.snapshots] == [300, 400]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_what_is_not_finite_is_seen_among_large_numbers(dtype):
    """Squares overflow before the numbers do: that is not held against them."""
    large = np.full((3, 4), np.finfo(dtype).max, dtype)
    assert replay.finite([large, np.arange(3)])
    for bad in (np.nan, np.inf, -np.inf):
        broken = large.copy()
        broken[2, 3] = bad
        assert not replay.finite([large, broken])
        assert not replay.finite([np.where(np.isfinite(broken), 1, broken)])


def test_a_copy_is_in_memory_of_its_own():
    """What a step does to a variable afterwards does not reach it."""
    model = build()
    before = replay.copied(model.variables)
    again = [np.array(value) for value in before]
    fit(model, x=X, steps=2)
    assert same(before, again)
    assert not same(before, replay.copied(model.variables))


def test_large_batches_are_not_hoarded(monkeypatch):
    """However dear a copy is, it comes before the batches are a burden."""
    monkeypatch.setattr(replay, "BYTES", 3 * X.nbytes)
    monkeypatch.setattr(replay, "FEWEST", 1000)
    model = build()
    back = replay.ReplayBuffer(model, [model.optimizer])
    for step in range(20):
        back.before(step)
        back.keep((X, None))
    assert [len(s.batches) for s in back.snapshots] == [3, 2]


def test_a_torn_autopsy_is_said_to_be(tmp_path):
    """Half a file, or one of another format, is an error with the way out."""
    place = tmp_path / "autopsy" / "step-3"
    place.mkdir(parents=True)
    file = place / "autopsy.json"
    for text, match in [
        ('{"format": 1, "fou', "cannot be read"),
        ("[]", "cannot be read"),
        ('{"format": 99}', "must be of format 1"),
    ]:
        file.write_text(text)
        with pytest.raises(gw.GradwatchError, match=match):
            gw.Autopsy.load(tmp_path)


def test_there_is_no_warning_where_nothing_is_wrong(tmp_path):
    """Not even of a copy that could not be made twice."""
    with heard() as said:
        monitor = gw.GradientMonitor(tmp_path, every=5, on_nonfinite="autopsy")
        fit(build(), monitor, x=X, steps=3)
    assert said == []


def test_a_dropout_without_a_seed_drops_the_same_again(tmp_path):
    """On torch it draws from torch's own random state, as data that are shuffled do."""
    keras.utils.set_random_seed(7)
    inputs = keras.Input((3,))
    dropped = layers.Dropout(0.5, name="drop")(inputs)
    total = layers.Lambda(lambda x: 1 / ops.sum(x, -1, keepdims=True), name="inverse")
    model = keras.Model(inputs, layers.Dense(1, name="out")(total(dropped)))
    model.compile("sgd", "mse", **QUICK)
    monitor = gw.GradientMonitor(tmp_path, every=4, on_nonfinite="autopsy")
    fit(model, monitor, x=X, shuffle=True)
    (finding,) = monitor.findings
    assert finding.addresses == ("inverse",)
    assert finding.evidence["cause"] == "division by zero"
    found = gw.Autopsy.load(tmp_path)
    x, y, _ = found.restore(model)
    assert gw.autopsy(model, x, y).evidence == found.evidence


def test_a_learning_rate_that_a_callback_sets(tmp_path):
    """The steps are made again with the rate that they had."""
    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.Input((3,)), layers.Dense(1, name="out")])
    model.compile(keras.optimizers.SGD(0.01), "mse", **QUICK)
    rates = keras.callbacks.LearningRateScheduler(lambda epoch: [0.01, np.inf][epoch])
    monitor = gw.GradientMonitor(tmp_path, every=1, on_nonfinite="autopsy")
    with heard() as said:
        fit(model, monitor, rates, x=X, steps=6, epochs=2)
    assert not said
    found = gw.Autopsy.load(tmp_path)
    assert (found.step, found.where, found.address) == (6, "update", "out/kernel")
    assert found.cause == "the learning rate is inf"
