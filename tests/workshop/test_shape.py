"""Functions fit a screen, and objects that change hold few things."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "gradwatch"
LONGEST_FUNCTION = 50
"""Maximum number of lines of a function, without its docstring."""
MOST_ATTRIBUTES = 15
"""Maximum number of attributes of a class that changes itself."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def length(function):
    """Number of lines of a function without its docstring."""
    lines = function.end_lineno - function.lineno + 1
    match function.body[0]:
        case ast.Expr(value=ast.Constant(value=str())) as docstring:
            lines -= docstring.end_lineno - docstring.lineno + 1
    return lines


def attributes(cls):
    """The attributes of a class, and those that a method other than __init__ sets."""
    every, changed = set(), set()
    for item in cls.body:
        match item:
            case ast.AnnAssign(target=ast.Name(id=name)):
                every.add(name)
        if not isinstance(item, FUNCTIONS):
            continue
        for node in ast.walk(item):
            match node:
                case ast.Attribute(
                    value=ast.Name(id="self"), attr=name, ctx=ast.Store()
                ):
                    every.add(name)
                    if item.name not in ("__init__", "__post_init__"):
                        changed.add(name)
    return every | changed, changed


def faults(root):
    """Every function that is too long and every class that holds too much."""
    said = []
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            at = f"{path.relative_to(root)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, FUNCTIONS) and length(node) > LONGEST_FUNCTION:
                said.append(f"{at}: `{node.name}` has {length(node)} lines.")
            if isinstance(node, ast.ClassDef):
                every, changed = attributes(node)
                if changed and len(every) > MOST_ATTRIBUTES:
                    said.append(f"{at}: `{node.name}` holds {len(every)} attributes.")
    return said


def test_functions_and_classes_are_small():
    """No function is longer than a screen; no changing class holds too much."""
    found = faults(SOURCE)
    assert not found, "\n".join(found)


MANY = "\n".join(f"        self.a{i} = 0" for i in range(16))
BAD = {
    "has 51 lines": "def f():\n" + "    x = 1\n" * 50,
    "holds 16 attributes": f"class A:\n    def __init__(self):\n{MANY}\n"
    "    def b(self):\n        self.a1 = 1\n",
}


@pytest.mark.parametrize("fault", BAD)
def test_what_is_too_large_is_found(tmp_path, fault):
    """Each fault gives one sentence."""
    (tmp_path / "a.py").write_text(BAD[fault])
    [found] = faults(tmp_path)
    assert fault in found
