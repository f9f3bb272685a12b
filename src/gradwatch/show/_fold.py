"""Long addresses, shortened in the middle, and never two to the same text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rich.cells import cell_len

ELLIPSIS = "…"


def fold(names: Iterable[str], width: int) -> dict[str, str]:
    """Returns what to show for each name in `width` cells.

    The middle goes first: the start of an address says where, its end says what. All
    names are cut at the same place, the one nearest the middle that keeps them apart.
    Where there is no such place each is cut where no other name fits what is left of
    it, and a name without such a place stays whole (a table wraps it).

    Example:
    >>> list(fold(["encoder/block_1/kernel", "encoder/block_2/kernel"], 16).values())
    ['encode…_1/kernel', 'encode…_2/kernel']
    """
    names = list(dict.fromkeys(names))
    long = [name for name in names if cell_len(name) > width]
    shown = {name: name for name in names if cell_len(name) <= width}
    cuts = []
    for head in _heads(width):
        cuts.append({name: cut(name, head, width) for name in long})
        texts = Counter([*shown.values(), *cuts[-1].values()])
        if len(texts) == len(names):
            return {name: (shown | cuts[-1])[name] for name in names}
    counts = [Counter(trial.values()) for trial in cuts]
    taken = set(shown.values())
    for name in long:
        alone = (
            trial[name]
            for trial, count in zip(cuts, counts, strict=True)
            if count[trial[name]] == 1 and trial[name] not in taken
        )
        shown[name] = next(alone, name)
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


def _heads(width: int) -> list[int]:
    """Returns where to cut, best first: a little left of the middle, then outwards."""
    best = (width - 1) * 2 // 5
    return sorted(range(max(1, width)), key=lambda head: abs(head - best))
