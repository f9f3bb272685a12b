"""Shows the examples of our docstrings as code on the site.

Keras's way, which is ours, writes `>>>` flush left below a line `Example:`. To Markdown
that is a quotation in a quotation in a quotation. Zensical loads this file for each
docstring of the reference; nothing in the sources has to change.
"""

from __future__ import annotations

import re
from typing import Any

try:
    from griffe import Extension
except ImportError:  # The tests read this file where the site is not built.
    Extension = object

PROMPT = ">>> "


def fenced(docstring: str) -> str:
    """Returns a docstring in which each flush-left `>>>` block is fenced."""
    return "\n\n".join(
        _fenced_paragraph(paragraph) for paragraph in re.split(r"\n{2,}", docstring)
    )


def _fenced_paragraph(paragraph: str) -> str:
    lines = paragraph.split("\n")
    starts = [n for n, line in enumerate(lines) if line.startswith(PROMPT)]
    if not starts:
        return paragraph
    words = re.sub(r"^Examples?:$", "**Example**", "\n".join(lines[: starts[0]]))
    code = "\n".join(["```pycon", *lines[starts[0] :], "```"])
    return f"{words}\n\n{code}" if words else code


class Examples(Extension):  # type: ignore[misc]
    """Fences the examples of all that has a docstring."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Is called by griffe for each module, class, function and attribute."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)
