"""Heat maps and curves against slow twins: loops over every record."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from gradwatch.run import Layout, Record, Run, Store
from gradwatch.show.charts import (
    CURVES,
    MEASURED,
    NAN,
    NEGINF,
    POSINF,
    QUANTITIES,
    curves,
    heat,
    histograms,
    snapshot,
    worst_index,
)
from gradwatch.summarise import BUCKETS, COLUMNS, blank, is_blank

AT = {name: index for index, name in enumerate(COLUMNS)}
FIRST = Layout(("a/kernel", "a/bias", "a", "a"), ("weight", "weight", "activation", "value"), (6, 2, 0, 0))  # fmt: skip # noqa: E501
# Later `b` is unfrozen, in front of the bias, and the activations are gone.
SECOND = Layout(("a/kernel", "b/kernel", "a/bias"), ("weight",) * 3, (6, 4, 2))
STEPS = [0, 1, 2, 3, 5, 8, 13, 21, 22, 23, 40, 41, 60, 61, 62, 63, 64, 90]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks of a few steps, so that pictures go across their borders."""
    monkeypatch.setattr("gradwatch.run._store._LEAST", 4)
    monkeypatch.setattr("gradwatch.run._store._MOST", 4)


class Held:
    """Histograms in memory."""

    def __init__(self, counts):
        self.counts = counts

    def __call__(self):
        return self.counts


@pytest.fixture
def result():
    """Records with everything that can be odd in one."""
    random = np.random.default_rng(5)
    steps = []
    for step in STEPS:
        layout = FIRST if step < 40 else SECOND
        rows = np.exp(random.normal(size=(len(layout), len(COLUMNS)))).astype("f4")
        for name in ("nan", "posinf", "neginf"):
            rows[:, AT[name]] = 0
        rows[:, AT["min"]] *= -1
        if step == 3:
            rows[0, AT["nan"]] = 2
            rows[0, AT["norm"]] *= 1e-3  # its number would not draw the eye
        if step == 8:
            rows[1, AT["posinf"]] = 1
            rows[1] = np.where(np.arange(len(COLUMNS)) == AT["norm"], np.inf, rows[1])
        if step == 21:
            rows[0, AT["neginf"]] = 5
            rows[1, AT["weight_norm"]] = np.nan
            rows[2, AT["weight_norm"]] = 0
        if step == 41:
            rows[1] = blank(len(COLUMNS))  # not measured at all
            rows[2, AT["update_norm"]] = 0
        if step == 61:
            rows[0, AT["norm"]] = 0
        if step == 62:
            rows[0, AT["norm"]] = 0
        totals = {"global_norm": float(step + 1), "update": 1.0, "clipped": step % 2}
        totals["skipped"] = float(step == 13)
        if step == 22:
            totals["global_norm"] = math.nan
        if step == 23:
            del totals["global_norm"]
        counts = random.integers(0, 9, (len(layout), BUCKETS))
        counts = counts if step % 2 == 0 else None
        steps.append(Record(step, layout, rows, counts, totals))
    return steps


@pytest.fixture
def table(result):
    table = Store()
    for record in result:
        counts = record.histograms
        table.append(record, None if counts is None else Held(counts))
    assert len(table.chunks) > 4
    return table


def of(table):
    """A run that holds this store."""
    return Run(SimpleNamespace(store=table, directory=None))


def number(name, result, line, before):
    """One quantity of one line at one step, from its definition; None: not measured."""
    row = result.rows[line]

    def get(column):
        at = AT[column]
        return None if is_blank(row[at : at + 1])[0] else float(row[at])

    def ratio(above, below):
        if above is None or below is None:
            return None
        with np.errstate(all="ignore"):
            return float(np.float64(above) / np.float64(below))

    if name == "update_ratio":
        return ratio(get("update_norm"), get("weight_norm"))
    if name == "largest":
        low, high = get("min"), get("max")
        return None if low is None else max(abs(low), abs(high))
    if name == "nonfinite":
        counts = [get(column) for column in ("nan", "posinf", "neginf")]
        return None if None in counts else sum(counts)
    if name == "noise":
        now, then = get("norm"), before
        if now is None or then is None or not math.isfinite(now + then):
            return None
        total = now + then
        return 0.0 if total == 0 else abs(now - then) / total
    return get(name)


def before(steps, place, key):
    """The norm of a line one record earlier, if the lines were the same."""
    if place == 0 or steps[place - 1].layout != steps[place].layout:
        return None
    return number("norm", steps[place - 1], keys(steps[place]).index(key), None)


def keys(result):
    return list(zip(result.layout.kinds, result.layout.names, strict=True))


def slow(steps, quantity, kind, names, low, high, count):
    """The worst of each cell, by loops."""
    values = [[math.nan] * count for _ in names]
    flags = [[0] * count for _ in names]
    for place, result in enumerate(steps):
        if not low <= result.step <= high:
            continue
        bucket = math.floor((result.step - low) / (high + 1 - low) * count)
        for line, key in enumerate(keys(result)):
            if key[0] != kind:
                continue
            at = names.index(key[1])
            value = number(quantity, result, line, before(steps, place, key))
            if value is not None:
                flags[at][bucket] |= MEASURED
                if math.isnan(value):
                    flags[at][bucket] |= NAN
                elif math.isinf(value):
                    flags[at][bucket] |= POSINF if value > 0 else NEGINF
                elif not values[at][bucket] >= value:
                    values[at][bucket] = value
            for column, flag in (("nan", NAN), ("posinf", POSINF), ("neginf", NEGINF)):
                if result.rows[line, AT[column]] > 0:
                    flags[at][bucket] |= flag
    return np.array(values), np.array(flags)


@pytest.mark.parametrize("quantity", QUANTITIES)
@pytest.mark.parametrize("kind", ["weight", "activation", "value"])
@pytest.mark.parametrize(("span", "count"), [(None, 5), (None, 99), ((2, 62), 3)])
def test_a_heat_map_is_the_worst_of_each_bucket(
    table, result, quantity, kind, span, count
):
    """NaN and infinity above all, then the largest; what is absent stays absent."""
    names = table.names(kind)
    seen = heat(of(table), QUANTITIES[quantity], kind, span, count)
    low, high = span or (STEPS[0], STEPS[-1])
    inside = [step for step in STEPS if low <= step <= high]
    count = min(count, len(inside))
    values, flags = slow(result, quantity, kind, list(names), low, high, count)
    np.testing.assert_array_equal(seen.flags, flags)
    np.testing.assert_allclose(seen.values, values, rtol=1e-6)
    assert (seen.low, seen.high) == (low, high + 1)
    for bucket in range(count):
        width = (high + 1 - low) / count
        mine = [s for s in inside if math.floor((s - low) / width) == bucket]
        expected = (mine[0], mine[-1]) if mine else (-1, -1)
        assert (seen.first[bucket], seen.last[bucket]) == expected


def test_lines_stand_along_the_depth_of_the_model(table):
    """A layer that was unfrozen later comes in where it stands."""
    assert table.names("weight") == ("a/kernel", "b/kernel", "a/bias")
    assert table.sizes("weight") == [6, 4, 2]
    assert table.names("value") == ("a",)


def test_one_nan_among_many_steps_is_seen():
    """Twenty thousand steps in ten columns: the one bad record is in its column."""
    layout = Layout(("a/kernel",), ("weight",), (6,))
    table = Store()
    for step in range(0, 20_000, 10):
        rows = np.ones((1, len(COLUMNS)), np.float32)
        rows[:, [AT[n] for n in ("nan", "posinf", "neginf")]] = 0
        rows[0, AT["nan"]] = step == 12_340
        table.append(Record(step, layout, rows, None, {}))
    seen = heat(of(table), QUANTITIES["norm"], "weight", count=10)
    assert ((seen.flags[0] & NAN) != 0).tolist() == [i == 6 for i in range(10)]
    assert (seen.values == 1).all()


@pytest.mark.parametrize(("span", "count"), [(None, 4), (None, 50), ((2, 62), 7)])
def test_curves_hold_the_smallest_and_the_largest(table, result, span, count):
    """And how many updates were clipped, and steps skipped."""
    seen, more = curves(of(table), span, count)
    low, high = span or (STEPS[0], STEPS[-1])
    inside = [step for step in result if low <= step.step <= high]
    count = min(count, len(inside))
    row = CURVES.index("global_norm")
    for bucket in range(count):
        width = (high + 1 - low) / count
        mine = [
            f.totals for f in inside if math.floor((f.step - low) / width) == bucket
        ]
        norms = [totals["global_norm"] for totals in mine if "global_norm" in totals]
        finite = [norm for norm in norms if math.isfinite(norm)]
        if finite:
            assert more["least"][row, bucket] == min(finite)
            assert seen.values[row, bucket] == max(finite)
        else:
            assert math.isnan(more["least"][row, bucket])
        flags = MEASURED * bool(norms) | NAN * any(math.isnan(n) for n in norms)
        assert seen.flags[row, bucket] == flags
        updates = [t for t in mine if not t["skipped"]]
        assert more["updates"][bucket] == len(updates)
        assert more["clipped"][bucket] == sum(bool(t["clipped"]) for t in updates)
        assert more["skipped"][bucket] == len(mine) - len(updates)
    assert not (seen.flags[CURVES.index("loss")] & MEASURED).any()


def regular(steps):
    """A table whose only weight has its step as its norm."""
    table = Store()
    layout = Layout(("a/kernel",), ("weight",), (6,))
    for step in steps:
        rows = blank((1, len(COLUMNS)))
        rows[0, AT["norm"]] = step
        totals = {"global_norm": float(step)}
        table.append(Record(step, layout, rows, None, totals))
    return table


@pytest.mark.parametrize("span", [None, (0, 199), (89, 189), (0.5, 150.25)])
@pytest.mark.parametrize("every", [1, 2, 3, 7])
def test_where_there_is_room_no_two_steps_share_a_column(every, span):
    """Wherever a stretch begins; a curve then has no band, and a cell one number."""
    steps = list(range(0, 200, every))
    table = regular(steps)
    low, high = span or (steps[0], steps[-1])
    expected = [step for step in steps if low <= step <= high]
    result = heat(of(table), QUANTITIES["norm"], "weight", span, 400)
    there = result.first >= 0
    assert result.first[there].tolist() == result.last[there].tolist() == expected
    assert result.values[0, there].tolist() == expected
    wide = (result.high - result.low) / len(result.first)
    assert wide == every
    lines, _ = curves(of(table), span, 400)
    there = lines.first >= 0
    assert lines.first[there].tolist() == lines.last[there].tolist() == expected


def test_nothing_recorded_gives_empty_pictures():
    """A run that has just begun is no error."""
    table = Store()
    assert heat(of(table), QUANTITIES["norm"], "weight").values.shape == (0, 1)
    assert (curves(of(table))[0].first == -1).all()
    assert histograms(of(table), "a")[0].tolist() == []


@pytest.mark.parametrize("index", range(len(STEPS)))
def test_a_snapshot_is_one_record_in_full(table, result, index):
    """All quantities of all lines, at one recorded step."""
    for kind in ("weight", "activation", "value"):
        seen = snapshot(of(table), index, kind)
        for place, name in enumerate(QUANTITIES):
            for line, address in enumerate(table.names(kind)):
                key = (kind, address)
                flags, value = seen["flags"][place, line], seen["values"][place, line]
                expected = None
                if key in keys(result[index]):
                    mine = keys(result[index]).index(key)
                    then = before(result, index, key)
                    expected = number(name, result[index], mine, then)
                assert bool(flags & MEASURED) == (expected is not None), (name, key)
                if expected is None or not math.isfinite(expected):
                    assert math.isnan(value)
                else:
                    assert value == pytest.approx(expected, rel=1e-6)
    counts = snapshot(of(table), STEPS.index(21), "weight")["counts"]
    assert counts[:, 0].tolist() == [0, 0, 5]


def test_a_click_finds_the_record_that_a_cell_shows(table):
    """One that is not finite first, else the one with the largest number."""
    norm = QUANTITIES["norm"]
    kernel = ("weight", "a/kernel")
    assert worst_index(of(table), kernel, norm, (0, 13)) == STEPS.index(3)
    norms = [
        snapshot(of(table), i, "weight")["values"][0, 0] for i in range(len(STEPS))
    ]
    inside = [i for i, step in enumerate(STEPS) if 40 <= step <= 90]
    best = max(inside, key=lambda i: norms[i])
    assert worst_index(of(table), kernel, norm, (40, 90)) == best
    assert worst_index(of(table), ("weight", "nobody"), norm, (0, 90)) is None


def test_histograms_over_time_are_those_recorded(table, result):
    """Of more than asked for, evenly chosen ones with the first and the last."""
    name = "a/bias"
    recorded = [f for f in result if f.histograms is not None]
    steps, counts = histograms(of(table), name)
    assert steps.tolist() == [f.step for f in recorded]
    for row, each in zip(counts, recorded, strict=True):
        line = keys(each).index(("weight", name))
        np.testing.assert_array_equal(row, each.histograms[line])
    few, _ = histograms(of(table), name, count=3)
    assert len(few) == 3
    assert (few[0], few[-1]) == (steps[0], steps[-1])


def test_a_restart_forgets_what_followed(table, result):
    """Training that goes back to step 22 supersedes what came after."""
    table.add_finding(41, {"symptom": "clipping"})
    table.restart(22)
    assert table.steps.tolist() == [s for s in STEPS if s < 22]
    assert table.findings == ()
    assert table.names("weight") == ("a/kernel", "a/bias")
    again = next(record for record in result if record.step == 13)
    table.append(again)  # without a word of restarting
    assert table.steps.tolist() == [s for s in STEPS if s < 13] + [13]
    table.restart(0)
    assert (len(table), table.chunks, table.names("weight")) == (0, [], ())


def test_numbers_beyond_float32_are_shown_as_they_are():
    """They are neither cut off at the largest float32 nor called infinite."""
    layout = Layout(("a/kernel", "b/kernel"), ("weight",) * 2, (6, 6))
    rows = np.ones((2, len(COLUMNS)))
    rows[:, [AT[n] for n in ("nan", "posinf", "neginf")]] = 0
    rows[:, AT["norm"]] = 16, 2.0**300
    rows[0, AT["std"]] = blank(1)[0]
    table = Store()
    table.append(Record(0, layout, rows, None, {}))
    seen = heat(of(table), QUANTITIES["norm"], "weight")
    assert seen.values[0, 0] == 16
    assert seen.values[1, 0] == 2.0**300
    assert (seen.flags == MEASURED).all()
    assert heat(of(table), QUANTITIES["std"], "weight").flags[0, 0] == 0
