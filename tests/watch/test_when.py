"""Which steps are recorded, and how they are counted."""

import keras
import numpy as np
import pytest

from gradwatch import GradwatchError
from gradwatch.monitor import GradientMonitor, budget
from gradwatch.monitor._fit import FitSteps
from gradwatch.monitor._schedule import as_schedule
from gradwatch.run import open_run

from .cases import Data, batches
from .gan import gan
from .models import QUICK, X, Y, arrays, fit, mlp

# Said by Keras of every generator that ends.
ENDS = "ignore:Your input ran out of data:UserWarning"
TORCH = keras.config.backend() == "torch"


@pytest.fixture(scope="module")
def model():
    """What does not depend on what was compiled shares it."""
    return mlp()


@pytest.fixture
def recorded(tmp_path, model):
    """Trains as is said, from the optimizer's first step; gives the recorded steps."""

    def train(every, **options):
        model.optimizer.iterations.assign(0)
        fit(model, GradientMonitor(tmp_path, every=every, histograms=False), **options)
        return open_run(tmp_path).steps.tolist()

    return train


def test_every_so_many_steps(recorded):
    """The first, and then each third."""
    assert recorded(3, epochs=2) == [0, 3, 6]


def test_the_end_of_each_epoch(recorded):
    """The last step of an epoch whose length is known."""
    assert recorded("epoch", epochs=3) == [3, 7, 11]
    assert recorded("epoch", x=Data(), epochs=2)[-1] == 5


@pytest.mark.filterwarnings(ENDS)
def test_once_in_an_epoch_of_unknown_length(recorded):
    """Where no step knows that it is the last, it is the first."""
    assert recorded("epoch", x=batches(3)) == [0]


@pytest.mark.filterwarnings(ENDS)
def test_every_epoch_of_a_dataset_of_unknown_length_is_watched(recorded):
    """The end of the first is an error inside the step, and no end of the training."""
    tf = pytest.importorskip("tensorflow")
    kind = (tf.TensorSpec((None, X.shape[1])), tf.TensorSpec((None, 2)))
    data = tf.data.Dataset.from_generator(lambda: batches(3), output_signature=kind)
    assert recorded(2, x=data, epochs=3) == [0, 2, 4, 6, 8]


def test_a_function_of_the_step(recorded):
    """It is asked once for each step, in order."""
    asked = []

    def due(step):
        asked.append(step)
        return step in {1, 2, 6}

    assert recorded(due, epochs=2) == [1, 2, 6]
    assert asked == [*range(8)]


def test_a_function_may_give_what_numpy_gives(recorded):
    """`np.bool_` is an answer."""
    assert recorded(lambda step: np.isin(step, [2])) == [2]


class Clock:
    """Time passes by what is done: a step takes 1 s, a recorded one 1.5 s."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now

    monotonic = perf_counter

    def thread_time(self):
        return 0.0


@pytest.fixture
def clock(monkeypatch):
    """The clock by which a budget is kept, whatever the machine does meanwhile."""
    clock, after = Clock(), FitSteps.after
    for module in ("_worker", "_fit", "_schedule"):
        monkeypatch.setattr(f"gradwatch.monitor.{module}.time", clock)

    def slow(steps, logs):
        clock.now += 1.5 if any(steps._details) else 1.0
        after(steps, logs)
        steps._recorder.settle()  # the worker is as fast as the steps

    monkeypatch.setattr(FitSteps, "after", slow)
    return clock


def test_a_budget_is_kept(tmp_path, model, clock):
    """The time that recorded steps take longer stays under the share, and near it."""
    model.optimizer.iterations.assign(0)
    monitor = GradientMonitor(tmp_path, every=budget(0.05), histograms=False)
    fit(model, monitor, epochs=50)
    run = open_run(tmp_path)
    spent = 0.5 * len(run.steps)
    assert 0.02 <= spent / clock.now <= 0.055
    assert run.overhead["record_ms"] == pytest.approx(500.0)
    assert run.overhead["share"] == pytest.approx(spent / clock.now, rel=0.1)


class Dear:
    """A cost that only a training of two seconds has earned, at a share of a half."""

    compiled, is_open, next_one = True, False, 0.0

    def __init__(self):
        self.lasted, self.asked = 0.0, 0

    @property
    def spent(self):
        self.asked += 1
        return 1.0


def test_what_a_budget_has_spent_is_not_added_up_at_each_step():
    """That would take as long as all else in a step; the answers are the same."""
    cost = Dear()
    due = as_schedule(budget(0.5), cost)
    answers = []
    for step in range(1, 300):
        cost.lasted = step / 100
        answers.append(due(step, step, None))
        if step == 200:
            assert cost.asked <= 25
    assert answers[0]
    assert not any(answers[1:199])
    assert all(answers[202:])


@pytest.mark.usefixtures("clock")
def test_a_whole_budget_records_each_step(recorded):
    """A share of 1 is never used up, once a few told what a record costs."""
    steps = recorded(budget(1.0), epochs=20)
    assert steps[0] == 0
    assert steps[-20:] == [*range(60, 80)]


@pytest.mark.skipif(TORCH, reason="Keras for torch takes one step per execution.")
@pytest.mark.parametrize("every", [2, "epoch"])
def test_steps_inside_an_execution_are_recorded_alone(tmp_path, every):
    """Each inner step that is due is, with the numbers that it has by itself."""
    x = np.concatenate([X, X[:6] + 1])
    y = np.concatenate([Y, Y[:6]])
    runs = []
    for steps in (3, 1):
        keras.utils.set_random_seed(0)
        model = mlp(steps_per_execution=steps)
        where = tmp_path / str(steps)
        # Seven steps in executions of three: the last one is short.
        fit(model, GradientMonitor(where, every=every), x=x, y=y, epochs=2)
        runs.append(open_run(where))
    inner, alone = runs
    assert inner.steps.tolist() == alone.steps.tolist()
    expected = {2: [*range(0, 14, 2)], "epoch": [6, 13]}
    assert inner.steps.tolist() == expected[every]
    for name in alone:
        for column in ("norm", "std", "weight_norm", "update_norm", "applied_norm"):
            mine, theirs = (getattr(run[name], column) for run in runs)
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-8)
        np.testing.assert_array_equal(inner[name].histograms, alone[name].histograms)


def test_a_second_fit_goes_on_counting(tmp_path, model):
    """With the same monitor, also after `compile` gave a new optimizer."""
    monitor = GradientMonitor(tmp_path, every=3, histograms=False)
    model.optimizer.iterations.assign(0)
    fit(model, monitor)
    fit(model, monitor)
    assert open_run(tmp_path).steps.tolist() == [0, 3, 6]
    again = mlp()
    again.compile("adam", "mae", **QUICK)
    fit(again, monitor)
    again.compile("sgd", "mse", **QUICK)
    fit(again, monitor)
    assert open_run(tmp_path).steps.tolist() == [0, 3, 6, 9, 12, 15]


def test_a_new_monitor_counts_from_the_optimizer(tmp_path, model):
    """A training that is resumed goes on where the optimizer stands."""
    model.optimizer.iterations.assign(0)
    for _ in range(2):
        fit(model, GradientMonitor(tmp_path, every=1, histograms=False))
    assert open_run(tmp_path).steps.tolist() == [*range(8)]


def test_a_first_epoch_that_is_not_the_first_counts(tmp_path, model):
    """`initial_epoch` says how many steps there were, where the optimizer does not."""
    model.optimizer.iterations.assign(0)
    monitor = GradientMonitor(tmp_path, every=1, histograms=False)
    fit(model, monitor, initial_epoch=2, epochs=3)
    assert open_run(tmp_path).steps.tolist() == [8, 9, 10, 11]


def test_accumulated_steps_count_each(tmp_path):
    """A resumed training with accumulation does not write over itself."""
    model = mlp(keras.optimizers.SGD(0.1, gradient_accumulation_steps=2))
    for _ in range(2):
        fit(model, GradientMonitor(tmp_path, every=1, histograms=False))
    assert open_run(tmp_path).steps.tolist() == [*range(8)]


def test_unfreezing_a_layer_adds_its_lines(tmp_path):
    """Between two fits, as Keras wants it: with `compile`."""
    model = mlp()
    model.get_layer("hidden").trainable = False
    model.compile("sgd", "mse", **QUICK)
    monitor = GradientMonitor(tmp_path, every=1, histograms=False)
    fit(model, monitor)
    assert open_run(tmp_path).names == ("head/kernel", "head/bias")
    model.get_layer("hidden").trainable = True
    model.compile("sgd", "mse", **QUICK)
    fit(model, monitor)
    run = open_run(tmp_path)
    assert set(run.names) == {
        f"{a}/{b}" for a in ("hidden", "head") for b in ("kernel", "bias")
    }
    assert run["hidden/kernel"].steps.tolist() == [4, 5, 6, 7]
    assert run["head/kernel"].steps.tolist() == [*range(8)]


def moved_when_frozen_without_compile(tmp_path, watched):
    """How far each weight moves in a second fit, before which a layer was frozen."""
    keras.utils.set_random_seed(0)
    model = mlp()
    monitor = GradientMonitor(tmp_path / "a", every=1, histograms=False)
    fit(model, *([monitor] if "first" in watched else []))
    model.get_layer("hidden").trainable = False
    before = arrays(model.weights)
    fit(model, *([monitor] if "second" in watched else []))
    return [new - old for old, new in zip(before, arrays(model.weights), strict=True)]


@pytest.mark.filterwarnings("ignore:gradwatch does not watch:RuntimeWarning")
@pytest.mark.parametrize("watched", [["second"], ["first", "second"]])
def test_freezing_without_compile_does_what_it_does_unwatched(tmp_path, watched):
    """On TensorFlow nothing before `compile`, on torch at once, on JAX an error."""
    if keras.config.backend() == "jax":
        for who in (watched, []):
            with pytest.raises(ValueError, match="1:1 to the trainable variables"):
                moved_when_frozen_without_compile(tmp_path, who)
        return
    found = moved_when_frozen_without_compile(tmp_path, watched)
    expected = moved_when_frozen_without_compile(tmp_path, [])
    for mine, plain in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, plain)
    moves = bool(np.any(expected[0]))
    assert moves is (keras.config.backend() == "tensorflow")


def test_a_training_that_watching_would_change_is_not_watched(tmp_path):
    """With the reason, and the way out; after `compile` it is."""
    if keras.config.backend() != "tensorflow":
        return  # elsewhere there is no such training
    model = mlp()
    fit(model)
    model.get_layer("hidden").trainable = False
    monitor = GradientMonitor(tmp_path, every=1, histograms=False)
    with pytest.warns(RuntimeWarning, match=r"hidden/kernel.*Call `model.compile`"):
        fit(model, monitor)
    model.compile("sgd", "mse", **QUICK)
    fit(model, monitor)
    assert open_run(tmp_path).names == ("head/kernel", "head/bias")


@pytest.mark.parametrize("every", [0, -1, 2.5, True, "batch", None, [1]])
def test_anything_else_is_refused(tmp_path, every):
    """`every` is checked when the monitor is made, not when training has begun."""
    with pytest.raises(GradwatchError, match="`every` must be a number of steps"):
        GradientMonitor(tmp_path, every=every)


@pytest.mark.parametrize("share", [0, -0.1, 1.5, True, "2 %", None])
def test_a_budget_is_a_share(share):
    """More than nothing, at most all."""
    with pytest.raises(GradwatchError, match="`share` must be a share of training"):
        budget(share)


def test_optimizers_of_a_step_of_ones_own_are_counted_too(tmp_path):
    """A resumed GAN does not write over itself; its `model.optimizer` never steps."""
    model = gan(**QUICK)
    for _ in range(2):
        fit(model, GradientMonitor(tmp_path, every=1, histograms=False), y=X[::-1])
    assert open_run(tmp_path).steps.tolist() == [*range(8)]


class Between(keras.callbacks.Callback):
    """Trains the model itself, between two steps of `fit`."""

    def __init__(self, how):
        super().__init__()
        self._how = how

    def on_train_batch_end(self, batch, logs=None):
        if batch == 1:
            self._how(self.model)


BETWEEN = {
    "a batch": lambda model: model.train_on_batch(X[:2], Y[:2]),
    "a fit": lambda model: fit(model),
}


@pytest.mark.parametrize("how", BETWEEN)
def test_a_callback_may_train_the_model_in_between(tmp_path, how):
    """What it does is not recorded; the steps of `fit` after it are."""

    def trained(*monitor):
        keras.utils.set_random_seed(0)
        model = mlp()
        fit(model, *monitor, Between(BETWEEN[how]))
        assert "train_step" not in vars(model)
        return arrays([*model.variables, *model.optimizer.variables])

    expected = trained()
    found = trained(GradientMonitor(tmp_path, every=1, histograms=False))
    assert open_run(tmp_path).steps.tolist() == [0, 1, 2, 3]
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)
