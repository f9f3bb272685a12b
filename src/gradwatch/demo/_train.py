"""The two networks, and a training that is watched while it runs."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
from rich.console import Console

from ..monitor import GradientMonitor
from ..run import Run, open_run
from ..show.live import follow
from ._shapes import SHAPES, draw_shapes

DEPTH = 8
_WAIT = 60.0  # seconds that the view may take to show the end, on a busy machine


def build_network(*, faulty: bool) -> Any:
    """Returns a network for the shapes: two convolutions, then dense layers.

    The faulty one has sigmoids throughout: each passes on a quarter of the gradient at
    most. The repaired one has GELUs, and weights that are drawn to suit them.
    """
    layers = keras.layers
    activation, initial = (
        ("sigmoid", "glorot_uniform") if faulty else ("gelu", "he_normal")
    )
    dense = partial(layers.Dense, 32, activation, kernel_initializer=initial)
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(8, 5, strides=2, activation="relu", name="conv_1"),
            layers.Conv2D(16, 3, strides=2, activation="relu", name="conv_2"),
            layers.Flatten(name="flatten"),
            *(dense(name=f"dense_{depth}") for depth in range(1, DEPTH + 1)),
            layers.Dense(len(SHAPES), name="scores"),
        ],
        name="faulty" if faulty else "repaired",
    )
    model.compile(
        optimizer=keras.optimizers.Adam(2e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


def train(
    name: str, directory: Path, console: Console, *, quick: bool
) -> tuple[Any, Run, float]:
    """Trains a network, watched, with the live view beside it.

    Returns:
        The model, its run, and the share of new pictures that it tells right.
    """
    model, directory = build_network(faulty=name == "faulty"), directory / name
    x, y = draw_shapes(512 if quick else 2400, seed=0)
    epochs = 1 if quick else 3
    monitor = GradientMonitor(directory, every=2, histograms=10)
    stop = threading.Event()
    view = threading.Thread(
        target=follow, args=(directory,), kwargs={"console": console, "stop": stop}
    )
    view.start()
    try:
        model.fit(x, y, batch_size=32, epochs=epochs, verbose=0, callbacks=[monitor])
        view.join(_WAIT)  # it ends by itself when it has shown the end
    finally:
        stop.set()
        view.join()
    x, y = draw_shapes(400, seed=1)
    guessed = keras.ops.convert_to_numpy(model(x, training=False)).argmax(axis=-1)
    return model, open_run(directory), float(np.mean(guessed == y))
