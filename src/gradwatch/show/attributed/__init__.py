"""Attributions become figures and HTML: heat on pictures and words, bars, strips."""

from ._html import panels_html as panels_html
from ._panel import KINDS as KINDS
from ._panel import Panel as Panel
from ._plot import plot_panels as plot_panels
