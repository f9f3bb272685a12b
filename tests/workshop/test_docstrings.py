"""Every docstring example of the package runs, on every backend.

Docstrings are found in the source text. doctest's own search goes by `__module__` and
would pass over the methods of every class that the front door has re-homed, in silence.
"""

import ast
import doctest
import importlib
from pathlib import Path

import keras
import pytest

ROOT = Path(__file__).parents[2] / "src"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def documented(source):
    """Yield (name, line, docstring) of all that has a docstring with an example."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DEFINITIONS) and ">>>" in (ast.get_docstring(node) or ""):
            name = getattr(node, "name", "module")
            yield name, node.body[0].lineno - 1, ast.get_docstring(node)


def examples():
    """One case per docstring, without those of the backends that do not run."""
    others = {"tensorflow", "jax", "torch"} - {keras.config.backend()}
    for file in sorted(ROOT.rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        if not others & {part.lstrip("_") for part in parts}:
            module = ".".join(parts).removesuffix(".__init__")
            for name, line, doc in documented(file.read_text(encoding="utf-8")):
                case = (module, name, str(file), line, doc)
                yield pytest.param(*case, id=f"{module}:{name}")


def run(doc, names, name, file, line):
    """Run the examples of one docstring; what went wrong, as text."""
    report = []
    test = doctest.DocTestParser().get_doctest(doc, names, name, file, line)
    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    runner.run(test, out=report.append)
    return "".join(report)


@pytest.mark.parametrize(("module", "name", "file", "line", "doc"), [*examples()])
def test_docstring_example_gives_what_it_says(
    module, name, file, line, doc, tmp_path, monkeypatch
):
    """The printed output of each `>>>` is the one written below it."""
    monkeypatch.chdir(tmp_path)  # An example may save a figure.
    names = dict(vars(importlib.import_module(module)))
    report = run(doc, names, name, file, line)
    assert not report, report


WRONG = '''class A:
    def method(self):
        """Gives two.

        >>> 1 + 1
        3
        """
'''


def test_a_wrong_example_is_found_and_fails():
    """The example of a method is found, and a wrong result is reported."""
    [(name, line, doc)] = documented(WRONG)
    assert (name, line) == ("method", 2)
    assert "Expected:\n    3\nGot:\n    2" in run(doc, {}, name, "a.py", line)
