"""Runs in which data or loss are at fault: noise, or no way down."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from keras import ops

from ._data import (
    Data,
    Rng,
    blobs,
    images,
    regression,
    relabelled,
    sequences,
    tokens,
)
from ._fit import adam, sgd, sick, training
from ._nets import cnn, mlp, normal
from ._nets_sequence import rnn, transformer


def _heavy_tails(rng: Rng, n: int) -> Data:
    """Targets in which now and then a number is far off."""
    data = regression(rng, n)
    noise = 20.0 * rng.standard_t(2.5, size=data.y.shape)
    return data._replace(y=(data.y + noise).astype("float32"))


def _returns(rng: Rng, n: int) -> Data:
    """Actions with their returns, which owe nearly all to chance."""
    data = blobs(rng, n)
    gain = rng.normal(0.05, 1.0, size=n)
    y = np.stack([data.y, gain], axis=1).astype("float32")
    return data._replace(y=y, loss=_policy_loss)


def _policy_loss(y: Any, logits: Any) -> Any:
    """The log-probability of what was done, times what came of it."""
    chosen = ops.one_hot(ops.cast(y[:, 0], "int32"), logits.shape[-1])
    return -y[:, 1] * ops.sum(chosen * ops.log_softmax(logits), axis=-1)


def _chance(rng: Rng, n: int) -> Data:
    data = regression(rng, n)
    return data._replace(y=rng.normal(size=data.y.shape).astype("float32"))


def _low(net: Any) -> Any:
    """Starts the head near zero: the loss is at once as low as ignorance allows."""
    return partial(net, last={"init": normal(0.02)})


_mixed_up = partial(relabelled, of=images, share=0.95)

# That nothing comes of a training takes long to see: a good one may begin slowly, and a
# few examples a step make losses that scatter by far more than they fall.
_long = partial(training, epochs=1, steps=480)
# One epoch: labels of chance that come again are learnt by heart.
_longer = partial(training, epochs=1, batch=64, steps=320)

NOISE = (
    sick(
        "heavy-tailed-targets",
        _long(_heavy_tails, _low(mlp), sgd(1e-4), batch=1),
        "noise",
        "stuck-loss small-updates large-updates exploding",
    ),
    sick(
        "flipped-labels-cnn",
        _long(_mixed_up, cnn, sgd(0.02), batch=2),
        "noise",
        "stuck-loss",
    ),
    sick(
        "returns-of-chance",
        _long(_returns, mlp, sgd(5e-3), batch=2),
        "noise",
        "stuck-loss",
    ),
    sick(
        "single-examples-lstm",
        _long(partial(relabelled, of=sequences, share=0.95), rnn, sgd(0.05), batch=1),
        "noise",
        "stuck-loss",
    ),
    sick(
        "random-targets-mlp",
        _longer(_chance, _low(mlp), sgd(0.01)),
        "noise",
        "stuck-loss",
    ),
)


def _constant(rng: Rng, n: int) -> Data:
    """Features that say nothing: every example is the same."""
    data = sequences(rng, n)
    return data._replace(x=np.repeat(data.x[:1], n, axis=0))


def _thirty(rng: Rng, n: int) -> Data:
    return blobs(rng, n, classes=30)


_TWICE = {"activation": "softmax"}

STUCK_LOSS = tuple(
    sick(name, _longer(task, net, optimizer), "stuck-loss", tolerated)
    for name, task, net, optimizer, tolerated in (
        (
            "random-labels-mlp",
            partial(relabelled, of=blobs),
            _low(mlp),
            sgd(0.05),
            "noise",
        ),
        (
            "random-labels-cnn",
            partial(relabelled, of=images),
            _low(cnn),
            adam(1e-3),
            "noise",
        ),
        (
            "random-labels-transformer",
            partial(relabelled, of=tokens),
            _low(transformer),
            sgd(0.03),
            "noise",
        ),
        ("constant-features-lstm", _constant, rnn, adam(1e-3), "noise"),
        (
            "softmax-twice-mlp",
            _thirty,
            partial(mlp, last=_TWICE),
            sgd(0.05),
            "small-updates",
        ),
        (
            "softmax-twice-cnn",
            images,
            partial(cnn, last=_TWICE),
            sgd(0.02),
            "small-updates",
        ),
    )
)

FAMILIES = NOISE + STUCK_LOSS
