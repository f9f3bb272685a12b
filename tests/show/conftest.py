import math

import numpy as np
import pytest

from gradwatch.summarise import Row, summarise_array


def wave(shape, scale):
    """Numbers of both signs, each place its own; no random generator is needed."""
    size = math.prod(shape)
    return (scale * np.sin(1.0 + np.arange(size) ** 1.5)).reshape(shape)


def weight(name, shape, scale):
    return summarise_array(name, "weight", wave(shape, scale).astype(np.float32))


@pytest.fixture
def network():
    """The gradients of a small network: every kind of row a table can have."""
    frozen = "the variable is frozen and was not asked for"
    sparse = wave((8, 14, 14, 32), 1e-5)
    sparse[1:] = 0
    broken = wave((8, 28, 28, 1), 2e-5)
    broken[0, 0, :3, 0] = np.nan
    broken[1, 0, 0, 0] = np.inf
    return [
        weight("conv1/kernel", (3, 3, 1, 16), 2e-3),
        weight("conv1/bias", (16,), 7e-3),
        Row.absent("conv2/kernel", "weight", (3, 3, 16, 32), "float32", frozen),
        Row.absent("conv2/bias", "weight", (32,), "float32", frozen),
        weight("logits/kernel", (1568, 10), 0.03),
        weight("logits/bias", (10,), 0.5),
        summarise_array("conv1", "activation", wave((8, 28, 28, 16), 1e-9)),
        summarise_array("conv2", "activation", sparse),
        summarise_array("dropped", "activation", np.zeros((8, 10), np.float32)),
        summarise_array("image", "input", broken),
        Row.absent("mask", "input", (8, 10), "int32", "an integer has no gradient"),
    ]


@pytest.fixture
def mobilenet():
    """The 158 weight names of a MobileNetV2, gradients growing towards the output."""
    layers = ["Conv1", "bn_Conv1", "expanded_conv_depthwise"]
    layers += [
        "expanded_conv_depthwise_BN",
        "expanded_conv_project",
        "expanded_conv_project_BN",
    ]
    for block in range(1, 17):
        for part in ("expand", "depthwise", "project"):
            layers += [f"block_{block}_{part}", f"block_{block}_{part}_BN"]
    layers += ["Conv_1", "Conv_1_bn"]
    names = []
    for layer in layers:
        normalises = layer.lower().startswith("bn") or layer.lower().endswith("bn")
        own = ("gamma", "beta") if normalises else ("kernel",)
        names += [f"{layer}/{name}" for name in own]
    names += ["predictions/kernel", "predictions/bias"]
    return [
        weight(name, (4, 4) if name.endswith("kernel") else (4,), 10 ** (-5 + i / 50))
        for i, name in enumerate(names)
    ]
