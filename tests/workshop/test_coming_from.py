"""Every right-hand line of "Coming from another tool" runs."""

import importlib.util
import re
from pathlib import Path

import keras
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "coming-from.md"
ROW = re.compile(r"^\| (.*) \| (.*) \|$", re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")
# What has no counterpart says so; a cell is never just left empty.
NOTHING = ("not here", "nothing to do")


def rows(text):
    """(left, right) of each line of the tables, without their heads."""
    found = ROW.findall(text)
    heads = {n for n, row in enumerate(found) if row == ("---", "---")}
    left_out = heads | {n - 1 for n in heads}
    return [row for n, row in enumerate(found) if n not in left_out]


def setup(text):
    """The model and the batch of the page."""
    [code] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return code


TEXT = PAGE.read_text(encoding="utf-8")
# Many tools have the same question: its answer is run once.
LINES = sorted({CODE.search(right)[1] for _, right in rows(TEXT) if CODE.match(right)})


@pytest.fixture(scope="module")
def names():
    """What the lines of the page share."""
    shared = {}
    exec(setup(TEXT), shared)
    return shared


@pytest.mark.parametrize("line", LINES)
def test_line_runs(line, names, tmp_path, monkeypatch):
    """The line on the right gives something, without a warning."""
    if line == "gw.Tape(model)" and keras.config.backend() == "jax":
        pytest.skip("JAX has no tape: the page says so.")
    if "WandbSink" in line:
        assert importlib.util.find_spec("wandb")
    monkeypatch.chdir(tmp_path)
    result = eval(line, dict(names))
    assert result is not None or line.startswith("np.savez")


def test_every_line_has_an_answer():
    """Six tables; each line has code on the right, or says that there is none."""
    assert TEXT.count("| --- | --- |") == 6
    found = rows(TEXT)
    assert len(found) > 60
    for left, right in found:
        assert CODE.search(left) or left.startswith(("a ", "a custom")), left
        assert CODE.match(right) or right.startswith(NOTHING), right
