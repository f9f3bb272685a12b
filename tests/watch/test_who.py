"""Whose gradients are recorded: weights by layer, activations, shared layers."""

import gc
import re

import keras
import numpy as np
import pytest
from keras import layers, ops

import gradwatch as gw
from gradwatch import AddressError, GradwatchError
from gradwatch.monitor import GradientMonitor
from gradwatch.run import open_run

from . import twins
from .gan import gan
from .models import QUICK, WIDTH, X, Y, fit, mlp

ALL = ("hidden/kernel", "hidden/bias", "head/kernel", "head/bias")
COLUMNS = ("norm", "mean", "std", "min", "max", "mean_abs", "zeros", "underflow")


@pytest.fixture(scope="module")
def model():
    return mlp()


SELECTIONS = {
    "all by default": (None, ALL),
    "a pattern": ("h*d", ("head/kernel", "head/bias")),
    "an index": (-1, ALL[3:]),
    "a list": (["head", layers.Dense], ALL),
    "an expression": (re.compile("idd"), ALL[:2]),
    "a selector": (gw.weights("head/bias"), ("head/bias",)),
}


@pytest.mark.parametrize("chosen", SELECTIONS)
def test_layers_choose_whose_weights(tmp_path, model, chosen):
    """`layers` takes what the selectors take; lines are in the order of the model."""
    pattern, expected = SELECTIONS[chosen]
    monitor = GradientMonitor(tmp_path, every=9, layers=pattern, histograms=False)
    model.optimizer.iterations.assign(0)
    fit(model, monitor)
    assert open_run(tmp_path).names == expected


WRONG = {
    "layers": {"layers": "hiden"},
    "activations": {"activations": ["head", "hiden"]},
}


@pytest.mark.parametrize("where", WRONG)
def test_a_wrong_name_is_said_before_training(tmp_path, model, where):
    """With the closest ones; model and directory stay as they were."""
    fit(model)
    weights, function = model.get_weights(), model.train_function
    names = sorted(vars(model)), sorted(vars(model.optimizer))
    with pytest.raises(AddressError, match="'hiden'.*Closest: 'hidden'"):
        fit(model, GradientMonitor(tmp_path / "run", **WRONG[where]))
    assert model.train_function is function
    assert (sorted(vars(model)), sorted(vars(model.optimizer))) == names
    for mine, theirs in zip(model.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert not (tmp_path / "run").exists()


def check(series, array, name):
    expected = twins.columns(np.asarray(array, "float32"))
    for column in COLUMNS:
        np.testing.assert_allclose(
            getattr(series, column)[0],
            expected[column],
            rtol=1e-4,
            atol=1e-7,
            err_msg=f"{name} {column}",
        )


def check_against_gradients(model, directory, x, y, **monitored):
    """One step of `fit`, against `gradients` of the same weights and batch."""
    given = gw.gradients(
        model, x, y, wrt=[gw.weights(), gw.activations()], training=True
    )
    options = {"every": 1, "activations": True, "histograms": False}
    fit(model, GradientMonitor(directory, **(options | monitored)), x=x, y=y)
    run = open_run(directory)
    assert run.steps.tolist()[:1] == [0]
    for name in run.names:
        check(run[name], given[name], name)
    for name in run.activations:
        check(run.activation(name), given.activation(name), f"value of {name}")
        check(run[name], given[name], f"gradient of {name}")
    return run


def test_activations_are_those_of_the_step(tmp_path):
    """Values and gradients equal those that `gradients` finds for the same batch."""
    run = check_against_gradients(mlp(), tmp_path, X[:2], Y[:2])
    assert run.names == ALL
    assert run.activations == ("hidden", "head")


def test_some_activations(tmp_path, model):
    """`activations` takes what the selectors take."""
    monitor = GradientMonitor(
        tmp_path, every=9, activations=layers.Dense, layers="head"
    )
    model.optimizer.iterations.assign(0)
    fit(model, monitor)
    run = open_run(tmp_path)
    assert run.names == ("head/kernel", "head/bias")
    assert run.activations == ("hidden", "head")


def test_a_shared_layer_has_a_line_for_each_call(tmp_path):
    """Its weights have one: the sum over both."""
    first, second = keras.Input((WIDTH,), name="p"), keras.Input((WIDTH,), name="q")
    twin = layers.Dense(3, activation="tanh", name="twin")
    both = layers.Subtract(name="minus")([twin(first), twin(second)])
    outputs = layers.Dense(2, name="head")(both)
    model = keras.Model([first, second], outputs, name="demo")
    model.compile("sgd", "mse", **QUICK)
    x = [X[:2], X[2:4] + 1]
    run = check_against_gradients(model, tmp_path, x, Y[:2])
    assert {"twin@1", "twin@2", "minus", "head"} <= set(run.activations)
    assert run.names == ("twin/kernel", "twin/bias", "head/kernel", "head/bias")


def test_recurrent_layers_and_embeddings_with_repeated_words(tmp_path):
    """Rows of a sparse gradient add up where a word comes twice; all of an LSTM."""
    model = keras.Sequential(
        [
            keras.Input((4,), dtype="int32"),
            layers.Embedding(50, 3, name="words"),
            layers.LSTM(3, name="lstm"),
            layers.Dense(2, name="head"),
        ]
    )
    model.compile("sgd", "mse", **QUICK)
    words = np.array([[7, 7, 1, 0], [1, 7, 3, 3]])
    run = check_against_gradients(model, tmp_path, words, Y[:2])
    assert run["words/embeddings"].zeros[0] == pytest.approx(46 / 50)
    assert "lstm" in run.activations


def test_both_halves_of_a_gan_are_recorded(tmp_path):
    """Two optimizers with one step: each weight has a line, from its own optimizer."""
    model = gan(**QUICK)
    fit(model, GradientMonitor(tmp_path, every=1), y=X[::-1])
    run = open_run(tmp_path)
    halves = (
        "maker/out/kernel",
        "maker/out/bias",
        "judge/say/kernel",
        "judge/say/bias",
    )
    assert set(run.names) == set(halves)
    judge = run["judge/say/kernel"]
    assert (judge.applied_norm <= 0.1 + 1e-6).all()  # has a `clipnorm`
    assert (run["maker/out/kernel"].norm > 0).all()
    np.testing.assert_allclose(
        run["maker/out/kernel"].applied_norm, run["maker/out/kernel"].norm, 1e-5
    )
    whole = np.sqrt(sum(run[name].norm ** 2 for name in halves))
    np.testing.assert_allclose(run.totals.global_norm, whole, 1e-5)


def test_a_second_monitor_on_one_model_is_refused(tmp_path):
    """In words, before training starts, and the model is left as it was."""
    both = [GradientMonitor(tmp_path / name, every=1) for name in ("a", "b")]
    model = mlp()
    with pytest.raises(GradwatchError, match="one `GradientMonitor` at a time"):
        fit(model, *both)
    gc.collect()
    assert "apply" not in vars(model.optimizer)
    assert "train_step" not in vars(model)


def test_histograms_may_come_more_rarely_than_numbers(tmp_path):
    """Numbers at every step, histograms at the end of each epoch, in one run."""
    model = mlp()
    fit(model, GradientMonitor(tmp_path, every=1, histograms="epoch"))
    run = open_run(tmp_path)
    assert run.steps.tolist() == [0, 1, 2, 3]
    assert run[run.names[0]].histogram_steps.tolist() == [3]


class Unreached(keras.Model):
    """Has a layer that the loss does not depend on."""

    def __init__(self):
        super().__init__(name="demo")
        self.used, self.idle = (layers.Dense(2, name=n) for n in ("used", "idle"))

    def call(self, x):
        return self.used(x) + 0 * ops.stop_gradient(self.idle(x))


@pytest.mark.filterwarnings("ignore:Gradients do not exist:UserWarning")
@pytest.mark.filterwarnings("ignore:The model does not have.*gradients:UserWarning")
def test_a_weight_without_a_gradient_is_not_shown_as_zero(tmp_path):
    """It has no line, or one that is said to be zero where the backend makes zeros."""
    model = Unreached()
    model(X)
    model.compile("sgd", "mse", **QUICK)
    fit(model, GradientMonitor(tmp_path, every=1))
    run = open_run(tmp_path)
    jax = keras.config.backend() == "jax"
    assert ("idle/kernel" in run) == jax
    assert "used/kernel" in run


class Parts(keras.Model):
    """Trains one part after the other with one optimizer, and the first part twice."""

    def __init__(self):
        super().__init__(name="demo")
        self.first, self.second = (layers.Dense(2, name=n) for n in ("one", "two"))

    def call(self, x):
        return self.second(self.first(x))

    def train_step(self, _):
        for size, part in ((1.0, self.first), (2.0, self.second), (3.0, self.first)):
            variables = part.trainable_variables
            gradients = [size * ops.ones(v.shape) for v in variables]
            self.optimizer.apply(gradients, variables)
        return {"size": ops.ones(())}


@pytest.mark.skipif(keras.config.backend() == "jax", reason="all weights at once")
@pytest.mark.parametrize("eager", [False, True])
def test_parts_that_one_optimizer_trains_in_turn_are_all_recorded(tmp_path, eager):
    """Of a part that is trained twice in one step, the last time counts."""
    model = Parts()
    model(X)
    model.compile("sgd", run_eagerly=eager, **QUICK)
    model.optimizer.build(model.trainable_variables)
    fit(model, GradientMonitor(tmp_path, every=1))
    run = open_run(tmp_path)
    assert run.names == ("one/kernel", "one/bias", "two/kernel", "two/bias")
    assert run["one/bias"].max.tolist() == [3, 3, 3, 3]
    assert run["two/bias"].max.tolist() == [2, 2, 2, 2]
    whole = np.sqrt(sum(run[name].norm ** 2 for name in run.names))
    np.testing.assert_allclose(run.totals.global_norm, whole, 1e-5)
