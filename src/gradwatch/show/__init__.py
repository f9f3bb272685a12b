"""Rows become text, a rich table, HTML or a figure."""

from typing import TYPE_CHECKING

from ._format import number as number
from ._html import table_html as table_html
from ._plot import plot_flow as plot_flow
from ._rich import table_rich as table_rich
from ._text import plain_table as plain_table
from ._text import table_text as table_text

if TYPE_CHECKING:  # for the signatures of other rooms, which do not know matplotlib
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure

    from .palette import ThemeName as ThemeName
