"""One look at each kind of model, in double precision, shared by several tests."""

import contextlib
import functools
from dataclasses import dataclass
from typing import Any
from unittest import mock

import keras
import numpy as np

import gradwatch as gw

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
    random_state: Any


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
        model, x, y = prepared(name)
        state = random_state()
        return Look(model, x, y, gw.gradients(model, x, y, wrt=EVERYTHING), state)


@functools.cache
def look_at_waves(name):
    """A function of the outputs, in inference mode."""
    with double_precision(), quick_compilation():
        model, x, _ = prepared(name)
        found = gw.gradients(model, x, target=waves, wrt=EVERYTHING)
        return Look(model, x, None, found, None)


def disturbed_loss(seen, shapes):
    """The finite differences of `look`."""
    data = (seen.model, seen.x, seen.y)
    return Disturbed(*data, compiled_loss, True, shapes, seen.random_state)


def disturbed_waves(seen, shapes):
    """The finite differences of `look_at_waves`."""

    def target(model, x, y, outputs, training):
        return waves(outputs)

    return Disturbed(seen.model, seen.x, None, target, False, shapes, None)
