"""The newest step of a run, as plain text."""

from __future__ import annotations

from ..summarise import COLUMNS
from ._series import masked, ratio
from ._store import Store

_MOST = 40  # rows; of more, those in the middle are left out


def newest(title: str, store: Store) -> str:
    """Returns a title and a table of the newest step."""
    from ..show import number, plain_table

    if not len(store):
        return title
    chunk, at = store.at(len(store) - 1)
    columns = {name: masked(chunk.column(name)[at]) for name in COLUMNS}
    ratios = ratio(columns["update_norm"], columns["weight_norm"])
    bad = columns["nan"] + columns["posinf"] + columns["neginf"]
    quantities = {
        "norm": map(number, columns["norm"].tolist()),
        "update ratio": map(number, ratios.tolist()),
        "% zero": map(number, (100 * columns["zeros"]).tolist()),
        "non-finite": ["—" if n is None else f"{n:,.0f}" for n in bad.tolist()],
    }
    names = [
        name + (" (value)" if kind == "value" else "")
        for kind, name in chunk.layout.keys
    ]
    rows = [[*row] for row in zip(names, *quantities.values(), strict=True)]
    if len(rows) > _MOST:
        half, rest = _MOST // 2, [""] * len(quantities)
        more = [f"… {len(rows) - 2 * half:,} more …", *rest]
        rows = [*rows[:half], more, *rows[-half:]]
    table = plain_table([f"step {store.last:,}", *quantities], rows, title="")
    return f"{title}\n{table}"
