"""The table of gradients as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from gradwatch.summarise import Row

from ._cells import Cell, Grid, grid_of_rows
from .palette import THEMES, TONES, Theme, tone_colour
from .static import STATIC

# Notebooks say which theme they use, not which one the system prefers: JupyterLab and
# Notebook 7 on <body>, VS Code by a class of <body>, Colab on <html>.
_DARK = (
    '[data-jp-theme-light="false"]',
    ".vscode-dark",
    ".vscode-high-contrast:not(.vscode-high-contrast-light)",
    'html[theme="dark"]',
)


def table_html(rows: Sequence[Row], *, title: str, footer: Sequence[str] = ()) -> str:
    """Returns the table of gradients as one self-contained piece of HTML.

    It has no script, loads nothing, and escapes every word: a layer may be called
    anything. The bar beside a norm is its size among its own kind, on a log scale;
    resting on a number shows it in full.

    Example:
    >>> from gradwatch.summarise import Row
    >>> row = Row.absent("<b>", "weight", (4, 2), "float32", "frozen")
    >>> "&lt;b&gt;" in table_html([row], title="gradients")
    True

    Args:
        rows: The gradients, in the order to show them.
        title: The line above the table.
        footer: The lines below it.
    """
    return "\n".join(_lines(grid_of_rows(rows, title, footer)))


def _lines(grid: Grid) -> Iterator[str]:
    yield '<div class="gradwatch">'
    yield f"<style>{STYLE}</style>"
    yield "<table>"
    yield f"<caption>{escape(grid.title)}</caption>"
    yield table_head(grid.columns)
    width = f'colspan="{len(grid.columns)}"'
    for heading, records in grid.sections:
        yield "<tbody>"
        head = f'<th scope="rowgroup" class="left" {width}>{escape(heading)}</th>'
        yield f"<tr>{head}</tr>"
        for record in records:
            cells = map(_cell, record, (side for _, side in grid.columns))
            yield f"<tr>{''.join(cells)}</tr>"
        yield "</tbody>"
    if not grid.sections:
        yield f"<tr><td {width}>nothing to show</td></tr>"
    yield "</table>"
    if grid.notes:
        yield f"<p><strong>{escape(grid.notes_heading)}</strong></p><ul>"
        for text, names in grid.notes:
            listed = ", ".join(f"<code>{escape(name)}</code>" for name in names)
            yield f"<li>{listed}<div>{escape(text)}</div></li>"
        yield "</ul>"
    for line in grid.footer:
        yield f"<p>{escape(line)}</p>"
    yield "</div>"


def table_head(columns: Iterable[tuple[str, str]]) -> str:
    """Returns the head of a table: each heading, and the side its cells lean to."""
    heads = (
        f'<th scope="col" class="{side}">{escape(heading)}</th>'
        for heading, side in columns
    )
    return f"<thead><tr>{''.join(heads)}</tr></thead>"


def _cell(cell: Cell, align: str) -> str:
    words, bar = escape(cell.text), ""
    if cell.tone == "alarm":  # seen also where style sheets are stripped
        words = f"<strong>{words}</strong>"
    if cell.bar is not None:
        bar = f'<span class="bar" style="width:{4 * cell.bar:.2f}em"></span>'
        align += " barred"
    tip = f' title="{escape(cell.exact)}"' if cell.exact else ""
    return f'<td class="{align} {cell.tone}"{tip}>{bar}{words}</td>'


def _colours(theme: Theme) -> str:
    """Returns the custom properties of the style sheet; what has none is inherited."""
    named: list[tuple[str, str | None]] = [(t, tone_colour(t, theme)) for t in TONES]
    named += [("bar", theme.hues[0]), ("pos", theme.positive), ("neg", theme.negative)]
    return "".join(f"--gw-{name}:{colour};" for name, colour in named if colour)


_ON_DARK = ",".join(f"{page} .gradwatch" for page in _DARK)
STYLE = (
    f".gradwatch{{{_colours(THEMES['light'])}}}\n"
    f"{_ON_DARK}{{{_colours(THEMES['dark'])}}}\n"
    f"{(STATIC / 'notebook.css').read_text(encoding='utf-8')}"
)
