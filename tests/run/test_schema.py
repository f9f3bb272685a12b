"""Later versions add columns, not formats: files of others are read well."""

from dataclasses import replace

import numpy as np

from gradwatch.run import TOTALS, Record, RunWriter, open_run, standard_error_of
from gradwatch.summarise import COLUMNS, blank, is_blank

from .records import LAYOUT, layout_of, record, rows_of


def written(path, *records):
    with RunWriter(path) as writer:
        for each in records:
            writer.write(each)
    return open_run(path)


def test_a_column_that_is_not_known_is_kept_under_its_name(tmp_path):
    """Wherever it stands in the file, each number is under its own name."""
    columns = ("sharpness", *COLUMNS[::-1])
    rows = np.column_stack([[7.0, 8.0], rows_of(0, layout_of("a", "b"))[:, ::-1]])
    layout = replace(layout_of("a", "b"), columns=columns)
    run = written(tmp_path, Record(0, layout, rows, None, {}))
    assert run["b"].columns["sharpness"].tolist() == [8.0]
    expected = rows_of(0, layout)[1]
    assert [run["b"].columns[name][0] for name in COLUMNS] == expected.tolist()
    [read] = run.records()
    assert read.layout.columns == (*COLUMNS, "sharpness")
    assert read.rows[:, : len(COLUMNS)].tolist() == rows_of(0, layout).tolist()
    assert run.to_pandas()["sharpness"].tolist() == [7.0, 8.0]


def test_a_column_that_a_file_lacks_was_not_measured(tmp_path):
    """It is masked, and the others are where they belong."""
    layout = replace(LAYOUT, columns=("norm", "max", "nan"), totals=("loss",))
    rows = np.arange(15.0).reshape(5, 3)
    run = written(tmp_path, Record(0, layout, rows, None, {"loss": 2.0}), record(1))
    series = run["head/kernel"]
    assert series.max[0] == 13.0
    assert series.mean.mask.tolist() == [True, False]
    assert run.totals.loss.tolist() == [2.0, None]
    assert run.totals.global_norm.tolist() == [None, 3.5]
    assert run.names == ("conv1/kernel", "conv1/bias", "head/kernel")


def test_an_estimate_has_a_standard_error(tmp_path):
    """Of a variable and of the step as a whole; other columns have none."""
    columns = (*COLUMNS, "trace", standard_error_of("trace"))
    totals = (*TOTALS, "noise_scale", standard_error_of("noise_scale"))
    layout = replace(layout_of("a"), columns=columns, totals=totals)
    rows = np.append(rows_of(0, layout), [[3.0, 0.25]], axis=1)
    without = np.append(rows[:, :-2], blank((1, 2)), axis=1)
    numbers = {"noise_scale": 40.0, "noise_scale_se": 5.0}
    run = written(
        tmp_path,
        Record(0, layout, rows, None, numbers),
        Record(1, layout, without, None, {}),
    )
    assert run["a"].columns["trace"].tolist() == [3.0, None]
    assert run["a"].standard_error("trace").tolist() == [0.25, None]
    assert run["a"].standard_error("norm") is None
    assert run.totals.columns["noise_scale"].tolist() == [40.0, None]
    assert run.totals.standard_error("noise_scale").tolist() == [5.0, None]


def test_columns_may_change_within_a_run(tmp_path):
    """A later training measures more: earlier steps are masked."""
    more = replace(layout_of("a"), columns=(*COLUMNS, "trace"))
    rows = np.append(rows_of(1, more), [[9.0]], axis=1)
    run = written(tmp_path, record(0, layout_of("a")), Record(1, more, rows, None, {}))
    assert run["a"].columns["trace"].tolist() == [None, 9.0]
    assert run["a"].norm.tolist() == [0.0, 1.0]


def test_the_rows_of_replicas_come_back_to_the_bit(tmp_path):
    """They stand beside the rows of all together, at the steps that have them."""
    random = np.random.default_rng(0)
    each = random.normal(size=(2, len(LAYOUT), len(COLUMNS)))
    each[1, 0, 0] = np.nan
    each[1, 2] = blank(len(COLUMNS))
    first, second = record(0), replace(record(1), replicas=each)
    run = written(tmp_path, first, second)
    one, two = run.records()
    assert one.replicas is None
    assert two.replicas.tobytes() == each.tobytes()
    assert is_blank(two.replicas[1, 2]).all()
    assert two.rows.tolist() == second.rows.tolist()
    assert run["conv1/kernel"].norm.tolist() == [0.0, 1.0]


def test_rows_of_replicas_are_kept_in_the_order_of_the_columns(tmp_path):
    """As the rows are, if the file has other columns."""
    layout = replace(layout_of("a"), columns=("max", "norm"))
    whole = Record(0, layout, np.ones((1, 2)), None, {})
    run = written(tmp_path, replace(whole, replicas=np.array([[[1.0, 2]], [[3, 4]]])))
    [read] = run.records()
    assert read.replicas[:, 0, COLUMNS.index("norm")].tolist() == [2, 4]
    assert read.replicas[:, 0, COLUMNS.index("max")].tolist() == [1, 3]
