"""Data, and a method without a network, for the tests of whole datasets."""

import functools

import keras
import numpy as np

from gradwatch.attribute import AttributedDataset, Attribution, Place, attribute_dataset

from .models import fill, numbers

SIZE = 4
DATA = numbers(18, 3, seed=8)
"""Four batches of four, and one of two."""
LABELS = np.random.default_rng(9).integers(0, 3, size=len(DATA))
STARTS = range(0, len(DATA), SIZE)


@functools.cache
def small():
    inputs = keras.Input((3,), name="row")
    h = keras.layers.Dense(4, activation="tanh", name="hidden")(inputs)
    return fill(
        keras.Model(inputs, keras.layers.Dense(3, name="head")(h), name="small")
    )


def batches():
    """The same as `DATA` with labels, cut by hand."""
    return [(DATA[n : n + SIZE], LABELS[n : n + SIZE]) for n in STARTS]


class Doubled:
    """A method: values are twice the input, and it counts its calls."""

    __name__ = "doubled"

    def __init__(self, before=None):
        self.sizes = []
        self.before = before

    def __call__(self, model, x, target, *, factor=2.0, batch_size=None):
        if self.before is not None:
            self.before(len(self.sizes))
        self.sizes.append(len(x))
        place = Place("inputs", factor * x, x, None)
        source = Place("inputs", x, x, None)
        score = x.sum(axis=1)
        options = {"settings": {"factor": factor}, "delta": score - 1}
        return Attribution((place,), (source,), "doubled", "it", score, **options)

    def __repr__(self):
        return "doubled"  # The same in every process and test: part of the question.


def made(path, data=None, method=None, **options):
    """`attribute_dataset` with the method above, on the data above."""
    data = (DATA, LABELS) if data is None else data
    options = {"batch_size": SIZE, **options}
    return attribute_dataset(
        small(), data, "label", to=path, method=method or Doubled(), **options
    )


def contents(dataset):
    """Everything in a store, in memory."""
    names = ("values", "score", "delta")
    found = {name: np.asarray(getattr(dataset, name)) for name in names}
    return found, [len(batch) for batch in dataset.batches()]


def same(first, second):
    """Bit for bit."""
    (one, sizes), (other, others) = contents(first), contents(second)
    assert sizes == others
    for name, array in one.items():
        assert array.dtype == other[name].dtype
        assert array.tobytes() == other[name].tobytes(), name


def reopened(path):
    return AttributedDataset.open(path)
