"""The server of the Gradients tab: each route returns the numbers of a picture."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from typing import Any

from tensorboard.backend import http_util
from tensorboard.plugins import base_plugin
from werkzeug import wrappers
from werkzeug.exceptions import BadRequest, NotFound

from tensorboard import plugin_util

from ..run import KINDS, Run
from ..show.charts import (
    QUANTITIES,
    curves_answer,
    facts_of,
    heat_answer,
    histograms_answer,
    snapshot_answer,
    vocabulary,
    worst_index,
)
from ..show.static import SCRIPT
from ._runs import PLUGIN, Runs, ServedRun

_MOST = 4096  # buckets


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
        answers: dict[str, Callable[[wrappers.Request], tuple[Any, str]]] = {
            "/index.js": self._bundle,
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

    def _bundle(self, _: wrappers.Request) -> tuple[Any, str]:
        return SCRIPT.read_bytes(), "text/javascript"

    def _list(self, request: wrappers.Request) -> tuple[Any, str]:
        names, begin = self._runs.names(*_asker(request))
        listed = {"runs": names, "begin": begin, "quantities": vocabulary()}
        return json.dumps(listed), "application/json"

    def _facts(self, request: wrappers.Request) -> tuple[Any, str]:
        served = self._served(request, refresh=True)
        with served.lock:
            run = served.run
            facts = facts_of(request.args["run"], run, read=run.share)
        return json.dumps(facts), "application/json"

    def _picture(
        self,
        answer: Callable[[Run, wrappers.Request], bytes],
        request: wrappers.Request,
    ) -> tuple[Any, str]:
        """Returns the numbers of a picture, which are kept while nothing changes."""
        key = (answer, *sorted(request.args.items()))
        content = self._served(request).answer(key, lambda run: answer(run, request))
        return content, "application/octet-stream"

    def _served(self, request: wrappers.Request, *, refresh: bool = False) -> ServedRun:
        served = self._runs.get(*_asker(request), request.args.get("run", ""))
        if served is None:
            raise NotFound("`run` must be a run that TensorBoard serves.")
        served.refresh(always=refresh)
        return served


def _app(answer: Callable[[wrappers.Request], tuple[Any, str]]) -> Any:
    @wrappers.Request.application
    def app(request: wrappers.Request) -> Any:
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


def _heat(run: Run, request: wrappers.Request) -> bytes:
    kind = _one_of(request, "kind", KINDS)
    quantity = _one_of(request, "quantity", tuple(QUANTITIES))
    count = _integer(request, "buckets", 1, _MOST)
    return heat_answer(run, kind, quantity, _span(request), count)


def _curves(run: Run, request: wrappers.Request) -> bytes:
    count = _integer(request, "buckets", 1, _MOST)
    return curves_answer(run, _span(request), count)


def _snapshot(run: Run, request: wrappers.Request) -> bytes:
    kind = _one_of(request, "kind", KINDS)
    if not len(run.steps):
        raise NotFound("Nothing is recorded yet.")
    return snapshot_answer(run, kind, _index(request, run, kind))


def _histograms(run: Run, request: wrappers.Request) -> bytes:
    name = request.args.get("name", "")
    if name not in run.names:
        raise NotFound("`name` must be a weight of the run.")
    count = _integer(request, "count", 1, 512)
    return histograms_answer(run, name, _span(request), count)


# what a request says ------------------------------------------------------------------


def _asker(request: wrappers.Request) -> tuple[Any, str]:
    environ = request.environ
    return plugin_util.context(environ), plugin_util.experiment_id(environ)


def _one_of(request: wrappers.Request, name: str, known: tuple[str, ...]) -> str:
    value = request.args.get(name, known[0])
    if value not in known:
        raise BadRequest(f"`{name}` must be one of {', '.join(known)}.")
    return value


def _integer(request: wrappers.Request, name: str, least: int, most: int) -> int:
    try:
        value = int(request.args.get(name, most))
    except ValueError:
        raise BadRequest(f"`{name}` must be a whole number.") from None
    return min(max(value, least), most)


def _index(request: wrappers.Request, run: Run, kind: str) -> int:
    """Returns the index of a record, given by index, step, or cell of a heat map."""
    if "step" not in request.args:
        return _integer(request, "index", 0, len(run.steps) - 1)
    span = _span(request)
    if span is not None and "line" in request.args:
        quantity = QUANTITIES[_one_of(request, "quantity", tuple(QUANTITIES))]
        worst = worst_index(run, (kind, request.args["line"]), quantity, span)
        if worst is not None:
            return worst
    step = _integer(request, "step", -(2**53), 2**53)
    after = int(run.steps.searchsorted(step, "right"))
    return max(0, after - 1)  # the last record that is not later


def _span(request: wrappers.Request) -> tuple[float, float] | None:
    if "from" not in request.args:
        return None
    try:
        low, high = (float(request.args[key]) for key in ("from", "to"))
    except (ValueError, KeyError):
        raise BadRequest("`from` and `to` must be steps.") from None
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise BadRequest("`from` must be a step before `to`.")
    return low, high
