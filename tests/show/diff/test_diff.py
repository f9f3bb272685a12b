"""What differs between two runs, against loops."""

import json
import math
import statistics

import numpy as np
import pytest

from gradwatch.diagnose import Finding
from gradwatch.run import Layout, Record, RunWriter, open_run
from gradwatch.show.diff import compare
from gradwatch.summarise import COLUMNS, blank

AT = {name: index for index, name in enumerate(COLUMNS)}
EVIL = "[bold red]<img src=x>[/]/kernel"


def write(directory, names, steps, seed, *, plant=None, facts=None, findings=()):
    """A run of random norms; returns them by name and step."""
    random = np.random.default_rng(seed)
    layout = Layout(tuple(names), ("weight",) * len(names), (6,) * len(names))
    norms = {}
    with RunWriter(directory) as writer:
        writer.note("run", {"model": "m", "optimizers": ["Adam"], **(facts or {})})
        for step in steps:
            rows = blank((len(names), len(COLUMNS)))
            rows[:, AT["norm"]] = 10 ** random.normal(size=len(names))
            for name in ("nan", "posinf", "neginf"):
                rows[:, AT[name]] = 0
            if plant is not None:
                plant(step, rows)
            for line, name in enumerate(names):
                norms[name, step] = rows[line].copy()
            writer.write(Record(step, layout, rows, None, {"learning_rate": 0.5}))
        for finding in findings:
            writer.finding(finding.step, finding.to_dict())
    return norms


VANISHING = Finding("vanishing", addresses=("a/kernel",), since=2, step=4)
CLIPPING = Finding("clipping", since=2, step=4)
SGD = {"optimizers": ["SGD"]}


@pytest.fixture
def pair(tmp_path):
    """Steps 0, 2, … and 0, 3, …; one name of each alone; a NaN in the second."""

    def sick(step, rows):
        rows[1, AT["nan"]] = 2 * (step == 6)

    a = write(tmp_path / "a", ["a/kernel", "b/kernel", "x"], range(0, 20, 2), 0,
              findings=[VANISHING, CLIPPING])  # fmt: skip
    b = write(tmp_path / "b", ["a/kernel", "b/kernel", EVIL], range(0, 20, 3), 1,
              plant=sick, facts=SGD, findings=[CLIPPING])  # fmt: skip
    return (open_run(tmp_path / "a"), open_run(tmp_path / "b")), (a, b)


def test_each_layer_is_compared_at_the_steps_that_both_recorded(pair):
    """Medians of the norms and of their ratios, as loops over the records have them."""
    runs, (a, b) = pair
    result = compare(*runs)
    assert result.common == 4  # 0, 6, 12, 18
    layers = {layer["name"]: layer for layer in result.layers}
    assert set(layers) == {"a/kernel", "b/kernel"}
    for name, layer in layers.items():
        ones, twos, ratios, bad = [], [], [], 0
        for step in (0, 6, 12, 18):
            one, two = a[name, step], b[name, step]
            if two[AT["nan"]]:
                bad += 1
                continue
            ones.append(float(one[AT["norm"]]))
            twos.append(float(two[AT["norm"]]))
            ratios.append(twos[-1] / ones[-1])
        assert math.isclose(layer["a"], statistics.median(ones))
        assert math.isclose(layer["b"], statistics.median(twos))
        assert math.isclose(layer["ratio"], statistics.median(ratios))
        assert (layer["steps"], layer["bad_a"], layer["bad_b"]) == (4 - bad, 0, bad)
        assert layer["apart"] == 0
    assert result.layers[0]["name"] == "b/kernel"  # not finite in one of them: first
    assert result.only == (("x",), (EVIL,))
    assert result.facts == {
        "optimizers": (["Adam"], ["SGD"]),
        "records": (10, 7),
    }
    assert not result.same


def test_findings_of_one_of_them_only_are_told(pair):
    """A finding is known by its symptom and where it is, not by when."""
    result = compare(*pair[0])
    assert [f.symptom for f in result.findings[0]] == ["vanishing"]
    assert result.findings[1] == ()


def test_a_run_differs_not_from_itself(pair):
    """It says so, and of how much."""
    (_, b), _ = pair
    result = compare(b, b)
    assert result.same
    assert all(layer["apart"] is None for layer in result.layers)
    assert "The runs are the same in 7 common steps of 3 layers." in str(result)


def test_the_first_step_that_differs_is_named(tmp_path):
    """Two runs that were one until step 4."""

    def other(step, rows):
        if step >= 4:
            rows[0, AT["norm"]] *= 3

    write(tmp_path / "a", ["a/kernel", "b/kernel"], range(8), 0)
    write(tmp_path / "b", ["a/kernel", "b/kernel"], range(8), 0, plant=other)
    result = compare(open_run(tmp_path / "a"), open_run(tmp_path / "b"))
    first, second = result.layers
    assert (first["name"], first["apart"]) == ("a/kernel", 4)
    assert (second["name"], second["apart"], second["ratio"]) == ("b/kernel", None, 1.0)
    assert "1 of 2 layers differ" in str(result)
    assert "b/kernel" not in str(result)


def test_zeros_are_compared_as_well(tmp_path):
    """0 of 0 is the same; something of 0 is infinitely more."""

    def none(step, rows):
        rows[:, AT["norm"]] = 0

    def some(step, rows):
        rows[0, AT["norm"]] = 0

    write(tmp_path / "a", ["a/kernel", "b/kernel"], range(3), 0, plant=none)
    write(tmp_path / "b", ["a/kernel", "b/kernel"], range(3), 0, plant=some)
    result = compare(open_run(tmp_path / "a"), open_run(tmp_path / "b"))
    assert [(x["name"], x["ratio"]) for x in result.layers] == [
        ("b/kernel", math.inf),
        ("a/kernel", 1.0),
    ]


def test_without_a_common_step_no_norms_are_compared(tmp_path):
    """That is said, and is no error."""
    write(tmp_path / "a", ["a/kernel"], [0, 2], 0)
    write(tmp_path / "b", ["a/kernel"], [1, 3], 0)
    result = compare(open_run(tmp_path / "a"), open_run(tmp_path / "b"))
    assert result.layers[0]["a"] is None
    assert "no recorded step in common" in str(result)


def test_the_text_shows_both_sides(pair):
    """Facts, layers, names and findings; a name is text and nothing else."""
    text = str(compare(*pair[0]))
    assert "Adam" in text
    assert "SGD" in text
    assert "Only in a: 'x'." in text
    assert f"Only in b: '{EVIL}'." in text
    assert "Found only in a" in text
    assert "▲ vanishing since step 2" in text
    assert "0 / 1" in text  # not finite at one step of b
    json.dumps(compare(*pair[0]).to_dict(), allow_nan=False)
