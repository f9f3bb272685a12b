"""The selection of a picture: a quantity, and the rows that names stand for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from ..._errors import AddressError, GradwatchError, closest, counted, quoted, require
from ...run import KINDS, Run
from ..charts import CURVES, QUANTITIES, Quantity

Names = str | re.Pattern[str] | Sequence["str | re.Pattern[str]"] | None
"""An address, a last part of one, a layer, a glob, a regular expression, or a list."""

TOTALS = tuple(name for name in CURVES if name not in QUANTITIES)
"""Quantities of a step as a whole."""


def check_recorded(run: Run) -> None:
    """Refuses a run without any recorded step.

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
    """Returns the quantity of that name; `None` for one of the step as a whole.

    Raises:
        GradwatchError: If there is none, or rows of that kind do not have it.
    """
    if name in TOTALS:
        return None
    way_out = 'A weight\'s gradient is a "weight", an activation\'s an "activation", '
    way_out += 'and the activation itself a "value".'
    require(kind in KINDS, f"`kind` must be one of {quoted(KINDS)}.", kind, way_out)
    if name not in QUANTITIES:
        known = [*QUANTITIES, *TOTALS]
        near = closest(str(name), known)
        hint = f" Closest: {quoted(near)}." if near else ""
        raise GradwatchError(
            f"`quantity` must be one that is recorded. Received: {name!r}.{hint} "
            f"There are {quoted(known, len(known))}."
        )
    quantity = QUANTITIES[name]
    rule = f"`kind` must be one that has a {quantity.label}."
    way_out = f"{name!r} is known of {quoted(quantity.kinds)}."
    require(kind in quantity.kinds, rule, kind, way_out)
    return quantity


def rows_of(run: Run, kind: str, names: Names) -> list[int]:
    """Returns the indices of the rows that the names stand for, along depth.

    Raises:
        AddressError: If a name stands for none.
        GradwatchError: If nothing of that kind was recorded.
    """
    known = run.store.names(kind)
    if not known:
        others = [other for other in KINDS if run.store.names(other)]
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
        matches = [at for at, name in enumerate(known) if stands_for(pattern, name)]
        if pattern in known:  # an address is itself, and not what is below it
            matches = [known.index(str(pattern))]
        if not matches:
            word = pattern if isinstance(pattern, str) else pattern.pattern
            near = closest(word.strip("*?/"), known)
            hint = f" Closest: {quoted(near)}." if near else ""
            raise AddressError(
                f"`names` must match something that was recorded. Received: {word!r}, "
                f"which matches none of the {counted(len(known), 'name')}.{hint} "
                "`run.names` and `run.activations` list them all."
            )
        chosen.update(matches)
    if not chosen:
        raise AddressError(
            "`names` must name something. Received: an empty list. Leave it out for "
            "everything."
        )
    return sorted(chosen)


def stands_for(pattern: str | re.Pattern[str], name: str) -> bool:
    """Returns whether a pattern stands for this address.

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
