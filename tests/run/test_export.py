"""A run for other tools: tables and files that say neither more nor less."""

import csv
import json
import math
import os
import sys

import numpy as np
import pytest

from gradwatch.run import Record, RunError, RunWriter, open_run
from gradwatch.summarise import COLUMNS, blank

from .records import LAYOUT, layout_of, record, rows_of

MEASURED = list(COLUMNS)


@pytest.fixture
def run(tmp_path):
    """Two steps; NaN, infinities, a large norm, and what was not measured."""
    rows = rows_of(1)
    rows[:, 0] = [np.nan, np.inf, -np.inf, blank(1)[0], 3.0 * 2.0**300]
    rows[0, COLUMNS.index("weight_norm")] = 0
    with RunWriter(tmp_path / "run") as writer:
        writer.write(record(0))
        writer.write(Record(1, LAYOUT, rows, None, {"global_norm": np.nan}))
        writer.finding(1, {"rule": "nan", "value": math.inf})
        writer.note("model", {"name": "demo"})
    return open_run(tmp_path / "run")


EXPECTED = ["NaN", "Infinity", "-Infinity", None, 3.0 * 2.0**300]


def test_json_is_valid_json_and_complete(run, tmp_path):
    """NaN and infinities in words, null where nothing was measured."""

    def forbid(word):
        raise AssertionError(word)

    run.export(tmp_path / "a.json")
    text = (tmp_path / "a.json").read_text()
    whole = json.loads(text, parse_constant=forbid)
    rows = whole["rows"]
    ids = [(row["step"], row["name"], row["kind"]) for row in rows]
    lines = list(zip(LAYOUT.names, LAYOUT.kinds, strict=True))
    assert ids == [(step, *line) for step in (0, 1) for line in lines]
    assert [row["norm"] for row in rows[5:]] == EXPECTED
    assert rows[5]["update_ratio"] == "Infinity"
    for column in MEASURED:
        at = COLUMNS.index(column)
        assert rows[1][column] == float(rows_of(0)[1, at])
    assert whole["totals"][1]["global_norm"] == "NaN"
    assert whole["totals"][1]["update_norm"] is None
    assert whole["totals"][0]["update_ratio"] == 0.0625
    assert whole["findings"] == [{"step": 1, "rule": "nan", "value": "Infinity"}]
    assert whole["notes"] == {"model": {"name": "demo"}}


def test_csv_has_a_line_for_each_step_and_name(run, tmp_path):
    """Empty where nothing was measured; numbers with every digit."""
    run.export(str(tmp_path / "a.csv"))
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["step", "name", "kind", *MEASURED, "update_ratio"]
    assert len(rows) == 10
    assert [row["norm"] for row in rows[5:8]] == EXPECTED[:3]
    assert rows[8]["norm"] == ""
    assert float(rows[9]["norm"]) == EXPECTED[4]
    assert float(rows[4]["mean"]) == float(rows_of(0)[4, 1])


def test_pandas_tells_nan_from_not_measured(run):
    """`<NA>` is not measured, NaN was measured."""
    pd = pytest.importorskip("pandas")
    table = run.to_pandas()
    assert list(table) == ["step", "name", "kind", *MEASURED, "update_ratio"]
    assert table["step"].tolist() == [0] * 5 + [1] * 5
    assert table["name"].astype(str).tolist() == list(LAYOUT.names) * 2
    norm = table["norm"]
    assert norm[8] is pd.NA
    assert math.isnan(norm[5])
    assert norm[5] is not pd.NA
    assert norm[9] == EXPECTED[4]
    by_name = table[table["kind"] == "weight"].set_index(["step", "name"])
    assert by_name.loc[(0, "conv1/bias"), "mean"] == float(rows_of(0)[1, 1])


def test_parquet_tells_nan_from_not_measured(run, tmp_path):
    """Null is not measured, NaN was measured."""
    parquet = pytest.importorskip("pyarrow.parquet")
    run.export(tmp_path / "a.parquet")
    table = parquet.read_table(tmp_path / "a.parquet").to_pydict()
    assert table["name"] == list(LAYOUT.names) * 2
    assert table["kind"] == list(LAYOUT.kinds) * 2
    assert math.isnan(table["norm"][5])
    assert table["norm"][6:] == [math.inf, -math.inf, None, EXPECTED[4]]
    assert table["mean"][:5] == rows_of(0)[:, 1].astype(float).tolist()


def test_two_layouts_are_one_table_by_step(tmp_path):
    """Steps in order, whichever layers were watched at them."""
    one, two = layout_of("a"), layout_of("b", "a")
    with RunWriter(tmp_path / "run") as writer:
        for step, layout in enumerate([one, two, one]):
            writer.write(record(step, layout))
    open_run(tmp_path / "run").export(tmp_path / "a.json")
    rows = json.loads((tmp_path / "a.json").read_text())["rows"]
    names = [(row["step"], row["name"]) for row in rows]
    assert names == [(0, "a"), (1, "b"), (1, "a"), (2, "a")]
    norms = [0, 1, 1.01, 2]
    assert [row["norm"] for row in rows] == norms


@pytest.mark.parametrize("suffix", [".csv", ".json", ".parquet"])
def test_a_run_without_steps_is_an_empty_table(tmp_path, suffix):
    """Not an error, and not a missing file."""
    with RunWriter(tmp_path / "run") as writer:
        writer.note("model", {})
    open_run(tmp_path / "run").export(tmp_path / f"a{suffix}")
    assert (tmp_path / f"a{suffix}").stat().st_size > 0


@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_an_interrupted_export_leaves_no_file_and_the_old_one_alone(
    run, tmp_path, monkeypatch, suffix
):
    """The file is there when it is complete."""
    path = tmp_path / f"a{suffix}"
    path.write_text("old")

    def interrupt(*_):
        raise KeyboardInterrupt("now")

    monkeypatch.setattr("gradwatch.run._export._rows", interrupt)
    with pytest.raises(KeyboardInterrupt, match="now"):
        run.export(path)
    assert path.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name, "run"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_an_export_may_be_read_by_whom_other_files_may(run, tmp_path):
    """Temporary files are private, exports are not."""
    (tmp_path / "plain").touch()
    run.export(tmp_path / "a.csv")
    modes = {(tmp_path / name).stat().st_mode for name in ("plain", "a.csv")}
    assert len(modes) == 1


def test_an_unknown_suffix_is_an_error(run, tmp_path):
    """Which names the known ones."""
    with pytest.raises(RunError, match=r"`path` must end in .csv, .json.*a.xlsx"):
        run.export(tmp_path / "a.xlsx")


def test_a_path_that_is_none_is_an_error(run):
    """Which speaks of the argument that was given."""
    with pytest.raises(RunError, match=r"`path` must be a path. Received: None"):
        run.export(None)


def test_a_missing_directory_is_an_error(run, tmp_path):
    """It is not made: a typing error would hide the file."""
    with pytest.raises(RunError, match=r"`path`.*directory that exists.*Make '.*no'"):
        run.export(tmp_path / "no" / "a.csv")


def test_without_pandas_the_extra_is_named(run, monkeypatch):
    """And the error is an ImportError, as Python's own."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        ImportError, match=r"`to_pandas` needs pandas.*gradwatch\[pandas"
    ):
        run.to_pandas()


def test_without_pyarrow_the_extra_is_named(run, tmp_path, monkeypatch):
    """And no file is left; csv and json need nothing."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"parquet file needs pyarrow.*\[pandas\]"):
        run.export(tmp_path / "a.parquet")
    assert [p.name for p in tmp_path.iterdir()] == ["run"]
    run.export(tmp_path / "a.csv")
