"""Inspection, selectors and targets."""

from collections.abc import Mapping
from typing import Any, assert_type

import numpy as np

import gradwatch as gw
from gradwatch.select import Activations, Inputs, Weights


def gradients(model: Any, x: np.ndarray[Any, Any], y: list[int]) -> None:
    g = gw.gradients(model, x, y, wrt=[gw.weights("a"), gw.activations(), gw.inputs()])
    assert_type(g, gw.Gradients)
    by_name: Mapping[str, Any] = g
    assert_type(list(by_name), list[str])
    assert_type(g.missing, dict[str, gw.Reason])
    assert_type(g.missing["a"].cause, str)
    assert_type(g.summary(), list[gw.Row])
    assert_type(g.target, str)
    assert_type(g.is_sparse("a"), bool)
    assert_type(gw.why_none(model, x, y, "a/kernel"), gw.Reason)
    assert_type(gw.layers(model), gw.Layers)
    assert_type(gw.layers(model).weights, list[str])
    assert_type(gw.Inspector(model)(x, y), gw.Gradients)
    assert_type(gw.Inspector(model).num_traces, int)
    gw.gradients(model, x, wrt="a")  # type: ignore[arg-type]
    gw.gradients(model, x, with_respect_to=None)  # type: ignore[call-arg]
    gw.gradient(model, x)  # type: ignore[attr-defined]


def tape(model: Any, loss: Any) -> None:
    with gw.Tape(model, wrt=gw.activations("a")) as tape:
        assert_type(tape, gw.Tape)
    assert_type(tape.gradients(loss), gw.Gradients)
    assert_type(tape.gradients(loss, {"w": loss}), gw.Gradients)


def selectors() -> None:
    assert_type(gw.weights("a", per_call=True), Weights)
    assert_type(gw.activations(at="input"), Activations)
    assert_type(gw.inputs(0), Inputs)


def targets(outputs: Any) -> None:
    assert_type(gw.loss("mse", class_weight={0: 1.0}), gw.Target)
    assert_type(gw.class_score([0, 1]), gw.Target)
    assert_type(gw.output("head", index=(1, 2)), gw.Target)
    assert_type(gw.mean_output(), gw.Target)
    assert_type(gw.neuron("conv", (0, 1, 2)), gw.Target)
    gw.neuron("conv", "first")  # type: ignore[arg-type]
    gw.Target()  # type: ignore[abstract]


def errors(error: gw.AddressError) -> None:
    as_key_error: KeyError = error
    as_gradwatch: gw.GradwatchError = error
    as_value_error: ValueError = as_gradwatch
    del as_key_error, as_value_error
