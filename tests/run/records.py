"""Records in which every number differs from its neighbours."""

import numpy as np

from gradwatch.run import Layout, Record
from gradwatch.summarise import BUCKETS, COLUMNS, blank

LAYOUT = Layout(
    ("conv1/kernel", "conv1/bias", "conv1", "conv1", "head/kernel"),
    ("weight", "weight", "activation", "value", "weight"),
    (72, 8, 0, 0, 80),
)
TOTALS = {"global_norm": 3.5, "weight_norm": 8.0, "update_norm": 0.5, "update": 1.0}


def layout_of(*names):
    """Weights of these names."""
    return Layout(names, ("weight",) * len(names), (6,) * len(names))


def rows_of(step, layout=LAYOUT):
    """Line 2 of step 3 has norm 3.02, mean 3.021, …."""
    line = np.arange(len(layout))[:, None] / 100
    column = np.arange(len(COLUMNS)) / 1000
    return step + line + column


def counts_of(step, layout=LAYOUT):
    """Counts of which many are zero, as they are in earnest."""
    random = np.random.default_rng(step)
    counts = random.integers(0, 1000, (len(layout), BUCKETS))
    counts[:, random.random(BUCKETS) < 0.7] = 0
    return counts


def record(step, layout=LAYOUT, *, histograms=False, totals=TOTALS, **columns):
    """A step; `norm=[…]` puts a column in the place of the usual one."""
    rows = rows_of(step, layout)
    for name, numbers in columns.items():
        rows[:, COLUMNS.index(name)] = numbers
    counts = counts_of(step, layout) if histograms else None
    return Record(step, layout, rows, counts, totals)


def empty(step, layout=LAYOUT):
    """A step at which nothing was measured."""
    return Record(step, layout, blank((len(layout), len(COLUMNS))), None, {})
