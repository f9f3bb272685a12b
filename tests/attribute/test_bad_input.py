"""What cannot be explained is refused, with the way out."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import gradwatch as gw
from gradwatch import attribute

from .models import START, TOKENS, X, numbers

TARGET = gw.class_score(1)
BAD = {
    "no target": (lambda m: gw.saliency(m, X, None), "`target` must say what"),
    "class": (lambda m: gw.saliency(m, X, gw.class_score(7)), "`index` must be from"),
    "classes": (
        lambda m: gw.saliency(m, X, gw.class_score([0, 1])),
        "`index` must be one class",
    ),
    "a number": (lambda m: gw.saliency(m, X, 3), "`target` must be a target"),
    "loss": (lambda m: gw.saliency(m, X, gw.loss("mse")), "one number per example"),
    "scalar": (
        lambda m: gw.saliency(m, X, lambda out: ops.mean(out)),
        "must be one number per example",
    ),
    "output": (lambda m: gw.saliency(m, X, gw.output()), "must be one number per exam"),
    "layer": (
        lambda m: gw.saliency(m, X, TARGET, layer="hiden"),
        "`layer` must .*'hidden'",
    ),
    "call": (
        lambda m: gw.saliency(m, X, TARGET, layer="conv@2"),
        "`layer` must name a call that happens",
    ),
    "model": (lambda m: gw.saliency("model", X, TARGET), "`model` must be a Keras"),
    "shape": (lambda m: gw.saliency(m, X[0], TARGET), "`x` must have shape"),
    "empty": (lambda m: gw.saliency(m, X[:0], TARGET), "`x` must have at least one"),
    "dataset": (lambda m: gw.saliency(m, iter([X]), TARGET), "`x` must be one batch"),
    "map of units": (
        lambda m: gw.grad_cam(m, X, TARGET, layer="hidden"),
        "`layer` must give channels",
    ),
    "map of nothing": (
        lambda m: gw.grad_cam(m, X, TARGET),
        "`layer` must name .* last convolution is `layer='mid'`",
    ),
    "format": (
        lambda m: gw.grad_cam(m, X, TARGET, layer="relu", data_format="NCHW"),
        "`data_format` must be one of",
    ),
    "baseline shape": (
        lambda m: gw.integrated_gradients(m, X, TARGET, baseline=START[:2]),
        r"`baseline` must have the shape of 'inputs', \(3, 6, 5, 2\)",
    ),
    "baseline number": (
        lambda m: gw.integrated_gradients(
            m, X, TARGET, layer="relu", baseline=START[:2]
        ),
        "`baseline` must have the shape of .* or that of a single example",
    ),
    "baseline word": (
        lambda m: gw.integrated_gradients(m, X, TARGET, baseline="black"),
        "`baseline` must be one of",
    ),
    "baseline thing": (
        lambda m: gw.integrated_gradients(m, X, TARGET, baseline=object()),
        "`baseline` must be one of",
    ),
    "baseline keys": (
        lambda m: gw.integrated_gradients(m, X, TARGET, baseline={"picture": 0}),
        "`baseline` must have a value for each of 'inputs'",
    ),
    "steps": (lambda m: gw.integrated_gradients(m, X, TARGET, steps=0), "`steps` must"),
    "steps word": (
        lambda m: gw.integrated_gradients(m, X, TARGET, steps="many"),
        "`steps` must be a whole number from 1, or 'auto'",
    ),
    "rule": (
        lambda m: gw.integrated_gradients(m, X, TARGET, rule="simpson"),
        "`rule` must be one of",
    ),
    "batch size": (
        lambda m: gw.integrated_gradients(m, X, TARGET, batch_size=0),
        "`batch_size` must be a whole number",
    ),
    "samples": (lambda m: gw.smoothgrad(m, X, TARGET, samples=0), "`samples` must"),
    "samples word": (
        lambda m: gw.smoothgrad(m, X, TARGET, samples="many"),
        "`samples` must be a whole number from 1. Received: 'many'",
    ),
    "noise": (lambda m: gw.smoothgrad(m, X, TARGET, noise=0.0), "`noise` must be"),
    "noise word": (
        lambda m: gw.smoothgrad(m, X, TARGET, noise="some"),
        "`noise` must be a number above 0. Received: 'some'",
    ),
    "tolerance": (
        lambda m: gw.integrated_gradients(m, X, TARGET, steps="auto", tolerance=0),
        "`tolerance` must be a number above 0",
    ),
    "sigma": (lambda m: attribute.blurred(0), "`sigma` must be a number above 0"),
    "method": (lambda m: gw.smoothgrad(m, X, TARGET, method="ig"), "`method` must be"),
    "data": (
        lambda m: attribute.expected_gradients(m, X, TARGET),
        "`data` must hold at least one array",
    ),
    "data shape": (
        lambda m: attribute.expected_gradients(m, X, TARGET, data=X[:, :2]),
        "`data` must have shape",
    ),
    "data of a sample": (
        lambda m: gw.integrated_gradients(
            m, X, TARGET, baseline=attribute.sampled(X[:0])
        ),
        "`data` must have at least one example",
    ),
    "no data": (
        lambda m: gw.integrated_gradients(
            m, X, TARGET, baseline=attribute.sampled(None)
        ),
        "`data` must hold at least one array",
    ),
    "a number for data": (
        lambda m: attribute.expected_gradients(m, X, TARGET, data=0.0),
        "`data` must have a batch axis",
    ),
    "baseline of nothing": (
        lambda m: gw.integrated_gradients(m, X, TARGET, baseline=None),
        "`baseline` must be one of .*Received: None",
    ),
    "baselines of layers": (
        lambda m: gw.integrated_gradients(
            m, X, TARGET, layer=["mid", "conv"], baseline=[0.0, 1.0]
        ),
        "`baseline` must be a dict by name .*'conv', 'mid'",
    ),
    "two maps": (
        lambda m: attribute.guided_grad_cam(m, X, TARGET, layer=["conv", "mid"]),
        "`layer` must give one tensor, .*'conv', 'mid'",
    ),
    "smooth attack": (
        lambda m: gw.smoothgrad(m, X, TARGET, method=attribute.fgsm, epsilon=0.1),
        "`method` must give an `Attribution`.*'fgsm'.*ndarray",
    ),
    "no layer": (
        lambda m: attribute.layer_conductance(m, X, TARGET),
        "`layer` must name the layer",
    ),
    "flow rule": (
        lambda m: attribute.layer_conductance(m, X, TARGET, layer="mid", rule="right"),
        "`rule` must be one of",
    ),
    "neuron": (
        lambda m: gw.saliency(m, X, gw.neuron("mid", (9, 0, 0))),
        r"`index` must be a position.*\(9, 0, 0\) for mid of shape .*last neuron is",
    ),
    "neuron axes": (
        lambda m: gw.saliency(m, X, gw.neuron("mid", 1)),
        "`index` must be a position",
    ),
    "neuron word": (
        lambda m: gw.saliency(m, X, gw.neuron("mid", "first")),
        "`index` must be whole numbers",
    ),
    "conducting neuron": (
        lambda m: attribute.neuron_conductance(
            m, X, TARGET, layer="mid", neuron=(9, 0, 0)
        ),
        "`neuron` must be a position",
    ),
    "no neuron": (
        lambda m: attribute.neuron_conductance(m, X, TARGET, layer="mid"),
        "`neuron` must be whole numbers",
    ),
    "window": (
        lambda m: attribute.occlusion(m, X, TARGET, window=9),
        "`window` must fit",
    ),
    "windows": (
        lambda m: attribute.occlusion(m, X, TARGET, window=(1, 1, 1)),
        "`window` must be a whole number",
    ),
    "stride": (
        lambda m: attribute.occlusion(m, X, TARGET, window=2, stride=3),
        "`stride` must not be larger",
    ),
    "goal": (
        lambda m: attribute.fgsm(m, X, TARGET, epsilon=0.1, goal="up"),
        "`goal` must be one of",
    ),
    "epsilon": (
        lambda m: attribute.fgsm(m, X, TARGET, epsilon=-1),
        "`epsilon` must be a number above 0",
    ),
    "labels": (
        lambda m: attribute.fgsm(m, X, TARGET, epsilon=0.1, y=[1, 2, 0]),
        "`y` is used only by a loss",
    ),
    "norm": (
        lambda m: attribute.pgd(m, X, TARGET, epsilon=1, step=0.1, norm="l1"),
        "`norm` must be one of",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_an_argument_that_cannot_be_used_is_refused(image_model, case):
    """The message names the argument."""
    call, message = BAD[case]
    with pytest.raises(gw.GradwatchError, match=message):
        call(image_model)


@pytest.mark.parametrize("name", ["saliency", "integrated_gradients", "occlusion"])
def test_tokens_without_a_layer_are_refused_with_the_name_of_the_embedding(
    text_model, name
):
    """Whole numbers have no gradient: the message says what to write."""
    with pytest.raises(gw.GradwatchError, match="`x` must hold .*`layer='embed'`"):
        getattr(attribute, name)(text_model, TOKENS, TARGET)


def test_pixels_as_whole_numbers_are_refused_with_the_cast():
    """Without an embedding, the way out is another one."""
    model = keras.Sequential(
        [keras.Input((4, 4, 1), dtype="uint8"), layers.Rescaling(1.0), layers.Flatten()]
    )
    with pytest.raises(gw.GradwatchError, match=r"`x\.astype\('float32'\)`"):
        gw.saliency(model, np.zeros((2, 4, 4, 1), "uint8"), gw.class_score(0))


def test_a_path_that_is_cut_is_named():
    """The message says which operation lets no gradient through, and where."""
    inputs = keras.Input((3,))
    h = ops.round(layers.Dense(3, name="before")(inputs))
    model = keras.Model(inputs, layers.Dense(2, name="after")(h))
    with pytest.raises(gw.GradwatchError, match=r"`target` must depend .*round"):
        gw.integrated_gradients(model, numbers(2, 3), gw.class_score(0))


def test_a_mean_needs_something_to_average_over():
    """A table has no axes of space: the message says which mean is meant."""
    model = keras.Sequential([keras.Input((3,)), layers.Dense(2)])
    with pytest.raises(gw.GradwatchError, match="`baseline='mean'` needs axes"):
        gw.integrated_gradients(
            model, numbers(2, 3), gw.class_score(0), baseline="mean"
        )


def test_a_background_of_another_length_is_compared_with_x():
    """The message names both arguments, each by its own name."""
    model = keras.Sequential(
        [keras.Input((None, 3)), layers.GlobalAveragePooling1D(), layers.Dense(2)]
    )
    x, data = numbers(2, 5, 3), numbers(4, 6, 3)
    with pytest.raises(gw.GradwatchError, match="`data` must give the shapes that `x`"):
        attribute.expected_gradients(model, x, TARGET, data=data)
