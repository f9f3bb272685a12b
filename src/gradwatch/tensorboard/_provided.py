"""A run that only TensorBoard can read, such as one in a bucket."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..record import FoundStep, Layout, Listener
from ..record._counts import unpack
from ..record._encode import NOTES

_ALL = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _Held:
    data: list[bytes]
    lines: int

    def read(self) -> NDArray[np.int64]:
        return unpack(self.data, self.lines)


class Provided:
    """As a `Follower`, but from TensorBoard's data provider, and all of it each time.

    Args:
        provider: Of TensorBoard.
        ctx: Of the request.
        experiment: As TensorBoard names it.
        run: The run, as TensorBoard names it.
    """

    def __init__(self, provider: Any, ctx: Any, experiment: str, run: str) -> None:
        self._asked = (provider, ctx, experiment, run)
        self._seen: dict[str, tuple[int, float]] = {}
        self.read = 0
        self.waiting = 0

    def again(self) -> Provided:
        """Returns one that has read nothing yet."""
        return Provided(*self._asked)

    def lost(self) -> bool:
        """Tells whether there is something new: then all of it is read again."""
        return bool(self._seen) and self._state()[0] != self._seen

    def tell(self, listener: Listener, seconds: float = 0.0) -> bool:
        """Tells all that there is, if it was not told before."""
        del seconds  # It is one call, which cannot be cut short.
        if self._seen:
            return True
        self._seen, metas = self._state()
        steps: dict[int, FoundStep] = {}
        data = self._read(frozenset(metas))
        for tag, meta in metas.items():
            for datum in data.get(tag, ()) if meta["what"] == "rows" else ():
                parts = (tuple(meta[key]) for key in ("names", "kinds", "sizes"))
                rows = np.asarray(datum.numpy, np.float32)
                columns = tuple(meta["columns"])
                found = FoundStep(int(datum.step), Layout(*parts), columns, rows)
                steps[found.step] = found
        for tag, meta in metas.items():
            for datum in data.get(tag, ()):
                _take(steps.get(int(datum.step)), datum.numpy, meta)
        for step in sorted(steps):
            listener.step(steps[step])
        for tag, meta in metas.items():
            for datum in data.get(tag, ()):
                if meta["what"] == "findings":
                    listener.finding(int(datum.step), json.loads(datum.numpy[0]))
                elif meta["what"] == "note":
                    key = tag.removeprefix(NOTES)
                    listener.note(key, json.loads(datum.numpy[0]))
        return True

    def _state(self) -> tuple[dict[str, tuple[int, float]], dict[str, Any]]:
        provider, ctx, experiment, run = self._asked
        from tensorboard.data.provider import RunTagFilter

        listed = provider.list_tensors(
            ctx,
            experiment_id=experiment,
            plugin_name="gradwatch",
            run_tag_filter=RunTagFilter(runs=[run]),
        ).get(run, {})
        seen = {tag: (s.max_step, s.max_wall_time) for tag, s in listed.items()}
        return seen, {tag: json.loads(s.plugin_content) for tag, s in listed.items()}

    def _read(self, tags: frozenset[str]) -> dict[str, Any]:
        provider, ctx, experiment, run = self._asked
        from tensorboard.data.provider import RunTagFilter

        data: dict[str, Any] = provider.read_tensors(
            ctx,
            experiment_id=experiment,
            plugin_name="gradwatch",
            downsample=_ALL,
            run_tag_filter=RunTagFilter(runs=[run], tags=tags),
        ).get(run, {})
        return data


def _take(step: FoundStep | None, array: Any, meta: dict[str, Any]) -> None:
    """Adds to a step what stands under another tag."""
    if step is None:
        return
    if meta["what"] == "totals":
        found = zip(meta["names"], *np.asarray(array).tolist(), strict=True)
        step.totals = {name: number for name, number, there in found if there}
    elif meta["what"] == "histograms":
        step.histograms = _Held([bytes(part) for part in array], meta["lines"])
