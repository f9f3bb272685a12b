"""Raw, unscaled, accumulated, clipped, applied: each number is of the one it says."""

import keras
import numpy as np
import pytest
from keras import optimizers

from gradwatch.monitor import GradientMonitor
from gradwatch.run import open_run

from . import twins
from .models import arrays, feed, planted

SHAPES = {"a": (3, 5), "b": (4,)}
RATE = 0.5


def drawn(steps, scale=1.0):
    rng = np.random.default_rng(steps)
    return [
        {
            name: (scale * rng.normal(size=shape)).astype("float32")
            for name, shape in SHAPES.items()
        }
        for _ in range(steps)
    ]


def record(directory, optimizer, gradients, **options):
    """Trains with the gradients, and returns what was recorded at each step."""
    model = planted(optimizer, SHAPES, **options)
    feed(model, gradients, GradientMonitor(directory, every=1, histograms=False))
    return open_run(directory)


def check_raw(run, gradients, rtol=1e-5):
    for step, by_name in enumerate(gradients):
        for name, gradient in by_name.items():
            for column, expected in twins.columns(gradient).items():
                found = getattr(run[f"{name}/w"], column)[step]
                np.testing.assert_allclose(found, expected, rtol, err_msg=column)


CLIPPING = {"clipnorm": 1.5, "global_clipnorm": 2.5, "clipvalue": 0.4}


@pytest.mark.parametrize("how", CLIPPING)
def test_clipping_is_seen_and_does_not_hide_the_gradient(tmp_path, how):
    """`norm` is before clipping, `applied_norm` after; clipped steps are counted."""
    limit = {how: CLIPPING[how]}
    gradients = drawn(2) + drawn(1, 0.01)
    run = record(tmp_path, optimizers.SGD(RATE, **limit), gradients)
    check_raw(run, gradients)
    for step, by_name in enumerate(gradients):
        expected = twins.clipped(by_name, **limit)
        for name in SHAPES:
            series, norm = run[f"{name}/w"], twins.norm(expected[name])
            np.testing.assert_allclose(series.applied_norm[step], norm, 1e-5)
            np.testing.assert_allclose(series.update_norm[step], RATE * norm, 1e-4)
        whole = np.concatenate([g.ravel() for g in expected.values()])
        np.testing.assert_allclose(
            run.totals.applied_norm[step], twins.norm(whole), 1e-5
        )
    assert run.totals.clipped.tolist() == [1.0, 1.0, 0.0]
    assert run.clipping_rate == pytest.approx(2 / 3)


def test_a_clipped_weight_beside_an_unclipped_one_is_a_clipped_step(tmp_path):
    """One weight over its `clipnorm` is enough."""
    gradients = drawn(1)
    gradients[0]["b"] *= 1e-3
    run = record(tmp_path, optimizers.SGD(RATE, clipnorm=1.0), gradients)
    a, b = run["a/w"], run["b/w"]
    np.testing.assert_allclose(a.applied_norm, [1.0], 1e-5)
    np.testing.assert_allclose(b.applied_norm, b.norm, 1e-5)
    assert run.totals.clipped.tolist() == [1.0]


def test_accumulated_gradients_are_applied_as_their_mean(tmp_path):
    """Micro steps apply nothing; the last of them applies the mean, clipped."""
    limit = {"clipnorm": 1.2}
    gradients = drawn(6)
    optimizer = optimizers.SGD(RATE, gradient_accumulation_steps=3, **limit)
    run = record(tmp_path, optimizer, gradients)
    check_raw(run, gradients)
    for name in SHAPES:
        series = run[f"{name}/w"]
        assert series.applied_norm.mask.tolist() == [True, True, False] * 2
        for last in (2, 5):
            three = np.mean([g[name] for g in gradients[last - 2 : last + 1]], axis=0)
            norm = twins.norm(twins.clipped({name: three}, **limit)[name])
            np.testing.assert_allclose(series.applied_norm[last], norm, 1e-5)
            np.testing.assert_allclose(series.update_norm[last], RATE * norm, 1e-4)
        assert series.update_norm[[0, 1, 3, 4]].tolist() == [0.0] * 4
    assert run.totals.update.tolist() == [0.0, 0.0, 1.0] * 2
    assert run.totals.skipped.tolist() == [0.0] * 6
    assert run.totals.applied_norm.mask.tolist() == [True, True, False] * 2


def test_a_loss_scale_factor_is_divided_out(tmp_path):
    """All columns are of the gradient of the loss, not of the scaled loss."""
    gradients = drawn(2)
    # 2 ** -25 stays under the limit of float16, although 8 times that does not.
    gradients[0]["a"].flat[:2] = [0.0, 2.0**-25]
    run = record(tmp_path, optimizers.SGD(RATE, loss_scale_factor=8.0), gradients)
    check_raw(run, gradients)
    np.testing.assert_allclose(run.totals.loss_scale, [8.0, 8.0])
    for name in SHAPES:
        series = run[f"{name}/w"]
        np.testing.assert_allclose(series.applied_norm, series.norm, 1e-5)
        np.testing.assert_allclose(series.update_norm, RATE * series.norm, 1e-4)


def test_a_dynamic_loss_scale_is_divided_out_and_skipped_steps_say_so(tmp_path):
    """A step whose scaled gradient is not finite moves nothing, and is recorded."""
    limit = 3.0
    gradients = drawn(4)
    gradients[1]["b"][0] = np.inf
    inner = optimizers.SGD(RATE, clipnorm=limit)
    scaled = optimizers.LossScaleOptimizer(
        inner, initial_scale=16.0, dynamic_growth_steps=2
    )
    run = record(tmp_path, scaled, gradients)
    check_raw(run, gradients)
    # Halved by the skipped step; two good ones in a row would double it.
    np.testing.assert_allclose(run.totals.loss_scale, [16.0, 16.0, 8.0, 8.0])
    assert run.totals.skipped.tolist() == [0.0, 1.0, 0.0, 0.0]
    assert run.totals.update.tolist() == [1.0, 0.0, 1.0, 1.0]
    assert run.skipped_steps.tolist() == [1]
    assert run.totals.clipped.mask.tolist() == [False, True, False, False]
    for name in SHAPES:
        series = run[f"{name}/w"]
        assert series.applied_norm.mask.tolist() == [False, True, False, False]
        assert series.update_norm[1] == 0.0
        good = [0, 2, 3]
        norms = [min(n, limit) for n in series.norm[good]]
        np.testing.assert_allclose(series.applied_norm[good], norms, 1e-5)
        np.testing.assert_allclose(
            series.update_norm[good], np.multiply(RATE, norms), 1e-4
        )


def test_half_precision_overflows_are_recorded_as_skipped(tmp_path):
    """In float16 a scaled gradient overflows: it is infinite, and the step skipped."""
    gradients = drawn(3)
    gradients[0]["a"].flat[0] = 60.0
    scaled = optimizers.LossScaleOptimizer(optimizers.SGD(RATE), initial_scale=2.0**11)
    run = record(tmp_path, scaled, gradients, dtype="mixed_float16")
    assert run.totals.skipped.tolist() == [1.0, 0.0, 0.0]
    assert run["a/w"].posinf.tolist() == [1.0, 0.0, 0.0]
    check_raw(run, [{}, *gradients[1:]], rtol=2e-3)


@pytest.mark.parametrize("rule", ["AdamW", "ema"])
def test_an_update_is_what_the_weights_moved(tmp_path, rule):
    """`update_norm` is of the rule's own change, decay and averaging included."""

    def optimizer():
        if rule == "ema":
            return optimizers.SGD(RATE, use_ema=True, ema_overwrite_frequency=2)
        return getattr(optimizers, rule)(RATE)

    gradients = drawn(3)
    run = record(tmp_path, optimizer(), gradients)
    model = planted(optimizer(), SHAPES, run_eagerly=True)
    for step, by_name in enumerate(gradients):
        before = arrays(model.trainable_variables)
        model.train_on_batch([g[None] for g in by_name.values()], np.zeros((1, 1)))
        after = arrays(model.trainable_variables)
        for name, old, new in zip(SHAPES, before, after, strict=True):
            series = run[f"{name}/w"]
            np.testing.assert_allclose(series.weight_norm[step], twins.norm(old), 1e-5)
            np.testing.assert_allclose(
                series.update_norm[step], twins.norm(new - old), 1e-4
            )


def test_the_learning_rate_of_a_schedule_is_that_of_the_step(tmp_path):
    """The rate is the one the update was made with."""
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay(
        [0, 1], [0.5, 0.25, 0.125]
    )
    gradients = drawn(3)
    run = record(tmp_path, optimizers.SGD(schedule), gradients)
    np.testing.assert_allclose(run.totals.learning_rate, [0.5, 0.25, 0.125])
    for name in SHAPES:
        series = run[f"{name}/w"]
        np.testing.assert_allclose(
            series.update_norm, series.norm * [0.5, 0.25, 0.125], 1e-4
        )
