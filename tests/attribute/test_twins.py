"""Every method against the same thing written down from its paper, slowly."""

import keras
import numpy as np
import pytest

import gradwatch as gw
from gradwatch import attribute

from . import paper
from .models import CLASSES, START, X, close

TARGET = gw.class_score(CLASSES)


@pytest.fixture(scope="module")
def network(image_model):
    return paper.Network(image_model)


def each(function):
    """One example at a time, each with its own class."""
    rows = zip(X.astype("float64"), START.astype("float64"), CLASSES, strict=True)
    return np.stack([function(x, start, c) for x, start, c in rows])


def test_the_network_in_numpy_is_that_of_keras(image_model, network):
    """Otherwise nothing below says anything: the scores agree."""
    a = gw.saliency(image_model, X, TARGET)
    close(a.score, each(lambda x, s, c: network.score(x, c)), 1e-5)


@pytest.mark.parametrize("layer", [None, "conv", "relu", "hidden"])
def test_saliency_is_the_size_of_the_gradient(image_model, network, layer):
    """|∂S/∂x|, and with `absolute=False` the gradient itself."""
    twin = each(lambda x, s, c: network.gradient(x, c, layer or "image"))
    close(gw.saliency(image_model, X, TARGET, layer=layer).values, np.abs(twin))
    signed = gw.saliency(image_model, X, TARGET, layer=layer, absolute=False)
    close(signed.values, twin)


@pytest.mark.parametrize("layer", [None, "relu"])
def test_input_x_gradient_is_the_product(image_model, network, layer):
    """x · ∂S/∂x, at the inputs and at a layer."""
    place = layer or "image"
    twin = each(lambda x, s, c: network.at(x, place) * network.gradient(x, c, place))
    a = gw.input_x_gradient(image_model, X, TARGET, layer=layer)
    close(a.values, twin)
    close(a.activation, each(lambda x, s, c: network.at(x, place)))
    if layer:
        same = attribute.layer_gradient_x_activation(
            image_model, X, TARGET, layer=layer
        )
        close(same.values, a.values)
        assert same.method == "layer_gradient_x_activation"


def test_integrated_gradients_is_the_integral_times_the_difference(
    image_model, network
):
    """(x − x′) · ∫ ∂F/∂x dα, by 50 points of Gauss and Legendre."""
    a = gw.integrated_gradients(image_model, X, TARGET, baseline=START)
    close(a.values, each(lambda x, s, c: paper.integrated_gradients(network, x, s, c)))
    twin = each(lambda x, s, c: network.score(s, c))
    close(a.baseline_score, twin)
    total = a.values.reshape(len(X), -1).sum(axis=1)
    close(a.delta, total - (a.score - a.baseline_score), 1e-2)


def test_integrated_gradients_of_a_layer_run_on_from_the_layer(image_model, network):
    """The path runs between activations, and the model from there on."""
    found = gw.integrated_gradients(image_model, X, TARGET, layer="relu", baseline=0.2)
    twin = each(
        lambda x, s, c: paper.integrated_gradients(
            network,
            network.at(x, "relu"),
            np.full(network.at(x, "relu").shape, 0.2),
            c,
            "relu",
        )
    )
    close(found.values, twin)
    assert np.abs(found.delta).max() < 1e-3


def test_a_baseline_of_inputs_for_a_layer_is_what_the_layer_gives_for_them(
    image_model, network
):
    """A baseline of the shape of `x` goes through the layer first."""
    found = gw.integrated_gradients(
        image_model, X, TARGET, layer="relu", baseline=START
    )
    twin = each(
        lambda x, s, c: paper.integrated_gradients(
            network, network.at(x, "relu"), network.at(s, "relu"), c, "relu"
        )
    )
    close(found.values, twin)


def test_the_trapezoid_rule_is_the_trapezoid_rule(image_model, network):
    """Equal steps, the ends with half the weight."""
    found = gw.integrated_gradients(
        image_model, X, TARGET, baseline=START, steps=4, rule="trapezoid"
    )

    def twin(x, start, index):
        total = 0
        for step, weight in enumerate([0.5, 1, 1, 1, 0.5]):
            at = start + step / 4 * (x - start)
            total = total + weight / 4 * network.gradient(at, index)
        return (x - start) * total

    close(found.values, each(twin))


def test_several_baselines_are_averaged(image_model, network):
    """Each example gets its own draw of the data, by a seed."""
    baseline = attribute.sampled(START, 2, seed=5)
    found = gw.integrated_gradients(image_model, X, TARGET, baseline=baseline, steps=50)
    draws = np.random.default_rng(5).integers(3, size=(2, 3))
    twin = 0
    for draw in draws:
        rows = zip(X.astype("float64"), START[draw], CLASSES, strict=True)
        twin = twin + np.stack(
            [paper.integrated_gradients(network, x, s, c) for x, s, c in rows]
        )
    close(found.values, twin / 2)


def test_expected_gradients_average_over_draws_of_data_and_place(image_model, network):
    """E[(x − x′) · ∂F/∂x (x′ + α (x − x′))], with the draws of the seed."""
    found = attribute.expected_gradients(
        image_model, X, TARGET, data=START, samples=7, seed=3
    )
    random = np.random.default_rng(3)
    draws = random.integers(3, size=(7, 3))
    alphas = random.uniform(size=(7, 3)).astype("float32")

    def one(example):
        total = 0
        for draw, alpha in zip(draws[:, example], alphas[:, example], strict=True):
            x, start = X[example].astype("float64"), START[draw]
            at = start + alpha * (x - start)
            total = total + (x - start) * network.gradient(at, CLASSES[example])
        return total / 7

    close(found.values, np.stack([one(i) for i in range(3)]))


@pytest.mark.parametrize("name", ["smoothgrad", "squaregrad", "vargrad"])
def test_noise_is_averaged_over(image_model, network, name):
    """The mean, the mean square, the variance of what the method gives for noise."""
    function = getattr(attribute, name)
    found = function(image_model, X, TARGET, samples=6, noise=0.2, seed=4)
    random = np.random.default_rng(4)
    scale = 0.2 * np.ptp(X, axis=(1, 2, 3), keepdims=True)
    seen = []
    for _ in range(6):
        noisy = X + scale * random.standard_normal(X.shape, "float32")
        rows = zip(noisy.astype("float64"), CLASSES, strict=True)
        seen.append(np.stack([np.abs(network.gradient(x, c)) for x, c in rows]))
    reduce = {
        "smoothgrad": np.mean,
        "squaregrad": lambda v, axis: np.mean(np.square(v), axis=axis),
        "vargrad": np.var,
    }[name]
    close(found.values, reduce(seen, axis=0))


def test_noise_wraps_any_method(image_model):
    """The method, its options and its name are those that were given."""
    found = gw.smoothgrad(
        image_model, X, TARGET, method=gw.grad_cam, layer="relu", samples=3
    )
    assert found.method == "smoothgrad"
    assert found.settings["method"] == "grad_cam"
    assert (
        found.values.shape
        == gw.grad_cam(image_model, X, TARGET, layer="relu").values.shape
    )


@pytest.mark.parametrize("name", ["guided_backprop", "deconvnet"])
@pytest.mark.parametrize("layer", [None, "conv"])
def test_rectifiers_follow_the_other_rule(image_model, network, name, layer):
    """The argument `activation="relu"` and the layer `ReLU` alike; tanh does not."""
    rule = {"guided_backprop": "guided"}.get(name, name)
    found = getattr(attribute, name)(image_model, X, TARGET, layer=layer)
    place = layer or "image"
    close(found.values, each(lambda x, s, c: network.gradient(x, c, place, rule=rule)))
    assert found.settings["rectifiers"] == 2


@pytest.mark.parametrize(
    "name", ["grad_cam", "grad_cam_plus_plus", "layer_cam", "score_cam"]
)
@pytest.mark.parametrize("layer", ["conv", "relu"])
def test_a_map_is_that_of_the_paper(image_model, network, name, layer):
    """Channels, weighed and added up, and what is negative left out."""
    found = getattr(attribute, name)(image_model, X, TARGET, layer=layer)
    twin = getattr(paper, name)
    close(found.values, each(lambda x, s, c: twin(network, x, c, layer)))


def test_no_channel_of_rectified_activations_weighs_less_than_nothing():
    """Grad-CAM++, eq. 19: with A ≥ 0 its denominator cannot vanish where g > 0.

    The scores are planted: g is 1 at one place and -2 at the other three, where the sum
    of A times the cube of the gradient *at each place* would cancel 2 g².
    """
    slopes = np.array([[1.0, -2.0], [-2.0, -2.0]])[..., None]
    inputs = keras.Input((2, 2, 1))
    kept = keras.layers.Activation("relu", name="kept")(inputs)
    flat = keras.layers.Flatten()(kept)
    score = keras.layers.Dense(1, use_bias=False, name="score")(flat)
    model = keras.Model(inputs, score)
    model.get_layer("score").kernel.assign(slopes.reshape(4, 1))
    x = np.array([[6.0, 0.0], [0.0, 1.0]])[None, ..., None]
    found = attribute.grad_cam_plus_plus(model, x, gw.class_score(0), layer="kept")
    # Σ A = 7: α = 1 / (2 + 7) where g is 1, and relu(g) is 0 elsewhere.
    np.testing.assert_allclose(found.values[0], x[0, ..., 0] / 9, 1e-6)


def test_a_map_can_keep_what_is_negative(image_model, network):
    """`relu=False` is the map before the rectifier, which really cuts something."""
    found = gw.grad_cam(image_model, X, TARGET, layer="relu", relu=False)
    assert found.values.min() < 0
    close(
        np.maximum(found.values, 0),
        each(lambda x, s, c: paper.grad_cam(network, x, c, "relu")),
    )


def test_guided_grad_cam_is_the_product(image_model, network):
    """The map, stretched to the size of the image, times guided backpropagation."""
    found = attribute.guided_grad_cam(image_model, X, TARGET, layer="relu")

    def twin(x, start, index):
        cam = paper.stretched(paper.grad_cam(network, x, index, "relu"), x.shape[:2])
        return cam[..., None] * network.gradient(x, index, rule="guided")

    close(found.values, each(twin))
    assert found.layer == "relu"


def test_internal_influence_is_the_mean_gradient_at_the_layer(image_model, network):
    """∫ ∂F/∂y dα over a path of inputs; nothing is multiplied."""
    found = attribute.internal_influence(
        image_model, X, TARGET, layer="relu", baseline=START
    )
    twin = each(lambda x, s, c: paper.mean_gradient(network, x, s, c, "relu"))
    close(found.values, twin)


@pytest.mark.parametrize("rule", ["trapezoid", "left"])
def test_layer_conductance_adds_up_what_flows(image_model, network, rule):
    """Σ ∂F/∂y · Δy; the passes overlap by one point, whatever their size."""
    options = {"layer": "relu", "baseline": START, "steps": 9, "rule": rule}
    found = attribute.layer_conductance(image_model, X, TARGET, **options)
    twin = each(lambda x, s, c: paper.conductance(network, x, s, c, "relu", 9, rule))
    close(found.values, twin)
    small = attribute.layer_conductance(image_model, X, TARGET, **options, batch_size=2)
    close(small.values, twin)
    exact = attribute.layer_conductance(
        image_model, X, TARGET, layer="relu", baseline=START, steps=400
    )
    assert np.abs(exact.delta).max() < 1e-2 * np.abs(exact.score).max()


NEURON = (1, 2, 3)


def test_neuron_gradient_is_that_of_one_number_of_a_layer(image_model, network):
    """∂y/∂x for the neuron, not for the target."""
    found = gw.saliency(image_model, X, gw.neuron("mid", NEURON), absolute=False)
    twin = each(lambda x, s, c: network_mid(network, x))
    close(found.values, twin)
    assert found.target == "neuron (1, 2, 3) of mid"


def network_mid(network, x):
    """The gradient of a neuron before its rectifier."""
    outs = network.run(x)
    g = np.zeros_like(outs[3])
    g[NEURON] = 1
    for number in (2, 1, 0):
        g = network.layers[number].backward(g, outs[number], outs[number + 1], "plain")
    return g


def test_neuron_integrated_gradients_add_up_to_the_neuron(image_model, network):
    """(x − x′) · ∫ ∂y/∂x dα."""
    found = gw.integrated_gradients(
        image_model, X, gw.neuron("hidden", 3), baseline=START
    )
    nodes, weights = np.polynomial.legendre.leggauss(50)

    def twin(x, start, index):
        total = 0
        for node, weight in zip(nodes, weights, strict=True):
            at = start + (node + 1) / 2 * (x - start)
            total = total + weight / 2 * network.gradient_of_neuron(at, "hidden", 3)
        return (x - start) * total

    close(found.values, each(twin))
    close(found.score, each(lambda x, s, c: network.at(x, "hidden")[3]))
    total = found.values.reshape(len(X), -1).sum(axis=1)
    close(found.delta, total - (found.score - found.baseline_score), 1e-2)


def test_neuron_conductance_is_what_flows_through_the_neuron(image_model, network):
    """(x − x′) · ∫ ∂F/∂y · ∂y/∂x dα."""
    found = attribute.neuron_conductance(
        image_model, X, TARGET, layer="hidden", neuron=3, baseline=START, steps=20
    )
    twin = each(
        lambda x, s, c: paper.neuron_conductance(network, x, s, c, "hidden", 3, 20)
    )
    close(found.values, twin)


@pytest.mark.parametrize("layer", [None, "conv"])
def test_deep_lift_takes_slopes_for_derivatives(image_model, network, layer):
    """Multipliers Δy / Δx at ReLU and tanh; the values add up."""
    found = attribute.deep_lift(image_model, X, TARGET, layer=layer, baseline=START)
    place = layer or "image"

    def twin(x, start, index):
        there = network.at(x, place) - network.at(start, place)
        return there * network.multipliers(x, start, index, place)

    close(found.values, each(twin))
    assert np.abs(found.delta).max() < 1e-4


@pytest.mark.parametrize(("window", "stride"), [(2, 1), ((3, 2), (2, 2)), (1, None)])
def test_occlusion_covers_and_looks(image_model, network, window, stride):
    """The mean fall of the score over the windows that cover a pixel."""
    found = attribute.occlusion(
        image_model, X, TARGET, window=window, stride=stride, baseline=START
    )
    size = (window, window) if isinstance(window, int) else window
    step = size if stride is None else stride
    step = (step, step) if isinstance(step, int) else step
    twin = each(lambda x, s, c: paper.occlusion(network, x, s, c, size, step))
    close(found.values, twin)


def test_fgsm_moves_every_number_against_the_score(image_model, network):
    """x − ε · sign(∂S/∂x); towards it with `goal="raise"`; within bounds."""
    sign = each(lambda x, s, c: np.sign(network.gradient(x, c)))
    moved = attribute.fgsm(image_model, X, TARGET, epsilon=0.1)
    close(moved, X - 0.1 * sign, 1e-5)
    moved = attribute.fgsm(
        image_model, X, TARGET, epsilon=0.1, goal="raise", bounds=(-1, 1)
    )
    close(moved, np.clip(X + 0.1 * sign, -1, 1), 1e-5)


@pytest.mark.parametrize("norm", ["inf", "l2"])
def test_pgd_walks_within_the_ball(image_model, network, norm):
    """Step, project, step; with a seed it begins elsewhere in the ball."""
    found = attribute.pgd(
        image_model, X, TARGET, epsilon=0.25, step=0.1, steps=4, norm=norm
    )

    def twin(x, start, index):
        at = x.copy()
        for _ in range(4):
            g = network.gradient(at, index)
            way = np.sign(g) if norm == "inf" else g / np.sqrt((g**2).sum())
            off = at - 0.1 * way - x
            if norm == "inf":
                off = np.clip(off, -0.25, 0.25)
            else:
                off = off * min(1, 0.25 / np.sqrt((off**2).sum()))
            at = x + off
        return at

    close(found - X, each(twin) - X, 1e-3)
    elsewhere = attribute.pgd(
        image_model, X, TARGET, epsilon=0.25, step=0.1, steps=4, norm=norm, seed=1
    )
    assert np.abs(elsewhere - found).max() > 1e-3
    off = (elsewhere - X).reshape(len(X), -1)
    size = np.abs(off).max() if norm == "inf" else np.linalg.norm(off, axis=1).max()
    assert size <= 0.25 * (1 + 1e-5)
