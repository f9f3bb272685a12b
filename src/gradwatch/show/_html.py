"""The table of gradients as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from gradwatch.summarise import Row

from ._cells import Cell, Grid, Section, grid_of_rows
from .palette import BLUE, SKY, THEMES, TONES, tone_colour

# Notebooks say which theme they use, not which one the system prefers: JupyterLab and
# Notebook 7 on <body>, VS Code by a class of <body>, Colab on <html>.
DARK = (
    '[data-jp-theme-light="false"]',
    ".vscode-dark",
    ".vscode-high-contrast:not(.vscode-high-contrast-light)",
    'html[theme="dark"]',
)


def table_html(rows: Sequence[Row], *, title: str, footer: Sequence[str] = ()) -> str:
    """Returns the table of gradients as one self-contained piece of HTML.

    It has no script, loads nothing, and escapes every word: a layer may be called
    anything. The bar beside a norm is its place among its own kind, on a log scale;
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
    return "\n".join(_lines(grid_of_rows(rows, title=title, footer=footer)))


def _lines(grid: Grid) -> Iterator[str]:
    yield '<div class="gradwatch">'
    yield f"<style>{STYLE}</style>"
    yield "<table>"
    yield f"<caption>{escape(grid.title)}</caption>"
    heads = (
        f'<th scope="col" class="{column.align}">{escape(column.heading)}</th>'
        for column in grid.columns
    )
    yield f"<thead><tr>{''.join(heads)}</tr></thead>"
    for section in grid.sections:
        yield from _section(section, grid)
    if not grid.sections:
        yield f'<tr><td colspan="{len(grid.columns)}">nothing to show</td></tr>'
    yield "</table>"
    if grid.notes:
        yield f"<p><strong>{escape(grid.notes_heading)}</strong></p><ul>"
        for note in grid.notes:
            names = ", ".join(f"<code>{escape(name)}</code>" for name in note.names)
            yield f"<li>{names}<div>{escape(note.text)}</div></li>"
        yield "</ul>"
    for line in grid.footer:
        yield f"<p>{escape(line)}</p>"
    yield "</div>"


def _section(section: Section, grid: Grid) -> Iterator[str]:
    yield "<tbody>"
    if section.heading:
        yield (
            f'<tr><th scope="rowgroup" class="left" colspan="{len(grid.columns)}">'
            f"{escape(section.heading)}</th></tr>"
        )
    for record in section.records:
        cells = (
            _cell(cell, column.align)
            for cell, column in zip(record, grid.columns, strict=True)
        )
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody>"


def _cell(cell: Cell, align: str) -> str:
    words = escape(cell.text)
    if cell.tone == "alarm":  # seen also where style sheets are stripped
        words = f"<strong>{words}</strong>"
    bar = ""
    if cell.bar is not None:
        bar = f'<span class="bar" style="width:{4 * cell.bar:.2f}em"></span>'
        align += " barred"
    tip = f' title="{escape(cell.exact)}"' if cell.exact else ""
    return f'<td class="{align} {cell.tone}"{tip}>{bar}{words}</td>'


def _style() -> str:
    """Returns the style sheet: colours inherited, or given for light and for dark."""
    lines = [
        ".gradwatch{overflow-x:auto;color:inherit;font-size:90%}",
        ".gradwatch table{border-collapse:collapse;background:none;color:inherit;"
        "font-size:100%;font-variant-numeric:tabular-nums;margin:0}",
        ".gradwatch caption{caption-side:top;text-align:left;font-weight:bold;"
        "padding:.4em .6em;color:inherit}",
        ".gradwatch tr{background:none}",
        ".gradwatch th,.gradwatch td{padding:.25em .6em;border:0;background:none;"
        "vertical-align:baseline;white-space:nowrap}",
        ".gradwatch thead th{border-bottom:1px solid #8888}",
        ".gradwatch tbody+tbody tr:first-child>*{border-top:1px solid #8888}",
        ".gradwatch tbody tr:hover{background:#8882}",
        ".gradwatch .left{text-align:left}.gradwatch .right{text-align:right}",
        ".gradwatch td:first-child{white-space:normal;overflow-wrap:anywhere;"
        "min-width:8em;max-width:32em}",
        ".gradwatch td.barred{position:relative;padding-left:5.4em}",
        ".gradwatch .bar{position:absolute;left:.6em;top:.6em;height:.6em}",
        ".gradwatch p{margin:.4em .6em}.gradwatch ul{margin:.2em 0}",
    ]
    lines += themed(".gradwatch .bar", "background", BLUE, SKY)
    for tone in TONES:
        light, dark = (tone_colour(tone, THEMES[name]) for name in ("light", "dark"))
        if light and dark:
            lines += themed(f".gradwatch .{tone}", "color", light, dark)
    return "\n".join(lines)


def themed(selector: str, style: str, light: str, dark: str) -> list[str]:
    """Returns the rules of a colour on a light page and in dark notebooks."""
    selectors = ",".join(f"{theme} {selector}" for theme in DARK)
    return [f"{selector}{{{style}:{light}}}", f"{selectors}{{{style}:{dark}}}"]


STYLE = _style()
