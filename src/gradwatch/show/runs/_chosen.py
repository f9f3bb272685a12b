"""What of a run is drawn: a quantity, and the lines that names stand for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from ..._errors import AddressError, GradwatchError, closest, counted, quoted
from ...run import KINDS, Run, Store
from ..charts import CURVES, QUANTITIES, Quantity

Names = str | re.Pattern[str] | Sequence["str | re.Pattern[str]"] | None
"""An address, a last part or a layer of some, a glob, a regular expression, a list."""

TOTALS = tuple(name for name in CURVES if name not in QUANTITIES)
"""What is known of a step as a whole only."""


def check_recorded(run: Run) -> None:
    """Raises where there is nothing to draw.

    Raises:
        GradwatchError: If no step was recorded.
    """
    if not len(run.steps):
        raise GradwatchError(
            "A picture needs at least one recorded step. Received: "
            f"{str(run.directory)!r}, which has none yet. Train for a step that is "
            "due, then `run.refresh()`."
        )


def quantity_of(name: str, kind: str) -> Quantity | None:
    """Returns the quantity of that name; None for one of the step as a whole.

    Raises:
        GradwatchError: If there is none, or not of that kind of lines.
    """
    if name in TOTALS:
        return None
    if kind not in KINDS:
        raise GradwatchError(
            f"`kind` must be one of {quoted(KINDS)}. Received: {kind!r}. A weight's "
            'gradient is a "weight", an activation\'s an "activation", and the '
            'activation itself a "value".'
        )
    if name not in QUANTITIES:
        known = [*QUANTITIES, *TOTALS]
        near = closest(str(name), known)
        hint = f" Closest: {quoted(near)}." if near else ""
        raise GradwatchError(
            f"`quantity` must be one that is recorded. Received: {name!r}.{hint} "
            f"There are {quoted(known, len(known))}."
        )
    quantity = QUANTITIES[name]
    if kind not in quantity.kinds:
        raise GradwatchError(
            f"`kind` must be one that has a {quantity.label}. Received: {kind!r}. "
            f"{name!r} is known of {quoted(quantity.kinds)}."
        )
    return quantity


def lines_of(store: Store, kind: str, names: Names) -> list[int]:
    """Returns which lines of a kind the names stand for, along depth.

    Raises:
        AddressError: If a name stands for none.
        GradwatchError: If nothing of that kind was recorded.
    """
    known = store.names(kind)
    if not known:
        others = [other for other in KINDS if store.names(other)]
        raise GradwatchError(
            f"`kind` must be one that was recorded. Received: {kind!r}; this run has "
            f"{quoted(others)}. `GradientMonitor(…, activations=True)` records "
            "activations and their gradients."
        )
    if names is None:
        return list(range(len(known)))
    patterns = [names] if isinstance(names, str | re.Pattern) else list(names)
    chosen: set[int] = set()
    for pattern in patterns:
        if not isinstance(pattern, str | re.Pattern):
            raise AddressError(
                "`names` must be an address, a glob, a compiled regular expression, or "
                f"a list of these. Received: {pattern!r}. Write '*/kernel' for all "
                "kernels."
            )
        found = [at for at, name in enumerate(known) if stands_for(pattern, name)]
        if pattern in known:  # an address is itself, and not what is below it
            found = [known.index(str(pattern))]
        if not found:
            raise AddressError(_unknown(pattern, known))
        chosen.update(found)
    if not chosen:
        raise AddressError(
            "`names` must name something. Received: an empty list. Leave it out for "
            "everything."
        )
    return sorted(chosen)


def stands_for(pattern: str | re.Pattern[str], name: str) -> bool:
    """Returns whether a pattern means this address.

    A glob may begin at any part of an address, and a layer means its weights. `*`
    stays within one part, `**` does not.

    Example:
    >>> stands_for("conv*", "block/conv_1/kernel"), stands_for("*/bias", "a/kernel")
    (True, False)
    """
    if isinstance(pattern, re.Pattern):
        return pattern.search(name) is not None
    return _regex(pattern).fullmatch(name) is not None


@lru_cache(maxsize=256)
def _regex(pattern: str) -> re.Pattern[str]:
    # Only `*` and `?` are wild: `lstm[1]` is an address.
    words = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*|\*|\?)", pattern)
    middle = "".join(words.get(part, re.escape(part)) for part in parts)
    return re.compile(f"(?:.*/)?{middle}(?:/.*)?")


def _unknown(pattern: str | re.Pattern[str], known: Sequence[str]) -> str:
    word = pattern if isinstance(pattern, str) else pattern.pattern
    near = closest(word.strip("*?/"), known)
    hint = f" Closest: {quoted(near)}." if near else ""
    return (
        f"`names` must match something that was recorded. Received: {word!r}, which "
        f"matches none of the {counted(len(known), 'name')}.{hint} `run.names` and "
        "`run.activations` list them all."
    )
