"""Runs that begin slowly: careful rates, few examples a step, targets with noise.

Some have not shown by their fiftieth step that they learn.
"""

from __future__ import annotations

from functools import partial

from ._data import Data, Rng, blobs, regression
from ._fit import adam, by_rate, healthy, sgd, training
from ._nets import mlp


def _with_noise(rng: Rng, n: int) -> Data:
    """Targets that owe a third of their variance to chance."""
    data = regression(rng, n)
    noise = 0.7 * float(data.y.std()) * rng.normal(size=data.y.shape)
    return data._replace(y=(data.y + noise).astype("float32"))


_near = partial(blobs, spread=1.5)
_narrow = partial(mlp, width=(8, 16))
_adamw = partial(by_rate, "AdamW")
_rmsprop = partial(by_rate, "RMSprop")

FAMILIES = tuple(
    healthy(
        f"slow-start-{name}",
        training(task, net, optimizer, batch=batch, epochs=1, steps=steps),
    )
    for name, task, net, optimizer, batch, steps in (
        ("adam-small-batches", regression, mlp, adam(1e-3), 8, 60),
        ("adam-narrow", regression, _narrow, adam(1e-3), 16, 60),
        ("adam-narrow-long", regression, _narrow, adam(1e-3), 16, 240),
        ("adamw-noisy-targets", _with_noise, mlp, _adamw(5e-4), 16, 120),
        ("sgd-near-classes", _near, mlp, sgd(0.01), 16, 120),
        ("sgd-near-classes-long", _near, _narrow, sgd(0.01), 8, 300),
        ("rmsprop-noisy-targets", _with_noise, _narrow, _rmsprop(1e-3), 16, 240),
        ("sgd-pairs", blobs, mlp, sgd(3e-3), 2, 300),
    )
)
