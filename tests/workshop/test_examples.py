"""Every example, and every Python block of the README and the docs, runs as printed."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]

FENCE = re.compile(r"^\s*(```+|~~~+)\s*(.*)$")
# Our own warning, or one that the example's own line causes.
WARNED = r"(?m)^(.*(?:gradwatch|{script})[^\n]*:\d+: \w*Warning: .*)$"


def blocks(text):
    """The Python blocks of a page as one script in which line numbers are the page's.

    A block is left out when it is fenced as "python no-run", or when the last line
    before it that is not empty is `<!-- not run: the reason -->`.
    """
    script, fence, runs, before = [], None, False, ""
    for line in text.splitlines():
        mark = FENCE.match(line)
        if fence is None and mark:
            fence = mark[1]
            left_out = before.startswith("<!-- not run:")
            runs = mark[2].split() == ["python"] and not left_out
            script.append("")
        elif mark and mark[1].startswith(fence or "\0") and not mark[2]:
            fence, runs = None, False
            script.append("")
        else:
            script.append(line if runs else "")
        if line.strip():
            before = line.strip()
    return "\n".join(script) + "\n"


def check(done, script):
    """Fail with all that the process said, unless it ended well and without warning."""
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "Traceback (most recent call last)" not in said, said
    assert re.findall(WARNED.format(script=re.escape(script)), done.stderr) == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(path, python):
    """The example ends well in an empty directory, without a warning of its own."""
    check(python(path), path.name)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_page_runs_from_top_to_bottom(path, python, tmp_path):
    """The Python blocks of a page, pasted in order, run without a warning."""
    # Not the bare stem: `inspect.py` would hide the module of that name.
    script = tmp_path / f"page_{path.stem}.py"
    script.write_text(blocks(path.read_text(encoding="utf-8")), encoding="utf-8")
    check(python(script), script.name)


def test_there_is_something_to_run():
    """The demo exists, and the README has a block that runs."""
    assert ROOT / "examples" / "demo.py" in EXAMPLES
    assert blocks((ROOT / "README.md").read_text(encoding="utf-8")).strip()


PAGE = """# Title
```python
x = 1
```
```python no-run
x = 2
```
<!-- not run: needs a GPU -->

```python
x = 3
```
```text
x = 4
```
~~~python
x += 5
~~~
"""


def test_blocks_keep_their_lines_and_leave_out_the_marked_ones():
    """Only plain `python` blocks are run, each line at its place in the page."""
    lines = {n: line for n, line in enumerate(blocks(PAGE).splitlines(), 1) if line}
    assert lines == {3: "x = 1", 17: "x += 5"}


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("import sys; sys.exit(1)", "assert 1 == 0"),
        ("import traceback\ntry: 1/0\nexcept: traceback.print_exc()", "Traceback"),
        ("import warnings\nwarnings.warn('odd')", "UserWarning: odd"),
    ],
)
def test_a_bad_example_fails(source, fault, python, tmp_path):
    """An exit status, a printed traceback and a warning each fail the example."""
    script = tmp_path / "bad.py"
    script.write_text(source)
    with pytest.raises(AssertionError, match=fault):
        check(python(script), script.name)
