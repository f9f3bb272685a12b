"""The bundle is built from what is in the tree, in the colours of the palette."""

import hashlib
import re
from pathlib import Path

import pytest

from gradwatch.show import palette
from gradwatch.show.static import SCRIPT

ROOT = Path(__file__).parents[2]
SHARED = ("BLUE", "ORANGE", "GREEN", "VERMILION", "SKY", "PURPLE", "INK", "MUTED")


@pytest.mark.parametrize("name", [*SHARED, "ALARM"])
def test_the_pages_have_the_colours_of_the_palette(name):
    """One palette for figures, tables, the tab and the report."""
    source = (ROOT / "frontend/src/palette.ts").read_text(encoding="utf-8")
    [colour] = re.findall(rf'export const {name} = "(#\w+)"', source)
    assert colour == getattr(palette, name)


@pytest.mark.parametrize("name", ["RAMP_LIGHT", "RAMP_DARK"])
def test_a_heat_map_has_the_same_colours_everywhere(name):
    """A figure shows a number as the tab does."""
    source = (ROOT / "frontend/src/palette.ts").read_text(encoding="utf-8")
    [stops] = re.findall(rf"export const {name} = \[(.*)\];", source)
    assert tuple(re.findall(r"#\w+", stops)) == getattr(palette, name)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_theme_of_figures_is_that_of_the_tab(theme):
    """The page, text, and what is not finite or exactly zero."""
    source = (ROOT / "frontend/src/palette.ts").read_text(encoding="utf-8")
    block = source.partition(f"const {theme.upper()}: Theme")[2].partition("};")[0]
    for name in ("page", "ink", "muted", "nan", "posinf", "neginf", "zero"):
        [value] = re.findall(rf"\b{name}: (\S+),", block)
        known = value.strip('"') if value[0] == '"' else getattr(palette, value)
        own = "paper" if name == "page" else name
        assert getattr(palette.THEMES[theme], own) == known


def test_every_flag_means_the_same_on_both_sides():
    """NaN, the infinities and "measured" are bits; both sides must agree on them."""
    from gradwatch.show import charts

    source = (ROOT / "frontend/src/source.ts").read_text(encoding="utf-8")
    for name in ("NAN", "POSINF", "NEGINF", "MEASURED"):
        [bit] = re.findall(rf"export const {name} = (\d+);", source)
        assert int(bit) == getattr(charts, name)


def test_the_tab_and_the_report_share_one_script():
    """No second bundle that could differ from it."""
    assert [path.name for path in (ROOT / "src").rglob("*.js")] == [SCRIPT.name]


def test_the_bundle_is_built_from_these_sources():
    """Its digest is that of frontend/ and of the code itself, as build.mjs makes it."""
    banner, _, code = SCRIPT.read_bytes().partition(b"\n*/\n")
    home = ROOT / "frontend"
    settings = ["build.mjs", "package-lock.json", "package.json", "tsconfig.json"]
    sources = sorted(path.name for path in (home / "src").iterdir())
    digest = hashlib.sha256()
    for name in [*settings, *(f"src/{source}" for source in sources)]:
        digest.update(name.encode() + b"\0" + (home / name).read_bytes() + b"\0")
    digest.update(code)
    [built] = re.findall(rb"sha256 (\w+)", banner)
    assert built.decode() == digest.hexdigest(), "Run `make frontend`."


def test_the_bundle_asks_nobody_and_may_stand_in_a_page():
    """No other host, no end of a script inside, nothing evaluated."""
    text = SCRIPT.read_text(encoding="utf-8")
    assert len(text) < 200_000
    assert not re.findall(r"https?://(?!www\.w3\.org)", text)
    assert "</script" not in text.lower()
    assert "<!--" not in text
    assert "innerHTML" not in text
    assert "eval(" not in text


def test_no_package_is_named_by_its_registry():
    """A lock file says which versions, not from where."""
    lock = (ROOT / "frontend/package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in lock
    assert "integrity" in lock
