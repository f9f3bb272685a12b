"""The files that pages consist of.

`SCRIPT` is the one bundle that draws both the Gradients tab and the charts of a report;
`make frontend` builds it from `frontend/`. `REPORT` is the style sheet of reports,
`NOTEBOOK` that of tables and attributions in notebooks. None of them defines a colour:
`show/palette.py` does.
"""

from pathlib import Path

SCRIPT = Path(__file__).with_name("gradwatch.js")
REPORT = Path(__file__).with_name("report.css")
NOTEBOOK = Path(__file__).with_name("notebook.css")
