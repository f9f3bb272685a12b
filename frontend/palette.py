"""Writes src/palette.json from the palette; `make frontend` runs it."""

import json
from dataclasses import asdict
from pathlib import Path

from gradwatch.show.palette import THEMES


def exported() -> str:
    """Returns the themes as JSON, from which the frontend is built."""
    themes = {n: {**asdict(theme), "css": theme.css} for n, theme in THEMES.items()}
    return json.dumps(themes, indent=2) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("src").joinpath("palette.json").write_text(exported())
