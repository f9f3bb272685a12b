"""One run with extreme numbers is the same through every way of reading it."""

import base64
import csv
import io
import json
import math
import re
import zlib

import numpy as np
import pytest
from rich.console import Console

from gradwatch.diagnose import Finding, Measured, evidence_of, snapshots
from gradwatch.run import Layout, Record, RunWriter, open_run
from gradwatch.show._format import number
from gradwatch.show.charts import (
    CURVES,
    MEASURED,
    NAN,
    NEGINF,
    POSINF,
    QUANTITIES,
    facts_of,
)
from gradwatch.show.live import follow
from gradwatch.show.report import report
from gradwatch.summarise import COLUMNS, blank
from gradwatch.tensorboard import _plugin

from .wire import unpacked

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
FLAGS = {
    "nan": MEASURED | NAN,
    "posinf": MEASURED | POSINF,
    "neginf": MEASURED | NEGINF,
    "absent": 0,
}


@pytest.fixture
def run(tmp_path):
    """A step for each number, at which it is the global norm; one weight for each too.

    Each weight has its number as its norm, at every step.
    """
    layout = Layout(tuple(NUMBERS), ("weight",) * len(NUMBERS), (6,) * len(NUMBERS))
    rows = np.zeros((len(NUMBERS), len(COLUMNS)))
    rows[:, 0] = [blank(1)[0] if n is None else n for n in NUMBERS.values()]
    with RunWriter(tmp_path / "run") as writer:
        for step, value in enumerate(NUMBERS.values()):
            totals = {} if value is None else {"global_norm": value}
            writer.write(Record(step, layout, rows, None, totals))
    return open_run(tmp_path / "run")


def embedded_data(page):
    """The facts and arrays that a report carries for its charts."""
    [text] = re.findall(r'id="gradwatch-data">([^<]*)<', page)
    return unpacked(zlib.decompress(base64.b64decode(text)))


def same(result, expected):
    """Whether two numbers, or absences, are the same; also the sign of a zero."""
    if expected is None or result is None:
        return result is expected
    return np.float64(result).tobytes() == np.float64(expected).tobytes()


def drawn_as(value, flags, name):
    """Whether a picture has the number: finite ones as such, others as flags."""
    expected = NUMBERS[name]
    if flags != FLAGS.get(name, MEASURED):
        return False
    finite = expected is not None and math.isfinite(expected)
    return value == expected if finite else math.isnan(value)


def test_series_and_records_and_pandas_have_the_numbers(run):
    """The public columns, what the rules see, and the table of pandas."""
    pandas = pytest.importorskip("pandas")
    record, *_ = run.records()
    table = run.to_pandas()
    for row, (name, expected) in enumerate(NUMBERS.items()):
        for result in run[name].norm.tolist():
            assert same(result, expected), name
        assert same(record.rows[row, 0], blank(1)[0] if expected is None else expected)
        value = table["norm"].array[row]
        assert same(None if value is pandas.NA else value, expected), name
    for result, expected in zip(run.totals.global_norm.tolist(), NUMBERS.values(), strict=True):  # fmt: skip # noqa: E501
        assert same(result, expected)


def test_an_export_has_the_numbers(run, tmp_path):
    """JSON and CSV have words for those that they do not know."""
    run.export(tmp_path / "a.json")
    words = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
    for row in json.loads((tmp_path / "a.json").read_text())["rows"]:
        assert same(words.get(row["norm"], row["norm"]), NUMBERS[row["name"]])
    run.export(tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            result = float(row["norm"]) if row["norm"] else None
            assert same(result, NUMBERS[row["name"]]), row["name"]


def test_a_parquet_file_has_the_numbers(run, tmp_path):
    """An absence is null, and NaN is a number."""
    parquet = pytest.importorskip("pyarrow.parquet")
    run.export(tmp_path / "a.parquet")
    for row in parquet.read_table(tmp_path / "a.parquet").to_pylist():
        assert same(row["norm"], NUMBERS[row["name"]]), row["name"]


def test_the_tab_has_the_numbers(run):
    """Finite ones as float64; flags say what the others are."""
    _, heat = unpacked(_plugin._heat(run, {"quantity": "norm", "buckets": "10"}))
    _, snapshot = unpacked(_plugin._snapshot(run, {"index": "0"}))
    _, curves = unpacked(_plugin._curves(run, {"buckets": "10"}))
    norm, total = list(QUANTITIES).index("norm"), CURVES.index("global_norm")
    for row, name in enumerate(NUMBERS):
        for bucket in range(len(NUMBERS)):
            cell = heat["values"][row, bucket], heat["flags"][row, bucket]
            assert drawn_as(*cell, name), name
        cell = snapshot["values"][norm, row], snapshot["flags"][norm, row]
        assert drawn_as(*cell, name), name
        for ends in ("least", "values"):
            cell = curves[ends][total, row], curves["flags"][total, row]
            assert drawn_as(*cell, name), name


def test_the_report_has_the_numbers(run):
    """As JSON, and embedded in the page; there too, flags say what is not finite."""
    [told] = json.loads(report([run], "json"))["runs"]
    for layer in told["layers"]:
        expected = NUMBERS[layer["name"]]
        finite = expected is not None and math.isfinite(expected)
        for key in ("first", "last", "largest"):
            assert same(layer[key], expected if finite else None), layer["name"]
    _, arrays = embedded_data(report([run]))
    values, flags = (arrays[f"0/heat/weight/norm/{a}"] for a in ("values", "flags"))
    for row, name in enumerate(NUMBERS):
        assert drawn_as(values[row, 0], flags[row, 0], name), name
    curves, flags = arrays["0/curves/values"], arrays["0/curves/flags"]
    for step, name in enumerate(NUMBERS):
        assert drawn_as(curves[0, step], flags[0, step], name), name


def test_the_tables_of_a_report_show_the_numbers(run):
    """In the digits that tables have."""
    for name, expected in NUMBERS.items():
        [row] = [x for x in report([run], "md").splitlines() if f"| `{name}` " in x]
        finite = expected is not None and math.isfinite(expected)
        assert row.split(" | ")[1] == number(expected if finite else None), name


def test_the_terminal_has_the_numbers(run):
    """In the digits that it shows."""
    console = Console(file=io.StringIO(), width=120)
    follow(run.directory, console=console, once=True)
    lines = console.file.getvalue().splitlines()
    for name, expected in NUMBERS.items():
        [line] = [line for line in lines if re.match(rf"{name} ", line)]
        assert number(expected, 3) in line.split(), name
    assert f"global norm {number(None, 3)} " in console.file.getvalue()


def test_the_figures_have_the_numbers(run):
    """What the scale can hold is on it; crosses and rings stand for the rest."""
    pytest.importorskip("matplotlib")
    [image, states] = run.plot("norm").axes[0].images
    for row, (name, expected) in enumerate(NUMBERS.items()):
        on_scale = expected is not None and math.isfinite(expected) and expected > 0
        result = image.get_array()[row, 0]
        assert (result is np.ma.masked) != on_scale, name
        assert result is np.ma.masked or result == expected
        assert (states.get_array()[row, 0] is np.ma.masked) == on_scale, name


def test_the_rules_have_the_numbers(run):
    """At each step as they read it, and in the evidence that they show."""
    for step in snapshots(run):
        for result, (name, expected) in zip(step["norm"], NUMBERS.items(), strict=True):
            nan = expected is None or math.isnan(expected)
            assert math.isnan(result) if nan else same(result, expected), name
    measured = Measured("nonfinite_gradients", 1.0)
    [seen] = evidence_of(Finding("nonfinite", step=3, measured=measured), run)
    [values] = seen.lines.values()
    for result, (name, expected) in zip(values, NUMBERS.items(), strict=True):
        nan = expected is None or math.isnan(expected)
        assert math.isnan(result) if nan else same(result, expected), name


def test_facts_are_the_same_in_the_tab_and_the_report(run):
    """Names, sizes, steps: one function makes both."""
    facts, _ = embedded_data(report([run]))
    tab = facts_of("run", run)
    [told] = facts["runs"]
    for key in ("lines", "first", "last", "records"):
        assert json.loads(json.dumps(tab[key])) == told[key]
