"""The table of gradients as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from gradwatch.summarise import Row

from ._cells import Cell, Grid, Section, grid_of_rows
from .palette import THEMES, TONES, tone_colour
from .static import NOTEBOOK

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
    """Returns the style sheet: colours are inherited, or set for light and for dark."""
    light, dark = THEMES["light"], THEMES["dark"]
    lines = _themed("bar", "background", light.hues[0], dark.hues[0])
    lines += _themed("pos", "background", light.positive, dark.positive)
    lines += _themed("neg", "background", light.negative, dark.negative)
    for tone in TONES:
        colours = tone_colour(tone, light), tone_colour(tone, dark)
        lines += _themed(tone, "color", *colours) if all(colours) else []
    return NOTEBOOK.read_text(encoding="utf-8") + "\n".join(lines)


def _themed(name: str, style: str, light: str | None, dark: str | None) -> list[str]:
    """Returns the rules of a class on a light page and in dark notebooks."""
    selectors = ",".join(f"{theme} .gradwatch .{name}" for theme in _DARK)
    return [f".gradwatch .{name}{{{style}:{light}}}", f"{selectors}{{{style}:{dark}}}"]


STYLE = _style()
