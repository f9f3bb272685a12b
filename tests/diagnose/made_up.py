"""Trainings that never ran: records of a healthy one, into which a fault is put."""

import numpy as np

from gradwatch.diagnose import RuleEngine
from gradwatch.run import Layout, Record
from gradwatch.summarise import COLUMNS, blank

LAYERS = 6
WIDTH = 32
NAMES = tuple(f"dense_{i}/{part}" for i in range(LAYERS) for part in ("kernel", "bias"))
SIZES = (WIDTH * WIDTH, WIDTH) * LAYERS
LAYOUT = Layout(NAMES, ("weight",) * len(NAMES), SIZES)
KERNELS, BIASES = np.arange(0, 2 * LAYERS, 2), np.arange(1, 2 * LAYERS, 2)


def facts(**of_layers):
    """What a monitor notes of such a model; `of_layers` goes into every layer."""
    weights = {
        name: {
            "layer": name.partition("/")[0],
            "shape": [WIDTH, WIDTH] if name.endswith("kernel") else [WIDTH],
            "dtype": "float32",
            "trainable": True,
            "watched": True,
            "constant": name.endswith("bias"),
            "untrained": True if name.endswith("kernel") else None,
        }
        for name in NAMES
    }
    usual = {"class": "Dense", "activation": "relu", "own_activation": "relu"}
    layers = {f"dense_{i}": {**usual, **of_layers} for i in range(LAYERS)}
    return {"weights": weights, "layers": layers, "heads": [f"dense_{LAYERS - 1}"]}


def healthy(step, random):
    """The columns and totals of one step of a healthy training."""
    norms = np.exp(random.normal(size=len(NAMES)) * 0.2)
    weights = np.where(np.arange(len(NAMES)) % 2, 0.5, np.sqrt(2.0 * WIDTH))
    columns = {
        "norm": norms,
        "mean": random.normal(size=len(NAMES)) * 0.01 + 0.01,
        "std": norms / np.sqrt(SIZES),
        "min": -3 * norms / np.sqrt(SIZES),
        "max": 3 * norms / np.sqrt(SIZES),
        "mean_abs": 0.8 * norms / np.sqrt(SIZES),
        "zeros": np.zeros(len(NAMES)),
        "underflow": np.zeros(len(NAMES)),
        "nan": np.zeros(len(NAMES)),
        "posinf": np.zeros(len(NAMES)),
        "neginf": np.zeros(len(NAMES)),
        "weight_norm": weights,
        "update_norm": 1e-3 * weights,
        "applied_norm": norms,
    }
    totals = {
        "clipped": 0.0,
        "skipped": 0.0,
        "update": 1.0,
        "loss_scale": 1.0,
        "learning_rate": 0.01,
        "loss": float(np.exp(-step / 30) + 0.02 * random.normal()),
    }
    return columns, totals


def records(change=None, *, steps=60, scale=1.0, seed=0):
    """The records of a training; `change(step, columns, totals)` makes it sick.

    `scale` is what the loss is multiplied by, the learning rate divided by as much.
    """
    random = np.random.default_rng(seed)
    for step in range(steps):
        columns, totals = healthy(step, random)
        if change is not None:
            change(step, columns, totals)
        for name in ("norm", "mean", "std", "min", "max", "mean_abs", "applied_norm"):
            columns[name] = columns[name] * scale
        totals["loss"] *= scale
        totals["learning_rate"] /= scale
        with np.errstate(all="ignore"):
            for name in ("global_norm", "applied_norm", "weight_norm", "update_norm"):
                column = columns["norm" if name == "global_norm" else name]
                own = float(np.sqrt(np.sum(np.square(column))))
                totals.setdefault(name, own)
        rows = blank((len(NAMES), len(COLUMNS)))
        for place, column in enumerate(COLUMNS):
            rows[:, place] = columns[column]
        yield Record(step, LAYOUT, rows, None, totals)


def found(change=None, *, known=None, **options):
    """The findings of a training, by symptom."""
    engine = RuleEngine(facts() if known is None else known)
    for record in records(change, **options):
        engine.read(record)
    return {finding.symptom: finding for finding in engine.findings}
