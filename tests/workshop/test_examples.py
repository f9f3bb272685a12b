"""Every example, and every Python block of the README and the docs, runs as printed.

What a user starts is started: the README and, on TensorFlow, each example is a process
of its own. To import a backend takes longer than to run a page, so the other pages, and
the examples on the other backends, run in the process of the tests: with a namespace, a
directory and random streams of their own, and held to the same.
"""

import re
import runpy
import sys
import traceback
import warnings
from pathlib import Path
from types import SimpleNamespace

import keras
import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

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


@pytest.fixture
def here(tmp_path, monkeypatch, capfd):
    """Run a script in this process, as `python …` would; what came of it."""

    def run(script):
        loaded, status = set(sys.modules), 0
        with monkeypatch.context() as patch, warnings.catch_warnings():
            patch.chdir(tmp_path)
            patch.syspath_prepend(str(script.parent))
            patch.setattr(sys, "argv", [str(script)])
            patch.setattr(sys, "stderr", sys.stderr)  # put back, whatever it does
            before = sys.stderr
            warnings.simplefilter("default")
            warnings.showwarning = show_warning
            try:
                runpy.run_path(str(script), run_name="__main__")
            except SystemExit as end:
                status = end.code or 0
            except Exception:  # noqa: BLE001 - whatever ends a script is told
                traceback.print_exc()
                status = 1
            assert sys.stderr is before, f"{script.name} changes its process."
        forget(set(sys.modules) - loaded, script.parent)
        said = capfd.readouterr()
        return SimpleNamespace(returncode=status, stdout=said.out, stderr=said.err)

    return run


def show_warning(message, category, filename, lineno, file=None, line=None):
    """As Python shows a warning, whatever pytest has made of it."""
    text = warnings.formatwarning(message, category, filename, lineno, line)
    sys.stderr.write(text)


def forget(names, folder):
    """Unload what a script imported from beside it: the next has another."""
    for name in names:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).parent == folder:
            del sys.modules[name]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(path, python, here):
    """The example ends well in an empty directory, without a warning of its own."""
    alone = keras.config.backend() == "tensorflow"
    check(python(path) if alone else here(path), path.name)


def written(page, folder):
    """The Python blocks of a page as a script."""
    # Not the bare stem: `inspect.py` would hide the module of that name.
    script = folder / f"page_{page.stem.replace('-', '_')}.py"
    script.write_text(blocks(page.read_text(encoding="utf-8")), encoding="utf-8")
    return script


def test_readme_runs_from_top_to_bottom(python, tmp_path):
    """The Python blocks of the README, pasted in order, run without a warning."""
    script = written(README, tmp_path)
    check(python(script), script.name)


def has_blocks(page):
    return bool(blocks(page.read_text(encoding="utf-8")).strip())


PAGES = [page for page in sorted((ROOT / "docs").glob("**/*.md")) if has_blocks(page)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_page_runs_from_top_to_bottom(path, here, tmp_path):
    """The Python blocks of a page, pasted in order, run without a warning."""
    script = written(path, tmp_path)
    check(here(script), script.name)


def test_there_is_something_to_run():
    """There are examples, and the README and the front page have a block that runs."""
    assert ROOT / "examples" / "inspect_loss_gradients.py" in EXAMPLES
    assert ROOT / "docs" / "index.md" in PAGES
    assert has_blocks(README)


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
def test_a_bad_example_fails(source, fault, python, here, tmp_path):
    """A status, a printed traceback and a warning each fail it, in either process."""
    script = tmp_path / "bad.py"
    script.write_text(source)
    for run in (python, here):
        with pytest.raises(AssertionError, match=fault):
            check(run(script), script.name)


def test_a_script_that_changes_its_process_is_not_run_here(here, tmp_path):
    """What would outlive the script is told, and undone."""
    script = tmp_path / "loud.py"
    script.write_text("import io, sys\nsys.stderr = io.StringIO()")
    before = sys.stderr
    with pytest.raises(AssertionError, match="loud.py changes its process"):
        here(script)
    assert sys.stderr is before


def test_a_script_that_runs_here_leaves_nothing_behind(here, tmp_path):
    """A second script sees neither the names nor the modules of the first."""
    script, helper = tmp_path / "script.py", tmp_path / "helper.py"
    for value in (1, 200):
        helper.write_text(f"value = {value}")
        script.write_text(
            "assert 'mine' not in globals()\nimport helper\nmine = 1\n"
            f"assert helper.value == {value}"
        )
        check(here(script), script.name)
    assert "helper" not in sys.modules
    assert str(tmp_path) not in sys.path
