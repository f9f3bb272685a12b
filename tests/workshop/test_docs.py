"""The site: its list of pages is true, and every public name has a page.

Nothing is built here and nothing of the site's tools is needed: `make docs` does that.
"""

import importlib.util
import shutil
from pathlib import Path

import pytest

import gradwatch

ROOT = Path(__file__).parents[2]


def load(name):
    """A script of docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check = load("check")


def test_the_pages_are_listed_linked_and_complete():
    """What `make docs` checks before it builds holds."""
    assert check.faults(ROOT) == []


def test_the_names_are_those_of_the_package():
    """Read as text, the doors have the names that Python finds behind them."""
    names = check.public_names(ROOT)
    front = {n.rpartition(".")[2] for n in names if n.count(".") == 1}
    assert front == set(gradwatch.__all__)
    for name in names:
        door, _, own = name.rpartition(".")
        assert hasattr(importlib.import_module(door), own), name


@pytest.fixture
def tree(tmp_path):
    """A small tree with nothing wrong in it."""
    files = {
        "zensical.toml": '[project]\nnav = [\n{ "A" = "index.md" },\n'
        '# { "B" = "later.md" },\n{ "R" = [{ "I" = "reference/all.md" }] },\n]\n',
        "docs/index.md": "[a](reference/all.md#x) ![b](b.png) `[c](no.md)`\n",
        "docs/b.png": "",
        "docs/reference/all.md": "::: gradwatch.verb\n\n::: gradwatch.attribute.how\n",
        "src/gradwatch/__init__.py": '__all__ = ["verb", "how"]\n',
        "src/gradwatch/attribute/__init__.py": "from ._how import how as how\n",
        "src/gradwatch/testing/__init__.py": "from ._a import b\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_a_sound_tree_has_no_faults(tree):
    """A name at two doors is shown once; an announced page may be missing, or there."""
    assert check.faults(tree) == []
    (tree / "docs" / "later.md").write_text("here\n")
    assert check.faults(tree) == []


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("src/gradwatch/__init__.py", '__all__ = ["new"]', "gradwatch.new is public"),
        ("src/gradwatch/testing/__init__.py", "from .a import b as b", "testing.b is"),
        ("src/gradwatch/testing/c/__init__.py", "from .a import d as d", "c.d is"),
        ("docs/extra.md", "text", "extra.md is not in zensical.toml"),
        ("docs/index.md", "[a](gone.md)", "gone.md is not in docs/"),
        ("docs/index.md", "![a](gone.png)", "gone.png is not in docs/"),
        ("docs/index.md", "[a](../zensical.toml)", "zensical.toml is not in docs/"),
        ("docs/index.md", "```python no-run\n1\n```", "is no fence"),
    ],
)
def test_a_fault_is_found(tree, file, text, fault):
    """Each kind of fault is told, once."""
    path = tree / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    [found] = check.faults(tree)
    assert fault in found


def test_a_listed_page_that_is_missing_is_found(tree):
    """The builder would show a dead entry in the menu, and say nothing."""
    shutil.move(tree / "docs" / "index.md", tree / "docs" / "later.md")
    assert check.faults(tree) == ["index.md is listed, but missing."]


def test_a_name_on_two_pages_is_refused(tree):
    """Links to a name must lead to one place."""
    (tree / "docs" / "reference" / "more.md").write_text("::: gradwatch.verb\n")
    with pytest.raises(SystemExit, match=r"gradwatch.verb is on more.md and on all.md"):
        check.faults(tree)


HOST = "//example.com/a"


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        (f'<script src="https:{HOST}.js"></script>', True),
        (f"<img alt=a src={HOST}.png>", True),
        (f'<link rel="stylesheet" href="https:{HOST}.css">', True),
        (f"<style>@import 'https:{HOST}.css'; </style>", True),
        (f"<style>a {{ background: url(https:{HOST}.png) }}</style>", True),
        (f'<a href="https:{HOST}">a link that one may follow</a>', False),
        (f'<link rel="canonical" href="https:{HOST}">', False),
        ('<script src="assets/a.js"></script><img src="b.png">', False),
    ],
)
def test_what_asks_another_host_is_found(tmp_path, text, asks):
    """Scripts, pictures, styles and fonts come from the site itself."""
    (tmp_path / "index.html").write_text(text)
    assert bool(list(check.request_faults(tmp_path))) is asks


DOCSTRING = """Adds.

Example:
>>> 1 + 1
2

Args:
    x: A number: `>>> x`.
"""

SHOWN = """Adds.

**Example**

```pycon
>>> 1 + 1
2
```

Args:
    x: A number: `>>> x`.
"""


def test_docstring_examples_are_shown_as_code():
    """Markdown takes `>>>` that is flush left for a quotation: it is fenced."""
    assert load("docstrings").fenced(DOCSTRING) == SHOWN
