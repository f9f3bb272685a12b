"""A run that only TensorBoard can read, such as one in a bucket."""

from __future__ import annotations

from typing import Any

from ..run import Decoded, Store, meta_of

_ALL = 2**31 - 1


class Provided:
    """As a `Reader`, but from TensorBoard's data provider, and all of it each time.

    Args:
        provider: Of TensorBoard.
        ctx: Of the request.
        experiment: As TensorBoard names it.
        run: The run, as TensorBoard names it.
    """

    def __init__(self, provider: Any, ctx: Any, experiment: str, run: str) -> None:
        self._asked = (provider, ctx, experiment, run)
        self._seen: dict[str, tuple[int, float]] = {}
        self.store = Store()
        self.done = 0
        self.waiting = 0

    def again(self) -> Provided:
        """Returns one that has read nothing yet."""
        return Provided(*self._asked)

    def lost(self) -> bool:
        """Tells whether there is something new: then all of it is read again."""
        return bool(self._seen) and self._state()[0] != self._seen

    def read(self, seconds: float = 0.0) -> bool:
        """Reads all that there is, if that was not done before."""
        del seconds  # It is one call, which cannot be cut short.
        if self._seen:
            return True
        self._seen, metas = self._state()
        steps: dict[int, Decoded] = {}
        data = self._read(frozenset(metas))
        for tag, meta in metas.items():
            for datum in data.get(tag, ()):
                step = int(datum.step)
                decoded = steps.setdefault(step, Decoded(step))
                decoded.take(tag, meta, datum.numpy)
        for _, decoded in sorted(steps.items()):
            if (record := decoded.record) is not None:
                self.store.append(record, decoded.counts)
        for _, decoded in sorted(steps.items()):
            for finding in decoded.findings:
                self.store.add_finding(decoded.step, finding)
            for key, facts in decoded.notes.items():
                self.store.note(key, facts)
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
        return seen, {tag: meta_of(s.plugin_content, run) for tag, s in listed.items()}

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
