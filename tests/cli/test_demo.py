"""The demo runs from a shell, finds what was planted, and writes what it says."""

import os
import subprocess
import sys

import pytest

from gradwatch import GradwatchError, diagnose, open_run
from gradwatch.demo import NAMES
from gradwatch.demo._demo import MARK, _prepare

PICTURES = {
    *("explained.png", "finding-vanishing.png", "flow-faulty.png", "flow-repaired.png"),
    *("histogram-repaired.png", "norm-faulty.png", "norm-repaired.png"),
}


def test_the_demo_finds_what_was_planted_and_writes_what_it_says(tmp_path):
    """Live view, findings, repaired twin, explanation, report, pictures; no noise."""
    done = subprocess.run(
        [sys.executable, "-m", "gradwatch", "demo", "--quick", "--out", "demo"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    out = tmp_path / "demo"
    runs = {name: open_run(out / "runs" / name) for name in NAMES}
    assert [f.symptom for f in diagnose(runs["faulty"])] == ["vanishing"]
    assert diagnose(runs["repaired"]) == ()
    # One line while it trained, and what it is in full afterwards.
    assert "vanishing since step 0: gradients vanish along depth" in done.stdout
    assert "Gradients vanish along depth [vanishing]." in done.stdout
    assert "Nothing is wrong with its gradients." in done.stdout
    assert {path.name for path in (out / "pictures").iterdir()} == PICTURES
    page = (out / "report.html").read_text(encoding="utf-8")
    assert all(name in page for name in NAMES)
    last = done.stdout.rstrip().splitlines()[-3:]
    assert [line.split()[0] for line in last] == ["Open", "tensorboard", "Yours:"]
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]


def test_the_demo_does_not_write_beside_other_things(tmp_path):
    """A directory with anything in it is refused, with the way out."""
    (tmp_path / "mine.txt").touch()
    with pytest.raises(GradwatchError, match="`--out` must be .*Give another name"):
        _prepare(tmp_path)
    with pytest.raises(GradwatchError, match="`--out` must be a directory"):
        _prepare(tmp_path / "mine.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_second_demo_takes_the_place_of_the_first(tmp_path):
    """Of its own runs only: what somebody put beside them stays."""
    _prepare(tmp_path / "demo")
    kept, old = (tmp_path / "demo" / "runs" / name for name in ("mine", NAMES[0]))
    for path in (kept, old):
        path.mkdir(parents=True)
    _prepare(tmp_path / "demo")
    assert (tmp_path / "demo" / MARK).exists()
    assert kept.exists()
    assert not old.exists()
