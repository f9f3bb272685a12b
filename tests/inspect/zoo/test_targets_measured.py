"""Every target is the number it says: finite differences of that number."""

import keras
import numpy as np
import pytest
from keras import ops

import gradwatch as gw

from .frameworks import array, double_precision, quick_compilation
from .looks import EVERYTHING, prepared
from .twins import Disturbed

PER_EXAMPLE = np.array([2, 0, 1])
CLASSES = np.array([1, 0, 1])
POINTS = np.random.default_rng(5).normal(size=(3, 3))


@pytest.fixture(autouse=True)
def double():
    with double_precision(), quick_compilation():
        yield


def cross_entropy(labels, logits):
    """Of each example, from the definition."""
    shifted = logits - ops.max(logits, axis=-1, keepdims=True)
    log_of_sum = ops.log(ops.sum(ops.exp(shifted), axis=-1))
    picked = ops.sum(shifted * ops.one_hot(labels, logits.shape[-1]), axis=-1)
    return log_of_sum - picked


def squares(outputs):
    labels = POINTS[:, : outputs.shape[-1]]
    return ops.mean(ops.square(ops.subtract(outputs, labels)), axis=-1)


def chosen(outputs):
    return sum(outputs[row, column] for row, column in enumerate(PER_EXAMPLE))


def huber(y, outputs):
    return ops.mean(keras.losses.huber(y, outputs, delta=0.5))


# The model, the labels, what gradwatch is asked, and the same number in plain words.
TARGETS = {
    "one class": ("mlp", None, gw.class_score(1), lambda o: ops.sum(o[:, 1])),
    "a class from the end": (
        "mlp",
        None,
        gw.class_score(-1),
        lambda o: ops.sum(o[:, 2]),
    ),
    "a class per example": ("mlp", None, gw.class_score(PER_EXAMPLE), chosen),
    "a class of an output": (
        "list_outputs",
        None,
        gw.class_score(2, output="kind"),
        lambda o: ops.sum(o[0][:, 2]),
    ),
    "a unit": ("mlp", None, gw.output(index=2), lambda o: ops.sum(o[:, 2])),
    "a unit of an output": (
        "dict_outputs",
        None,
        gw.output("place", index=1),
        lambda o: ops.sum(o["place"][:, 1]),
    ),
    "a place in a sequence": (
        "attention",
        None,
        gw.output(index=(3, 1)),
        lambda o: ops.sum(o[:, 3, 1]),
    ),
    "the mean": ("attention", None, gw.mean_output(), ops.mean),
    "the mean of an output": (
        "list_outputs",
        None,
        gw.mean_output(1),
        lambda o: ops.mean(o[1]),
    ),
    "a function giving one number": (
        "mlp",
        None,
        lambda o: ops.max(o) * ops.min(o),
        lambda o: ops.max(o) * ops.min(o),
    ),
    "a function giving one per example": (
        "mlp",
        None,
        lambda o: ops.logsumexp(o, axis=1),
        lambda o: ops.sum(ops.logsumexp(o, axis=1)),
    ),
    "another loss by name": (
        "mlp",
        POINTS,
        gw.loss("mse"),
        lambda o: ops.mean(squares(o)),
    ),
    "another loss as an object": (
        "mlp",
        CLASSES,
        gw.loss(keras.losses.SparseCategoricalCrossentropy(True, reduction="sum")),
        lambda o: ops.sum(cross_entropy(CLASSES, o)),
    ),
    "another loss as a function": (
        "mlp",
        POINTS,
        gw.loss(huber),
        lambda o: huber(POINTS, o),
    ),
    "other losses of several outputs": (
        "dict_outputs",
        {"kind": POINTS, "place": POINTS[:, :2]},
        gw.loss({"kind": "mse", "place": "mse"}),
        lambda o: ops.mean(squares(o["kind"])) + ops.mean(squares(o["place"])),
    ),
    "weighted examples": (
        "mlp",
        CLASSES,
        gw.loss(sample_weight=np.array([0.5, 0.0, 3.0])),
        lambda o: ops.dot(cross_entropy(CLASSES, o), np.array([0.5, 0.0, 3.0])) / 3,
    ),
    "weighted classes": (
        "mlp",
        CLASSES,
        gw.loss(class_weight={0: 4.0, 1: 0.5, 2: 9.0}),
        lambda o: ops.dot(cross_entropy(CLASSES, o), np.array([0.5, 4.0, 0.5])) / 3,
    ),
}


@pytest.mark.parametrize("what", TARGETS)
def test_a_target_is_the_number_that_it_names(what):
    """Its value, and its gradients of everything, against the plain formula."""
    name, y, target, formula = TARGETS[what]
    model, x, _ = prepared(name)
    found = gw.gradients(model, x, y, target=target, wrt=EVERYTHING, training=False)
    rows = [
        row
        for row in found.summary()
        if row.name in found or found.missing[row.name].cause == "other_output"
    ]
    disturbed = Disturbed(
        model,
        x,
        None,
        lambda model, x, y, outputs, training: formula(outputs),
        False,
        {row.name: row.shape for row in rows},
        None,
    )
    value, _ = disturbed.undisturbed()
    assert float(array(found.value)) == pytest.approx(value, rel=1e-7)
    gradients = {
        row.name: array(found[row.name]) if row.name in found else np.zeros(row.shape)
        for row in rows
    }
    assert disturbed.wrong(gradients) == []
