"""Tensors too large to be looked at whole: what is exact, and what is a sample."""

import keras
import numpy as np
import pytest

from gradwatch.monitor import GradientMonitor
from gradwatch.native import library
from gradwatch.run import open_run

from . import twins
from .models import feed, planted

SHAPES = {"big": (400, 150), "flat": (50_001,), "small": (4,)}
EXACT = {"norm": 1e-5, "mean": 1e-4, "std": 1e-4, "min": 0, "max": 0}
COUNTED = ("nan", "posinf", "neginf")
SAMPLED = ("mean_abs", "zeros", "underflow")


def drawn(seed, scale=1.0):
    """A third zeros, a tenth too small for float16, the others about their mean."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, shape in SHAPES.items():
        numbers = 0.5 + rng.normal(size=shape)
        kind = rng.uniform(size=shape)
        numbers = np.where(kind < 1 / 3, 0, np.where(kind > 0.9, 1e-9, numbers))
        found[name] = (scale * numbers).astype("float32")
    return found


def with_one(seed, *numbers):
    """A few odd numbers at places that no even sample would all meet."""
    found = drawn(seed)
    for gradient in found.values():
        size = gradient.size
        gradient.flat[[size // 3, size // 3 + 1, size - 1][: len(numbers)]] = numbers
    return found


STEPS = {
    "plain": drawn(1),
    "tiny": drawn(2, 1e-28),
    "huge": drawn(3, 1e30),
    "all zero": {n: np.zeros(s, "float32") for n, s in SHAPES.items()},
    "one large number": with_one(4, 1e20),
    "one nan": with_one(5, np.nan),
    "one infinite": with_one(6, -np.inf, np.inf, -np.inf),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    directory = tmp_path_factory.mktemp("run")
    model = planted(keras.optimizers.SGD(0.1), SHAPES)
    feed(model, [*STEPS.values()], GradientMonitor(directory, every=1))
    return open_run(directory)


native = pytest.mark.skipif(library() is None, reason="There is no native library.")


@native
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", SHAPES)
def test_norm_mean_and_extremes_are_exact_and_nothing_is_overlooked(run, name, step):
    """One NaN among fifty thousand numbers is counted, and hides none of them."""
    series, expected = run[f"{name}/w"], twins.columns(STEPS[step][name])
    place = [*STEPS].index(step)
    for column, rtol in EXACT.items():
        found = getattr(series, column)[place]
        np.testing.assert_allclose(found, expected[column], rtol, err_msg=column)
    for column in COUNTED:
        assert getattr(series, column)[place] == expected[column], column


@native
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", SHAPES)
def test_shares_are_those_of_all_elements(run, name, step):
    """Of zeros, and of what vanishes in float16."""
    series, expected = run[f"{name}/w"], twins.columns(STEPS[step][name])
    for column in SAMPLED:
        found = getattr(series, column)[[*STEPS].index(step)]
        np.testing.assert_allclose(found, expected[column], 1e-6, err_msg=column)


@native
def test_a_histogram_of_up_to_65536_elements_counts_all_of_them(run):
    """So many are counted in microseconds."""
    for name, gradient in STEPS["plain"].items():
        series = run[f"{name}/w"]
        whole = twins.histogram(gradient, series.edges)
        assert series.histograms[0].tolist() == whole


@native
def test_a_histogram_of_a_larger_tensor_counts_blocks_of_it(tmp_path):
    """65,536 elements, evenly spread, in the shape of the whole."""
    gradient = np.random.default_rng(0).normal(size=(300, 400)).astype("float32")
    model = planted(keras.optimizers.SGD(0.1), {"big": gradient.shape})
    feed(model, [{"big": gradient}], GradientMonitor(tmp_path, every=1))
    series = open_run(tmp_path)["big/w"]
    whole = np.array(twins.histogram(gradient, series.edges))
    counts = series.histograms[0]
    assert counts.sum() == 65_536
    np.testing.assert_allclose(counts / counts.sum(), whole / whole.sum(), atol=0.01)


def test_without_the_native_sweep_norms_are_exact_and_nothing_is_overlooked(
    tmp_path, monkeypatch
):
    """Everything else is that of a sample, and small tensors are their own."""
    monkeypatch.setenv("GRADWATCH_NATIVE", "0")
    model = planted(keras.optimizers.SGD(0.1), SHAPES)
    feed(model, [*STEPS.values()], GradientMonitor(tmp_path, every=1))
    run = open_run(tmp_path)
    for index, step in enumerate(STEPS):
        for name in SHAPES:
            series, expected = run[f"{name}/w"], twins.columns(STEPS[step][name])
            columns = {"norm": 1e-5, **dict.fromkeys(COUNTED, 0)}
            columns |= EXACT if name == "small" else {}
            for column, rtol in columns.items():
                found = getattr(series, column)[index]
                case = f"{step}, {name}, {column}"
                np.testing.assert_allclose(found, expected[column], rtol, err_msg=case)
            if "one" not in step and name != "small":
                for column in ("mean", "std", *SAMPLED):
                    truth = expected[column]
                    np.testing.assert_allclose(
                        getattr(series, column)[index], truth, 0.15, err_msg=column
                    )
