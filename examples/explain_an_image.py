"""Where does a network see a cross? Three methods, asked about the same pictures.

A small network learns to tell single shapes. Then it is shown scenes of four and asked
for the cross; where the answers point is checked against where it really is. The
pictures go to `out/`, or to the folder that is given.
"""

import pathlib
import sys

import keras
import numpy as np

import gradwatch as gw
from gradwatch import demo

SIDE = 28  # of a shape; a scene has two by two of them
CROSS = demo.SHAPES.index("cross")
SCENES = (
    ("circle", "square", "cross", "triangle"),
    ("triangle", "cross", "circle", "square"),
    ("square", "circle", "triangle", "circle"),
)


def build_network():
    """Returns a network for pictures of any size, with a score for each shape."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((None, None, 1)),
            layers.Conv2D(8, 5, strides=2, activation="relu", name="conv1"),
            layers.Conv2D(16, 3, activation="relu", name="conv2"),
            layers.BatchNormalization(momentum=0.9, name="norm"),
            layers.MaxPooling2D(name="pool"),
            layers.Conv2D(32, 3, activation="relu", name="conv3"),
            layers.GlobalMaxPooling2D(name="strongest"),
            layers.Dense(len(demo.SHAPES), name="scores"),
        ],
        name="shapes",
    )
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(5e-3), loss)
    return model


def train(model):
    """Trains on shapes and on pictures of nothing; says how well it went."""
    x, y = demo.draw_shapes(2000, seed=0)
    nothing = np.random.default_rng(0).normal(0, 0.12, size=(300, SIDE, SIDE, 1))
    x = np.concatenate([x, nothing]).astype("float32")
    labels = np.eye(len(demo.SHAPES))[y]
    labels = np.concatenate([labels, np.zeros((300, len(demo.SHAPES)))])
    model.fit(x, labels, batch_size=40, epochs=8, verbose=0)
    x, y = demo.draw_shapes(400, seed=1)
    right = model.predict(x, verbose=0).argmax(axis=1) == y
    print(f"{right.mean():.0%} of 400 new shapes are classified correctly.")


def draw_scene(names, seed):
    """Returns a scene of these four shapes, two by two."""
    shapes, kinds = demo.draw_shapes(60, seed)
    parts = [shapes[kinds == demo.SHAPES.index(name)] for name in names]
    parts = [some[place, :, :, 0] for place, some in enumerate(parts)]
    return np.block([parts[:2], parts[2:]])[:, :, None]


def quarters(values):
    """Returns what each quarter of a scene adds, from the upper left on."""
    return values.reshape(2, SIDE, 2, SIDE).sum(axis=(1, 3)).ravel()


def main():
    """Trains, explains, checks, draws."""
    keras.utils.set_random_seed(1)
    model = build_network()
    train(model)
    x = np.stack([draw_scene(names, seed) for seed, names in enumerate(SCENES, 4)])
    target = gw.class_score(CROSS)
    cam = gw.grad_cam(model, x, target, layer="conv3")
    path = gw.integrated_gradients(model, x, target)
    smooth = gw.smoothgrad(
        model, x, target, method=gw.input_x_gradient, samples=25, noise=0.1
    )
    for row, names in enumerate(SCENES):
        print(f"{', '.join(names)}: the score of a cross is {cam.score[row]:+.1f}.")
        if "cross" not in names:
            assert cam.score[row] < 0
            continue
        for one in (cam.upsample(), path.sum_channels(), smooth.sum_channels()):
            added = quarters(one.values[row])
            print(f"  {one.method:>20}:", *(f"{share:+8.2f}" for share in added))
            # Grad-CAM weighs a channel as a whole: it also lights up where one that
            # likes crosses sees something else. The others weigh each pixel.
            if one.method != "grad_cam":
                assert added.argmax() == names.index("cross")
                assert added.max() > 0

    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    folder.mkdir(parents=True, exist_ok=True)
    titles = [f"score of a cross: {score:+.1f}" for score in cam.score]
    for theme, name in (("light", "explain-image"), ("dark", "explain-image-dark")):
        figure = cam.plot(beside=[path, smooth], titles=titles, theme=theme)
        figure.savefig(folder / f"{name}.png", dpi=150)
        print(folder / f"{name}.png")


if __name__ == "__main__":
    main()
