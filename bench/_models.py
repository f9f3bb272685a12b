"""The models that are measured, with random weights and data."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np


def mobilenet() -> tuple[keras.Model, np.ndarray, np.ndarray]:
    """MobileNetV2, 96 × 96, batch 8."""
    model = keras.applications.MobileNetV2(
        input_shape=(96, 96, 3), weights=None, classes=10, classifier_activation=None
    )
    random = np.random.default_rng(0)
    x = random.normal(size=(8, 96, 96, 3)).astype("float32")
    return _compiled(model), x, random.integers(0, 10, 8)


def transformer() -> tuple[keras.Model, np.ndarray, np.ndarray]:
    """Four blocks of width 128 over 64 tokens, batch 16."""
    inputs = keras.Input((64,), dtype="int32")
    h = keras.layers.Embedding(1000, 128, name="embed")(inputs)
    for block in range(4):
        h = _block(h, f"block_{block}")
    h = keras.layers.GlobalAveragePooling1D(name="pool")(h)
    model = keras.Model(inputs, keras.layers.Dense(10, name="head")(h))
    random = np.random.default_rng(0)
    x = random.integers(0, 1000, (16, 64)).astype("int32")
    return _compiled(model), x, random.integers(0, 10, 16)


def _block(h: Any, name: str) -> Any:
    layers = keras.layers
    attention = layers.MultiHeadAttention(4, 32, name=f"{name}_attention")(h, h)
    h = layers.LayerNormalization(name=f"{name}_norm_1")(h + attention)
    wide = layers.Dense(256, activation="gelu", name=f"{name}_wide")(h)
    narrow = layers.Dense(128, name=f"{name}_narrow")(wide)
    return layers.LayerNormalization(name=f"{name}_norm_2")(h + narrow)


def mlp() -> tuple[keras.Model, np.ndarray, np.ndarray]:
    """Four layers of 1024, batch 32: hardly any work for each weight."""
    layers = [keras.layers.Dense(1024, activation="relu") for _ in range(4)]
    model = keras.Sequential([keras.Input((1024,)), *layers, keras.layers.Dense(10)])
    random = np.random.default_rng(0)
    x = random.normal(size=(32, 1024)).astype("float32")
    return _compiled(model), x, random.integers(0, 10, 32)


def tiny() -> tuple[keras.Model, np.ndarray, np.ndarray]:
    """Five layers of 64, batch 32: a step is over before a record is written."""
    layers = [keras.layers.Dense(64, activation="relu") for _ in range(4)]
    model = keras.Sequential([keras.Input((32,)), *layers, keras.layers.Dense(10)])
    random = np.random.default_rng(0)
    x = random.normal(size=(32, 32)).astype("float32")
    return _compiled(model), x, random.integers(0, 10, 32)


def cnn() -> tuple[keras.Model, np.ndarray, np.ndarray]:
    """The usual small network for images of 32 × 32, batch 32."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(256, activation="relu"),
            layers.Dense(10),
        ]
    )
    random = np.random.default_rng(0)
    x = random.normal(size=(32, 32, 32, 3)).astype("float32")
    return _compiled(model), x, random.integers(0, 10, 32)


def two_layers() -> tuple[keras.Model, np.ndarray, np.ndarray]:
    """The smallest model there is: what is measured is Python."""
    model = keras.Sequential(
        [
            keras.Input((16,)),
            keras.layers.Dense(16, activation="relu", name="hidden"),
            keras.layers.Dense(10, name="head"),
        ]
    )
    random = np.random.default_rng(0)
    x = random.normal(size=(8, 16)).astype("float32")
    return _compiled(model), x, random.integers(0, 10, 8)


def _compiled(model: keras.Model) -> keras.Model:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="sgd", loss=loss)
    return model


TRAINED = {
    "mlp": mlp,
    "cnn": cnn,
    "mobilenet": mobilenet,
    "transformer": transformer,
    "tiny": tiny,
}
"""The models whose training is watched."""
