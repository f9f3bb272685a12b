"""The front door: a frozen list of names, each with a docstring that shows its use."""

import doctest
import inspect
from pathlib import Path

import pytest

import gradwatch

FROZEN = Path(__file__).with_name("public_names.txt").read_text().split()
DOCUMENTED = [name for name in FROZEN if not name.startswith("_")]


def test_public_names_are_the_frozen_ones():
    """A new or lost public name is a diff of public_names.txt, not an accident."""
    assert sorted(gradwatch.__all__) == sorted(FROZEN)


def test_nothing_public_is_outside_all():
    """What tab completion offers is in `__all__`; rooms (modules) are not names."""
    offered = {
        name
        for name, value in vars(gradwatch).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert offered - set(gradwatch.__all__) == set()


@pytest.mark.parametrize("name", DOCUMENTED)
def test_public_name_has_a_docstring_with_an_example(name):
    """The first line says something, and a function's example calls that function."""
    value = getattr(gradwatch, name)
    # Not `inspect.getdoc`, which would lend a class the docstring of its parent.
    doc = inspect.cleandoc(vars(value).get("__doc__") or value.__doc__ or "")
    assert doc.partition("\n")[0].strip()
    if not inspect.ismodule(value):
        examples = doctest.DocTestParser().get_examples(doc)
        # A class may be what a function gives back: nobody writes its name.
        called = f"{name}(" if inspect.isfunction(value) else ""
        assert any(called in example.source for example in examples)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_public_name_lives_at_the_front_door(name):
    """Reprs and tracebacks show `gradwatch.Gradients`, not a private file."""
    value = getattr(gradwatch, name)
    home = value.__name__ if inspect.ismodule(value) else value.__module__
    assert home == (f"gradwatch.{name}" if inspect.ismodule(value) else "gradwatch")
