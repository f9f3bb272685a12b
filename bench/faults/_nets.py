"""Feed-forward models for the suite's runs, sized by a generator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import keras
from keras import layers

from ._data import Data, Rng
from ._fit import whole

Span: TypeAlias = int | tuple[int, int]
Init: TypeAlias = str | Callable[[], Any] | None
"""An initialiser's name, or what makes a new one; None is what suits the activation."""

_SUITS = {
    "relu": "he_normal",
    "leaky_relu": "he_normal",
    "selu": "lecun_normal",
}


def start(init: Init, activation: str = "linear") -> Any:
    """Returns a new initialiser: each layer needs its own."""
    if init is None:
        return _SUITS.get(activation, "glorot_uniform")
    return init if isinstance(init, str) else init()


def gain(by: float) -> Callable[[], Any]:
    """Returns an initialiser that makes a layer's outputs `by` times its inputs."""
    return lambda: keras.initializers.VarianceScaling(by**2, "fan_in", "normal")


def normal(deviation: float) -> Callable[[], Any]:
    """Returns an initialiser that knows nothing of the layer's size."""
    return lambda: keras.initializers.RandomNormal(stddev=deviation)


def constant(value: float) -> Callable[[], Any]:
    """Returns an initialiser that makes all units alike."""
    return lambda: keras.initializers.Constant(value)


def head(x: Any, data: Data, init: Init = None, **options: Any) -> Any:
    """Puts the last layer on, in float32 whatever comes before."""
    first = start(init)
    return layers.Dense(
        data.units, kernel_initializer=first, dtype="float32", name="head", **options
    )(x)


def dense_block(x: Any, width: int, activation: str, name: str, **options: Any) -> Any:
    """A dense layer, which may be normalised before its activation, and dropped out."""
    norm, dropout = options.pop("norm", None), options.pop("dropout", 0.0)
    init = start(options.pop("init", None), activation)
    own = None if norm else activation
    x = layers.Dense(
        width, activation=own, kernel_initializer=init, name=name, **options
    )(x)
    if norm:
        x = getattr(layers, norm)(name=f"{name}_norm")(x)
        x = layers.Activation(activation, name=f"{name}_act")(x)
    return layers.Dropout(dropout, name=f"{name}_drop")(x) if dropout else x


def mlp(
    rng: Rng,
    data: Data,
    *,
    depth: Span = (2, 3),
    width: Span = (24, 48),
    activation: str = "relu",
    **options: Any,
) -> keras.Model:
    """Dense layers, one after the other. `last` is the head's own options."""
    last = options.pop("last", {})
    inputs = keras.Input(data.x.shape[1:])
    x = inputs if len(data.x.shape) == 2 else layers.Flatten(name="flat")(inputs)
    units = whole(rng, width)
    for i in range(whole(rng, depth)):
        x = dense_block(x, units, activation, f"hidden_{i}", **options)
    return keras.Model(inputs, head(x, data, **last), name="mlp")


def conv_block(x: Any, width: int, activation: str, name: str, **options: Any) -> Any:
    """A convolution of 3 by 3, which may be normalised before its activation."""
    norm, init = options.pop("norm", None), start(options.pop("init", None), activation)
    own = None if norm else activation
    settings: dict[str, Any] = {"padding": "same", "kernel_initializer": init}
    settings |= options
    x = layers.Conv2D(width, 3, activation=own, name=name, **settings)(x)
    if norm:
        x = getattr(layers, norm)(name=f"{name}_norm")(x)
        x = layers.Activation(activation, name=f"{name}_act")(x)
    return x


def cnn(
    rng: Rng,
    data: Data,
    *,
    depth: Span = (2, 3),
    width: Span = (8, 16),
    activation: str = "relu",
    **options: Any,
) -> keras.Model:
    """Convolutions, halved once; `pool=False` hands every place to the head."""
    last, pool = options.pop("last", {}), options.pop("pool", True)
    inputs = keras.Input(data.x.shape[1:])
    x, units = inputs, whole(rng, width)
    for i in range(whole(rng, depth)):
        x = conv_block(x, units, activation, f"conv_{i}", **options)
        if i == 0:
            x = layers.MaxPooling2D(name="halve")(x)
    flat = layers.GlobalAveragePooling2D if pool else layers.Flatten
    return keras.Model(inputs, head(flat(name="pool")(x), data, **last), name="cnn")


def residual_cnn(
    rng: Rng, data: Data, *, norm: str | None = "BatchNormalization", gamma: str = ""
) -> keras.Model:
    """Blocks that add to what they are given; `gamma` starts the last scale of each."""
    inputs = keras.Input(data.x.shape[1:])
    units = whole(rng, (8, 12))
    x = conv_block(inputs, units, "relu", "stem", norm=norm)
    for i in range(whole(rng, (2, 3))):
        y = conv_block(x, units, "relu", f"block_{i}_a", norm=norm)
        y = layers.Conv2D(units, 3, padding="same", name=f"block_{i}_b")(y)
        y = layers.BatchNormalization(
            gamma_initializer=gamma or "ones", name=f"block_{i}_norm"
        )(y)
        x = layers.ReLU(name=f"block_{i}")(layers.Add(name=f"block_{i}_add")([x, y]))
    pooled = layers.GlobalAveragePooling2D(name="pool")(x)
    return keras.Model(inputs, head(pooled, data), name="residual_cnn")


def residual_mlp(
    rng: Rng, data: Data, *, depth: Span = (3, 5), norm: bool = True, **options: Any
) -> keras.Model:
    """Dense blocks that add to what they are given."""
    inputs = keras.Input(data.x.shape[1:])
    units = whole(rng, (24, 40))
    x = layers.Dense(units, name="stem")(inputs)
    for i in range(whole(rng, depth)):
        y = layers.LayerNormalization(name=f"block_{i}_norm")(x) if norm else x
        y = dense_block(y, units, "relu", f"block_{i}_a", **options)
        init = start(options.get("init"))
        y = layers.Dense(units, kernel_initializer=init, name=f"block_{i}_b")(y)
        x = layers.Add(name=f"block_{i}")([x, y])
    return keras.Model(inputs, head(x, data), name="residual_mlp")


def autoencoder(
    rng: Rng,
    data: Data,
    *,
    depth: Span = 1,
    activation: str = "relu",
    **options: Any,
) -> keras.Model:
    """Narrow in the middle, its inputs the targets."""
    inputs = keras.Input(data.x.shape[1:])
    units = whole(rng, (20, 32))
    x, deep = inputs, whole(rng, depth)
    for i in range(deep):
        x = dense_block(x, units, activation, f"down_{i}", **options)
    x = dense_block(x, 8, activation, "code", **options)
    for i in range(deep):
        x = dense_block(x, units, activation, f"up_{i}", **options)
    return keras.Model(inputs, head(x, data), name="autoencoder")


def two_heads(rng: Rng, data: Data, *, trunk: Any = mlp, **options: Any) -> keras.Model:
    """A trunk with a head for the class and one for the place."""
    base = trunk(rng, data, **options)
    x = base.layers[-2].output
    outputs = {
        "kind": layers.Dense(data.units, name="kind")(x),
        "place": layers.Dense(1, name="place")(x),
    }
    return keras.Model(base.input, outputs, name="two_heads")
