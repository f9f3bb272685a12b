"""All families of the suite, and how to find one."""

from __future__ import annotations

from gradwatch._errors import AddressError, closest, counted, quoted

from . import (
    _healthy_images,
    _healthy_plain,
    _healthy_sequences,
    _healthy_shapes,
    _healthy_slow,
    _healthy_training,
    _sick_data,
    _sick_depth,
    _sick_numbers,
    _sick_parts,
    _sick_units,
    _sick_updates,
)
from ._case import Fault

FAULTS: tuple[Fault, ...] = (
    *_sick_depth.FAMILIES,
    *_sick_units.FAMILIES,
    *_sick_numbers.FAMILIES,
    *_sick_updates.FAMILIES,
    *_sick_parts.FAMILIES,
    *_sick_data.FAMILIES,
    *_healthy_plain.FAMILIES,
    *_healthy_images.FAMILIES,
    *_healthy_sequences.FAMILIES,
    *_healthy_shapes.FAMILIES,
    *_healthy_training.FAMILIES,
    *_healthy_slow.FAMILIES,
)
"""Every family, the sick ones first."""


def sick() -> tuple[Fault, ...]:
    """Returns the families in which something is wrong.

    Example:
    >>> from gradwatch.testing import faults
    >>> {"vanishing"} in [fault.symptoms for fault in faults.sick()]
    True
    """
    return tuple(fault for fault in FAULTS if not fault.healthy)


def healthy() -> tuple[Fault, ...]:
    """Returns the families in which nothing is wrong.

    Example:
    >>> from gradwatch.testing import faults
    >>> any(fault.symptoms for fault in faults.healthy())
    False
    """
    return tuple(fault for fault in FAULTS if fault.healthy)


def by_name(name: str) -> Fault:
    """Returns the family of this name.

    Example:
    >>> from gradwatch.testing import faults
    >>> sorted(faults.by_name("fast-adam-mlp").symptoms)
    ['large-updates']

    Raises:
        AddressError: There is no such family.
    """
    names = [fault.name for fault in FAULTS]
    if name in names:
        return FAULTS[names.index(name)]
    near = closest(str(name), names)
    hint = f" Closest: {quoted(near)}." if near else ""
    raise AddressError(
        "`name` must be that of a family of the fault suite. Received: "
        f"{name!r}, none of the {counted(len(names), 'name')}.{hint} "
        "`[fault.name for fault in faults.FAULTS]` lists them all."
    )
