"""A run that only TensorBoard can read, such as one in a bucket."""

from __future__ import annotations

from typing import Any

from ..run import Reader, Value, meta_of

_ALL = 2**31 - 1


class Provided(Reader):
    """The source of a run in TensorBoard's data provider, which is read as a whole.

    Args:
        provider: The data provider of TensorBoard.
        ctx: The context of the request.
        experiment: The experiment, as TensorBoard names it.
        run: The run, as TensorBoard names it.
    """

    def __init__(self, provider: Any, ctx: Any, experiment: str, run: str) -> None:
        super().__init__(run)
        self._provider, self._ctx, self._run = provider, ctx, run
        self._asked = {"experiment_id": experiment, "plugin_name": "gradwatch"}
        self._seen: dict[str, tuple[int, float]] = {}
        self._complete = True

    def read(self, seconds: float = float("inf")) -> bool:
        """Reads everything, if anything is new since the last time."""
        del seconds  # It is one call, which cannot be cut short.
        from tensorboard.data.provider import RunTagFilter

        listed = self._ask("list_tensors", RunTagFilter(runs=[self._run]))
        seen = {tag: (s.max_step, s.max_wall_time) for tag, s in listed.items()}
        if seen == self._seen:
            return True
        self._seen = seen
        self.store.clear()
        metas = {tag: meta_of(s.plugin_content, self._run) for tag, s in listed.items()}
        tags = RunTagFilter(runs=[self._run], tags=frozenset(metas))
        data = self._ask("read_tensors", tags, downsample=_ALL)
        steps: dict[int, list[Value]] = {}
        for tag, meta in metas.items():
            for datum in data.get(tag, ()):
                value = (tag, meta, datum.numpy)
                steps.setdefault(int(datum.step), []).append(value)
        for step in sorted(steps):
            self.store.take(step, steps[step])
        return True

    def _ask(self, question: str, tags: Any, **more: Any) -> dict[str, Any]:
        """Returns the answer of the data provider by tag."""
        ask = getattr(self._provider, question)
        answer = ask(self._ctx, run_tag_filter=tags, **self._asked, **more)
        own: dict[str, Any] = answer.get(self._run, {})
        return own
