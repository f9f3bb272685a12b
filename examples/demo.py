"""Trains a small network on drawn shapes, watches it, and shows its gradients.

`make demo` runs this. It needs no download and takes less than a minute. It runs on
every backend: KERAS_BACKEND=jax python examples/demo.py
"""

# ruff: noqa: E402 (what is set here must be set before Keras is imported)
import os
import pathlib
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# TensorFlow's native code writes start-up notes to file 2, whatever it is told.
# Python's own messages keep their way to the screen.
sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)

import keras
import numpy as np
from rich.console import Console

import gradwatch as gw

SHAPES = ("circle", "square", "triangle", "cross")


def draw_shapes(count, seed):
    """Returns `count` noisy 28×28 pictures of shapes, and which shape each one is."""
    random = np.random.default_rng(seed)
    labels = random.integers(len(SHAPES), size=count)

    def each(low, high):
        return random.uniform(low, high, size=(count, 1, 1))

    rows, columns = np.mgrid[:28, :28]
    across, down = columns - each(11, 16), rows - each(11, 16)
    radius, turn = each(6, 10), each(0, 2 * np.pi)
    u = across * np.cos(turn) + down * np.sin(turn)
    v = down * np.cos(turn) - across * np.sin(turn)
    # The distance of each pixel from the line that is drawn.
    sides = [u * np.cos(a) + v * np.sin(a) for a in np.arange(3) * 2 * np.pi / 3]
    distances = (
        np.abs(np.hypot(u, v) - radius),
        np.abs(np.maximum(np.abs(u), np.abs(v)) - 0.8 * radius),
        np.abs(np.max(sides, axis=0) - 0.5 * radius),
        np.minimum(
            np.maximum(np.abs(u), np.abs(v) - radius),
            np.maximum(np.abs(v), np.abs(u) - radius),
        ),
    )
    ink = np.clip(1.6 - np.choose(labels[:, None, None], distances), 0, 1)
    pictures = ink * each(0.6, 1.0) + random.normal(0, 0.12, size=ink.shape)
    return pictures[..., None].astype("float32"), labels.astype("int32")


def build_network():
    """Returns a small convolutional network for the shapes."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(8, 5, strides=2, activation="relu", name="conv1"),
            layers.Conv2D(16, 3, activation="relu", name="conv2"),
            layers.BatchNormalization(momentum=0.9, name="norm"),
            layers.MaxPooling2D(name="pool"),
            layers.Conv2D(32, 3, activation="relu", name="conv3"),
            layers.GlobalAveragePooling2D(name="average"),
            layers.Dropout(0.1, name="dropout"),
            layers.Dense(len(SHAPES), name="scores"),
        ],
        name="shapes",
    )
    model.compile(
        optimizer=keras.optimizers.Adam(5e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def train(model, console, monitor, epochs=3):
    """Trains for a few seconds, watched, and says how well it went."""
    x, y = draw_shapes(1500, seed=0)
    x_test, y_test = draw_shapes(400, seed=1)
    for epoch in range(1, epochs + 1):
        model.fit(x, y, batch_size=50, verbose=0, callbacks=[monitor])
        loss, accuracy = model.evaluate(x_test, y_test, batch_size=400, verbose=0)
        console.print(
            f"epoch {epoch}: loss {loss:.3f}, "
            f"{accuracy:.0%} of 400 new pictures are right"
        )


def main():
    """Trains, shows what was recorded, then asks four questions."""
    keras.utils.set_random_seed(7)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 100

    def heading(text):
        console.print()
        console.rule(f"[bold]{text}", align="left", style="dim")

    heading(f"A network learns to tell shapes apart ({keras.backend.backend()})")
    model = build_network()
    # A directory of its own for each time, so that TensorBoard shows them side by side.
    directory = pathlib.Path("runs", time.strftime("demo-%Y%m%d-%H%M%S"))
    train(model, console, gw.GradientMonitor(directory, every=5))
    x, y = draw_shapes(64, seed=2)

    heading("What was recorded while it trained")
    show_run(gw.open_run(directory), console)

    heading("The gradient of the loss, for every weight")
    console.print(gw.gradients(model, x, y))

    heading("The gradient of one class score, at a layer in the middle")
    triangle = SHAPES.index("triangle")
    g = gw.gradients(
        model,
        x[y == triangle][:1],
        target=gw.class_score(triangle),
        wrt=gw.activations("conv2"),
    )
    console.print(g)
    pull = g.to_numpy()["conv2"][0].sum(axis=(0, 1))  # one number per feature map
    towards, away = pull.argmax(), pull.argmin()
    console.print(
        f"\nFeature map {towards} of {len(pull)} pulls this picture most towards "
        f"'triangle' ({pull[towards]:+.1f}), map {away} most away ({pull[away]:+.1f})."
    )

    heading("Why a gradient is missing")
    reason = gw.why_none(model, x, name="conv1/kernel", target=predicted_class)
    console.print(f"conv1/kernel gets none from the predicted class. {reason}")

    heading("The gradient flow")
    everything = [gw.weights(), gw.activations(), gw.inputs()]
    path = pathlib.Path("out", "gradient-flow.png")
    path.parent.mkdir(exist_ok=True)
    gw.gradients(model, x, y, wrt=everything).plot().savefig(path)
    console.print(f"Weights, activations and inputs, from one pass: {path}")

    heading("Where to look next")
    console.print("docs/inspect.md   every way to ask")
    console.print("docs/watch.md     what is recorded of a training")
    console.print("docs/how-to/      short answers to single questions")
    console.print("examples/         one script for each of them")


def show_run(run, console):
    """Prints the newest step, the way there, and what watching cost."""
    console.print(str(run), markup=False)
    first, last = run.totals.global_norm[[0, -1]]
    console.print(
        f"\nThe gradient of all weights together: {first:.3f} at step {run.steps[0]}, "
        f"{last:.3f} at step {run.steps[-1]}."
    )
    cost = run.overhead
    console.print(
        f"{cost['records']} of {cost['steps']} steps were recorded, which took "
        f"{cost['share']:.1%} of the {cost['seconds']:.1f} s of training."
    )
    console.print("Curves and histograms:  tensorboard --logdir runs")


def predicted_class(scores):
    """A target that cannot work: a whole number has no gradient."""
    return keras.ops.cast(keras.ops.argmax(scores, axis=-1), "float32")


if __name__ == "__main__":
    main()
