"""One look at each kind of model, in double precision, shared by several tests."""

import contextlib
import functools
from dataclasses import dataclass
from typing import Any
from unittest import mock

import keras
import numpy as np

import gradwatch as gw
from gradwatch.testing import assert_untouched

from .addresses import fill
from .cases import CASES
from .frameworks import double_precision, quick_compilation, random_state
from .twins import Disturbed, compiled_loss, waves

EVERYTHING = [
    gw.weights(),
    gw.activations(),
    gw.activations(at="input"),
    gw.inputs(),
]


@dataclass(frozen=True)
class Look:
    """A model with numbers from its addresses, its data, and all its gradients."""

    model: Any
    x: Any
    y: Any
    gradients: gw.Gradients
    again: gw.Gradients
    random_state: Any
    trace: str
    """What looking left behind; empty if nothing."""


def prepared(name):
    """A fresh model with its data; every weight has numbers of its own."""
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(1)
    with plain_initial_values():
        model, x, y = CASES[name].build()
        if "unbuilt" in CASES[name].tags:
            gw.gradients(model, x, y)
    fill(model, gw.layers(model).weights)
    return model, x, y


@contextlib.contextmanager
def plain_initial_values():
    """Saves JAX the compilation of a random function for each shape of a weight."""

    def zeros(self, shape, dtype=None, **_):
        return np.zeros(shape, dtype or keras.config.floatx())

    with contextlib.ExitStack() as stack:
        for kind in (
            "VarianceScaling",
            "Orthogonal",
            "RandomUniform",
            "TruncatedNormal",
        ):
            cls = getattr(keras.initializers, kind)
            stack.enter_context(mock.patch.object(cls, "__call__", zeros))
        yield


@functools.cache
def look(name):
    """The loss in training mode, as `fit` computes it."""
    with double_precision(), quick_compilation():
        return looked(*prepared(name), wrt=EVERYTHING)


@functools.cache
def look_at_waves(name):
    """A function of the outputs, in inference mode."""
    with double_precision(), quick_compilation():
        model, x, _ = prepared(name)
        return looked(model, x, None, target=waves, wrt=EVERYTHING)


def looked(model, x, y, **question):
    """Looks twice: the second time with a compiled pass, where there is one."""
    state, trace = random_state(), ""
    try:
        with assert_untouched(model):
            found = [gw.gradients(model, x, y, **question) for _ in range(2)]
    except AssertionError as error:
        trace = str(error)
    return Look(model, x, y, *found, state, trace)


def disturbed_loss(seen, shapes):
    """The finite differences of `look`."""
    data = (seen.model, seen.x, seen.y)
    return Disturbed(*data, compiled_loss, True, shapes, seen.random_state)


def disturbed_waves(seen, shapes):
    """The finite differences of `look_at_waves`."""

    def target(model, x, y, outputs, training):
        return waves(outputs)

    return Disturbed(seen.model, seen.x, None, target, False, shapes, None)
