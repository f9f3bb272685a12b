"""Runs whose weights start wrong, or move too little, too far, or on a short lead."""

from __future__ import annotations

from functools import partial

from ._data import blobs, images, regression, sequences, tokens
from ._fit import adam, by_rate, sgd, sick, training
from ._nets import cnn, constant, mlp, normal
from ._nets_sequence import rnn, transformer

_THROWN = (
    "exploding nonfinite dead-units dead-layer saturated stuck-loss dominating-layer "
    "noise vanishing vanishing-time fading unreached"
)
_momentum = partial(sgd, momentum=0.9)
_rmsprop = partial(by_rate, "RMSprop")

CLIPPING = tuple(
    sick(name, training(task, net, optimizer), "clipping", "small-updates stuck-loss")
    for name, task, net, optimizer in (
        ("tight-global-norm-mlp", blobs, mlp, sgd(0.1, global_clipnorm=1e-2)),
        ("tight-norm-cnn", images, cnn, _momentum(0.02, clipnorm=1e-2)),
        ("tight-value-mlp", regression, mlp, sgd(0.05, clipvalue=1e-4)),
        ("tight-global-norm-lstm", sequences, rnn, adam(3e-3, global_clipnorm=1e-3)),
        ("tight-norm-transformer", tokens, transformer, adam(1e-3, clipnorm=1e-3)),
    )
)

# Each has a twin among the healthy runs, a thousand times as fast.
SMALL_UPDATES = tuple(
    sick(name, training(task, net, optimizer), "small-updates", "stuck-loss")
    for name, task, net, optimizer in (
        ("slow-sgd-mlp", blobs, mlp, sgd(1e-4)),
        ("slow-momentum-cnn", images, cnn, _momentum(2e-5)),
        ("slow-adam-mlp", regression, mlp, adam(3e-6)),
        ("slow-adam-lstm", sequences, rnn, adam(3e-6)),
        ("slow-adam-transformer", tokens, transformer, adam(1e-6)),
    )
)

# Among them a transformer without warm-up. Each again has its healthy twin.
LARGE_UPDATES = tuple(
    sick(name, training(task, net, optimizer), "large-updates", _THROWN)
    for name, task, net, optimizer in (
        ("fast-sgd-mlp", blobs, mlp, sgd(100.0)),
        ("fast-momentum-cnn", images, cnn, _momentum(20.0)),
        ("fast-adam-mlp", regression, mlp, adam(3.0)),
        (
            "fast-rmsprop-tanh-mlp",
            blobs,
            partial(mlp, activation="tanh"),
            _rmsprop(1.0),
        ),
        ("fast-adam-lstm", sequences, rnn, adam(3.0)),
        (
            "fast-adam-transformer",
            tokens,
            partial(transformer, blocks=2, norm="post"),
            adam(1.0),
        ),
    )
)

_FLAT = "vanishing unreached dead-layer dead-units stuck-loss small-updates fading"
_WILD = (
    "exploding saturated dead-units large-updates small-updates stuck-loss "
    "dominating-layer noise vanishing"
)
_alike_cells = partial(
    rnn, kernel_initializer=constant(0.1), recurrent_initializer=constant(0.1)
)

INITIALISATION = tuple(
    sick(name, training(task, net, adam(1e-3)), "initialisation", tolerated)
    for name, task, net, tolerated in (
        (
            "zeros-mlp",
            blobs,
            partial(mlp, init=constant(0.0), last={"init": constant(0.0)}),
            _FLAT,
        ),
        (
            "alike-mlp",
            blobs,
            partial(mlp, init=constant(0.1), last={"init": constant(0.1)}),
            _FLAT,
        ),
        ("alike-cnn", images, partial(cnn, init=constant(0.05)), _FLAT),
        ("alike-lstm", sequences, _alike_cells, f"{_FLAT} vanishing-time"),
        ("tiny-mlp", regression, partial(mlp, depth=3, init=normal(1e-4)), _FLAT),
        ("tiny-cnn", images, partial(cnn, depth=3, init=normal(1e-4)), _FLAT),
        ("wide-mlp", blobs, partial(mlp, depth=3, init=normal(1.0)), _WILD),
        (
            "wide-transformer",
            tokens,
            partial(transformer, blocks=2, init=normal(2.0)),
            _WILD,
        ),
    )
)

FAMILIES = CLIPPING + SMALL_UPDATES + LARGE_UPDATES + INITIALISATION
