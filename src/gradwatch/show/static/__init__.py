"""The files that pages consist of.

`SCRIPT` is the one bundle that draws both the Gradients tab and the charts of a report;
`make frontend` builds it from `frontend/`. `PAGE` is the page of a report, with names
for what is filled in, and `REPORT` its style sheet. `NOTEBOOK` is the style sheet of
tables and attributions in notebooks, `FIGURE` the style of figures. `PALETTE`
holds the colours of all of them, which `show/palette.py` reads.
"""

from pathlib import Path

SCRIPT = Path(__file__).with_name("gradwatch.js")
REPORT = Path(__file__).with_name("report.css")
PAGE = Path(__file__).with_name("report.html")
FIGURE = Path(__file__).with_name("gradwatch.mplstyle")
NOTEBOOK = Path(__file__).with_name("notebook.css")
PALETTE = Path(__file__).with_name("palette.toml")
