"""The types of the public names, as a user's mypy sees them.

The files in `snippets` are never run. `assert_type` states a type, and `type: ignore`
with a code states a mistake: if mypy does not find it, it reports an unused comment.
"""

import ast
import os
import sysconfig
from pathlib import Path

import pytest
from mypy import api

import gradwatch

HERE = Path(__file__).parent
SNIPPETS = sorted((HERE / "snippets").glob("*.py"))
# Names that users rarely annotate: extensions, options and further errors.
NOT_COVERED = {
    *("AttributionImages", "Budget", "MlflowSink", "RunError", "Sink", "TargetError"),
    *("UnhealthyError", "UnhealthyTraining", "WandbSink"),
}


@pytest.fixture
def mypy(monkeypatch, tmp_path):
    """Runs a user's mypy on the package that the tests import; gives its report."""
    package = Path(gradwatch.__file__).parents[1]
    # mypy finds an installed package by itself, but not an editable one.
    if str(package) != sysconfig.get_path("purelib"):
        monkeypatch.setenv("MYPYPATH", str(package))
    settings = ["--config-file", str(HERE / "mypy.ini"), "--no-error-summary"]

    def run(*files):
        cache = ["--cache-dir", str(tmp_path)]
        with monkeypatch.context() as here:
            here.chdir(tmp_path)
            report, failure, _ = api.run([*settings, *cache, *map(os.fspath, files)])
        return report + failure

    return run


def test_mypy_sees_the_types_of_the_public_names(mypy, tmp_path):
    """Strictly, and finds what is wrong: the second run proves that it looks."""
    assert mypy(*SNIPPETS) == ""
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import gradwatch as gw\n"
        "number: int = gw.open_run('a')\n"
        "gw.no_such_name\n"
        "gw.weights('a')  # type: ignore[arg-type]\n"
    )
    report = mypy(wrong)
    assert 'Incompatible types in assignment (expression has type "Run"' in report
    assert 'Module has no attribute "no_such_name"' in report
    assert 'Unused "type: ignore" comment' in report


def test_every_public_name_has_its_types_stated():
    """A new public name comes with a line in `snippets`."""
    used = {
        node.attr
        for path in SNIPPETS
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    }
    assert set(gradwatch.__all__) - used == NOT_COVERED
