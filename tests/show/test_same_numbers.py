"""One run with extreme numbers is the same through every way of reading it."""

import io
import json
import math

import numpy as np
import pytest
from rich.console import Console

from gradwatch.run import Layout, Record, RunWriter, open_run
from gradwatch.show._format import number
from gradwatch.show.charts import QUANTITIES, heat_answer, snapshot_answer, unpacked
from gradwatch.show.live import follow
from gradwatch.show.report import report
from gradwatch.summarise import COLUMNS, blank

NUMBERS = {
    "tiny": 1e-45,
    "large": 1e38,
    "beyond": 1.5e300,
    "nan": math.nan,
    "posinf": math.inf,
    "neginf": -math.inf,
    "minus_zero": -0.0,
    "absent": None,
}


@pytest.fixture
def run(tmp_path):
    """A run of one step, in which each weight has one of the numbers as its norm."""
    layout = Layout(tuple(NUMBERS), ("weight",) * len(NUMBERS), (6,) * len(NUMBERS))
    rows = np.zeros((len(NUMBERS), len(COLUMNS)))
    rows[:, 0] = [blank(1)[0] if n is None else n for n in NUMBERS.values()]
    with RunWriter(tmp_path / "run") as writer:
        writer.write(Record(0, layout, rows, None, {}))
    return open_run(tmp_path / "run")


def same(found, expected):
    """Whether two numbers, or absences, are the same; also the sign of a zero."""
    if expected is None or found is None:
        return found is expected
    return np.float64(found).tobytes() == np.float64(expected).tobytes()


def test_series_and_records_and_pandas_have_the_numbers(run):
    """The public columns, what the rules see, and the table of pandas."""
    pandas = pytest.importorskip("pandas")
    [record] = run.records()
    table = run.to_pandas()
    for row, (name, expected) in enumerate(NUMBERS.items()):
        [found] = run[name].norm.tolist()
        assert same(found, expected), name
        assert same(record.rows[row, 0], blank(1)[0] if expected is None else expected)
        value = table["norm"].array[row]
        assert same(None if value is pandas.NA else value, expected), name


def test_an_export_has_the_numbers(run, tmp_path):
    """JSON has words for those that it does not know."""
    run.export(tmp_path / "a.json")
    words = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
    for row in json.loads((tmp_path / "a.json").read_text())["rows"]:
        assert same(words.get(row["norm"], row["norm"]), NUMBERS[row["name"]])


def test_the_tab_has_the_numbers(run):
    """Finite ones as float64; flags say what the others are."""
    _, heat = unpacked(heat_answer(run, "weight", "norm", None, 10))
    _, snapshot = unpacked(snapshot_answer(run, "weight", 0))
    norms = snapshot["values"][list(QUANTITIES).index("norm")]
    for row, (name, expected) in enumerate(NUMBERS.items()):
        for found in (heat["values"][row, 0], norms[row]):
            finite = expected is not None and math.isfinite(expected)
            assert found == expected if finite else math.isnan(found), name


def test_the_report_has_the_numbers(run):
    """None for what has no finite norm."""
    [told] = json.loads(report([run], "json"))["runs"]
    for layer in told["layers"]:
        expected = NUMBERS[layer["name"]]
        finite = expected is not None and math.isfinite(expected)
        assert same(layer["last"], expected if finite else None), layer["name"]


def test_the_terminal_has_the_numbers(run):
    """In the digits that it shows."""
    console = Console(file=io.StringIO(), width=120)
    follow(run.directory, console=console, once=True)
    lines = console.file.getvalue().splitlines()
    for name in ("tiny", "large", "beyond"):
        [line] = [line for line in lines if line.startswith(f"{name} ")]
        assert number(NUMBERS[name], 3) in line.split(), name
