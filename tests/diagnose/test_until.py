"""A finding that is over says so: `until` is the last step that showed it."""

import dataclasses

import numpy as np
import pytest

import gradwatch as gw
from gradwatch.diagnose import PATIENCE, Finding, RuleEngine
from gradwatch.run import RunWriter
from gradwatch.show.report import report

from .made_up import KERNELS, NAMES, facts, found, records
from .test_rules import SICK, alone, length, stuck, vanishing


def during(*spans):
    """Gradients vanish in these spans of steps only."""

    def change(step, columns, totals):
        if any(first <= step <= last for first, last in spans):
            vanishing(step, columns, totals)

    return change


def test_a_training_that_recovers_says_so():
    """In the finding, in its text, in one line, and in JSON."""
    finding = found(during((10, 29)))["vanishing"]
    assert (finding.since, finding.step, finding.until) == (10, 14, 29)
    assert "confirmed at step 14" in str(finding)
    assert "Last seen at step 29: recovered since." in " ".join(str(finding).split())
    assert finding.one_line().startswith("vanishing since step 10 until step 29: ")
    assert finding.to_dict()["until"] == 29
    assert Finding.from_dict(finding.to_dict()) == finding


@pytest.mark.parametrize("case", [case for case in SICK if case != "alone"])
def test_while_it_holds_there_is_no_end(case):
    """And the text has no word of one."""
    symptom, change = SICK[case]
    finding = found(change, steps=length(case))[symptom]
    assert finding.until is None
    assert "recovered" not in str(finding)
    assert "until step" not in finding.one_line()


def test_an_end_is_confirmed_as_a_beginning_is():
    """By as many recorded steps in a row: fewer are a pause, also at the very end."""
    pause = PATIENCE - 1
    paused = found(during((0, 29), (30 + pause, 59)))["vanishing"]
    assert paused.until is None
    assert found(during((0, 59 - pause)))["vanishing"].until is None
    assert found(during((0, 58 - pause)))["vanishing"].until == 58 - pause


def test_what_comes_again_is_the_same_finding_and_has_no_end():
    """Once it is confirmed again; a single step that shows it only moves the end."""
    engine = RuleEngine(facts())
    changes = []
    for record in records(during((0, 19), (30, 30), (40, 59))):
        changes += [(record.step, f.until) for f in engine.read(record)]
    assert changes == [(4, None), (19 + PATIENCE, 19), (30 + PATIENCE, 30), (44, None)]
    (finding,) = engine.findings
    assert (finding.since, finding.step, finding.until) == (0, 4, None)


def test_a_layer_that_dominates_is_over_when_the_loss_is_learnt():
    """Then the layer may be all that is left, and the rule does not hold any more."""
    finding = found(alone)["dominating-layer"]
    assert finding.step < finding.until < 59


def test_a_finding_ends_also_while_another_explains_it():
    """No new one is made meanwhile."""

    def change(step, columns, totals):
        if step < 30:
            alone(step, columns, totals)
        if step >= 15:
            columns["norm"] = columns["norm"] * 100.0 ** (np.arange(len(NAMES)) // 2)

    findings = found(change)
    assert findings["dominating-layer"].until is not None
    assert findings["vanishing"].until is None


def test_weights_as_they_were_at_the_start_have_no_end():
    """They are looked at once."""

    def change(step, columns, totals):
        columns["weight_norm"][KERNELS] = 170.0
        columns["update_norm"] = 1e-3 * columns["weight_norm"]

    assert found(change)["initialisation"].until is None


def test_it_is_the_same_live_and_afterwards(tmp_path):
    """The same rules read the same records."""
    change = during((3, 20), (40, 45))
    live = RuleEngine(facts())
    with RunWriter(tmp_path) as writer:
        writer.note("model", facts())
        for record in records(change):
            writer.write(record)
            for finding in live.read(record):
                writer.finding(finding.step, finding.to_dict(), str(finding))
    run = gw.open_run(tmp_path)
    assert gw.diagnose(run) == tuple(live.findings)
    assert live.findings[0].until == 45
    for form in ("md", "html"):
        assert "since step 3 until step 45" in report(run, form)
    # Reported at its beginning and whenever it ended: it is one finding.
    assert [Finding.from_dict(values) for values in run.findings] == live.findings


def test_two_findings_that_differ_in_what_was_measured_stay_two(tmp_path):
    """Only a report of the same finding replaces another."""
    first = found(stuck, steps=length("stuck"))["stuck-loss"]
    other = dataclasses.replace(first, measured=None)
    with RunWriter(tmp_path) as writer:
        for finding in (first, other, dataclasses.replace(first, until=250)):
            writer.finding(finding.step, finding.to_dict(), str(finding))
    ends = [values["until"] for values in gw.open_run(tmp_path).findings]
    assert ends == [250, None]


def test_json_of_an_earlier_version_has_no_end():
    """It is read as one that holds."""
    values = Finding("clipping", since=1, step=2).to_dict()
    del values["until"]
    assert Finding.from_dict(values).until is None


def at_times(change, seed):
    """A symptom that comes and goes, for a few steps or many."""
    random = np.random.default_rng(seed)
    shows = np.repeat(random.random(60) < 0.5, random.integers(1, 12, 60))

    def changed(step, columns, totals):
        if shows[step]:
            change(step, columns, totals)

    return changed


@pytest.mark.parametrize("case", [case for case in SICK if case != "NaN"])
def test_rules_that_skip_steps_find_the_same(case, monkeypatch):
    """Whatever comes and goes meanwhile: with the same first, sure and last steps."""
    _, change = SICK[case]
    runs = [list(records(at_times(change, seed), steps=120)) for seed in range(4)]

    def reports():
        engines = [RuleEngine(facts()) for _ in runs]
        return [
            [engine.read(record) for record in run]
            for engine, run in zip(engines, runs, strict=True)
        ]

    skipping = reports()
    monkeypatch.setitem(RuleEngine.__init__.__globals__, "_stride", lambda rule: 1)
    assert skipping == reports()
