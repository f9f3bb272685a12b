"""Each number again, slowly: loops and one forward pass at a time, from the papers."""

import itertools

import keras
import numpy as np
import pytest

import gradwatch as gw
from gradwatch import attribute
from gradwatch.attribute import quality
from gradwatch.attribute.quality._perturbations import perturbations

from ..models import CLASSES, START, TOKENS, X, close

TARGET = gw.class_score(CLASSES)


def scores(model, x):
    """The class score of each example, by calling the model."""
    found = keras.ops.convert_to_numpy(model(x, training=False))
    return found[np.arange(len(x)), CLASSES].astype("float64")


def test_completeness_is_what_the_sum_misses(image_model):
    """Σ φ − (F(x) − F(x′)) by loops, for each method that promises it."""
    difference = scores(image_model, X) - scores(image_model, START)
    for name, options in {
        "integrated_gradients": {"steps": 3},  # few, so that there is an error
        "deep_lift": {},
        "layer_conductance": {"layer": "conv", "steps": 3},
    }.items():
        method = getattr(attribute, name)
        a = method(image_model, X, TARGET, baseline=START, **options)
        found = quality.completeness(a)
        total = [sum(float(v) for v in example.ravel()) for example in a.values]
        error = np.array(total) - difference
        assert np.abs(found.error - error).max() < 2e-5
        assert np.abs(found.difference - difference).max() < 1e-5
        close(found.relative, np.abs(found.error) / np.abs(difference), 1e-3)
        summed = quality.completeness(a.sum_channels())
        assert np.allclose(summed.error, found.error, atol=1e-5)
    assert np.abs(error).max() > 1e-4  # of the last, which had few steps


def test_sensitivity_is_the_largest_change(image_model):
    """The same draws, one after the other, and norms by loops."""
    a = gw.input_x_gradient(image_model, X, TARGET)
    found = quality.sensitivity_max(a, image_model, radius=0.3, samples=4, seed=5)
    random = np.random.default_rng(5)
    largest, relative = np.zeros(3), np.zeros(3)
    for _ in range(4):
        near = X + random.uniform(-0.3, 0.3, X.shape).astype("float32")
        values = gw.input_x_gradient(image_model, near, TARGET).values
        for n in range(3):
            pairs = zip(values[n].ravel(), a.values[n].ravel(), strict=True)
            change = sum((float(p) - float(q)) ** 2 for p, q in pairs) ** 0.5
            size = sum(float(q) ** 2 for q in a.values[n].ravel()) ** 0.5
            largest[n] = max(largest[n], change)
            relative[n] = max(relative[n], change / size)
    close(found.values, largest, 1e-5)
    close(found.relative, relative, 1e-5)
    # A batch of its own is explained anew, and values that were summed since count not.
    other = quality.sensitivity_max(a, image_model, START, samples=1)
    assert not np.allclose(other.values, found.values)
    summed = quality.sensitivity_max(
        a.sum_channels(), image_model, radius=0.3, samples=4, seed=5
    )
    close(summed.values, found.values, 1e-6)


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("name", ["saliency", "integrated_gradients"])
def test_infidelity_is_the_mean_square_of_what_was_foretold_wrongly(
    image_model, name, normalise
):
    """E[(Iᵀ Φ − (f(x) − f(x − I)))²] with the very perturbations, by loops."""
    if name == "saliency":
        a = gw.saliency(image_model, X, TARGET, absolute=False)
        slopes = a.values
    else:
        a = gw.integrated_gradients(image_model, X, TARGET, baseline=START, steps=9)
        slopes = a.values / (X - START)
    drawn = []

    def noise(values, random):
        drawn.append(0.4 * random.normal(size=values.shape).astype("float32"))
        return drawn[-1]

    found = quality.infidelity(
        a, image_model, perturbation=noise, samples=5, normalise=normalise
    )
    own = scores(image_model, X)
    said = np.array(
        [
            [float(np.dot(i[n].ravel(), slopes[n].ravel())) for n in range(3)]
            for i in drawn
        ]
    )
    did = np.array([own - scores(image_model, X - i) for i in drawn])
    close(found.predicted, said)
    close(found.changes, did)
    for n in range(3):
        factor = 1.0
        if normalise:  # the least squares fit through the origin
            factor = np.linalg.lstsq(said[:, [n]], did[:, n], rcond=None)[0][0]
        expected = sum(
            (factor * s - d) ** 2 for s, d in zip(said[:, n], did[:, n], strict=True)
        )
        assert abs(found.scale[n] - factor) < 1e-3 * abs(factor)
        assert abs(found.values[n] - expected / 5) < 2e-3 * expected / 5
        share = found.values[n] / np.mean(did[:, n] ** 2)
        assert abs(found.relative[n] - share) < 1e-3 * share


def test_a_square_is_replaced_by_the_baseline_and_nothing_else():
    """One square of the right side per example, all channels; chance says where."""
    x = np.random.default_rng(0).normal(1, 0.1, size=(4, 10, 10, 2)).astype("float32")
    cover = np.zeros_like(x)
    place = attribute.Place("inputs", x, x, channels=3)
    perturbed = perturbations([place], "square", [cover], 0.3, 7)
    corners = set()
    for number in range(6):
        [taken] = perturbed(number)
        for n in range(4):
            inside = taken[n] != 0
            assert inside.sum() == 3 * 3 * 2
            rows, columns, _ = np.nonzero(inside)
            assert np.ptp(rows) == np.ptp(columns) == 2
            assert np.array_equal(taken[n][inside], x[n][inside])
            corners.add((rows.min(), columns.min()))
    assert len(corners) > 12
    again = perturbations([place], "square", [cover], 0.3, 7)(5)[0]
    assert np.array_equal(again, taken)  # whenever it is asked for


def test_of_a_table_any_features_are_replaced():
    """Features have no neighbours: a share of them, by chance."""
    x = np.ones((3, 10), "float32")
    place = attribute.Place("inputs", x, x)
    [taken] = perturbations([place], "square", [0 * x], 0.3, 0)(0)
    assert taken.sum(axis=1).tolist() == [3, 3, 3]
    assert len({tuple(row) for row in taken}) > 1


def test_a_noisy_baseline_is_the_baseline_with_noise():
    """x − I has the baseline as its mean, and a share of the range as its noise."""
    x = np.random.default_rng(0).normal(size=(2, 30, 30, 1)).astype("float32")
    cover = np.full_like(x, 5.0)
    place = attribute.Place("inputs", x, x, channels=3)
    [taken] = perturbations([place], "noisy_baseline", [cover], 0.5, 0)(0)
    for n in range(2):
        seen = x[n] - taken[n]
        assert abs(seen.mean() - 5) < 0.3
        assert abs(seen.std() / (0.5 * np.ptp(x[n])) - 1) < 0.1


def curve(model, x, start, importance, counts, insert=False):
    """The scores while positions are changed one by one, the most important first."""
    found = np.zeros((len(x), len(counts)))
    for column, count in enumerate(counts):
        mixed = start.copy() if insert else x.copy()
        for n in range(len(x)):
            places = [*itertools.product(*map(range, importance.shape[1:]))]
            places.sort(key=lambda at, n=n: -importance[n][at])
            for at in places[:count]:
                mixed[n][at] = x[n][at] if insert else start[n][at]
        found[:, column] = scores(model, mixed)
    return found


COUNTS = [0, 6, 12, 18, 24, 30]


def test_deletion_removes_pixels_with_all_their_channels(image_model):
    """One pixel after the other, in the order of the summed values."""
    a = gw.integrated_gradients(image_model, X, TARGET, steps=5)
    found = quality.deletion(a, image_model, baseline=START, steps=5, orders=2)
    expected = curve(image_model, X, START, a.values.sum(axis=-1), COUNTS)
    close(found.scores, expected, 1e-5)
    assert found.share.tolist() == [count / 30 for count in COUNTS]
    area = [sum((c[i] + c[i + 1]) / 2 / 5 for i in range(5)) for c in expected]
    close(found.area, area, 1e-5)
    by_chance = [
        [sum((c[i] + c[i + 1]) / 2 / 5 for i in range(5)) for c in order]
        for order in found.random
    ]
    close(found.random_area, np.mean(by_chance, axis=0), 1e-6)
    assert found.better.tolist() == (found.area < found.random_area).tolist()


def test_insertion_starts_from_a_blurred_image(image_model):
    """From the blur to the image, as the paper has it; a sum before makes no odds."""
    a = gw.integrated_gradients(image_model, X, TARGET, steps=5).sum_channels()
    found = quality.insertion(a, image_model, steps=5, orders=1)
    blurred = attribute.blurred(0.6)(X, 3).astype("float32")
    close(found.scores, curve(image_model, X, blurred, a.values, COUNTS, True), 1e-4)
    assert found.better.tolist() == (found.area > found.random_area).tolist()


def test_a_map_over_a_layer_is_laid_over_the_image(image_model):
    """Grad-CAM orders the pixels, not what the layer gives."""
    a = gw.grad_cam(image_model, X, TARGET, layer="conv", relu=False)
    found = quality.deletion(a, image_model, steps=5, orders=0)
    importance = a.upsample().values
    close(found.scores, curve(image_model, X, 0 * X, importance, COUNTS), 1e-5)
    assert found.random.shape == (0, 3, 6)


def test_several_baselines_are_averaged(image_model):
    """The mean of the curves, one for each baseline."""
    a = gw.input_x_gradient(image_model, X, TARGET)
    baseline = attribute.sampled(START, 2, seed=1)
    found = quality.deletion(a, image_model, baseline=baseline, steps=5, orders=0)
    draws = np.random.default_rng(1).integers(3, size=(2, 3))
    each = [
        curve(image_model, X, START[rows], a.values.sum(axis=-1), COUNTS)
        for rows in draws
    ]
    close(found.scores, np.mean(each, axis=0), 1e-5)


def test_at_a_layer_the_checks_say_what_they_say_of_the_rest(
    text_model, behind_the_embedding
):
    """Tokens: an embedding is to the model what an input is to the rest of it."""
    at_layer = gw.integrated_gradients(
        text_model, TOKENS, TARGET, layer="embed", steps=5
    )
    embedded = at_layer.activation
    at_inputs = gw.integrated_gradients(behind_the_embedding, embedded, TARGET, steps=5)
    for check, options in (
        (quality.sensitivity_max, {"samples": 2}),
        (quality.infidelity, {"samples": 4}),
        (quality.infidelity, {"samples": 4, "perturbation": "square", "size": 0.5}),
    ):
        found = check(at_layer, text_model, **options)
        close(found.values, check(at_inputs, behind_the_embedding, **options).values)
    found = quality.deletion(at_layer, text_model, orders=2)
    assert found.share.tolist() == [n / 7 for n in range(8)]  # one token at a time
    expected = quality.deletion(at_inputs, behind_the_embedding, orders=2)
    close(found.scores, expected.scores, 1e-5)
    close(found.random, expected.random, 1e-5)


@pytest.mark.parametrize("check", ["deletion", "insertion", "infidelity"])
def test_no_pass_has_more_rows_than_the_batch_size(image_model, check, monkeypatch):
    """The same numbers come out, whatever the size."""
    a = gw.input_x_gradient(image_model, X, TARGET)
    function = getattr(quality, check)
    few = {"samples": 5} if check == "infidelity" else {"steps": 4, "orders": 1}
    whole = function(a, image_model, **few)
    rows, run = [], gw.engine.Engine.run

    def counted(self, model, x, *args, **options):
        rows.append(len(x))
        return run(self, model, x, *args, **options)

    monkeypatch.setattr(gw.engine.Engine, "run", counted)
    parts = function(a, image_model, **few, batch_size=2)
    assert set(rows) == {2}
    for name in (
        ("values", "changes") if check == "infidelity" else ("scores", "random")
    ):
        close(getattr(parts, name), getattr(whole, name), 1e-4)


def test_guided_grad_cam_is_asked_about_at_the_inputs(image_model):
    """Its layer is that of the map: what is removed are pixels, all their channels."""
    a = attribute.guided_grad_cam(image_model, X, TARGET, layer="relu")
    curve = quality.deletion(a, image_model, steps=30, orders=1)
    seen = 0
    for step in range(31):
        left = X.copy().reshape(3, 30, 2)
        ties = np.zeros(3, bool)
        for n, worth in enumerate(a.values.sum(axis=-1).reshape(3, 30)):
            order = np.argsort(-worth, kind="stable")
            left[n, order[:step]] = 0
            # Of equal ones chance decides.
            ties[n] = 0 < step < 30 and worth[order[step - 1]] == worth[order[step]]
        expected = scores(image_model, left.reshape(X.shape))
        assert np.allclose(curve.scores[~ties, step], expected[~ties], atol=1e-4)
        seen += int((~ties).sum())
    assert seen > 30
