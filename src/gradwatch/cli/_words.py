"""Words of a command line become targets and selectors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from .._errors import GradwatchError, TargetError
from ._common import Function

_TARGET = (
    "loss, class:3, class:3,1,4 (one for each example), class:3@OUTPUT, mean, "
    "mean:OUTPUT, output, output:OUTPUT, output:OUTPUT[2]"
)
_WRT = "weights, weights:conv*, activations, activations:conv*, inputs, inputs:NAME"
_CLASSES = re.compile(r"(-?\d+(?:,-?\d+)*)(?:@(.+))?")
_UNIT = re.compile(r"(.*?)(?:\[(-?\d+(?:,-?\d+)*)\])?")


def target_option(default: str) -> Callable[[Function], Function]:
    """Returns the option `--target`, which says what it is without."""

    def add(function: Function) -> Function:
        return click.option(
            "--target",
            metavar="TARGET",
            help=f"What is differentiated; {default} without. One of {_TARGET}. OUTPUT "
            "is the name or the position of one of several outputs.",
        )(function)

    return add


wrt_option = click.option(
    "--wrt",
    multiple=True,
    metavar="WHAT",
    help="With respect to what; every trainable weight without. May be given again. "
    f"One of {_WRT}.",
)


def as_target(word: str | None, sample_weight: Any = None) -> Any:
    """Returns the target that a word means; None for none.

    Raises:
        TargetError: If it means none.
    """
    from ..targets import class_score, loss, mean_output, output

    if word is None or word == "loss":
        return loss(sample_weight=sample_weight)
    kind, _, rest = word.partition(":")
    if kind == "class" and (found := _CLASSES.fullmatch(rest)):
        classes = [int(number) for number in found[1].split(",")]
        index = classes[0] if len(classes) == 1 else classes
        return class_score(index, _which(found[2]))
    if kind == "mean":
        return mean_output(_which(rest))
    if kind == "output" and (found := _UNIT.fullmatch(rest)):
        places = tuple(int(n) for n in found[2].split(",")) if found[2] else ()
        return output(_which(found[1]), places)
    raise TargetError(
        f"`--target` must be one of {_TARGET}. Received: {word!r}. For class 3 give "
        "`--target class:3`."
    )


def _which(name: str | None) -> str | int | None:
    if not name:
        return None
    return int(name) if re.fullmatch(r"-?\d+", name) else name


def as_wrt(words: tuple[str, ...]) -> Any:
    """Returns the selectors that words mean; None for none.

    Raises:
        GradwatchError: If a word means none.
    """
    from ..select import activations, inputs, weights

    doors: dict[str, Callable[[Any], Any]] = {
        "weights": weights,
        "activations": activations,
        "inputs": inputs,
    }
    found = []
    for word in words:
        kind, _, pattern = word.partition(":")
        if kind not in doors:
            raise GradwatchError(
                f"`--wrt` must be one of {_WRT}. Received: {word!r}. For the "
                f"activations of a layer give `--wrt activations:{word}`."
            )
        found.append(doors[kind](pattern or None))
    return found or None
