"""The files that pages consist of.

`gradwatch.js` is the one bundle that draws both the Gradients tab and the charts of a
report; `make frontend` builds it from `frontend/`. `report.html` is the page of a
report, with names for what is filled in, and `report.css` its style sheet.
`notebook.css` is the style sheet of tables and attributions in notebooks,
`gradwatch.mplstyle` the style of figures. `palette.toml` holds the colours of all of
them, which `show/palette.py` reads.
"""

from pathlib import Path

STATIC = Path(__file__).parent
