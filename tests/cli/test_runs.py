"""Commands that read runs: what they print is what the doors of Python give."""

import csv
import sys

import numpy as np
import pytest

import gradwatch as gw
from gradwatch.run import RunWriter, _reader
from gradwatch.show.diff import compare
from gradwatch.show.report import report


def test_watch_tells_findings_and_the_end_into_a_pipe(gradwatch, runs):
    """The runner is no terminal."""
    said = gradwatch("watch", runs.a)
    assert said.exit_code == 0
    told, over = said.output.splitlines()
    assert told.startswith("vanishing since step 2")
    assert over.endswith("the training ended after step 10; 1 finding.")


def test_watch_once_prints_what_there_is(gradwatch, runs):
    """The numbers of the newest record, without colours."""
    said = gradwatch("watch", runs.a, "--once")
    assert said.exit_code == 0
    [row] = [r for r in said.output.splitlines() if r.startswith("out/kernel")]
    assert row.split()[2] == "1.10"  # 11 at the first layer, a tenth at the second
    assert "\x1b" not in said.output


def test_report_writes_a_page(gradwatch, runs, tmp_path):
    """Its name is a default; what it ends in says what it is."""
    said = gradwatch("report", runs.a)
    assert said.exit_code == 0
    assert said.output.startswith("Wrote report.html (")
    assert (tmp_path / "report.html").read_text() == report([runs.a])
    gradwatch("report", runs.a, runs.b, "-o", "both.md", "--title", "Both")
    both = report([runs.a, runs.b], "md", title="Both")
    assert (tmp_path / "both.md").read_text() == both


@pytest.mark.parametrize("kind", ["md", "json"])
def test_report_for_a_pipe_goes_to_the_screen(gradwatch, runs, kind):
    """Nothing else is printed, so that it can be parsed."""
    said = gradwatch("report", runs.a, "--format", kind)
    assert said.exit_code == 0
    assert said.output == report([runs.a], kind)


def test_diff_prints_what_differs(gradwatch, runs, parsed):
    """As a table and as JSON; the exit status only where it is asked for."""
    result = compare(gw.open_run(runs.a), gw.open_run(runs.b))
    said = gradwatch("diff", runs.a, runs.b)
    assert said.exit_code == 0
    assert said.output == f"{result}\n"
    values = parsed(gradwatch("diff", runs.a, runs.b, "--json").output)
    assert [layer["ratio"] for layer in values["layers"]] == [2.0, 2.0]
    assert gradwatch("diff", runs.a, runs.b, "--exit-code").exit_code == 1
    assert gradwatch("diff", runs.a, runs.a, "--exit-code").exit_code == 0


def test_export_writes_every_line(gradwatch, runs, tmp_path):
    """The numbers of the file are those of the run."""
    said = gradwatch("export", runs.a, "-o", "a.csv")
    assert said.exit_code == 0
    assert said.output == "Wrote a.csv: 12 rows of 6 steps.\n"
    with open(tmp_path / "a.csv") as file:
        lines = list(csv.DictReader(file))
    norms = [float(line["norm"]) for line in lines if line["name"] == "in/kernel"]
    np.testing.assert_allclose(norms, gw.open_run(runs.a)["in/kernel"].norm)
    assert gradwatch("export", runs.a, "-o", "a.parquet").exit_code == 0
    assert gradwatch("export", runs.a, "-o", "a.json").exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["watch", "{}", "--once"],
        ["report", "{}"],
        ["diff", "{run}", "{}"],
        ["diff", "{}", "{run}"],
        ["export", "{}", "-o", "x.csv"],
        ["diagnose", "{}"],
        ["autopsy", "{}"],
    ],
)
@pytest.mark.parametrize("what", ["missing", "file", "empty", "parent", "foreign"])
def test_what_is_no_run_is_one_sentence_and_2(
    gradwatch, runs, tmp_path, arguments, what
):
    """It names what it was given; nothing is written."""
    place = tmp_path / what
    if what == "file":
        place.write_text("")
    elif what == "parent":
        place = runs.root
    elif what != "missing":
        place.mkdir()
    if what == "foreign":
        (place / "events.out.tfevents.1.other").write_text("other")
    said = gradwatch(*(a.format(place, run=runs.a) for a in arguments))
    assert said.exit_code == 2
    assert said.stderr.startswith("Error: `RUN` must ")
    assert str(place) in said.stderr
    assert what != "file" or "which is a file" in said.stderr
    assert "Traceback" not in said.output
    assert not (tmp_path / "x.csv").exists()
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["report", "{a}", "-o", "a.doc"],
            "`--output` must end in .html, .md or .json",
        ),
        (["report", "{a}", "--format", "pdf"], "'pdf' is not one of"),
        (["report", "{a}", "-o", "."], "is a directory"),
        (["report"], "Missing argument 'RUN...'"),
        (["export", "{a}", "-o", "x.xls"], "must end in .csv, .json or .parquet"),
        (["export", "{a}", "-o", "no/where.csv"], "in a directory that exists"),
        (["export", "{a}"], "Missing option '-o'"),
        (["report", "{a}", "-o", "/dev/null/x.html"], "Choose another path"),
        (["watch", "{a}", "--refresh", "9"], "`--refresh` must be above 0"),
        (["watch", "{a}", "--refresh", "fast"], "is not a valid float"),
        (["watch"], "Missing argument 'RUN'"),
        (["diff", "{a}"], "Missing argument 'RUN'"),
    ],
)
def test_a_wrong_argument_is_one_sentence_and_2(gradwatch, runs, arguments, told):
    """Whatever click or the doors find."""
    said = gradwatch(*(a.format(a=runs.a) for a in arguments))
    assert said.exit_code == 2
    assert told in " ".join(said.stderr.split())
    assert "Traceback" not in said.output


def test_a_missing_library_names_the_extra(gradwatch, runs, monkeypatch):
    """As if pyarrow were not installed."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = gradwatch("export", runs.a, "-o", "a.parquet")
    assert said.exit_code == 2
    assert 'pip install "gradwatch[pandas]"' in said.stderr


def test_a_dash_is_the_screen(gradwatch, runs, tmp_path, monkeypatch):
    """As for other commands: no file of that name."""
    monkeypatch.chdir(tmp_path)
    assert gradwatch("report", runs.a, "-o", "-").stdout == report([runs.a], "html")
    said = gradwatch("report", runs.a, "-o", "-", "--format", "md")
    assert said.stdout == report([runs.a], "md")
    assert list(tmp_path.iterdir()) == []


def test_a_place_without_room_is_a_rule_and_a_way_out(gradwatch, runs, monkeypatch):
    """The system names no file where it is the screen that takes no more."""
    import errno

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("gradwatch.show.report.report", full)
    said = gradwatch("report", runs.a, "--format", "md")
    assert said.exit_code == 2
    assert "Received: No space left on device. Make room" in said.stderr


def test_a_file_that_cannot_be_made_is_named_as_it_was_given(
    gradwatch, runs, tmp_path, monkeypatch
):
    """And not as what is made beside it first."""

    def refuse(draft, _):
        assert draft.name != "a.csv"
        raise PermissionError(13, "Permission denied", str(draft))

    monkeypatch.setattr("gradwatch.run._export._to_csv", refuse)
    said = gradwatch("export", runs.a, "-o", tmp_path / "a.csv")
    assert said.exit_code == 2
    assert f"Received: '{tmp_path / 'a.csv'}': Permission denied" in said.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["watch", "{a}"],
        ["watch", "{a}", "--once"],
        ["diagnose", "{a}"],
        ["report", "{a}", "{b}"],
        ["report", "{a}", "--format", "md"],
        ["report", "{a}", "--format", "json"],
        ["diff", "{a}", "{b}"],
        ["export", "{a}", "-o", "a.json"],
    ],
)
def test_no_command_reads_a_run_twice(gradwatch, runs, monkeypatch, arguments):
    """Each event of each directory is decoded once."""
    events, take = [], _reader.Reader._take

    def counted(reader, data, path, file):
        events.append(data)
        take(reader, data, path, file)

    monkeypatch.setattr(_reader.Reader, "_take", counted)
    said = gradwatch(*(each.format(a=runs.a, b=runs.b) for each in arguments))
    assert said.exit_code in (0, 1)
    assert len(events) > 6
    assert len(events) == len(set(events))


def test_a_run_without_a_record_is_not_said_to_be_well(gradwatch, tmp_path):
    """Nothing can be told of it, and no more is said."""
    with RunWriter(tmp_path / "never") as writer:
        writer.note("run", {"model": "mlp"})
    said = gradwatch("diagnose", tmp_path / "never")
    assert said.exit_code == 0
    assert said.output.startswith("No step was recorded, so there is nothing to judge")
