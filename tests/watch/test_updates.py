"""Weights so large that their updates are estimated from some of their blocks."""

import itertools

import keras
import numpy as np
import pytest

from gradwatch.backends import current
from gradwatch.monitor import GradientMonitor
from gradwatch.monitor._optimizer import OptimizerTap, sweep_of
from gradwatch.native import library
from gradwatch.run import open_run

from . import twins
from .models import feed, planted, warned

SHAPES = {"kernel": (300, 400), "bias": (7,)}
GRADIENTS = [
    {
        name: (0.1 + np.random.default_rng(seed).normal(size=shape)).astype("float32")
        for name, shape in SHAPES.items()
    }
    for seed in range(4)
]
OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "adam": lambda: keras.optimizers.Adam(0.01),
    "amsgrad": lambda: keras.optimizers.Adam(0.01, amsgrad=True),
    "adamw": lambda: keras.optimizers.AdamW(0.01, weight_decay=0.3),
    "adamax": lambda: keras.optimizers.Adamax(0.01),
    "nadam": lambda: keras.optimizers.Nadam(0.01),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.01, momentum=0.5, centered=True),
    "adagrad": lambda: keras.optimizers.Adagrad(0.1),
    "adadelta": lambda: keras.optimizers.Adadelta(0.1),
    "adafactor": lambda: keras.optimizers.Adafactor(0.1),
    "ftrl": lambda: keras.optimizers.Ftrl(0.1),
    "lion": lambda: keras.optimizers.Lion(0.01),
    "lamb": lambda: keras.optimizers.Lamb(0.01),
    "ema": lambda: keras.optimizers.Adam(
        0.01, use_ema=True, ema_overwrite_frequency=2, ema_momentum=0.5
    ),
    "clipped": lambda: keras.optimizers.Adam(0.01, clipnorm=0.5),
    "accumulated": lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=2),
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.1), initial_scale=8.0
    ),
}


def array(variable):
    return np.asarray(keras.ops.convert_to_numpy(variable))


class Weights(keras.callbacks.Callback):
    """Notes the weights after each step."""

    def on_train_begin(self, logs=None):
        self.seen = [self.now()]

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(self.now())

    def now(self):
        return {v.path.split("/")[-2]: array(v).copy() for v in self.model.weights}


def trained(optimizer, directory, gradients, **words):
    keras.utils.set_random_seed(3)
    model = planted(optimizer, SHAPES)
    weights = Weights()
    callbacks = [weights]
    if directory is not None:
        callbacks.append(GradientMonitor(directory, **{"every": 1, **words}))
    feed(model, gradients, *callbacks)
    return model, weights.seen


def check(series, column, step, truth, case=""):
    """What is exact is exact; an estimate lies within a few standard errors."""
    error = getattr(series, f"{column}_se")[step]
    if series.size <= 65_536:
        assert np.ma.is_masked(error), case
        error = 0.0
    else:  # the weights rise evenly: some blocks are four times as large as others
        assert error <= 0.03 * truth, case
    found = getattr(series, column)[step]
    np.testing.assert_allclose(found, truth, 1e-4, 1e-12 + 5 * error, case)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_are_what_the_weights_moved(tmp_path, name):
    """Whichever way the optimizer writes them, and bit for bit as it would."""
    model, seen = trained(OPTIMIZERS[name](), tmp_path, GRADIENTS)
    plain, _ = trained(OPTIMIZERS[name](), None, GRADIENTS)
    for one, two in zip(model.variables, plain.variables, strict=True):
        np.testing.assert_array_equal(array(one), array(two))
    ours, theirs = model.optimizer.variables, plain.optimizer.variables
    assert len(ours) == len(theirs)
    for one, two in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(array(one), array(two))
    run = open_run(tmp_path)
    assert run.steps.tolist() == [0, 1, 2, 3]
    for weight in SHAPES:
        series = run[f"{weight}/w"]
        for step in range(4):
            before, after = seen[step][weight], seen[step + 1][weight]
            moved = after.astype("float64") - before
            case = f"{weight}, step {step}"
            for column, truth in (("update_norm", moved), ("weight_norm", before)):
                check(series, column, step, np.linalg.norm(truth), case)
            expected = twins.columns(GRADIENTS[step][weight])
            exact = library() is not None or series.size <= 4_096
            for column in ("norm", "mean", "std", "min", "max") if exact else ("norm",):
                np.testing.assert_allclose(
                    getattr(series, column)[step], expected[column], 1e-4, err_msg=case
                )


class MyAdam(keras.optimizers.Adam):
    """Writes a weight in a way that no optimizer of Keras does."""

    def update_step(self, gradient, variable, learning_rate):
        super().update_step(gradient, variable, learning_rate)
        variable.assign(variable * 0.5)


@pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="There, Keras calls no `update_step`."
)
def test_a_foreign_optimizer_is_not_taken_at_its_word(tmp_path):
    """What it wrote twice is measured from before the first to after the last."""
    _, seen = trained(MyAdam(0.01), tmp_path, GRADIENTS)
    series = open_run(tmp_path)["kernel/w"]
    for step, (before, after) in enumerate(itertools.pairwise(seen)):
        moved = after["kernel"].astype("float64") - before["kernel"]
        check(series, "update_norm", step, np.linalg.norm(moved))


def test_a_weight_with_a_constraint_moves_as_far_as_it_was_let(tmp_path):
    """The constraint writes it a second time."""
    x = np.random.default_rng(0).normal(size=(4, 300)).astype("float32")
    dense = keras.layers.Dense(
        400, name="dense", kernel_constraint=keras.constraints.MaxNorm(0.1)
    )
    model = keras.Sequential([keras.Input((300,)), dense])
    model.compile(keras.optimizers.Adam(0.01), "mse")
    before = array(dense.kernel).astype("float64")
    monitor = GradientMonitor(tmp_path, every=1)
    y = np.ones((4, 400), "float32")
    model.fit(x, y, batch_size=4, verbose=0, callbacks=[monitor])
    moved = np.linalg.norm(array(dense.kernel).astype("float64") - before)
    check(open_run(tmp_path)["dense/kernel"], "update_norm", 0, moved)


def test_an_update_that_rounding_swallows_is_no_update(tmp_path):
    """A weight of 1 does not take up 1e-9; one of 1e-6 does."""
    tiny = [{n: np.full(s, 1.0, "float32") for n, s in SHAPES.items()}] * 2
    for rate, moves in {1e-9: False, 1e-3: True}.items():
        model = planted(keras.optimizers.SGD(rate), SHAPES)
        for weight in model.weights:
            weight.assign(np.ones(weight.shape, "float32"))
        feed(model, tiny, GradientMonitor(tmp_path / str(rate), every=1))
        found = open_run(tmp_path / str(rate))["kernel/w"].update_norm
        size = np.prod(SHAPES["kernel"])
        expected = rate * np.sqrt(size) if moves else 0.0
        np.testing.assert_allclose(found, [expected] * 2, 1e-3)


def test_of_steps_that_are_not_due_nothing_is_read(tmp_path):
    """And those that are due say the same as if all were."""
    odd = GradientMonitor(tmp_path / "odd", every=lambda step: step % 2 == 1)
    for monitor in (odd, GradientMonitor(tmp_path / "all", every=1)):
        keras.utils.set_random_seed(3)
        feed(planted(OPTIMIZERS["adam"](), SHAPES), GRADIENTS, monitor)
    odd, whole = (open_run(tmp_path / name)["kernel/w"] for name in ("odd", "all"))
    assert odd.steps.tolist() == [1, 3]
    for column in ("norm", "min", "max", "update_norm", "weight_norm", "mean_abs"):
        np.testing.assert_array_equal(
            getattr(odd, column), getattr(whole, column)[1::2], err_msg=column
        )


@pytest.mark.parametrize("broken", ["measure", "sample", "moves"])
def test_a_failure_while_reading_is_a_warning_and_the_training_goes_on(
    tmp_path, monkeypatch, broken
):
    """Also where it happens inside the optimizer, in the middle of its update."""

    def fails(*args, **kwargs):
        raise RuntimeError("of our own")

    plain, _ = trained(OPTIMIZERS["adam"](), None, GRADIENTS)
    sweep = sweep_of(current().watching.stream(plain))
    monkeypatch.setattr(type(sweep), broken, fails)
    with warned() as warnings:
        model, _ = trained(OPTIMIZERS["adam"](), tmp_path, GRADIENTS)
    for one, two in zip(model.variables, plain.variables, strict=True):
        np.testing.assert_array_equal(array(one), array(two))
    assert len(warnings) == 1
    assert not {"assign", "assign_sub", "apply"} & set(model.optimizer.__dict__)


def test_every_scalar_of_the_optimizer_waits_for_the_sample():
    """Else XLA may update weights before they were sampled: it would copy them."""
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build([keras.Variable(np.ones(3, "float32"))])
    tap = OptimizerTap(optimizer, "optimizer", lambda variable: None, print)
    tied = []
    tap._update(lambda: None, lambda scalar: tied.append(scalar) or scalar)
    assert len(tied) == sum(len(v.shape) == 0 for v in optimizer.variables) == 2
