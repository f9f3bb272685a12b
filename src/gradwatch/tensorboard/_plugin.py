"""The server of the Gradients tab: each route returns the numbers of a picture."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tensorboard.backend import http_util
from tensorboard.plugins import base_plugin
from werkzeug.exceptions import BadRequest, NotFound
from werkzeug.wrappers import Request

from tensorboard import plugin_util

from ..run import KINDS, Run
from ..show.charts import (
    CURVES,
    OCTAVES,
    QUANTITIES,
    Quantity,
    curves,
    facts_of,
    heat,
    histograms,
    packed,
    snapshot,
    vocabulary,
    worst_index,
)
from ..show.static import STATIC
from ._runs import PLUGIN, Picture, Runs, ServedRun

_MOST = 4096  # buckets
_CELLS = 300_000  # in a heat map: more than a screen shows, and a moment to send

Args = Mapping[str, str]
"""The arguments of a request."""


class GradientsPlugin(base_plugin.TBPlugin):
    """The Gradients tab.

    Args:
        context: The context that TensorBoard gives its plugins.
    """

    plugin_name = PLUGIN

    def __init__(self, context: base_plugin.TBContext) -> None:
        self._runs = Runs(context)

    def get_plugin_apps(self) -> dict[str, Any]:
        """Returns the routes."""
        script = STATIC / "gradwatch.js"
        answers: dict[str, Callable[[Request], tuple[Any, str]]] = {
            "/index.js": lambda _: (script.read_bytes(), "text/javascript"),
            "/runs": self._list,
            "/run": self._facts,
            "/heat": partial(self._picture, _heat),
            "/curves": partial(self._picture, _curves),
            "/snapshot": partial(self._picture, _snapshot),
            "/histograms": partial(self._picture, _histograms),
        }
        return {route: _app(answer) for route, answer in answers.items()}

    def is_active(self) -> bool:
        """Returns False: TensorBoard asks its data provider whether runs are ours."""
        return False

    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        """Returns the script that TensorBoard loads into the tab."""
        return base_plugin.FrontendMetadata(
            es_module_path="/index.js", tab_name="Gradients"
        )

    # routes ---------------------------------------------------------------------------

    def _list(self, request: Request) -> tuple[Any, str]:
        names, begin = self._runs.names(*_asker(request))
        listed = {"runs": names, "begin": begin, "quantities": vocabulary()}
        return json.dumps(listed), "application/json"

    def _facts(self, request: Request) -> tuple[Any, str]:
        served = self._served(request, refresh=True)
        with served.lock:
            facts = facts_of(request.args["run"], served.run)
        return json.dumps(facts), "application/json"

    def _picture(self, picture: Picture, request: Request) -> tuple[bytes, str]:
        """Returns the numbers of a picture, which are kept while nothing changes."""
        served, asked = self._served(request), tuple(sorted(request.args.items()))
        with served.lock:
            content = served.answer(served.run.version, picture, asked)
        return content, "application/octet-stream"

    def _served(self, request: Request, *, refresh: bool = False) -> ServedRun:
        served = self._runs.get(*_asker(request), request.args.get("run", ""))
        if served is None:
            raise NotFound("`run` must be a run that TensorBoard serves.")
        served.refresh(always=refresh)
        return served


def _app(answer: Callable[[Request], tuple[Any, str]]) -> Any:
    @Request.application
    def app(request: Request) -> Any:
        if request.method not in ("GET", "HEAD"):
            return http_util.Respond(request, "Only GET.", "text/plain", 405)
        try:
            content, kind = answer(request)
        except (BadRequest, NotFound) as refused:
            # A fixed sentence: nothing of the request comes back.
            why = refused.description
            return http_util.Respond(request, why, "text/plain", refused.code)
        return http_util.Respond(request, content, kind)

    return app


# pictures -----------------------------------------------------------------------------


def _heat(run: Run, args: Args) -> bytes:
    kind = _one_of(args, "kind", KINDS)
    most = max(32, _CELLS // max(1, len(run.store.names(kind))))
    count = min(most, _integer(args, "buckets", 1, _MOST))
    drawn = heat(run, _quantity(args), kind, _span(args), count)
    facts = {"low": drawn.low, "high": drawn.high, "version": run.store.version}
    return packed(facts, drawn.arrays)


def _curves(run: Run, args: Args) -> bytes:
    drawn, more = curves(run, _span(args), _integer(args, "buckets", 1, _MOST))
    facts = {"curves": CURVES, "version": run.store.version}
    return packed(facts, drawn.arrays | more)


def _snapshot(run: Run, args: Args) -> bytes:
    kind = _one_of(args, "kind", KINDS)
    if not len(run.steps):
        raise NotFound("Nothing is recorded yet.")
    index = _index(args, run, kind)
    step = int(run.steps[index])
    facts = {"index": index, "step": step, "quantities": list(QUANTITIES)}
    return packed(facts, snapshot(run, index, kind))


def _histograms(run: Run, args: Args) -> bytes:
    name = args.get("name", "")
    if name not in run.names:
        raise NotFound("`name` must be a weight of the run.")
    steps, counts = histograms(run, name, _span(args), _integer(args, "count", 1, 512))
    return packed({"name": name, **OCTAVES}, {"steps": steps, "counts": counts})


# what a request says ------------------------------------------------------------------


def _asker(request: Request) -> tuple[Any, str]:
    environ = request.environ
    return plugin_util.context(environ), plugin_util.experiment_id(environ)


def _one_of(args: Args, name: str, known: tuple[str, ...]) -> str:
    value = args.get(name, known[0])
    if value not in known:
        raise BadRequest(f"`{name}` must be one of {', '.join(known)}.")
    return value


def _quantity(args: Args) -> Quantity:
    return QUANTITIES[_one_of(args, "quantity", tuple(QUANTITIES))]


def _integer(args: Args, name: str, least: int, most: int) -> int:
    try:
        value = int(args.get(name, most))
    except ValueError:
        raise BadRequest(f"`{name}` must be a whole number.") from None
    return min(max(value, least), most)


def _index(args: Args, run: Run, kind: str) -> int:
    """Returns the index of a record, given by index, step, or cell of a heat map."""
    if "step" not in args:
        return _integer(args, "index", 0, len(run.steps) - 1)
    span = _span(args)
    if span is not None and "line" in args:
        worst = worst_index(run, (kind, args["line"]), _quantity(args), span)
        if worst is not None:
            return worst
    step = _integer(args, "step", -(2**53), 2**53)
    after = int(run.steps.searchsorted(step, "right"))
    return max(0, after - 1)  # the last record that is not later


def _span(args: Args) -> tuple[float, float] | None:
    if "from" not in args:
        return None
    try:
        low, high = (float(args[key]) for key in ("from", "to"))
    except (ValueError, KeyError):
        raise BadRequest("`from` and `to` must be steps.") from None
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise BadRequest("`from` must be a step before `to`.")
    return low, high
