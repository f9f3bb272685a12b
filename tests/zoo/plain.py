"""Feed-forward kinds: sequential, functional, subclassed, nested, shared."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers, ops

from .case import Built, compiled, from_logits, numbers, whole_numbers


def mlp() -> Built:
    """A sequential classifier."""
    model = keras.Sequential(
        [
            keras.Input((5,)),
            layers.Dense(6, activation="tanh", name="hidden"),
            layers.Dense(4, activation="relu", name="narrow"),
            layers.Dense(3, name="head"),
        ],
        name="mlp",
    )
    return compiled(model, loss=from_logits()), numbers(5), whole_numbers(3)


def cnn() -> Built:
    """Convolutions with batch normalisation and dropout."""
    model = keras.Sequential(
        [
            keras.Input((6, 6, 2)),
            layers.Conv2D(4, 3, padding="same", name="conv"),
            layers.BatchNormalization(name="norm"),
            layers.MaxPooling2D(name="pool"),
            layers.ReLU(name="relu"),
            layers.Dropout(0.4, seed=7, name="drop"),
            layers.Flatten(name="flat"),
            layers.Dense(3, name="head"),
        ],
        name="cnn",
    )
    return compiled(model, loss=from_logits()), numbers(6, 6, 2), whole_numbers(3)


def graph_of_ops() -> Built:
    """A functional graph with plain `keras.ops` nodes between the layers."""
    inputs = keras.Input((4, 3))
    wide = layers.Dense(5, name="wide")(inputs)
    mixed = ops.tanh(wide) + wide * 0.5
    gram = ops.matmul(mixed, ops.transpose(mixed, (0, 2, 1)))
    flat = ops.reshape(gram, (-1, 16))
    model = keras.Model(inputs, layers.Dense(2, name="head")(flat), name="graph_of_ops")
    return compiled(model), numbers(4, 3), numbers(2, seed=1)


class _Subclassed(keras.Model):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.hidden = layers.Dense(5, activation="gelu", name="hidden")
        self.gate = layers.Dense(5, activation="sigmoid", name="gate")
        self.head = layers.Dense(2, name="head")
        self.offset = self.add_weight(shape=(5,), initializer="ones", name="offset")

    def call(self, x: Any) -> Any:
        return self.head(self.hidden(x) * self.gate(x) + self.offset)


def subclassed() -> Built:
    """A subclassed model with a weight of its own, built."""
    model = _Subclassed(name="subclassed")
    model(ops.zeros((1, 4)))
    return compiled(model), numbers(4), numbers(2, seed=1)


class _Collections(keras.Model):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.stages = [layers.Dense(4, activation="tanh") for _ in range(2)]
        self.heads = {
            "a": layers.Dense(2, name="a"),
            "b": [layers.Dense(2, name="b")],
        }

    def call(self, x: Any) -> Any:
        for stage in self.stages:
            x = stage(x)
        return self.heads["a"](x) - ops.square(self.heads["b"][0](x))


def collections() -> Built:
    """Layers in lists and dicts."""
    model = _Collections(name="collections")
    model(ops.zeros((1, 3)))
    return compiled(model), numbers(3), numbers(2, seed=1)


class _Outer(keras.Model):
    def __init__(self, inner: keras.Model, **options: Any) -> None:
        super().__init__(**options)
        self.inner = inner
        self.dense = layers.Dense(2, name="dense")

    def call(self, x: Any, training: bool = False) -> Any:
        return self.dense(self.inner(x, training=training))


def nested() -> Built:
    """Models three deep: functional in sequential in subclassed, names repeating."""
    inputs = keras.Input((5,))
    outputs = layers.Dense(5, activation="tanh", name="dense")(inputs)
    core = keras.Model(inputs, outputs + inputs, name="core")
    middle = keras.Sequential(
        [keras.Input((4,)), layers.Dense(5, name="dense"), core, layers.ReLU()],
        name="middle",
    )
    model = _Outer(middle, name="nested")
    model(ops.zeros((1, 4)))
    return compiled(model), numbers(4), numbers(2, seed=1)


def towers() -> Built:
    """Two towers whose layers have the same names, and so the same paths."""

    def tower() -> keras.Model:
        inputs = keras.Input((4,))
        hidden = layers.Dense(3, activation="tanh", name="dense")(inputs)
        return keras.Model(inputs, layers.Dense(2, name="out")(hidden), name="tower")

    class Towers(keras.Model):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.left, self.right = tower(), tower()

        def call(self, x: Any) -> Any:
            return self.left(x) * self.right(-x)

    model = Towers(name="towers")
    model(ops.zeros((1, 4)))
    return compiled(model), numbers(4), numbers(2, seed=1)


def siamese() -> Built:
    """One layer called on each of two inputs."""
    left, right = keras.Input((4,), name="left"), keras.Input((4,), name="right")
    shared = layers.Dense(3, activation="tanh", name="shared")
    both = layers.Concatenate(name="join")([shared(left), ops.square(shared(right))])
    model = keras.Model([left, right], layers.Dense(2, name="head")(both))
    model.name = "siamese"
    x = [numbers(4), numbers(4, seed=1)]
    return compiled(model), x, numbers(2, seed=2)


def shared_shapes() -> Built:
    """One layer called three times, on tensors of different shape."""
    inputs = keras.Input((4, 3))
    shared = layers.Dense(3, activation="tanh", name="shared")
    every = shared(inputs)
    pooled = layers.GlobalAveragePooling1D(name="pool")(every)
    once_more = shared(shared(pooled))
    model = keras.Model(inputs, layers.Dense(2, name="head")(once_more))
    model.name = "shared_shapes"
    return compiled(model), numbers(4, 3), numbers(2, seed=1)


class _Pair(layers.Layer):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.dense = layers.Dense(3, name="dense")

    def call(self, x: Any) -> Any:
        y = self.dense(x)
        return y, {"double": 2 * y, "same": y, "sign": ops.cast(y > 0, "int32")}


class _Merge(layers.Layer):
    def call(self, parts: Any, scale: Any = None) -> Any:
        y, more = parts
        return {"sum": y + ops.square(more["double"]) * scale, "raw": more["same"]}


def structures() -> Built:
    """Layers that take and return tuples and dicts, one tensor in several places."""

    class Structures(keras.Model):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.pair, self.merge = _Pair(name="pair"), _Merge(name="merge")
            self.head = layers.Dense(2, name="head")

        def call(self, x: Any) -> Any:
            merged = self.merge(self.pair(x), scale=ops.mean(x, axis=-1, keepdims=True))
            return self.head(merged["sum"]) + self.head(merged["raw"])

    model = Structures(name="structures")
    model(ops.zeros((1, 4)))
    return compiled(model), numbers(4), numbers(2, seed=1)


def returns_its_input() -> Built:
    """Layers that hand back the very tensor they were given."""
    inputs = keras.Input((4,))
    x = layers.Dense(4, name="dense")(inputs)
    x = layers.Identity(name="identity")(x)
    x = layers.Dropout(0.5, seed=3, name="drop")(x)
    x = layers.Activation("linear", name="linear")(x)
    x = layers.Flatten(name="flat")(x)
    outputs = layers.Dense(2, name="head")(layers.Activation("softplus", name="a")(x))
    model = keras.Model(inputs, outputs, name="returns_its_input")
    return compiled(model), numbers(4), numbers(2, seed=1)


def used_twice() -> Built:
    """A tensor that goes several ways, a residual block, and a layer fed itself."""
    inputs = keras.Input((4,))
    trunk = layers.Dense(4, name="trunk")(inputs)
    branch = layers.Dense(4, activation="tanh", name="branch")(trunk)
    joined = layers.Add(name="junction")([trunk, branch, trunk])
    product = layers.Multiply(name="product")([joined, joined])
    model = keras.Model(inputs, layers.Dense(2, name="head")(product) + inputs[:, :2])
    model.name = "used_twice"
    return compiled(model), numbers(4), numbers(2, seed=1)


def normalised() -> Built:
    """Layer and group normalisation."""
    inputs = keras.Input((4, 6))
    x = layers.Conv1D(6, 2, padding="causal", name="conv")(inputs)
    x = layers.LayerNormalization(name="layer_norm")(x)
    x = layers.GroupNormalization(3, name="group_norm")(x)
    x = layers.GlobalAveragePooling1D(name="pool")(x)
    model = keras.Model(inputs, layers.Dense(2, name="head")(x), name="normalised")
    return compiled(model), numbers(4, 6), numbers(2, seed=1)


class _Direct(layers.Layer):
    """Uses `call` of its sublayer, not the sublayer."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.other = layers.Dense(4, name="other")

    def build(self, shape: Any) -> None:
        self.other.build(shape)

    def call(self, x: Any) -> Any:
        return ops.tanh(self.other.call(x)) + self.other.call(-x)


def direct_call() -> Built:
    """A layer that calls `self.other.call(…)` directly, twice."""
    inputs = keras.Input((4,))
    outputs = layers.Dense(2, name="head")(_Direct(name="direct")(inputs))
    model = keras.Model(inputs, outputs, name="direct_call")
    return compiled(model), numbers(4), numbers(2, seed=1)


KINDS = (
    mlp,
    cnn,
    graph_of_ops,
    subclassed,
    collections,
    nested,
    towers,
    siamese,
    shared_shapes,
    structures,
    returns_its_input,
    used_twice,
    normalised,
    direct_call,
)
