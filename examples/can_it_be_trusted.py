"""Checks explanations of a small trained network, and draws two of the checks.

The pictures go to `out/`, or to the folder that is given:
python examples/can_it_be_trusted.py docs/images
"""

import pathlib
import sys

import keras
import numpy as np

import gradwatch as gw
from gradwatch.attribute import guided_backprop, quality

KINDS = ("rows", "columns", "chess board")


def draw_patches(count, seed):
    """Returns noise with a small pattern somewhere in it, and which pattern it is."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(count, 12, 12, 1)) * 0.3
    y = random.integers(len(KINDS), size=count)
    i, j = np.indices((5, 5))
    patterns = [np.where(n % 2, 2.0, -2.0) for n in (i, j, i + j)]
    for image, kind in zip(x, y, strict=True):
        top, left = random.integers(8, size=2)
        image[top : top + 5, left : left + 5, 0] += patterns[kind]
    return x.astype("float32"), y


def train(x, y):
    """Returns a network that tells the patterns apart."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((12, 12, 1)),
            layers.Conv2D(24, 3, activation="relu", name="conv1"),
            layers.Conv2D(24, 3, activation="relu", name="conv2"),
            layers.Conv2D(24, 3, activation="relu", name="conv3"),
            layers.GlobalAveragePooling2D(name="pool"),
            layers.Dense(len(KINDS), name="scores"),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.005), loss, metrics=["accuracy"])
    model.fit(x, y, batch_size=32, epochs=6, verbose=0)
    return model


def main():
    """Trains, explains, checks and draws."""
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    folder.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(1)
    model = train(*draw_patches(384, seed=0))
    x, y = draw_patches(8, seed=1)
    target = gw.class_score(y)
    integrated = gw.integrated_gradients(model, x, target)
    gradient = gw.saliency(model, x, target, absolute=False)
    guided = guided_backprop(model, x, target)
    cam = gw.grad_cam(model, x, target, layer="conv3")

    print(quality.completeness(integrated))
    for a in (integrated, gradient, guided):
        print(quality.sensitivity_max(a, model))
        print(quality.infidelity(a, model, perturbation="square"))

    sizes = gw.saliency(model, x, target)
    curves = [quality.deletion(a, model) for a in (integrated, cam, sizes)]
    print(*curves, sep="\n")
    forgot = [quality.randomisation(a, model) for a in (gradient, guided)]
    print(*forgot, sep="\n")

    for theme in ("light", "dark"):
        ending = "" if theme == "light" else "-dark"
        figure = curves[0].plot(*curves[1:], theme=theme)
        figure.savefig(folder / f"quality-deletion{ending}.png", dpi=140)
        figure = forgot[0].plot(*forgot[1:], theme=theme)
        figure.savefig(folder / f"quality-randomisation{ending}.png", dpi=140)


if __name__ == "__main__":
    main()
