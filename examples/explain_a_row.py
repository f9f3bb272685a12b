"""What is a house worth, and why? A rule that is known, and what a network makes of it.

The price follows a rule with an interaction: a garden is worth the more, the farther
from the centre it lies. The number of the house plays no part. A small network learns
the prices; expected gradients then say what each feature adds to the average price. The
pictures go to `out/`, or to the folder that is given.
"""

import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras
import numpy as np

import gradwatch as gw

# The price in thousands, and the features.
FEATURES = ("area (m²)", "age (years)", "km to centre", "garden (m²)", "house number")


def build_houses(count, seed):
    """Returns houses and their prices."""
    random = np.random.default_rng(seed)
    low, high = (40, 0, 0.5, 0, 1), (200, 80, 12, 400, 150)
    houses = random.uniform(low, high, size=(count, len(FEATURES)))
    return np.round(houses, 1).astype("float32"), price(np.round(houses, 1))


def price(houses):
    """The rule."""
    area, age, distance, garden, _ = houses.T
    return 3 * area - 1.5 * age - 12 * distance + 0.06 * garden * distance


def by_the_rule(houses, mean):
    """What each feature adds to the average price, from the rule itself.

    A product of two features is shared between them: the path from one house to another
    adds (garden - garden') * (km + km') / 2 for the garden, and the like for the km.
    """
    area, age, distance, garden, _ = (houses - mean).T
    _, _, far, green, number = ((houses + mean) / 2).T
    shares = [3 * area, -1.5 * age, distance * (0.06 * green - 12), 0.06 * garden * far]
    return np.stack([*shares, 0 * number], axis=1)


def build_network(houses):
    """Returns a network that takes features as they are and gives a price."""
    normal = keras.layers.Normalization(name="normal")
    normal.adapt(houses)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((len(FEATURES),)),
            normal,
            layers.Dense(48, activation="silu", name="hidden1"),
            layers.Dense(48, activation="silu", name="hidden2"),
            layers.Dense(1, name="scaled"),
            layers.Rescaling(150.0, offset=300.0, name="price"),
        ],
        name="houses",
    )
    model.compile(keras.optimizers.Adam(5e-3), "mse")
    return model


def main():
    """Trains, explains, checks, draws."""
    keras.utils.set_random_seed(3)
    houses, prices = build_houses(3000, seed=0)
    model = build_network(houses)
    model.fit(houses, prices, batch_size=50, epochs=6, verbose=0)
    x, y = build_houses(400, seed=1)
    error = np.abs(model.predict(x, verbose=0)[:, 0] - y).mean()
    print(f"The price of 400 new houses is off by {error:.0f} thousand on average.")

    # The same house, large and with a garden: in the middle of the city, and outside.
    x = np.array([[150, 20, 1, 350, 7], [150, 20, 11, 350, 7]], "float32")
    a = gw.attribute.expected_gradients(
        model, x, gw.output(), data=houses, samples=400, seed=0
    )
    for row in range(len(x)):
        pairs = zip(FEATURES, a.values[row], strict=True)
        print(", ".join(f"{name} {value:+.0f}" for name, value in pairs))

    known = by_the_rule(x, houses.mean(axis=0))
    assert np.allclose(a.values, known, atol=15), a.values - known
    assert np.all(np.abs(a.values[:, 4]) < 10)  # the house number
    assert a.values[1, 3] > 1.8 * a.values[0, 3]  # the garden counts where it is far

    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    folder.mkdir(parents=True, exist_ok=True)
    where = ("In the city", "In the country")
    titles = [f"{w}: {s:.0f} thousand" for w, s in zip(where, a.score, strict=True)]
    for theme, name in (("light", "explain-row"), ("dark", "explain-row-dark")):
        figure = a.plot(names=FEATURES, titles=titles, theme=theme)
        figure.savefig(folder / f"{name}.png", dpi=150)
        print(folder / f"{name}.png")


if __name__ == "__main__":
    main()
