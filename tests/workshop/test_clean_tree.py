"""Nothing of one machine is in the tree, and tests say what they test."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Written in pieces, so that this file does not find itself.
MACHINE = re.compile(
    r"(?<![\w.~*-])/(?:work|farm|root|home|tmp|Users)/"
    + r"|file:"
    + r"///|pypi\."
    + r"org|python"
    + r"hosted\.org|download\.py"
    + r"torch\.org"
)


def tracked():
    """What is in the repository; a log that somebody keeps beside it is their own."""
    listing = ["git", "ls-files", "-z"]
    done = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / name for name in done.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def machine_traces(text):
    return [line for line in text.splitlines() if MACHINE.search(line)]


def test_no_file_names_a_machine_or_a_package_index():
    """Paths of somebody's disk and hosts of package indexes stay out of the tree."""
    files = tracked()
    assert len(files) > 10, "git knows no files: `git add` them first."
    found = {}
    for path in files:
        try:
            lines = machine_traces(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError:  # a picture
            continue
        if lines:
            found[str(path.relative_to(ROOT))] = lines
    assert found == {}


TRACE = "/".join(["", "home", "me", "x"])


@pytest.mark.parametrize("line", [TRACE, f"cd {TRACE}", f'"{TRACE}"', "file:" + TRACE])
def test_a_machine_path_is_found(line):
    """Absolute paths are found; a relative folder of that name is not one."""
    assert machine_traces(line) == [line]
    assert machine_traces(f"docs{TRACE}") == []


def weak_tests(source):
    """What is wrong with the tests in `source`: no docstring, or no `match=`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith("test_") and not ast.get_docstring(node):
                yield node.lineno, f"{node.name} has no docstring"
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            named = {keyword.arg for keyword in node.keywords}
            if called in {"pytest.raises", "pytest.warns"} and "match" not in named:
                yield node.lineno, f"{called} has no match="


def test_every_test_states_its_behaviour_and_checks_its_messages():
    """Each test function has a docstring; each `raises` and `warns` has `match=`."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    assert Path(__file__) in files
    found = [
        f"{file.relative_to(ROOT)}:{line}: {fault}"
        for file in files
        for line, fault in weak_tests(file.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


BAD = """
def test_x():
    with pytest.raises(ValueError):
        f()
    with pytest.warns(UserWarning, match="odd"):
        f()
"""


def test_a_silent_test_is_found():
    """A missing docstring and a missing `match=` are both reported, with the line."""
    assert list(weak_tests(BAD)) == [
        (2, "test_x has no docstring"),
        (3, "pytest.raises has no match="),
    ]
