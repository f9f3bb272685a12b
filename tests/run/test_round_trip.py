"""What is written comes back as it was, told apart from what was not measured."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwatch.run import TOTALS, Record, RunWriter, numbers, open_run
from gradwatch.run._codec import pack, unpack
from gradwatch.run._series import Series, Totals
from gradwatch.summarise import (
    BUCKETS,
    COLUMNS,
    blank,
    bucket_edges,
)

from .records import LAYOUT, counts_of, layout_of, record, rows_of

SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45, 3.4e38, -1.5]


def written(path, *records, **options):
    with RunWriter(path, **options) as writer:
        for each in records:
            writer.write(each)
    return open_run(path)


def test_every_column_comes_back_to_the_bit(tmp_path):
    """Each number of each line is under its own name, step by step."""
    run = written(tmp_path, *[record(step) for step in (0, 5, 7)])
    assert run.steps.tolist() == [0, 5, 7]
    for line, (name, kind) in enumerate(zip(LAYOUT.names, LAYOUT.kinds, strict=True)):
        series = run.activation(name) if kind == "value" else run[name]
        assert (series.name, series.kind) == (name, kind)
        assert series.size == LAYOUT.sizes[line]
        for at, column in enumerate(COLUMNS):
            expected = [rows_of(step)[line, at] for step in (0, 5, 7)]
            found = getattr(series, column)
            assert found.dtype == np.float64
            assert found.tolist() == [float(number) for number in expected], column


@pytest.mark.parametrize("column", COLUMNS)
def test_not_measured_and_nan_and_zero_are_three_things(tmp_path, column):
    """Blank is masked; NaN, infinities and zeros are numbers that were measured."""
    layout = layout_of(*(f"w{i}" for i in range(len(SPECIAL) + 1)))
    rows = blank((len(layout), len(COLUMNS)))
    rows[:-1, COLUMNS.index(column)] = SPECIAL
    run = written(tmp_path, Record(0, layout, rows, None, {}))
    for name, number in zip(layout.names, SPECIAL, strict=False):
        found = getattr(run[name], column)
        assert not np.ma.getmaskarray(found).any()
        np.testing.assert_array_equal(found.data, np.array([number]))
        assert np.signbit(found.data[0]) == np.signbit(number)
        for other in set(COLUMNS) - {column}:
            assert np.ma.getmaskarray(getattr(run[name], other)).all()
    assert np.ma.getmaskarray(getattr(run[layout.names[-1]], column)).all()


def test_the_file_holds_the_very_bits(tmp_path):
    """Also the payload of a NaN, which says what was not measured."""
    random = np.random.default_rng(0)
    bits = random.integers(0, 2**64, (len(LAYOUT), len(COLUMNS)), np.uint64)
    rows = bits.view(np.float64)
    run = written(
        tmp_path, Record(0, LAYOUT, rows, None, {}), native_every_seconds=None
    )
    [read] = run.records()
    assert read.rows.tobytes() == rows.tobytes()


def test_histograms_come_back_exactly(tmp_path):
    """Counts are under their buckets, at the steps at which they were due."""
    steps = [record(step, histograms=step % 2 == 0) for step in range(5)]
    run = written(tmp_path, *steps)
    for line, name in enumerate(LAYOUT.names):
        if LAYOUT.kinds[line] == "activation":  # of which none is measured
            assert run[name].histogram_steps.tolist() == []
        if LAYOUT.kinds[line] == "weight":
            series = run[name]
            assert series.histogram_steps.tolist() == [0, 2, 4]
            expected = np.stack([counts_of(step)[line] for step in (0, 2, 4)])
            np.testing.assert_array_equal(series.histograms, expected)
    assert series.edges.tolist() == bucket_edges().tolist()
    assert series.histograms.shape[1] == len(series.edges) - 1 == BUCKETS


def test_a_run_without_histograms_has_none(tmp_path):
    """No steps and no counts, in the shape that those of others have."""
    series = written(tmp_path, record(0))["conv1/kernel"]
    assert series.histogram_steps.shape == (0,)
    assert series.histograms.shape == (0, BUCKETS)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3), st.integers(0, BUCKETS - 1), st.integers(0, 2**40)
        ),
        max_size=20,
    )
)
def test_any_counts_are_packed_without_loss(cells):
    """Few or none, small or beyond 32 bits."""
    counts = np.zeros((4, BUCKETS), np.int64)
    for line, bucket, count in cells:
        counts[line, bucket] = count
    np.testing.assert_array_equal(unpack(pack(counts), 4), counts)


WIDTHS = [1, 2**8 - 1, 2**8, 2**16 - 1, 2**16, 2**24 - 1, 2**24, 2**40 - 1, 2**40]


@pytest.mark.parametrize("largest", WIDTHS)
def test_counts_at_the_edge_of_a_width_are_packed_without_loss(largest):
    """The last count that fits into some bytes, and the first that does not."""
    counts = np.zeros((2, BUCKETS), np.int64)
    counts[1, [0, 64, BUCKETS - 1]] = 1, largest, 2
    np.testing.assert_array_equal(unpack(pack(counts), 2), counts)


def test_totals_tell_measured_nan_from_not_measured(tmp_path):
    """An absent name is masked at that step; NaN is NaN; float64 keeps every digit."""
    given_totals = [
        {name: 0.1 + i for i, name in enumerate(TOTALS)},
        {"global_norm": np.nan, "clipped": 0.0},
        {},
    ]
    steps = [record(i, totals=each) for i, each in enumerate(given_totals)]
    totals = written(tmp_path, *steps).totals
    assert totals.steps.tolist() == [0, 1, 2]
    for i, name in enumerate(TOTALS):
        found = getattr(totals, name)
        assert found[0] == 0.1 + i
        assert found.mask.tolist() == [False, name not in given_totals[1], True]
    assert np.isnan(totals.global_norm.data[1])
    assert totals.clipped[1] == 0.0


def test_series_and_totals_have_a_field_for_each_name():
    """A column that is added to the contract must be added to what shows it."""
    assert [n for n in Series.__annotations__ if n in COLUMNS] == list(COLUMNS)
    assert list(Totals.__annotations__) == list(TOTALS)


def test_two_layouts_in_one_run_keep_their_lines_apart(tmp_path):
    """Layers unfrozen later have a shorter series; names stand in depth order."""
    few, many = layout_of("b", "d"), layout_of("a", "b", "c", "d", "e")
    run = written(tmp_path, record(0, few), record(1, few), record(2, many))
    assert run.names == ("a", "b", "c", "d", "e")
    assert run["b"].steps.tolist() == [0, 1, 2]
    expected = [rows_of(0, few)[0, 0], rows_of(1, few)[0, 0], rows_of(2, many)[1, 0]]
    assert run["b"].norm.tolist() == [float(number) for number in expected]
    assert run["c"].steps.tolist() == [2]


def test_going_back_to_an_earlier_layout_keeps_the_order_of_steps(tmp_path):
    """Blocks of one layout interleave with those of another."""
    one, two = layout_of("a"), layout_of("a", "b")
    run = written(tmp_path, record(0, one), record(1, two), record(2, one))
    assert run["a"].steps.tolist() == [0, 1, 2]
    assert [round(n, 3) for n in run["a"].norm.tolist()] == [0, 1, 2]
    assert run["b"].steps.tolist() == [1]


def test_findings_and_notes_come_back(tmp_path):
    """Findings by step in order; of a note the last one; NaN and NumPy survive."""
    with RunWriter(tmp_path) as writer:
        writer.note("model", {"name": "first"})
        writer.write(record(3))
        writer.finding(3, {"rule": "vanishing", "layers": ("a", "b")})
        writer.note("model", {"name": "second", "size": np.int64(7)})
        writer.finding(9, {"rule": "nan", "value": np.float32("nan")})
        writer.note("overhead", {"share": 0.01})
    run = open_run(tmp_path)
    assert run.notes["model"] == {"name": "second", "size": 7}
    assert run.overhead == {"share": 0.01}
    first, second = run.findings
    assert first == {"step": 3, "rule": "vanishing", "layers": ["a", "b"]}
    assert (second["step"], np.isnan(second["value"])) == (9, True)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"rows": np.zeros((2, 3), np.float32)}, r"`record.rows`.*\(5, 14\).*\(2, 3\)"),
        ({"histograms": np.zeros((5, 3), int)}, r"`record.histograms`.*\(5, 128\)"),
        ({"replicas": np.zeros((2, 3, 14))}, r"`record.replicas`.*\(2, 5, 14\)"),
    ],
)
def test_a_matrix_of_another_shape_is_refused(tmp_path, change, match):
    """It would come back as other lines or columns."""
    whole = {"step": 0, "layout": LAYOUT, "rows": rows_of(0), "histograms": None}
    wrong = Record(**{**whole, **change}, totals={})
    with pytest.raises(ValueError, match=match):
        RunWriter(tmp_path).write(wrong)


def test_a_step_of_200_rows_with_histograms_takes_40_kilobytes(tmp_path):
    """Also where some layers have millions of weights, whose counts need 32 bits."""
    random = np.random.default_rng(0)
    names = [f"block_{i // 8}/conv_{i}/kernel" for i in range(200)]
    layout = layout_of(*names)
    counts = np.zeros((200, BUCKETS), np.int64)
    for line in counts:
        size, scale = int(2 ** random.uniform(6, 22)), 2.0 ** random.uniform(-16, -4)
        some = random.normal(size=min(size, 20_000)) * scale
        line += np.histogram(some, bucket_edges())[0] * max(1, size // 20_000)
    assert counts.max() > 2**16
    rows = random.normal(size=(200, len(COLUMNS)))
    with RunWriter(tmp_path, native_every_seconds=None) as writer:
        writer.write(Record(0, layout, rows, counts, {"global_norm": 1.0}))
        [file] = tmp_path.iterdir()
        before = file.stat().st_size
        writer.write(Record(1, layout, rows, counts, {"global_norm": 1.0}))
        assert 200 * len(COLUMNS) * 8 < file.stat().st_size - before <= 50_000
    first, *_ = open_run(tmp_path)[names[0]].histograms
    np.testing.assert_array_equal(first, counts[0])


def test_numbers_are_flat_and_only_what_was_measured():
    """Weights and activations by norm, the step by its totals; values not at all."""
    rows = rows_of(2)
    rows[0, COLUMNS.index("norm")] = 2.0**200
    rows[1, COLUMNS.index("norm")] = blank(1)[0]
    found = numbers(Record(0, LAYOUT, rows, None, {"update_norm": 1, "weight_norm": 4}))
    assert found == {
        "gradients/update_ratio": 0.25,
        "conv1/kernel/norm": 2.0**200,
        "conv1/gradient_norm": float(rows[2, 0]),
        "head/kernel/norm": float(rows[4, 0]),
    }
