"""A run that is read: names, totals, what is wrong with it, and how it prints."""

import struct
import sys

import numpy as np
import pytest

from gradwatch.run import Layout, RunError, RunWriter, open_run
from gradwatch.run._event_file import frame
from gradwatch.summarise import COLUMNS, blank

from .records import LAYOUT, empty, layout_of, record


@pytest.fixture
def run(tmp_path):
    """Three steps of the usual layout."""
    with RunWriter(tmp_path) as writer:
        for step in range(3):
            writer.write(record(step))
    return open_run(tmp_path)


def test_names_are_those_of_weights_and_activations(run):
    """Weights by iteration and length; activations beside them."""
    assert run.names == ("conv1/kernel", "conv1/bias", "head/kernel")
    assert run.activations == ("conv1",)
    assert (list(run), len(run)) == (list(run.names), 3)
    assert "conv1/kernel" in run
    assert "conv1" in run
    assert "kernel" not in run
    assert 3 not in run


def test_the_activation_and_its_gradient_are_two_series(run):
    """`run[name]` is the gradient, `run.activation(name)` the value."""
    assert run["conv1"].kind == "activation"
    assert run.activation("conv1").kind == "value"
    assert run["conv1"].norm[0] != run.activation("conv1").norm[0]


def test_a_unique_last_part_will_do(run):
    """As everywhere in gradwatch."""
    assert run["bias"].name == "conv1/bias"


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("conv1/kernle", r"`name`.*'conv1/kernle'.*Closest: 'conv1/kernel'"),
        ("kernel", r"`name`.*'kernel'.*'conv1/kernel', 'head/kernel'. Ask for one"),
        (3, r"`name`.*Received: 3"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_closest_ones(run, name, match):
    """What was received, and what there is."""
    with pytest.raises(KeyError, match=match):
        run[name]


def test_a_weight_has_no_activation(run):
    """The other way to ask is in the message."""
    with pytest.raises(KeyError, match=r"`name`.*only the gradient.*run\['head/kernel"):
        run.activation("head/kernel")


def test_an_activation_whose_value_only_was_recorded_says_so(tmp_path):
    """The other way to ask is in the message, here too."""
    with RunWriter(tmp_path) as writer:
        writer.write(record(0, Layout(("conv1",), ("value",), (0,))))
    run = open_run(tmp_path)
    assert run.activations == ("conv1",)
    with pytest.raises(KeyError, match=r"`name`.*run.activation\('conv1'\)"):
        run["conv1"]


def test_update_ratios_are_quotients_of_what_was_measured(tmp_path):
    """Over zero it is infinite or NaN; masked only where a part was not measured."""
    layout = layout_of("a", "b", "c", "d")
    one = record(0, layout, update_norm=[1, 1, 0, 1], weight_norm=[4, 0, 0, 8])
    with RunWriter(tmp_path) as writer:
        writer.write(one)
        writer.write(empty(1, layout))
    run = open_run(tmp_path)
    expected = {"a": 0.25, "b": np.inf, "c": np.nan, "d": 0.125}
    for name, number in expected.items():
        ratio = run[name].update_ratio
        assert ratio.mask.tolist() == [False, True]
        np.testing.assert_array_equal(ratio.data[0], number)
    assert run.totals.update_ratio.tolist() == [0.0625, None]


def test_clipping_rate_counts_updates_only(tmp_path):
    """Accumulating and skipped steps are no updates; unknown ones are not counted."""
    steps = [
        {"clipped": 1.0, "update": 1.0, "skipped": 0.0},
        {"clipped": 0.0, "update": 1.0, "skipped": 0.0},
        {"clipped": 1.0, "update": 0.0},  # accumulates
        {"clipped": 1.0, "update": 1.0, "skipped": 1.0},
        {"clipped": 0.0},
        {"clipped": 0.0},
        {"update": 1.0},
    ]
    with RunWriter(tmp_path) as writer:
        for step, totals in enumerate(steps):
            writer.write(record(step * 10, totals=totals))
    run = open_run(tmp_path)
    assert run.clipping_rate == 0.25
    assert run.skipped_steps.tolist() == [30]


def test_what_was_not_measured_has_no_rate(run):
    """`None`, which is not 0."""
    assert run.clipping_rate is None
    assert run.skipped_steps.tolist() == []
    assert run.overhead is None
    assert run.findings == ()


def test_files_of_other_programs_are_passed_over(run, tmp_path):
    """Also damaged ones, and names that are no event file."""
    (tmp_path / "events.out.tfevents.1.keras").write_bytes(frame(b"") + b"torn")
    (tmp_path / "events.out.tfevents.9.empty").touch()
    (tmp_path / "notes.txt").write_text("mine")
    assert open_run(tmp_path).steps.tolist() == [0, 1, 2]


def test_a_missing_directory_is_an_error(tmp_path):
    """Which names it, and says what to give."""
    with pytest.raises(RunError, match=r"`directory`.*nowhere'.*not exist.*monitor"):
        open_run(tmp_path / "nowhere")


def test_a_file_in_its_place_is_an_error(tmp_path):
    """A run is a directory of event files."""
    (tmp_path / "run").touch()
    with pytest.raises(RunError, match=r"`directory`.*run', which is a file"):
        open_run(tmp_path / "run")


def test_a_directory_that_is_none_is_an_error():
    """Not a TypeError from somewhere inside."""
    with pytest.raises(RunError, match=r"`directory` must be a path. Received: None"):
        open_run(None)


@pytest.mark.parametrize(
    ("files", "match"),
    [
        ([], r"`directory`.*which is empty"),
        (["a.txt", "b.txt"], r"which holds 'a.txt', 'b.txt', and no event file"),
        (["events.out.tfevents.1"], r"holds 1 event file of other programs, such as"),
    ],
)
def test_a_directory_without_a_run_says_what_it_holds(tmp_path, files, match):
    """So that a wrong directory is recognised."""
    for name in files:
        (tmp_path / name).write_text("x")
    with pytest.raises(RunError, match=match):
        open_run(tmp_path)


def test_runs_below_a_directory_are_named(tmp_path):
    """The commonest mistake: the directory above."""
    for name in ("a", "b"):
        with RunWriter(tmp_path / name) as writer:
            writer.write(record(0))
    with pytest.raises(RunError, match=r"runs below it: '.*a', '.*b'"):
        open_run(tmp_path)


@pytest.mark.parametrize(("other", "way_out"), [(9, "Upgrade"), (3, "Record the run")])
def test_another_format_is_an_error_that_says_so(run, tmp_path, other, way_out):
    """Not a wrong number: another gradwatch may mean something else by it."""
    [file] = tmp_path.iterdir()
    data = file.read_bytes()
    at = data.index(b'"format":4')
    newer = data.replace(b'"format":4', f'"format":{other}'.encode())
    start = 0  # Frame the records again, as their checksums have changed.
    parts = []
    while start < len(newer):
        (length,) = struct.unpack_from("<Q", newer, start)
        parts.append(frame(newer[start + 12 : start + 12 + length]))
        start += length + 16
    assert at > 0
    file.write_bytes(b"".join(parts))
    with pytest.raises(RunError, match=f"of format 4.*format {other}.*{way_out}"):
        open_run(tmp_path)


def test_a_run_of_notes_only_has_no_steps(tmp_path):
    """Training that ended before the first step: nothing to show, and no error."""
    with RunWriter(tmp_path) as writer:
        writer.note("model", {"name": "demo"})
    run = open_run(tmp_path)
    assert (len(run), len(run.steps), run.totals.steps.tolist()) == (0, 0, [])
    assert "no steps" in str(run)
    assert run.clipping_rate is None


def calls_to_read(path, lines, steps):
    """How many functions are called to read a run of so many numbers."""
    layout = layout_of(*(f"w{i}" for i in range(lines)))
    with RunWriter(path, native_every_seconds=None) as writer:
        for step in range(steps):
            writer.write(record(step, layout))
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        run = open_run(path)
        found = run["w7"].norm.count()
    finally:
        sys.setprofile(before)
    assert found == steps
    return calls


def test_a_million_numbers_are_read_record_by_record(tmp_path):
    """Not one by one: ten times as many in each record are hardly more work."""
    few = calls_to_read(tmp_path / "few", lines=20, steps=340)
    many = calls_to_read(tmp_path / "many", lines=200, steps=340)
    assert many < few + 10 * 200  # for the names, which are read once
    assert many < 100 * 340


TABLE = """\
step 3          norm  update ratio  % zero  non-finite
──────────────────────────────────────────────────────
conv1/kernel   3.000        0.9990       0           9
conv1/bias     3.010        0.9990   25.00           9
conv1          3.020        0.9990   50.00           9
conv1 (value)    NaN             —   100.0           9
head/kernel        —        0.9990   12.50           —"""


def test_a_run_prints_its_newest_step(tmp_path):
    """Names, norms, ratios and counts; a dash where nothing was measured."""
    last = record(3)
    nothing = blank(1)[0]
    last.rows[:, COLUMNS.index("update_norm")] = last.rows[:, 11] * 0.999
    last.rows[3, COLUMNS.index("weight_norm")] = nothing
    last.rows[3:, 0] = [np.nan, nothing]
    last.rows[4, COLUMNS.index("posinf")] = nothing
    last.rows[:, COLUMNS.index("zeros")] = [0, 0.25, 0.5, 1, 0.125]
    with RunWriter(tmp_path) as writer:
        writer.write(record(0))
        writer.write(last)
    title, _, table = str(open_run(tmp_path)).partition("\n")
    assert title == f"'{tmp_path}': 2 steps from 0 to 3, 3 weights, 1 activation"
    assert table == TABLE


def test_long_tables_and_names_are_folded(tmp_path):
    """At most 41 rows, and the middle of a name left out."""
    names = ["deep/" * 30 + f"layer_{i}/kernel" for i in range(100)]
    with RunWriter(tmp_path) as writer:
        writer.write(record(0, layout_of(*names)))
    lines = str(open_run(tmp_path)).splitlines()
    assert len(lines) == 44
    assert "… 60 more …" in lines
    assert max(len(line) for line in lines[1:]) <= 100
    assert lines[3].startswith("deep/deep")
    assert "layer_0/kernel " in lines[3]


def test_reprs_are_one_line(run):
    """What there is, and from when to when."""
    assert repr(run).startswith("<Run '")
    assert repr(run).endswith("3 steps from 0 to 2, 3 weights, 1 activation>")
    assert repr(run["bias"]) == "<Series 'conv1/bias': weight, 3 steps from 0 to 2>"
    assert len(run["bias"]) == len(run.totals) == 3
    assert repr(run.totals).startswith("<Totals: 3 steps from 0 to 2, global_norm, ")
    assert LAYOUT.names[0] in run
