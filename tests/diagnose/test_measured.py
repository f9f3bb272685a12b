"""What a rule measures is data: no picture depends on the words of a finding."""

import dataclasses
import importlib

import numpy as np
import pytest

import gradwatch as gw
from gradwatch.diagnose import SYMPTOMS, Finding, Measured, evidence_of
from gradwatch.diagnose._evidence import PANELS
from gradwatch.diagnose._rules import RULES
from gradwatch.run import RunWriter

from .made_up import facts, records
from .test_rules import SICK, length


def written(directory, change, steps):
    """The made-up training as a run on disk."""
    with RunWriter(directory) as writer:
        writer.note("model", facts())
        for record in records(change, steps=steps):
            writer.write(record)
    return gw.open_run(directory)


def reworded(finding):
    """The finding with every text replaced, and no key of its evidence as it was."""
    return dataclasses.replace(
        finding,
        evidence={f"x{n}": "x" for n in range(len(finding.evidence))},
        healthy="x",
        excluded=("x",),
        try_first="x",
    )


def other_rules():
    """The rules with every sentence replaced, also in what they yield."""

    def reworded_look(look):
        def signs(step):
            for sign in look(step):
                words = {"healthy": "x", "try_first": "x"}
                if isinstance(sign.evidence, str):
                    yield dataclasses.replace(sign, evidence="x", **words)
                else:
                    numbers = {f"x{n}": v for n, v in enumerate(sign.evidence.values())}
                    yield dataclasses.replace(sign, evidence=numbers, **words)

        return signs

    return tuple(
        dataclasses.replace(
            rule, look=reworded_look(rule.look), healthy="x", try_first="x"
        )
        for rule in RULES
    )


@pytest.mark.parametrize("case", SICK)
def test_other_words_find_and_draw_the_same(tmp_path, monkeypatch, case):
    """Rules that say all of it in other words: the same findings, the same pictures."""
    _, change = SICK[case]
    run = written(tmp_path / "run", change, length(case))
    before = gw.diagnose(run)
    pictures = [evidence_of(finding, run) for finding in before]
    # By its full name: `gradwatch.diagnose` is the function of that name.
    engine = importlib.import_module("gradwatch.diagnose._engine")
    monkeypatch.setattr(engine, "RULES", other_rules())
    monkeypatch.setattr(engine, "excluded", lambda rule, step: ("x",))
    for name in SYMPTOMS:
        monkeypatch.setitem(SYMPTOMS, name, "x")
    after = gw.diagnose(run)
    assert [f.identity for f in after] == [f.identity for f in before]
    for one, two, seen in zip(before, after, pictures, strict=True):
        assert (one.until, one.confidence) == (two.until, two.confidence)
        assert two.healthy == two.try_first == "x"
        assert set(two.excluded) <= {"x"}
        assert all(name.startswith("x") for name in two.evidence)
        again = evidence_of(two, run)
        assert [e.panel for e in again] == [e.panel for e in seen]
        assert [e.zones for e in again] == [e.zones for e in seen]
        for first, second in zip(seen, again, strict=True):
            np.testing.assert_equal(first.lines, second.lines)


@pytest.mark.parametrize("case", SICK)
def test_other_words_make_the_same_picture(tmp_path, monkeypatch, case):
    """Labels, limits, steps and numbers: all are drawn from what was measured."""
    symptom, change = SICK[case]
    run = written(tmp_path / "run", change, length(case))
    findings = gw.diagnose(run)
    assert symptom in {finding.symptom for finding in findings}
    before = [evidence_of(finding, run) for finding in findings]
    for name in SYMPTOMS:
        monkeypatch.setitem(SYMPTOMS, name, "x")
    for finding, seen in zip(findings, before, strict=True):
        assert PANELS[finding.measured.quantity]
        other = Finding.from_dict(reworded(finding).to_dict())
        assert other.measured == finding.measured
        again = evidence_of(other, run)
        assert len(again) == len(seen) > 0
        for one, two in zip(seen, again, strict=True):
            assert (one.panel.label, one.zones) == (two.panel.label, two.zones)
            np.testing.assert_array_equal(one.steps, two.steps)
            assert list(one.lines) == list(two.lines)
            for name, numbers in one.lines.items():
                np.testing.assert_array_equal(numbers, two.lines[name])


@pytest.mark.parametrize("case", SICK)
def test_the_value_is_beyond_the_limits(tmp_path, case):
    """A finding is about a number outside of what is healthy, and says both."""
    _, change = SICK[case]
    run = written(tmp_path / "run", change, length(case))
    for finding in gw.diagnose(run):
        measured = finding.measured
        below = measured.low is not None and measured.value < measured.low
        above = measured.high is not None and measured.value >= measured.high
        unlimited = measured.low is None and measured.high is None
        assert below or above or unlimited, finding.symptom


@pytest.mark.parametrize("value", [0.5, 3, None, float("inf")])
def test_what_was_measured_goes_through_json(value):
    """`None` is not measured; infinity is a word in JSON, and a number again after."""
    finding = Finding("clipping", measured=Measured("clipped_length", value, low=0.2))
    assert Finding.from_dict(finding.to_dict()) == finding
