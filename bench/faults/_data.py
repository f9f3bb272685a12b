"""Small data sets, drawn from a generator: learnable within a few dozen steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import keras
import numpy as np

Rng: TypeAlias = np.random.Generator


class Data(NamedTuple):
    """Examples, and what a model needs to know of them.

    Attributes:
        x: The inputs.
        y: The labels, or targets.
        loss: What fits the labels.
        units: How many numbers the model's head gives.
        vocabulary: How many different tokens `x` may hold, if it holds tokens.
    """

    x: Any
    y: Any
    loss: Any
    units: int
    vocabulary: int = 0


Task: TypeAlias = Callable[[Rng, int], Data]
"""Draws so many examples."""


def classes_loss() -> keras.losses.Loss:
    """Returns cross-entropy on logits, for labels that are whole numbers."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _float(x: Any) -> Any:
    return np.asarray(x, dtype="float32")


def blobs(
    rng: Rng, n: int, *, classes: int = 4, features: int = 12, spread: float = 0.7
) -> Data:
    """Clouds around the centres of the classes."""
    centres = rng.normal(size=(classes, features))
    y = rng.integers(classes, size=n)
    x = centres[y] + spread * rng.normal(size=(n, features))
    return Data(_float(x), y.astype("int32"), classes_loss(), classes)


def rings(rng: Rng, n: int) -> Data:
    """A disc and a ring around it: no straight line parts them."""
    y = rng.integers(2, size=n)
    radius = 0.4 + 1.2 * y + 0.15 * rng.normal(size=n)
    angle = rng.uniform(0, 2 * np.pi, size=n)
    x = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return Data(_float(x), y.astype("int32"), classes_loss(), 2)


def binary(rng: Rng, n: int, *, features: int = 10) -> Data:
    """Two clouds, with labels 0 and 1 as floats for one logit."""
    data = blobs(rng, n, classes=2, features=features)
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    return Data(data.x, _float(data.y[:, None]), loss, 1)


def multi_label(rng: Rng, n: int, *, labels: int = 5, features: int = 12) -> Data:
    """Several labels at once, each by its own direction."""
    x = rng.normal(size=(n, features))
    y = x @ rng.normal(size=(features, labels)) > 0
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    return Data(_float(x), _float(y), loss, labels)


def regression(rng: Rng, n: int, *, features: int = 8, targets: int = 1) -> Data:
    """A smooth function of a few directions, of mean 0 and deviation near 1."""
    x = rng.normal(size=(n, features))
    directions = rng.normal(size=(features, targets)) / np.sqrt(features)
    y = x @ directions + 0.7 * np.sin(2 * x @ directions[:, ::-1])
    return Data(_float(x), _float(y + 0.05 * rng.normal(size=y.shape)), "mse", targets)


def images(rng: Rng, n: int, *, size: int = 10, classes: int = 4) -> Data:
    """Bars: lying, standing, falling and rising, somewhere in the picture."""
    steps = [(0, 1), (1, 0), (1, 1), (1, -1)][:classes]
    y = rng.integers(classes, size=n)
    x = 0.3 * rng.normal(size=(n, size, size))
    for picture, kind in zip(x, y, strict=True):
        down, right = steps[kind]
        row, column = rng.integers(size, size=2)
        for k in range(size):
            picture[(row + k * down) % size, (column + k * right) % size] += 2.0
    return Data(_float(x[..., None]), y.astype("int32"), classes_loss(), classes)


def masks(rng: Rng, n: int, *, size: int = 8) -> Data:
    """Pictures of a bright square in noise; the labels say which pixels it covers."""
    y = np.zeros((n, size, size, 1))
    for mask in y:
        (top, left), side = rng.integers(size // 2, size=2), rng.integers(2, size // 2)
        mask[top : top + side, left : left + side] = 1
    x = y + 0.4 * rng.normal(size=y.shape)
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    return Data(_float(x), _float(y), loss, 1)


def same(rng: Rng, n: int, *, of: Task = blobs) -> Data:
    """The inputs of another task as their own targets."""
    x = of(rng, n).x
    return Data(x, x, "mse", x.shape[-1])


def sequences(
    rng: Rng, n: int, *, steps: int = 12, classes: int = 3, early: bool = False
) -> Data:
    """Waves, each class with its own frequencies; or a shift in the first steps only.

    With `early`, what tells the classes apart is at the beginning, and a model that
    reads to the end must carry it all the way.
    """
    y = rng.integers(classes, size=n)
    x = 0.5 * rng.normal(size=(n, steps, 3))
    if early:
        x[:, :3] += 1.5 * rng.normal(size=(classes, 1, 3))[y]
    else:
        speed = np.linspace(0.3, 1.6, classes)[y][:, None, None]
        phase = rng.uniform(0, 1, size=(n, 1, 1)) + np.arange(3)
        x += np.sin(speed * np.arange(steps)[None, :, None] + phase)
    return Data(_float(x), y.astype("int32"), classes_loss(), classes)


def tokens(
    rng: Rng, n: int, *, steps: int = 10, used: int = 24, vocabulary: int = 0
) -> Data:
    """Sentences of three classes, each of which prefers a third of the words."""
    y = rng.integers(3, size=n)
    own = rng.integers(used // 3, size=(n, steps)) * 3 + y[:, None]
    x = np.where(rng.random((n, steps)) < 0.5, own, rng.integers(used, size=own.shape))
    words = vocabulary or used
    # The words in use lie scattered in a vocabulary that is larger than needed.
    x = rng.permutation(words)[x % words]
    return Data(x.astype("int32"), y.astype("int32"), classes_loss(), 3, words)


def next_tokens(rng: Rng, n: int, *, steps: int = 10, used: int = 12) -> Data:
    """A language in which a word mostly decides the next one."""
    follower = rng.permutation(used)
    text = rng.integers(used, size=(n, steps + 1))
    for t in range(steps):
        sure = rng.random(n) < 0.85
        text[sure, t + 1] = follower[text[sure, t]]
    text = text.astype("int32")
    return Data(text[:, :-1], text[:, 1:], classes_loss(), used, used)


def sparse(rng: Rng, n: int, *, features: int = 60) -> Data:
    """Counts of words: nine in ten features of an example are zero."""
    data = blobs(rng, n, features=features, spread=1.0)
    kept = rng.random(data.x.shape) < 0.1
    return data._replace(x=_float(np.where(kept, 3 * np.abs(data.x), 0)))


def pairs(rng: Rng, n: int, *, twins: float = 0.0) -> Data:
    """Pairs of points, and whether both are of one class.

    `twins` is the share of pairs whose two members are the very same point.
    """
    data = blobs(rng, 2 * n, classes=2)
    left, right = data.x[:n], data.x[n:].copy()
    y = _float(data.y[:n] == data.y[n:])
    alike = rng.random(n) < twins
    right[alike], y[alike] = left[alike], 1
    return Data([left, right], y[:, None], "mse", 1)


def two_views(rng: Rng, n: int) -> Data:
    """A picture and a few numbers, both of which tell of the class."""
    picture = images(rng, n)
    centres = rng.normal(size=(4, 6))
    numbers = centres[picture.y] + rng.normal(size=(n, 6))
    return picture._replace(x=[picture.x, _float(numbers)])


def two_tasks(rng: Rng, n: int, *, of: Task = blobs, scale: float = 1.0) -> Data:
    """The class of an example, and a number that depends on it too, times `scale`."""
    data = of(rng, n)
    place = rng.normal(size=(data.units, 1))[data.y] + 0.1 * rng.normal(size=(n, 1))
    loss = {"kind": classes_loss(), "place": "mse"}
    return data._replace(y={"kind": data.y, "place": _float(scale * place)}, loss=loss)


def unscaled(rng: Rng, n: int, *, of: Task, by: float, shift: float = 0.0) -> Data:
    """Another task whose inputs were not brought to a common scale."""
    data = of(rng, n)
    return data._replace(x=_float(by * data.x + shift))


def relabelled(rng: Rng, n: int, *, of: Task, share: float = 1.0) -> Data:
    """Another task with labels shuffled among the examples: all, or a share of them."""
    data = of(rng, n)
    drawn = rng.random(n) < share
    y = data.y.copy()
    y[drawn] = rng.permutation(y[drawn])
    return data._replace(y=y)
