"""Docstrings begin with a verb or a noun phrase, and sentences speak of objects."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "gradwatch"

HEADLESS = (
    *("Also", "As", "At", "By", "From", "How", "If", "In", "Not", "Of", "On", "So"),
    *("That", "Those", "What", "When", "Where", "Whether", "Which", "Who", "Whoever"),
    *("Whose", "Why", "With", "Without"),
)
"""First words of a docstring that lacks its verb or its noun."""
_WORDS = (
    r"\b(nobody|somebody|whoever|whomever|so many|heeds?|heeded|without a word"
    r"|of one's own|(?:is|are|was|were) told)\b"
)
# A line break may be inside of them, also in a comment.
BANNED = re.compile(_WORDS.replace(" ", r"[\s#]+"), re.IGNORECASE)
"""Words that speak of people, or read as translated."""
RENAMED = ("Behind", "Chart", "FoundStep", "Manner", "Moment", "Sight", "Told")
"""Class names that have been replaced by terms of art."""


def docstrings(tree):
    """Every string that stands alone: docstrings, and those below an attribute."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for item in body if isinstance(body, list) else ():
            match item:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield item.lineno, text


def banned_words(at, text):
    """One fault for each banned word, also where a line break is inside it."""
    for hit in BANNED.finditer(text):
        line = text.count("\n", 0, hit.start()) + 1
        words = re.sub(r"[\s#]+", " ", hit[0])
        yield f"{at}:{line}: says {words!r}."


def faults_of_source(root):
    """Every fault of the Python files below a folder."""
    said = []
    for path in sorted(root.rglob("*.py")):
        at = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        for line, docstring in docstrings(tree):
            first = re.match(r"\W*(\w+)", docstring)
            if first and first[1] in HEADLESS:
                said.append(f"{at}:{line}: begins with {first[1]!r}.")
        said += [
            f"{at}:{node.lineno}: the class {node.name!r} has a new name."
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef) and node.name.lstrip("_") in RENAMED
        ]
        # All text of the file: comments, errors and the help of the command line, too.
        said += banned_words(at, text)
    return said


def faults_of_pages(root):
    """Every banned word of README, CHANGELOG and the documentation."""
    pages = [root / "README.md", root / "CHANGELOG.md", *root.glob("docs/**/*.md")]
    return [
        fault
        for path in sorted(page for page in pages if page.exists())
        for fault in banned_words(
            path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        )
    ]


def test_the_source_speaks_plain_english():
    """In docstrings, comments, errors and the help of the command line."""
    faults = faults_of_source(SOURCE)
    assert not faults, "\n".join(faults)


def test_the_pages_speak_plain_english():
    """As the source does."""
    faults = faults_of_pages(ROOT)
    assert not faults, "\n".join(faults)


def test_a_class_name_occurs_once_in_the_package():
    """A reader who meets a name needs no import to know which class is meant."""
    assert repeated_classes(SOURCE) == {}


def test_a_repeated_class_name_is_found(tmp_path):
    """Also where one of the two is private."""
    (tmp_path / "a.py").write_text("class Step: ...")
    (tmp_path / "b.py").write_text("class _Step: ...")
    assert repeated_classes(tmp_path) == {"Step": ["a.py", "b.py"]}


def repeated_classes(root):
    """The names that more than one class of the package has, and where."""
    homes = {}
    for path in sorted(root.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                at = path.relative_to(root).as_posix()
                homes.setdefault(node.name.lstrip("_"), []).append(at)
    return {name: at for name, at in homes.items() if len(at) > 1}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('"""Whether it is."""', "begins with 'Whether'"),
        ('class A:\n    """Of what."""', "a.py:2: begins with 'Of'"),
        ('x = 1\n"""What it is."""', "a.py:2: begins with 'What'"),
        ('def f():\n    """`What` it is."""', "begins with 'What'"),
        ("# Nobody reads it.", "says 'Nobody'"),
        ('print("So many are left.")', "says 'So many'"),
        ('"""It leaves it without a\nword."""', "a.py:1: says 'without a word'"),
        ("class _Manner: ...", "the class '_Manner' has a new name"),
    ],
)
def test_every_kind_of_fault_is_seen(tmp_path, text, fault):
    """Each rule goes red on its own example."""
    (tmp_path / "a.py").write_text(text + "\n", encoding="utf-8")
    faults = faults_of_source(tmp_path)
    assert len(faults) == 1, faults
    assert fault in faults[0]


def test_plain_sentences_pass(tmp_path):
    """Verbs, nouns, and words that only look alike."""
    text = '"""Returns whether it is."""\n# Anybody may read what is needed.\n'
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    (tmp_path / "README.md").write_text("The caller is retold how.", encoding="utf-8")
    assert faults_of_source(tmp_path) == []
    assert faults_of_pages(tmp_path) == []


def test_a_page_is_read(tmp_path):
    """Also one in a folder of the documentation."""
    (tmp_path / "docs" / "how-to").mkdir(parents=True)
    page = tmp_path / "docs" / "how-to" / "a.md"
    page.write_text("One.\n\nNobody is\ntold.\n", encoding="utf-8")
    assert faults_of_pages(tmp_path) == [
        "docs/how-to/a.md:3: says 'Nobody'.",
        "docs/how-to/a.md:3: says 'is told'.",
    ]
