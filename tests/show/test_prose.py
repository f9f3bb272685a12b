"""Texts are for people: other words change no picture; an end is said everywhere."""

import base64
import dataclasses
import io
import json
import re
import zlib

import numpy as np
import pytest
from rich.console import Console

from gradwatch.diagnose import SYMPTOMS, Finding, Measured
from gradwatch.run import Layout, Record, RunWriter, open_run
from gradwatch.show.charts import facts_of
from gradwatch.show.live import follow
from gradwatch.show.live._rows import rows_of
from gradwatch.show.report import report
from gradwatch.summarise import COLUMNS

from .wire import unpacked

NAMES = ("a/kernel", "b/kernel", "c/kernel")
FINDINGS = (
    Finding(
        "vanishing",
        addresses=("a/kernel",),
        since=2,
        step=4,
        until=6,
        evidence={"gradient end": 1e-5},
        healthy="above 0.001",
        excluded=("frozen layers",),
        try_first="Use `he_normal`.",
        measured=Measured("kernels_along_depth", 1e-5, low=1e-3),
    ),
    Finding(
        "nonfinite",
        addresses=("b/kernel",),
        since=5,
        step=5,
        evidence={"elements": 2, "the loss": "NaN"},
        healthy="none",
        try_first="Call `autopsy`.",
        measured=Measured("nonfinite_gradients", 2.0, high=0.0),
    ),
    Finding(
        "idle-rows",
        addresses=("c",),
        since=1,
        step=7,
        evidence={"rows that never moved": 0.4},
        measured=Measured("idle_rows", 0.4, high=0.1),
    ),
)


def reworded(finding):
    """The same finding, in words that mean nothing."""
    return dataclasses.replace(
        finding,
        evidence={f"x{i}": v for i, v in enumerate(finding.evidence.values())},
        healthy="x",
        excluded=tuple("x" for _ in finding.excluded),
        try_first="x",
    )


def written(directory, findings):
    """Nine steps of three weights, with these findings."""
    layout = Layout(NAMES, ("weight",) * 3, (6,) * 3)
    with RunWriter(directory) as writer:
        for step in range(9):
            rows = np.ones((3, len(COLUMNS)))
            rows[:, COLUMNS.index("norm")] = 10.0 ** np.arange(3) * (step + 1)
            for name in ("nan", "posinf", "neginf"):
                rows[:, COLUMNS.index(name)] = 0
            rows[1, COLUMNS.index("nan")] = 2 * (step == 5)
            writer.write(Record(step, layout, rows, None, {"global_norm": 1.0 + step}))
        for finding in findings:
            writer.finding(finding.step, finding.to_dict())
        # It is judged now by nothing: these findings are all that the run has.
        writer.note("overhead", {"steps": 9, "seconds": 1.0})
    return open_run(directory)


@pytest.fixture
def pair(tmp_path, monkeypatch):
    """A run, and the same one with every text of its findings replaced."""
    before = written(tmp_path / "a" / "run", FINDINGS)
    after = written(tmp_path / "b" / "run", [reworded(f) for f in FINDINGS])

    def say_nothing():
        for name in SYMPTOMS:
            monkeypatch.setitem(SYMPTOMS, name, "x")

    return before, after, say_nothing


def artists(figure):
    """All that is drawn in the axes of a figure, in numbers and colours."""
    result = []
    for ax in figure.axes:
        result.append((ax.get_xscale(), ax.get_yscale(), ax.get_xlim(), ax.get_ylim()))
        for line in ax.lines:
            numbers = np.asarray(line.get_xydata(), float).tolist()
            result.append((repr(numbers), line.get_color(), line.get_marker()))
        result += [np.ma.filled(image.get_array(), -9).tolist() for image in ax.images]
        result += [repr(patch.get_extents().bounds) for patch in ax.patches]
    return result


TEXTS = ("title", "text", "evidence", "healthy", "excluded", "try_first")


def without_texts(facts):
    """The facts of a run, without what a finding says."""
    findings = [
        {key: value for key, value in finding.items() if key not in TEXTS}
        for finding in facts["findings"]
    ]
    return {**facts, "findings": findings, "version": 0}


def embedded_data(page):
    [text] = re.findall(r'id="gradwatch-data">([^<]*)<', page)
    return unpacked(zlib.decompress(base64.b64decode(text)))


@pytest.mark.parametrize("index", range(len(FINDINGS)))
def test_other_words_draw_the_same_finding(pair, index):
    """Lines, limits and colours are drawn from what was measured."""
    before, after, say_nothing = pair

    def drawn(finding, run):
        figure = finding.plot(run)
        figure.set_size_inches(12, 5)  # a longer title makes a wider figure
        figure.draw_without_rendering()
        return [x for x in artists(figure) if not isinstance(x, str)]

    expected = drawn(FINDINGS[index], before)
    say_nothing()
    assert drawn(reworded(FINDINGS[index]), after) == expected


@pytest.mark.parametrize("quantity", ["norm", "global_norm"])
def test_other_words_draw_the_same_run(pair, quantity):
    """The badges of findings stand where they stood."""
    before, after, say_nothing = pair
    expected = artists(before.plot(quantity))
    say_nothing()
    assert artists(after.plot(quantity)) == expected


def test_other_words_send_the_same_data_to_the_tab_and_the_report(pair):
    """All but the texts themselves."""
    before, after, say_nothing = pair
    expected = without_texts(facts_of("run", before))
    page, arrays = embedded_data(report([before]))
    layers = json.loads(report([before], "json"))["runs"][0]["layers"]
    say_nothing()
    assert without_texts(facts_of("run", after)) == expected
    other, others = embedded_data(report([after]))
    assert without_texts(other["runs"][0]) == without_texts(page["runs"][0])
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(others[name], array)
    assert json.loads(report([after], "json"))["runs"][0]["layers"] == layers


def test_other_words_show_the_same_rows_in_the_terminal(pair):
    """States follow from symptoms and numbers."""
    before, after, say_nothing = pair
    expected = rows_of(before)
    words = [row.words for row in expected]
    assert words == ["vanishing", "nonfinite", "idle-rows"]
    say_nothing()
    assert rows_of(after) == expected


def test_the_end_of_a_finding_is_shown_everywhere(tmp_path):
    """In text, tab, report, terminal and pictures: a run that recovers says so."""
    run = written(tmp_path / "run", FINDINGS)
    first, second, _ = FINDINGS
    assert "Last seen at step 6" in str(first)
    assert "Last seen" not in str(second)
    shown = facts_of("run", run)["findings"]
    assert [finding["until"] for finding in shown] == [6, None, None]
    assert "Last seen at step 6" in " ".join(shown[0]["text"].split())
    [told] = json.loads(report([run], "json"))["runs"]
    assert [finding["until"] for finding in told["findings"]] == [6, None, None]
    assert "since step 2 until step 6, confirmed at step 4" in report([run])
    assert "(`vanishing`), since step 2 until step 6\n" in report([run], "md")
    assert report([run], "md").count("until step") == 1
    console = Console(file=io.StringIO(), width=120)
    follow(run.directory, console=console)
    assert "vanishing since step 2 until step 6: " in console.file.getvalue()
    [legend] = run.plot("norm").legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert "1  vanishing since step 2 until step 6" in texts
    [legend] = first.plot(run).legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts[-3:] == [
        "first seen at step 2",
        "confirmed at step 4",
        "last seen at step 6",
    ]
