"""The options `--target` and `--wrt`: targets and selectors from text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from .._errors import TargetError, require
from ._common import Function

_TARGET = (
    "loss, class:3, class:3,1,4 (one for each example), class:3@OUTPUT, mean, "
    "mean:OUTPUT, output, output:OUTPUT, output:OUTPUT[2]"
)
_WRT = "weights, weights:conv*, activations, activations:conv*, inputs, inputs:NAME"
_CLASSES = re.compile(r"(-?\d+(?:,-?\d+)*)(?:@(.+))?")
_UNIT = re.compile(r"(.*?)(?:\[(-?\d+(?:,-?\d+)*)\])?")


def target_option(default: str) -> Callable[[Function], Function]:
    """Returns the option `--target`; the help says what its default is."""
    return click.option(
        "--target",
        metavar="TARGET",
        help=f"What to differentiate. {default} One of {_TARGET}. OUTPUT is the name "
        "or the index of one of several outputs.",
    )


wrt_option = click.option(
    "--wrt",
    multiple=True,
    metavar="WHAT",
    help="Differentiate with respect to these (default: every trainable weight). One "
    f"of {_WRT}. May be repeated.",
)


def as_target(text: str | None, sample_weight: Any = None) -> Any:
    """Returns the target that a text names; the loss for None.

    Raises:
        TargetError: If it names none.
    """
    from ..targets import class_score, loss, mean_output, output

    if text is None or text == "loss":
        return loss(sample_weight=sample_weight)
    kind, _, rest = text.partition(":")
    if kind == "class" and (match := _CLASSES.fullmatch(rest)):
        classes = [int(number) for number in match[1].split(",")]
        index = classes[0] if len(classes) == 1 else classes
        return class_score(index, _which(match[2]))
    if kind == "mean":
        return mean_output(_which(rest))
    if kind == "output" and (match := _UNIT.fullmatch(rest)):
        unit = tuple(int(n) for n in match[2].split(",")) if match[2] else ()
        return output(_which(match[1]), unit)
    raise TargetError(
        f"`--target` must be one of {_TARGET}. Received: {text!r}. For class 3 give "
        "`--target class:3`."
    )


def _which(name: str | None) -> str | int | None:
    if not name:
        return None
    return int(name) if re.fullmatch(r"-?\d+", name) else name


def as_wrt(texts: tuple[str, ...]) -> Any:
    """Returns the selectors that texts name; None if there are no texts.

    Raises:
        GradwatchError: If a text names none.
    """
    from .. import select

    selectors = []
    for text in texts:
        kind, _, pattern = text.partition(":")
        fits = kind in ("weights", "activations", "inputs")
        way_out = f"For the activations of a layer give `--wrt activations:{text}`."
        require(fits, f"`--wrt` must be one of {_WRT}.", text, way_out)
        selectors.append(getattr(select, kind)(pattern or None))
    return selectors or None
