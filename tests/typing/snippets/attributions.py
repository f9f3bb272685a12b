"""Attributions: all verbs take the same first arguments."""

from collections.abc import Callable
from typing import Any, assert_type

import numpy as np

import gradwatch as gw
from gradwatch import attribute, testing


def attributions(model: Any, x: np.ndarray[Any, Any]) -> None:
    target = gw.class_score(3)
    assert_type(gw.saliency(model, x, target), gw.Attribution)
    assert_type(gw.input_x_gradient(model, x, target), gw.Attribution)
    assert_type(gw.integrated_gradients(model, x, target, steps=20), gw.Attribution)
    assert_type(gw.smoothgrad(model, x, target), gw.Attribution)
    assert_type(gw.grad_cam(model, x, target, layer="conv"), gw.Attribution)
    assert_type(attribute.occlusion(model, x, target, window=3), gw.Attribution)
    assert_type(gw.attribute.saliency(model, x, gw.neuron("a", 1)), gw.Attribution)
    gw.saliency(model, x, target, stpes=3)  # type: ignore[call-arg]


def interchangeable() -> None:
    verb: Callable[[Any, Any, gw.Target], gw.Attribution]
    for verb in (gw.saliency, gw.input_x_gradient, gw.integrated_gradients):
        del verb


def known(model: Any) -> None:
    assert_type(testing.known(), testing.Known)
    with testing.assert_untouched(model):
        pass
