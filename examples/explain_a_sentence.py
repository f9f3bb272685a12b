"""Which words make a review a good one? "not good" is where word counts fail.

A small network that reads three words at a time learns the mood of generated reviews,
in which "not" turns the next adjective round. Integrated gradients at its embedding
then say what each word adds. The pictures go to `out/`, or to the folder that is given.
"""

import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras
import numpy as np

import gradwatch as gw

GOOD = ("good", "great", "charming", "funny", "brilliant")
BAD = ("bad", "dull", "awful", "clumsy", "boring")
# Without these, "is" could as well be what is good, and a bad word twice as bad.
PLAIN = ("long", "new", "loud", "short", "modern")
THINGS = ("plot", "film", "cast", "ending", "music", "camera")
LENGTH = 16
WORDS = (
    "",
    "the",
    "was",
    "is",
    "not",
    "really",
    "and",
    "but",
    *THINGS,
    *GOOD,
    *BAD,
    *PLAIN,
)


def clause(random):
    """Returns some words about one thing, and their mood."""
    mood = random.choice((-1, 0, 1))
    words = ["the", random.choice(THINGS), random.choice(("was", "is"))]
    negated = random.random() < 0.4
    words += ["not"] * negated + ["really"] * (random.random() < 0.3)
    adjective = random.choice({-1: BAD, 0: PLAIN, 1: GOOD}[mood])
    return [*words, adjective], -mood if negated else mood


def write_reviews(count, seed):
    """Returns reviews of one or two clauses as numbers, and their moods."""
    random = np.random.default_rng(seed)
    tokens, moods = [], []
    for _ in range(count):
        words, mood = clause(random)
        if random.random() < 0.6:
            more, other = clause(random)
            words += [random.choice(("and", "but")), *more]
            mood += other
        tokens.append(numbered(words))
        moods.append(mood)
    return np.stack(tokens), np.array(moods, "float32")


def numbered(words):
    """Returns the numbers of some words, padded with zeros."""
    return np.array([WORDS.index(w) for w in words] + [0] * (LENGTH - len(words)))


def build_network():
    """Returns a network that gives the mood of a review, from -2 to 2."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((LENGTH,), dtype="int32"),
            layers.Embedding(len(WORDS), 12, name="embed"),
            layers.Conv1D(32, 3, padding="causal", activation="relu", name="three"),
            layers.Dense(1, name="each"),
            layers.GlobalAveragePooling1D(name="average"),
            layers.Rescaling(LENGTH, name="mood"),  # a sum: words add up
        ],
        name="reviews",
    )
    model.compile(keras.optimizers.Adam(8e-3), "mse")
    return model


REVIEWS = (
    "the film is good",
    "the film is not good",
    "the plot was not really dull and the cast was brilliant",
    "the music is charming but the ending was awful",
)


def main():
    """Trains, explains, checks, draws."""
    keras.utils.set_random_seed(2)
    x, y = write_reviews(3000, seed=0)
    model = build_network()
    model.fit(x, y, batch_size=40, epochs=6, verbose=0)
    x, y = write_reviews(400, seed=1)
    error = np.abs(model.predict(x, verbose=0)[:, 0] - y).mean()
    print(f"The mood of 400 new reviews is off by {error:.2f} on average.")

    words = [review.split() for review in REVIEWS]
    x = np.stack([numbered(review) for review in words])
    # Compared with no words at all: padding, which the embedding turns into numbers.
    a = gw.integrated_gradients(
        model, x, gw.output(), layer="embed", baseline=np.zeros_like(x), steps=64
    ).sum_channels()
    for row, review in enumerate(words):
        pairs = zip(review, a.values[row], strict=False)
        print(" ".join(f"{word} {value:+.2f}" for word, value in pairs))

    def added(row, *some):
        return sum(a.values[row, words[row].index(word)] for word in some)

    # "is good" is good, "not good" is bad, and "not really dull" is fine. The "is"
    # counts as well: right before an adjective it says that there is no "not".
    assert added(0, "is", "good") > 0.3
    assert added(1, "not", "good") < -0.3
    assert added(2, "not", "really", "dull") > 0.3
    assert added(3, "is", "charming") > 0.3 > -0.3 > added(3, "was", "awful")

    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    folder.mkdir(parents=True, exist_ok=True)
    titles = [f"mood {round(float(score), 1) + 0.0:+.1f}" for score in a.score]
    for theme, name in (("light", "explain-text"), ("dark", "explain-text-dark")):
        figure = a.plot(tokens=words, titles=titles, theme=theme)
        figure.savefig(folder / f"{name}.png", dpi=150)
        print(folder / f"{name}.png")
    page = folder / "explain-text.html"
    page.write_text(a.to_html(tokens=words, titles=titles), encoding="utf-8")


if __name__ == "__main__":
    main()
