"""The bundle is built from what is in the tree, in the colours of the palette."""

import hashlib
import re
from pathlib import Path

import pytest
from frontend.palette import exported

from gradwatch.show import palette
from gradwatch.show.static import STATIC

ROOT = Path(__file__).parents[2]


def test_the_pages_have_the_colours_of_the_palette():
    """The frontend has no other source of colours than the exported palette."""
    written = (ROOT / "frontend/src/palette.json").read_text(encoding="utf-8")
    assert written == exported(), "Run `make frontend`."


@pytest.mark.parametrize("suffix", [".ts", ".css"])
def test_no_source_of_the_pages_has_a_colour_of_its_own(suffix):
    """Except for shadows, and white on the colours of NaN and ∞."""
    for path in (ROOT / "frontend/src").glob(f"*{suffix}"):
        text = path.read_text(encoding="utf-8")
        colours = set(re.findall(r"#[0-9a-fA-F]{3,8}\b", text))
        assert colours <= {"#fff", "#0002", "#0005"}, path.name


def test_the_style_of_a_report_has_every_colour_that_it_names():
    """A custom property that is not defined would silently be no colour."""
    defined = {theme: set(re.findall(r"--([\w-]+):", palette.THEMES[theme].css)) for theme in palette.THEMES}  # fmt: skip # noqa: E501
    assert defined["light"] == defined["dark"]
    for style in (STATIC / "report.css", ROOT / "frontend/src/style.css"):
        used = set(re.findall(r"var\(--([\w-]+)\)", style.read_text(encoding="utf-8")))
        assert used <= defined["light"]


def test_every_flag_means_the_same_on_both_sides():
    """NaN, the infinities and "measured" are bits; both sides must agree on them."""
    from gradwatch.show import charts

    source = (ROOT / "frontend/src/source.ts").read_text(encoding="utf-8")
    for name in ("NAN", "POSINF", "NEGINF", "MEASURED"):
        [bit] = re.findall(rf"export const {name} = (\d+);", source)
        assert int(bit) == getattr(charts, name)


def test_the_tab_and_the_report_share_one_script():
    """No second bundle that could differ from it."""
    assert [path.name for path in (ROOT / "src").rglob("*.js")] == ["gradwatch.js"]


def test_the_bundle_is_built_from_these_sources():
    """Its digest is that of frontend/ and of the code itself, as build.mjs makes it."""
    banner, _, code = (STATIC / "gradwatch.js").read_bytes().partition(b"\n*/\n")
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
    text = (STATIC / "gradwatch.js").read_text(encoding="utf-8")
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
