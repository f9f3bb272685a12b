"""Writes src/palette.json from the palette; `make frontend` runs it."""

from pathlib import Path

from gradwatch.show.palette import exported

if __name__ == "__main__":
    Path(__file__).with_name("src").joinpath("palette.json").write_text(exported())
