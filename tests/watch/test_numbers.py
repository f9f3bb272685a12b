"""Every number of a record has a slow twin."""

import itertools

import keras
import numpy as np
import pytest

from gradwatch.monitor import GradientMonitor
from gradwatch.run import open_run
from gradwatch.summarise import COLUMNS

from . import twins
from .models import feed, planted

SHAPES = {"a": (3, 5), "b": (4,)}
RATE = 0.125
MEASURED = COLUMNS[: COLUMNS.index("weight_norm")]


def drawn(seed, scale=1.0):
    rng = np.random.default_rng(seed)
    return {
        name: (scale * rng.normal(size=shape)).astype("float32")
        for name, shape in SHAPES.items()
    }


def sprinkled(gradients, *numbers):
    """The first elements of each are replaced."""
    for gradient in gradients.values():
        gradient.flat[: len(numbers)] = numbers
    return gradients


# Each weight's gradient, at each step. Weights are spoilt from "nan" on; gradients not.
STEPS = {
    "plain": drawn(1),
    "zeros and small ones": sprinkled(drawn(2), 0.0, -0.0, 1e-9),
    "the edge of float16": sprinkled(drawn(3), 2.0**-25, 2.0**-24, 2.0**-25 * 1.001),
    "all zero": {name: np.zeros(shape, "float32") for name, shape in SHAPES.items()},
    "far from zero": {n: 1000 + g for n, g in drawn(4).items()},
    "one large, one small": {"a": drawn(5, 1e6)["a"], "b": drawn(5, 1e-6)["b"]},
    "tiny": drawn(6, 1e-30),
    "huge": drawn(7, 1e30),
    "at the end of float32": sprinkled(drawn(8, 1e37), 3.4e38, -3.4e38),
    "nan": sprinkled(drawn(9), np.nan),
    "infinite": sprinkled(drawn(10), np.inf, -np.inf, np.inf),
    "nan beside huge": sprinkled(drawn(11, 1e30), np.nan, -np.inf),
    "nothing finite": {"a": np.full((3, 5), np.nan, "float32"), "b": drawn(12)["b"]},
}
FINITE = [*STEPS][: [*STEPS].index("nan")]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """One training with all of the gradients: a model is compiled once."""
    directory = tmp_path_factory.mktemp("run")
    model = planted(keras.optimizers.SGD(RATE), SHAPES, jit_compile="auto")
    feed(model, [*STEPS.values()], GradientMonitor(directory, every=1))
    return open_run(directory)


def at(run, name, step):
    """The columns of a line at one step."""
    series = run[f"{name}/w"]
    place = series.steps.tolist().index([*STEPS].index(step))
    return {c: getattr(series, c)[place] for c in COLUMNS}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", SHAPES)
def test_a_gradient_is_recorded_as_it_was(trained, name, step):
    """All columns of the gradient itself are those of the slow twin."""
    found, expected = at(trained, name, step), twins.columns(STEPS[step][name])
    for column in MEASURED:
        np.testing.assert_allclose(
            found[column], expected[column], rtol=2e-5, err_msg=column
        )


def weights_along():
    """The weights before each step, as SGD moves them."""
    now = {
        name: np.linspace(0.5, 2.0, int(np.prod(shape))).astype("float32")
        for name, shape in SHAPES.items()
    }
    for step, gradients in STEPS.items():
        yield step, dict(now)
        with np.errstate(all="ignore"):
            now = {n: w - RATE * gradients[n].ravel() for n, w in now.items()}


def test_weights_are_measured_before_the_update_and_updates_after_it(trained):
    """`weight_norm` is of the weights before, `update_norm` of what they moved."""
    along = dict(weights_along())
    for step, following in itertools.pairwise(FINITE):
        for name in SHAPES:
            before, after = along[step][name], along[following][name]
            found = at(trained, name, step)
            np.testing.assert_allclose(found["weight_norm"], twins.norm(before), 1e-5)
            moved = after.astype("float64") - before
            np.testing.assert_allclose(
                found["update_norm"], twins.norm(moved), 1e-5, 1e-5
            )
            np.testing.assert_allclose(found["applied_norm"], found["norm"], 1e-5)


@pytest.mark.parametrize("step", STEPS)
def test_a_histogram_counts_by_sign_and_octave(trained, step):
    """Each finite number but zero is in the bucket of its sign and octave."""
    for name in SHAPES:
        series = trained[f"{name}/w"]
        place = series.histogram_steps.tolist().index([*STEPS].index(step))
        expected = twins.histogram(STEPS[step][name], series.edges)
        assert series.histograms[place].tolist() == expected, name


@pytest.mark.parametrize("steps_per_execution", [1, 3])
def test_compiled_steps_keep_to_the_schedules(tmp_path, steps_per_execution):
    """A step with numbers, one with histograms and one with neither, in any order."""
    if keras.config.backend() == "torch":
        steps_per_execution = 1  # and Keras would use a compiler that is not there
    model = planted(
        keras.optimizers.SGD(RATE),
        SHAPES,
        jit_compile=keras.config.backend() != "torch",
        steps_per_execution=steps_per_execution,
    )
    gradients = [drawn(seed) for seed in range(8)]
    monitor = GradientMonitor(
        tmp_path, every=lambda step: step not in (1, 6), histograms=lambda s: s > 2
    )
    feed(model, gradients, monitor)
    series = open_run(tmp_path)["a/w"]
    assert series.steps.tolist() == [0, 2, 3, 4, 5, 7]
    assert series.histogram_steps.tolist() == [3, 4, 5, 7]
    for step, norm in zip(series.steps, series.norm, strict=True):
        np.testing.assert_allclose(norm, twins.norm(gradients[step]["a"]), 1e-5)
    for step, counts in zip(series.histogram_steps, series.histograms, strict=True):
        expected = twins.histogram(gradients[step]["a"], series.edges)
        assert counts.tolist() == expected


def test_totals_are_over_all_weights(trained):
    """The global norm is the norm of all gradients laid end to end."""
    totals = trained.totals
    for place, (step, gradients) in enumerate(STEPS.items()):
        whole = np.concatenate([g.ravel() for g in gradients.values()])
        if step in FINITE:
            expected = twins.norm(whole)
        else:  # what is not finite cannot be overlooked
            expected = np.nan if np.isnan(whole).any() else np.inf
        np.testing.assert_allclose(totals.global_norm[place], expected, 1e-5)
        if step in FINITE:
            np.testing.assert_allclose(totals.applied_norm[place], expected, 1e-5)
    assert totals.clipped.tolist() == [0.0] * len(STEPS)
    assert totals.skipped.tolist() == [0.0] * len(STEPS)
    assert totals.update.tolist() == [1.0] * len(STEPS)
    np.testing.assert_allclose(totals.learning_rate, RATE)
    np.testing.assert_allclose(totals.loss_scale, 1.0)


def test_a_norm_past_float32_is_the_number_that_it_is(tmp_path):
    """Weights that run away are finite for a while, and watching goes on silently.

    Also for who has made errors of what NumPy warns of.
    """
    model = planted(keras.optimizers.SGD(1e8), {"a": (50,)})
    steps = [{"a": np.full(50, -2e30, "float32")} for _ in range(3)]
    with np.errstate(all="raise"):
        feed(model, steps, GradientMonitor(tmp_path, every=1))
    run, norm = open_run(tmp_path), pytest.approx(2e38 * np.sqrt(50), rel=1e-5)
    assert run.steps.tolist() == [0, 1, 2]
    assert run["a/w"].update_norm[0] == norm
    assert run["a/w"].weight_norm[1] == norm
    assert not np.isfinite(run["a/w"].weight_norm[2])  # the elements are infinite now
