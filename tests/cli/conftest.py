"""Models and batches that are saved once, and runs that never ran."""

import json
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from click.testing import CliRunner
from keras import layers

from gradwatch.cli import main
from gradwatch.diagnose import Finding
from gradwatch.run import Layout, Record, RunWriter
from gradwatch.summarise import COLUMNS

AT = {name: index for index, name in enumerate(COLUMNS)}


@pytest.fixture
def gradwatch(tmp_path, monkeypatch):
    """Runs a command where files may be left behind."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        return CliRunner().invoke(main, [str(a) for a in arguments])

    return run


def write_run(directory, *, names=("in/kernel", "out/kernel"), factor=1.0):
    layout = Layout(tuple(names), ("weight",) * len(names), (6,) * len(names))
    with RunWriter(directory) as writer:
        writer.note("run", {"model": "m", "optimizers": ["Adam"], "backend": "jax"})
        for step in range(0, 12, 2):
            rows = np.full((len(names), len(COLUMNS)), 1.0, np.float32)
            rows[:, AT["norm"]] = factor * (step + 1) * 10.0 ** -np.arange(len(names))
            for name in ("nan", "posinf", "neginf", "zeros", "underflow"):
                rows[:, AT[name]] = 0
            totals = {"global_norm": 1.0, "update": 1.0, "clipped": 0.0}
            writer.write(Record(step, layout, rows, None, totals))
        result = Finding("vanishing", addresses=(names[0],), since=2, step=4)
        writer.finding(4, result.to_dict())
        writer.note("overhead", {"steps": 12, "records": 6, "seconds": 3.0})
    return str(directory)


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Two runs, `a` and `b`, in one directory."""
    root = tmp_path_factory.mktemp("runs")
    return SimpleNamespace(
        root=str(root),
        a=write_run(root / "a"),
        b=write_run(root / "b", factor=2.0),
    )


class Scaled(layers.Layer):
    """A layer that Keras does not know."""

    def call(self, x):
        return 2 * x


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Models and batches on disk."""
    root = tmp_path_factory.mktemp("files")
    keras.utils.set_random_seed(0)
    image = keras.Input((6, 6, 1), name="image")
    h = layers.Conv2D(2, 3, activation="relu", name="conv")(image)
    h = layers.GlobalAveragePooling2D(name="pool")(h)
    model = keras.Model(image, layers.Dense(3, name="logits")(h), name="small")
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.save(root / "small.keras")
    left, right = keras.Input((3,), name="left"), keras.Input((2,), name="right")
    joined = layers.Concatenate(name="joined")([left, right])
    outputs = {name: layers.Dense(1, name=name)(joined) for name in ("one", "two")}
    keras.Model([left, right], outputs, name="towers").save(root / "towers.keras")
    doubled = layers.Lambda(lambda t: 2 * t, output_shape=(3,), name="doubled")
    keras.Sequential([keras.Input((3,)), doubled]).save(root / "lambda.keras")
    keras.Sequential([keras.Input((3,)), Scaled()]).save(root / "custom.keras")
    (root / "words.keras").write_text("not a model")
    (root / "old.h5").write_text("")
    random = np.random.default_rng(0)
    x = random.normal(size=(4, 6, 6, 1)).astype("float32")
    y = np.array([0, 1, 2, 0])
    np.savez(root / "batch.npz", x=x, y=y)
    np.savez(root / "named.npz", image=x, y=y)
    np.savez(root / "weighted.npz", x=x, y=y, sample_weight=[1.0, 0.0, 0.0, 0.0])
    np.savez(root / "short.npz", x=x, y=y[:3])
    np.savez(root / "objects.npz", x=np.array([{}], dtype=object))
    np.savez(root / "nothing.npz")
    np.save(root / "x.npy", x)
    np.save(root / "single.npy", x[0])
    np.save(root / "flat.npy", x[..., 0])
    np.save(root / "wide.npy", np.zeros((4, 7, 6, 1)))
    np.save(root / "none.npy", x[:0])
    towers = {"left": np.ones((4, 3)), "right": np.ones((4, 2))}
    np.savez(root / "towers.npz", **towers)
    np.savez(root / "tower.npz", left=towers["left"])
    (root / "words.npz").write_text("not arrays")
    (root / "directory").mkdir()
    return SimpleNamespace(root=root, model=model, x=x, y=y)


@pytest.fixture(scope="session")
def parsed():
    """JSON as a script reads it: NaN is not a number there."""

    def parse(text):
        return json.loads(text, parse_constant=lambda word: pytest.fail(word))

    return parse
