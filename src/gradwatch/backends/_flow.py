"""Paths through a graph of operations: the reasons why a gradient is missing.

Each backend draws the operations between the leaves and the target in the neutral form
below; the analysis is written once.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cut:
    """An operation through which no gradient passes."""

    kind: str
    """`"stop_gradient"`, `"integer"` or `"not_differentiable"`."""
    operation: str
    address: str
    """The address of the layer in which it runs; empty in the model's own `call`."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: which values it reads, the one it makes, and whether it cuts."""

    inputs: Sequence[Hashable]
    output: Hashable
    cut: Cut | None = None


@dataclass(slots=True)
class Flow:
    """The operations of one forward pass, in the order of execution.

    A loop is drawn as its body once, with a step from each result of a round to where
    the next round reads it.
    """

    steps: list[Operation]
    leaves: Mapping[Hashable, Hashable]
    target: Hashable
    outputs: Mapping[str, Hashable]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Says whether a gradient can flow from the target to a leaf, and if not, why."""

    connected: bool
    cuts: tuple[Cut, ...] = ()
    """The operations that cut it, if the target depends on the leaf at all."""
    other_outputs: tuple[str, ...] = ()
    """The model outputs that do depend on it, if the target does not."""


def analyse(flow: Flow) -> dict[Hashable, Verdict]:
    """Judges every leaf of a flow."""
    makers, readers = defaultdict(list), defaultdict(list)
    for number, step in enumerate(flow.steps):
        makers[step.output].append(step)
        for value in step.inputs:
            readers[value].append((number, step))
    differentiable = _upstream(flow.target, makers, through_cuts=False)
    dependent = _upstream(flow.target, makers)
    of_output = {name: _upstream(value, makers) for name, value in flow.outputs.items()}
    verdicts = {}
    for leaf, value in flow.leaves.items():
        if value in differentiable:
            verdicts[leaf] = Verdict(connected=True)
        elif value in dependent:
            cuts = _cuts_between(value, dependent, readers)
            verdicts[leaf] = Verdict(connected=False, cuts=cuts)
        else:
            others = tuple(n for n, seen in of_output.items() if value in seen)
            verdicts[leaf] = Verdict(connected=False, other_outputs=others)
    return verdicts


def _upstream(
    start: Hashable,
    makers: Mapping[Hashable, list[Operation]],
    *,
    through_cuts: bool = True,
) -> set[Hashable]:
    """Returns every value that a value is made from."""
    seen = {start}
    queue = deque(seen)
    while queue:
        for step in makers.get(queue.popleft(), ()):
            if step.cut is not None and not through_cuts:
                continue
            for value in step.inputs:
                if value not in seen:
                    seen.add(value)
                    queue.append(value)
    return seen


def _cuts_between(
    leaf: Hashable,
    dependent: set[Hashable],
    readers: Mapping[Hashable, list[tuple[int, Operation]]],
) -> tuple[Cut, ...]:
    """Returns the first cut on each way from the leaf, in the order of execution."""
    seen = {leaf}
    queue = deque(seen)
    cuts: dict[int, Cut] = {}
    while queue:
        for number, step in readers.get(queue.popleft(), ()):
            if step.output not in dependent:
                continue
            if step.cut is not None:
                cuts[number] = step.cut
            elif step.output not in seen:
                seen.add(step.output)
                queue.append(step.output)
    return tuple(dict.fromkeys(cuts[number] for number in sorted(cuts)))
