"""Healthy runs of convolutional models."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
from keras import layers

from ._data import Data, Rng, images, masks, same
from ._fit import adam, healthy, sgd, training
from ._nets import cnn, conv_block, head, residual_cnn
from ._nets_sequence import Positions, attention_block


def _separable(rng: Rng, data: Data) -> keras.Model:
    """Thin blocks of depthwise and pointwise convolutions, as MobileNet has them."""
    inputs = keras.Input(data.x.shape[1:])
    width = int(rng.integers(8, 13))
    x = conv_block(inputs, width, "relu6", "stem", norm="BatchNormalization")
    for i in range(2):
        y = layers.Conv2D(2 * width, 1, use_bias=False, name=f"block_{i}_wide")(x)
        y = layers.BatchNormalization(name=f"block_{i}_norm_a")(y)
        y = layers.Activation("relu6", name=f"block_{i}_act_a")(y)
        y = layers.DepthwiseConv2D(
            3, padding="same", use_bias=False, name=f"block_{i}_depth"
        )(y)
        y = layers.BatchNormalization(name=f"block_{i}_norm_b")(y)
        y = layers.Activation("relu6", name=f"block_{i}_act_b")(y)
        y = layers.Conv2D(width, 1, use_bias=False, name=f"block_{i}_thin")(y)
        y = layers.BatchNormalization(name=f"block_{i}_norm_c")(y)
        x = layers.Add(name=f"block_{i}")([x, y])
    return keras.Model(
        inputs, head(layers.GlobalAveragePooling2D(name="pool")(x), data)
    )


def _unet(rng: Rng, data: Data) -> keras.Model:
    """Down, up, and across."""
    inputs = keras.Input(data.x.shape[1:])
    width = int(rng.integers(6, 11))
    fine = conv_block(inputs, width, "relu", "fine")
    coarse = layers.MaxPooling2D(name="down")(fine)
    coarse = conv_block(coarse, 2 * width, "relu", "coarse")
    up = layers.Conv2DTranspose(
        width,
        2,
        strides=2,
        activation="relu",
        kernel_initializer="he_normal",
        name="up",
    )(coarse)
    x = conv_block(layers.Concatenate(name="across")([fine, up]), width, "relu", "join")
    return keras.Model(inputs, layers.Conv2D(1, 1, name="head")(x))


def _conv_autoencoder(rng: Rng, data: Data) -> keras.Model:
    inputs = keras.Input(data.x.shape[1:])
    width = int(rng.integers(8, 13))
    x = layers.MaxPooling2D(name="down")(conv_block(inputs, width, "relu", "fine"))
    x = conv_block(x, width, "relu", "coarse")
    x = layers.UpSampling2D(name="up")(x)
    return keras.Model(inputs, layers.Conv2D(1, 3, padding="same", name="head")(x))


def _squeezing(rng: Rng, data: Data) -> keras.Model:
    """Channels are weighed by what the whole picture says."""
    inputs = keras.Input(data.x.shape[1:])
    width = int(rng.integers(8, 17))
    x = conv_block(inputs, width, "relu", "conv_0")
    seen = layers.GlobalAveragePooling2D(keepdims=True, name="see")(x)
    weight = layers.Dense(width, activation="sigmoid", name="weigh")(seen)
    x = conv_block(x * weight, width, "relu", "conv_1")
    return keras.Model(inputs, head(layers.GlobalMaxPooling2D(name="pool")(x), data))


def _patches(data: Data, width: int) -> tuple[Any, Any]:
    """Patches of 2 by 2 as a sequence."""
    inputs = keras.Input(data.x.shape[1:])
    x = layers.Conv2D(width, 2, strides=2, name="patches")(inputs)
    return inputs, layers.Reshape((-1, width), name="line")(x)


def _seeing(rng: Rng, data: Data) -> keras.Model:
    """A small vision transformer."""
    del rng
    inputs, x = _patches(data, 16)
    x = attention_block(Positions(name="positions")(x), "block_0")
    x = layers.LayerNormalization(name="norm")(x)
    return keras.Model(
        inputs, head(layers.GlobalAveragePooling1D(name="pool")(x), data)
    )


def _mixer(rng: Rng, data: Data) -> keras.Model:
    """Dense layers across places and across channels in turn."""
    inputs, x = _patches(data, int(rng.integers(12, 21)))
    y = layers.Permute((2, 1), name="turn")(layers.LayerNormalization(name="norm_a")(x))
    y = layers.Dense(x.shape[1], activation="gelu", name="places")(y)
    x = x + layers.Permute((2, 1), name="back")(y)
    y = layers.LayerNormalization(name="norm_b")(x)
    x = x + layers.Dense(x.shape[2], activation="gelu", name="channels")(y)
    return keras.Model(
        inputs, head(layers.GlobalAveragePooling1D(name="pool")(x), data)
    )


_momentum = partial(sgd, momentum=0.9)

FAMILIES = tuple(
    healthy(name, training(task, net, optimizer))
    for name, task, net, optimizer in (
        ("cnn", images, cnn, adam(5e-3)),
        ("cnn-momentum", images, cnn, _momentum(0.02)),
        ("cnn-tanh", images, partial(cnn, activation="tanh"), adam(5e-3)),
        ("cnn-flat", images, partial(cnn, pool=False), adam(2e-3)),
        (
            "cnn-batch-norm",
            images,
            partial(cnn, norm="BatchNormalization"),
            adam(5e-3),
        ),
        (
            "cnn-layer-norm",
            images,
            partial(cnn, norm="LayerNormalization"),
            adam(5e-3),
        ),
        ("residual-cnn", images, residual_cnn, adam(3e-3)),
        (
            "residual-cnn-zero-gamma",
            images,
            partial(residual_cnn, gamma="zeros"),
            adam(3e-3),
        ),
        ("separable-cnn", images, _separable, adam(3e-3)),
        ("squeezing-cnn", images, _squeezing, adam(5e-3)),
        ("u-net", masks, _unet, adam(3e-3)),
        ("conv-autoencoder", partial(same, of=images), _conv_autoencoder, adam(3e-3)),
        ("vision-transformer", images, _seeing, adam(3e-3)),
        ("mixer", images, _mixer, adam(0.01)),
    )
)
