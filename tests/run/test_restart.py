"""A run that goes back supersedes what it does again, and only that."""

import numpy as np
import pytest

from gradwatch.run import RunWriter, open_run

from .records import layout_of, record


def norms(run):
    return dict(zip(run.steps.tolist(), run["a"].norm.tolist(), strict=True))


def write(path, steps, norm):
    with RunWriter(path) as writer:
        for step in steps:
            writer.write(record(step, layout_of("a"), norm=norm))


def test_a_restart_at_an_earlier_step_supersedes_what_follows_it(tmp_path):
    """A checkpoint at step 3 was loaded: steps 3 to 5 were done again, 6 was not."""
    write(tmp_path, range(7), norm=1)
    write(tmp_path, [3, 4, 5], norm=2)
    assert norms(open_run(tmp_path)) == {0: 1, 1: 1, 2: 1, 3: 2, 4: 2, 5: 2}


def test_a_resumed_run_supersedes_nothing(tmp_path):
    """It goes on where the other process ended."""
    write(tmp_path, range(3), norm=1)
    write(tmp_path, [3, 4], norm=2)
    assert norms(open_run(tmp_path)) == {0: 1, 1: 1, 2: 1, 3: 2, 4: 2}


def test_a_run_from_the_beginning_replaces_the_old_one(tmp_path):
    """Also where it records other steps."""
    write(tmp_path, [0, 10, 20], norm=1)
    write(tmp_path, [0, 7], norm=2)
    assert norms(open_run(tmp_path)) == {0: 2, 7: 2}


@pytest.mark.parametrize("back", [1, 2])
def test_one_writer_may_go_back(tmp_path, back):
    """The same monitor in a second `fit` from the beginning; or the same step again."""
    with RunWriter(tmp_path) as writer:
        for step in range(3):
            writer.write(record(step, layout_of("a"), norm=1))
        writer.finding(1, {"rule": "old"})
        writer.finding(0, {"rule": "kept"})
        writer.write(record(back, layout_of("a"), norm=2))
    run = open_run(tmp_path)
    assert norms(run) == {**dict.fromkeys(range(back), 1), back: 2}
    rules = [finding["rule"] for finding in run.findings]
    assert rules == (["kept"] if back == 1 else ["old", "kept"])


def test_a_restart_forgets_the_end_of_a_finding_and_not_the_finding(tmp_path):
    """It was made at step 1, and over at step 4: step 3 is done again."""
    finding = {"symptom": "vanishing", "since": 0, "step": 1}
    with RunWriter(tmp_path) as writer:
        for step in range(5):
            writer.write(record(step, layout_of("a"), norm=1))
        writer.finding(1, finding)
        writer.finding(4, {**finding, "until": 2})
    assert [f.get("until") for f in open_run(tmp_path).findings] == [2]
    write(tmp_path, [3], norm=2)
    assert [f.get("until") for f in open_run(tmp_path).findings] == [None]


def test_notes_outlive_a_restart(tmp_path):
    """Facts of the run as a whole are of no step."""
    with RunWriter(tmp_path) as writer:
        writer.note("model", {"name": "demo"})
        writer.write(record(5))
        writer.write(record(0))
    assert open_run(tmp_path).notes == {"model": {"name": "demo"}}


def test_a_finding_before_the_first_record_is_kept(tmp_path):
    """It starts the run; the record of the same step does not start it again."""
    write(tmp_path, range(7), norm=1)
    with RunWriter(tmp_path) as writer:
        writer.finding(4, {"rule": "first"})
        writer.write(record(4, layout_of("a"), norm=2))
    run = open_run(tmp_path)
    assert norms(run) == {0: 1, 1: 1, 2: 1, 3: 1, 4: 2}
    assert [finding["rule"] for finding in run.findings] == ["first"]


def test_a_finding_alone_supersedes_the_step_it_is_of(tmp_path):
    """The process was killed before the record of that step: the old one is stale."""
    write(tmp_path, range(7), norm=1)
    with RunWriter(tmp_path) as writer:
        writer.finding(4, {"rule": "first"})
    assert norms(open_run(tmp_path)) == {0: 1, 1: 1, 2: 1, 3: 1}


def test_a_record_before_the_first_finding_starts_the_run_again(tmp_path):
    """What is done again is superseded from the earliest step on."""
    write(tmp_path, range(7), norm=1)
    with RunWriter(tmp_path) as writer:
        writer.finding(6, {"rule": "early"})
        writer.write(record(2, layout_of("a"), norm=2))
    assert norms(open_run(tmp_path)) == {0: 1, 1: 1, 2: 2}


def test_two_writers_at_once_do_not_harm_each_other(tmp_path):
    """Each has its file; the one that began later is what a reader sees."""
    with RunWriter(tmp_path) as first, RunWriter(tmp_path) as second:
        for step in range(20):
            first.write(record(step, layout_of("a"), norm=1))
            second.write(record(step, layout_of("a"), norm=2))
    assert len(list(tmp_path.iterdir())) == 2
    assert norms(open_run(tmp_path)) == dict.fromkeys(range(20), 2)


def test_many_writers_of_one_moment_have_files_in_order(tmp_path):
    """Twelve restarts within a second: the last one counts."""
    for number in range(12):
        write(tmp_path, [0, 1], norm=number)
    assert len(list(tmp_path.iterdir())) == 12
    assert norms(open_run(tmp_path)) == {0: 11, 1: 11}


def test_a_layout_that_changes_with_a_restart_has_its_own_names(tmp_path):
    """The second process watches other layers; each step has the names it had."""
    write(tmp_path, range(4), norm=1)
    with RunWriter(tmp_path) as writer:
        writer.write(record(2, layout_of("b", "a"), norm=[5, 6], histograms=True))
    run = open_run(tmp_path)
    assert norms(run) == {0: 1, 1: 1, 2: 6}
    assert run["b"].norm.tolist() == [5]
    assert run.steps.dtype == np.int64


def test_reading_while_it_is_written_shows_what_is_there(tmp_path):
    """`refresh` reads on; what was taken from the run before stays as it was."""
    with RunWriter(tmp_path) as writer:
        writer.write(record(0))
        run = open_run(tmp_path)
        writer.write(record(1))
        before, totals, steps = run["head/kernel"], run.totals, run.steps
        assert steps.tolist() == [0]
        assert run.refresh()
        assert run.steps.tolist() == run["head/kernel"].steps.tolist() == [0, 1]
        assert len(run.totals) == 2
        assert before.steps.tolist() == totals.steps.tolist() == steps.tolist() == [0]
