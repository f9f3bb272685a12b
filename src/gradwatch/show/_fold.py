"""Long addresses, shortened in the middle, and never two to the same text."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from rich.cells import cell_len

ELLIPSIS = "…"


def fold(names: Iterable[str], width: int) -> dict[str, str]:
    """Returns the text of each name in `width` cells.

    The middle is cut first: the start of an address says where, its end says what. All
    names are cut at the same column, the one nearest the middle that keeps them
    distinct. Where there is none, each name is cut where no other name fits the rest;
    a name that cannot be cut so is cut in the middle of each of its parts; and one that
    is still ambiguous stays whole (a table wraps it).

    Example:
    >>> list(fold(["encoder/block_1/kernel", "encoder/block_2/kernel"], 16).values())
    ['encode…_1/kernel', 'encode…_2/kernel']
    """
    names = list(dict.fromkeys(names))
    long = [name for name in names if cell_len(name) > width]
    shown = {name: name for name in names if cell_len(name) <= width}
    cuts = []
    best = _middle(width)
    for head in sorted(range(max(1, width)), key=lambda head: abs(head - best)):
        cuts.append({name: cut(name, head, width) for name in long})
        if len({*shown.values(), *cuts[-1].values()}) == len(names):
            return {name: (shown | cuts[-1])[name] for name in names}
    counts = [Counter(trial.values()) for trial in cuts]
    taken = set(shown.values())
    all_long = "\n".join(long)
    for name in long:
        alone = (t[name] for t, n in zip(cuts, counts, strict=True) if n[t[name]] == 1)
        parts = (t for t in _in_parts(name, width) if len(_fitting(t, all_long)) == 1)
        free = (text for text in itertools.chain(alone, parts) if text not in taken)
        shown[name] = next(free, name)
        taken.add(shown[name])
    return {name: shown[name] for name in names}


def cut(name: str, head: int, width: int) -> str:
    """Returns the first `head` cells of the name, an ellipsis, and its end."""
    if name.isascii():
        tail = width - 1 - head
        return name[:head] + ELLIPSIS + (name[-tail:] if tail > 0 else "")
    start, end = 0, len(name)
    while cell_len(name[: start + 1]) <= head:
        start += 1
    while cell_len(name[end - 1 :]) <= width - 1 - cell_len(name[:start]):
        end -= 1
    return name[:start] + ELLIPSIS + name[end:]


def middle(name: str, width: int) -> str:
    """Returns the name in `width` cells: whole, or with an ellipsis in its middle."""
    return name if cell_len(name) <= width else cut(name, _middle(width), width)


def _in_parts(name: str, width: int) -> Iterator[str]:
    """Yields the name with its long parts cut, as little as fits and then more."""
    *path, own = name.split("/")
    for whole in (True, False):  # the last part says what it is, and is short
        for cells in range(width, 2, -1):
            last = own if whole else middle(own, cells)
            text = "/".join([*(middle(part, cells) for part in path), last])
            if cell_len(text) <= width:
                yield text


def _fitting(text: str, names: str) -> list[str]:
    """Returns the lines among `names` that what is left of a name may stand for."""
    gap = ".*" if text.count(ELLIPSIS) == 1 else "[^/\\n]*"
    pattern = gap.join(map(re.escape, text.split(ELLIPSIS)))
    return re.findall(f"^{pattern}$", names, re.MULTILINE)


def _middle(width: int) -> int:
    """Returns the best column to cut at: a little left of the middle."""
    return (width - 1) * 2 // 5
