"""Files that the pages consist of.

`SCRIPT` is the one bundle that draws both the Gradients tab and the charts of a report;
`make frontend` builds it from `frontend/`. `STYLE` is the report's style sheet.
"""

from pathlib import Path

SCRIPT = Path(__file__).with_name("gradwatch.js")
STYLE = Path(__file__).with_name("report.css")
