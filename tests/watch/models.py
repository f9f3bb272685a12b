"""Small models for the tests of this room; every layer has a name of its own."""

import contextlib
import warnings

import keras
import numpy as np
from keras import layers, ops

WIDTH = 3
# XLA takes seconds for a model that trains in none; where it matters it is asked for.
QUICK = {"jit_compile": False} if keras.config.backend() == "tensorflow" else {}
X = np.linspace(-1, 1, 8 * WIDTH).reshape(8, WIDTH).astype("float32")
Y = np.linspace(1, -1, 8 * 2).reshape(8, 2).astype("float32")


def mlp(optimizer="sgd", loss="mse", **compiled):
    """hidden → head, four weights."""
    model = keras.Sequential(
        [
            keras.Input((WIDTH,), name="door"),
            layers.Dense(4, activation="tanh", name="hidden"),
            layers.Dense(2, name="head"),
        ],
        name="demo",
    )
    model.compile(optimizer, loss, **(QUICK | compiled))
    return model


def single(optimizer="adam"):
    """One layer: what is compiled often is compiled fast."""
    model = keras.Sequential(
        [keras.Input((WIDTH,), name="door"), layers.Dense(2, name="hidden")],
        name="demo",
    )
    model.compile(optimizer, "mse", **QUICK)
    return model


def fit(model, *callbacks, x=X, y=Y, **options):
    """Four steps of two examples each, in their order, if nothing else is said."""
    options = {"batch_size": 2, "shuffle": False, "verbose": 0} | options
    if not isinstance(x, np.ndarray | dict | list):  # has batches and targets itself
        del options["batch_size"]
        y = None
    return model.fit(x, y, callbacks=list(callbacks), **options)


class Plant(layers.Layer):
    """`sum(x * w)`: the gradient of `w` is what was fed, whatever `w` is."""

    def __init__(self, shape, **options):
        super().__init__(**options)
        self._shape = shape

    def build(self, _):
        size = int(np.prod(self._shape))
        start = np.linspace(0.5, 2.0, size).reshape(self._shape)
        self.w = self.add_weight(shape=self._shape, name="w", initializer="zeros")
        self.w.assign(start)

    def call(self, x):
        return ops.reshape(ops.sum(x * self.w), (1, 1))

    def compute_output_shape(self, _):
        return (1, 1)


def planted(optimizer, shapes, dtype="float32", **compiled):
    """A model of `Plant`s by name; a batch of one example is the gradient itself."""
    doors = {
        name: keras.Input(shape, name=f"{name}_door") for name, shape in shapes.items()
    }
    found = [
        Plant(shape, name=name, dtype=dtype)(doors[name])
        for name, shape in shapes.items()
    ]
    total = found[0] if len(found) == 1 else layers.Add(name="sum", dtype=dtype)(found)
    model = keras.Model(list(doors.values()), total, name="demo")
    model.compile(optimizer, loss=lambda y, p: p, **(QUICK | compiled))
    return model


def feed(model, gradients, *callbacks, **options):
    """Trains a step with each of the gradients, which are arrays by name."""
    x = [np.stack([g[name] for g in gradients]) for name in gradients[0]]
    y = np.zeros((len(gradients), 1), "float32")
    options = {"batch_size": 1, "shuffle": False, "verbose": 0} | options
    return model.fit(x, y, callbacks=list(callbacks), **options)


@contextlib.contextmanager
def warned():
    """Gives what gradwatch warned of. `pytest.warns` would repeat what Keras did."""
    said = []
    with warnings.catch_warnings(record=True) as everything:
        warnings.simplefilter("always")
        yield said
    said += [str(w.message) for w in everything if w.category is RuntimeWarning]


def arrays(variables):
    return [np.asarray(ops.convert_to_numpy(v)) for v in variables]
