import numpy as np
import pytest

from gradwatch.run import Layout, Record, RunWriter, open_run
from gradwatch.summarise import BUCKETS, COLUMNS, blank

AT = {name: index for index, name in enumerate(COLUMNS)}


def write(directory, layout, steps, rows_of, *, counts_of=None, findings=(), notes=()):
    """A run of these rows; `rows_of(place, step)` gives columns by name."""
    with RunWriter(directory) as writer:
        for key, facts in dict(notes).items():
            writer.note(key, facts)
        for place, step in enumerate(steps):
            columns, totals = rows_of(place, step)
            rows = blank((len(layout), len(COLUMNS)))
            for name, values in columns.items():
                rows[:, AT[name]] = values
            counts = counts_of(place) if counts_of else None
            writer.write(Record(int(step), layout, rows, counts, totals))
        for step, finding in findings:
            writer.finding(step, finding)
    return open_run(directory)


def weights(*names):
    return Layout(names, ("weight",) * len(names), (8,) * len(names))


NAMES = tuple(f"block_{n}/dense/{r}" for n in range(4) for r in ("kernel", "bias"))


@pytest.fixture
def numbers():
    """Norms of eight weights at 45 steps: none alike, one zero, some not measured."""
    random = np.random.default_rng(3)
    result = np.exp(random.normal(size=(45, len(NAMES)))).astype(np.float32)
    result[7, 2] = 0.0
    return result


@pytest.fixture
def run(tmp_path, numbers):
    """Eight weights; a NaN in `block_1/dense/kernel` at step 60, +inf in the last."""

    def rows_of(place, step):
        norm = numbers[place]
        nan, posinf = np.zeros(8), np.zeros(8)
        nan[2], posinf[7] = step == 60, step == 80
        mean_abs = norm / 9
        columns = {
            "norm": norm,
            "mean_abs": mean_abs,
            "min": -norm / 2,
            "max": norm / 3,
            "zeros": np.linspace(0, 0.5, 8),
            "nan": nan,
            "posinf": posinf,
            "neginf": np.zeros(8),
            "weight_norm": np.full(8, 4.0),
            "update_norm": norm / 100,
        }
        if step == 40:
            columns["norm"] = norm.copy()
            columns["norm"][5] = blank(1)[0]
        return columns, {"loss": 2.0 - place / 45, "global_norm": 1.0 + place}

    def counts_of(place):
        counts = np.zeros((8, BUCKETS), np.int64)
        counts[:, 64 + 40 - 3] = 3  # [2 ** -3, 2 ** -2)
        counts[:, 63 - 40 + 6] = 1 + place  # (-2 ** -5, -2 ** -6]
        return counts

    result = [
        (
            30,
            {"symptom": "vanishing", "addresses": ["block_0/dense/kernel"], "since": 4},
        ),
        (50, {"symptom": "clipping", "addresses": [], "since": 12}),
    ]
    return write(
        tmp_path / "a", weights(*NAMES), range(0, 90, 2), rows_of,
        counts_of=counts_of, findings=result,
    )  # fmt: skip
