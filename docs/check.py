"""Checks the documentation beyond what the builder of the site checks.

The builder finds dead links, dead anchors and unknown names. This finds the rest:

    python docs/check.py         before: public names, list of pages, pictures, fences
    python docs/check.py site    after: the built site requests nothing from other hosts

Nothing is imported but the standard library; the package is read as text. So the tests
run it as well, where the site cannot be built.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]

# Where public names are: the front door has a list; these two rooms, and what is in
# them, hand on under its own name what is public.
OPEN_ROOMS = ("attribute", "testing")
# Rooms that share names with the front door. `gradwatch.diagnose` is both a room and a
# function: to a reader of the sources the name is the room, so the function has two.
ROOMS = ("attribute", "diagnose")

REFERENCE = re.compile(r"^::: ([\w.]+)", re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s#]+)[^)]*\)")
# A fence with a second word is no fence to the builder, and runs into the next one.
FENCE = re.compile(r"^ *(?:```+|~~~+) *\w+ +[^{\s]\S*$", re.MULTILINE)
PAGE = re.compile(r'"([^"]+\.md)"')
# What a browser fetches by itself. A link which the reader may follow is no request.
REQUEST = re.compile(
    r"""<(?:script|img|iframe|source|audio|video)\b[^>]*\bsrc=["']?(?:https?:)?//[^\s"'>]+
    |<link\b(?![^>]*\brel=["']?(?:canonical|next|prev|alternate))[^>]*\bhref=["']?
        (?:https?:)?//[^\s"'>]+
    |(?:url\(|@import\s)\s*["']?(?:https?:)?//[^\s"')]+""",
    re.VERBOSE | re.IGNORECASE,
)


def public_names(root: Path) -> list[str]:
    """Returns every public name, each with its door."""
    package = root / "src" / "gradwatch"
    doors = [package / "__init__.py"]
    for room in OPEN_ROOMS:
        doors += sorted((package / room).rglob("__init__.py"))
    names = []
    for source in doors:
        door = source.parent.relative_to(package.parent).parts
        if not any(part.startswith("_") for part in door):
            names += [".".join((*door, name)) for name in _handed_on(source)]
    return names


def _handed_on(source: Path) -> Iterator[str]:
    module = ast.parse(source.read_text(encoding="utf-8"))
    for node in module.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            yield from ast.literal_eval(node.value)
            return
    for node in module.body:
        if isinstance(node, ast.ImportFrom):
            same = (a.name for a in node.names if a.asname == a.name)
            # A room within a room is a door of its own.
            inner = (name for name in same if not (source.parent / name).is_dir())
            yield from (name for name in inner if not name.startswith("_"))


def documented(root: Path) -> dict[str, str]:
    """Returns the page of each name that a reference page shows."""
    found: dict[str, str] = {}
    for page in sorted((root / "docs" / "reference").glob("*.md")):
        for name in REFERENCE.findall(page.read_text(encoding="utf-8")):
            if name in found:
                raise SystemExit(f"{name} is on {page.name} and on {found[name]}.")
            found[name] = page.name
    return found


def name_faults(root: Path) -> Iterator[str]:
    """Yields each public name that is on no reference page."""
    shown = documented(root)
    for name in public_names(root):
        door, _, own = name.rpartition(".")
        # What is at the front door and in a room is one thing, shown once.
        rooms = {f"gradwatch.{room}.{own}" for room in ROOMS if door == "gradwatch"}
        if not {name, *rooms} & shown.keys():
            yield f"{name} is public, but on no page of docs/reference."


def nav_faults(root: Path) -> Iterator[str]:
    """Yields pages that the site does not list, lists twice, or lists in vain."""
    text = (root / "zensical.toml").read_text(encoding="utf-8")
    listed = Counter(_pages(tomllib.loads(text)["project"]["nav"]))
    commented = [line for line in text.splitlines() if line.lstrip().startswith("#")]
    announced = set(PAGE.findall("\n".join(commented)))
    docs = root / "docs"
    there = {str(page.relative_to(docs)) for page in docs.rglob("*.md")}
    yield from (f"{page} is listed twice." for page, n in listed.items() if n > 1)
    yield from (f"{page} is listed, but missing." for page in listed.keys() - there)
    unlisted = there - listed.keys() - announced
    yield from (f"{page} is not in zensical.toml." for page in unlisted)


def _pages(nav: object) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        yield from _pages(list(nav.values()))
    elif isinstance(nav, list):
        for entry in nav:
            yield from _pages(entry)


def page_faults(root: Path) -> Iterator[str]:
    """Yields links and pictures that lead nowhere, and fences that are none."""
    docs = root / "docs"
    for page in sorted(docs.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        where = page.relative_to(root)
        for target in LINK.findall(re.sub(r"(?s)```.*?```|`[^`\n]*`", "", text)):
            if re.match(r"[a-z]+:", target):
                continue
            path = (page.parent / target).resolve()
            if not path.exists() or not path.is_relative_to(docs.resolve()):
                yield f"{where}: {target} is not in docs/."
        for fence in FENCE.findall(text):
            yield f"{where}: {fence.strip()!r} is no fence on the site."


def request_faults(site: Path) -> Iterator[str]:
    """Yields what the built pages and styles would fetch from elsewhere."""
    for file in sorted(site.rglob("*")):
        if file.suffix in {".html", ".css"}:
            for found in REQUEST.findall(file.read_text(encoding="utf-8")):
                yield f"{file.relative_to(site)} asks another host: {found[:100]}"


def faults(root: Path) -> list[str]:
    """Returns all that is wrong with the pages of a tree."""
    return [*name_faults(root), *nav_faults(root), *page_faults(root)]


def main() -> None:
    """Prints what is wrong, and ends with status 1 if anything is."""
    found = list(request_faults(Path(sys.argv[1]))) if sys.argv[1:] else faults(ROOT)
    if found:
        raise SystemExit("\n".join(found))


if __name__ == "__main__":
    main()
