"""The server part: right numbers, and only of runs that TensorBoard serves."""

import argparse
import importlib.metadata
import json
import shutil

import numpy as np
import pytest
from tensorboard.backend.event_processing import data_provider
from tensorboard.backend.event_processing import (
    plugin_event_multiplexer as multiplexers,
)
from tensorboard.plugins import base_plugin
from werkzeug.test import Client

from gradwatch.run import Reader, RunWriter
from gradwatch.show.charts import QUANTITIES
from gradwatch.tensorboard._loader import Loader
from gradwatch.tensorboard._provided import Provided
from gradwatch.tensorboard._runs import Runs
from tensorboard import context as tb_context

from ..show.wire import unpacked
from .made_up import AT, EVIL, layout_of, record_of, write_run


class Server:
    """The plugin under TensorBoard's Python loader, in this process."""

    def __init__(self, logdir, *, samples=0, multiplexed=True):
        self.multiplexer = multiplexers.EventMultiplexer(
            tensor_size_guidance={"gradwatch": samples}
        )
        self.logdir = logdir
        self.provider = data_provider.MultiplexerDataProvider(self.multiplexer, "")
        flags = argparse.Namespace(logdir=str(logdir), grpc_data_provider="")
        self.context = base_plugin.TBContext(
            data_provider=self.provider,
            flags=flags,
            logdir=str(logdir),
            multiplexer=self.multiplexer if multiplexed else None,
        )
        self.plugin = Loader().load(self.context)
        self.apps = self.plugin.get_plugin_apps()
        self.reload()

    def reload(self):
        self.multiplexer.AddRunsFromDirectory(str(self.logdir))
        self.multiplexer.Reload()
        self.plugin._runs._listed.clear()

    def get(self, route, method="GET", **query):
        environ = {}
        tb_context.set_in_environ(environ, tb_context.RequestContext())
        return Client(self.apps[route]).open(
            route, method=method, query_string=query, environ_overrides=environ
        )

    def json(self, route, **query):
        answer = self.get(route, **query)
        assert answer.status_code == 200, answer.text
        return json.loads(answer.data)

    def packed(self, route, **query):
        answer = self.get(route, **query)
        assert answer.status_code == 200, answer.text
        return unpacked(answer.data)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """However busy the machine: an answer waits until all of a run is read."""
    for name in ("_FIRST", "_READING"):
        monkeypatch.setattr(f"gradwatch.tensorboard._runs.{name}", 180.0)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A log directory, and the records of its run."""
    root = tmp_path_factory.mktemp("logs")
    records = write_run(root / "a" / "b")
    (root / "other").mkdir()
    (root / "other" / "notes.txt").write_text("no run")
    return root, records


@pytest.fixture(scope="module", params=[True, False], ids=["multiplexer", "logdir"])
def server(made, request):
    """Both ways to a run's place: TensorBoard's own table, or its log directory."""
    return Server(made[0], multiplexed=request.param)


def test_the_list_is_of_runs_with_gradients(server):
    """With the words for all that can be shown, and where to begin."""
    result = server.json("/runs")
    assert result["runs"] == ["a/b"]
    assert result["begin"] == "a/b"
    assert [q["name"] for q in result["quantities"]] == list(QUANTITIES)


def test_facts_are_those_of_the_run(server, made):
    """Names, steps, findings with their words, what was trained, what it cost."""
    records = made[1]
    result = server.json("/run", run="a/b")
    layout = records[0].layout
    weights = [
        n for n, k in zip(layout.names, layout.kinds, strict=True) if k == "weight"
    ]
    assert result["lines"]["weight"]["names"] == weights
    assert f"{EVIL}/kernel" in weights
    assert result["records"] == len(records)
    assert (result["first"], result["last"]) == (0, records[-1].step)
    assert [f["symptom"] for f in result["findings"]] == ["vanishing", "nonfinite"]
    assert "Try first: Replace sigmoid" in result["findings"][0]["text"]
    assert result["notes"]["run"]["model"] == "made up"
    assert result["notes"]["overhead"]["share"] == 0.011
    assert result["read"] == 1.0


def test_a_heat_map_holds_the_recorded_numbers(server, made):
    """With a column for each record, every cell is the number that was written."""
    records = made[1]
    facts, arrays = server.packed("/heat", run="a/b", kind="weight", quantity="norm")
    lines = [i for i, kind in enumerate(records[0].layout.kinds) if kind == "weight"]
    expected = np.array([record.rows[lines, AT["norm"]] for record in records]).T
    np.testing.assert_array_equal(arrays["values"], expected)
    assert arrays["first"].tolist() == [record.step for record in records]
    nan = np.argwhere(arrays["flags"] & 1).tolist()
    assert nan == [[2, 65]]  # step 130 of every second one
    assert np.argwhere(arrays["flags"] & 2).tolist() == [[5, 30]]
    assert np.argwhere(arrays["flags"] & 4).tolist() == [[8, 45]]
    assert facts["low"] == 0


def test_a_stretch_of_steps_may_be_asked_for(server):
    """From and to are steps; so many buckets at most."""
    span = {"from": 100, "to": 139, "buckets": 4}
    _, arrays = server.packed("/heat", run="a/b", quantity="norm", **span)
    assert arrays["values"].shape[1] == 4
    assert arrays["first"].tolist() == [100, 110, 120, 130]
    _, arrays = server.packed("/curves", run="a/b", **span)
    assert arrays["last"].tolist() == [108, 118, 128, 138]


def test_a_step_is_found_by_index_by_step_and_by_cell(server, made):
    """The last record that is not later; of a cell, the record that it shows."""
    records = made[1]
    facts, arrays = server.packed("/snapshot", run="a/b", kind="weight", index=7)
    assert facts["step"] == records[7].step
    norm = arrays["values"][facts["quantities"].index("norm")]
    np.testing.assert_array_equal(norm, records[7].rows[: len(norm), AT["norm"]])
    assert server.packed("/snapshot", run="a/b", step=15)[0]["step"] == 14
    assert server.packed("/snapshot", run="a/b", step=-5)[0]["step"] == 0
    line = records[0].layout.names[2]
    cell = {"step": 198, "from": 0, "to": 198, "line": line, "quantity": "norm"}
    facts, arrays = server.packed("/snapshot", run="a/b", **cell)
    assert facts["step"] == 130
    assert arrays["counts"][:, 2].tolist() == [3, 0, 0]


def test_histograms_are_those_recorded(server, made):
    """Read from the file when they are asked for."""
    records = made[1]
    name = records[0].layout.names[1]
    _, arrays = server.packed("/histograms", run="a/b", name=name)
    there = [record for record in records if record.histograms is not None]
    assert arrays["steps"].tolist() == [record.step for record in there]
    expected = np.array([record.histograms[1] for record in there])
    np.testing.assert_array_equal(arrays["counts"], expected)


ROUTES = ["/run", "/heat", "/curves", "/snapshot", "/histograms"]
OUTSIDE = ["", ".", "..", "../beside", "a", "a/../../beside", "b", "/etc", "a/b/"]


@pytest.mark.parametrize(
    "route", ["/run", "/heat", "/curves", "/snapshot", "/histograms"]
)
@pytest.mark.parametrize("run", [*OUTSIDE, "absolute"])
def test_only_runs_that_tensorboard_serves_are_answered_for(
    server, made, route, run, tmp_path_factory
):
    """A run beside the log directory, or a path to it, does not exist here."""
    beside = made[0].parent / "beside"
    if not beside.exists():
        write_run(beside, steps=4)
    run = str(beside) if run == "absolute" else run
    answer = server.get(route, run=run, name="x")
    assert answer.status_code == 404
    assert answer.text == "`run` must be a run that TensorBoard serves."
    assert answer.content_type.startswith("text/plain")


def test_a_run_that_tensorboard_gave_up_is_not_answered_for(tmp_path):
    """What was served once is not served for ever."""
    write_run(tmp_path / "a", steps=4)
    server = Server(tmp_path)
    assert server.get("/run", run="a").status_code == 200
    server.plugin._runs._provider = Server(tmp_path / "nothing").provider
    server.plugin._runs._listed.clear()
    assert server.get("/run", run="a").status_code == 404


BAD = [
    ("/heat", {"quantity": "x"}, "`quantity` must be one of norm"),
    ("/heat", {"kind": "<b>"}, "`kind` must be one of weight"),
    ("/heat", {"buckets": "many"}, "`buckets` must be a whole number"),
    ("/heat", {"from": "1"}, "`from` and `to` must be steps"),
    ("/heat", {"from": "nan", "to": "3"}, "`from` must be a step before `to`"),
    ("/curves", {"from": "9", "to": "3"}, "`from` must be a step before `to`"),
    ("/snapshot", {"index": "x"}, "`index` must be a whole number"),
    ("/histograms", {"name": "nobody"}, "`name` must be a weight"),
]


@pytest.mark.parametrize(("route", "query", "why"), BAD)
def test_a_bad_request_is_told_why(server, route, query, why):
    """In a fixed sentence: nothing of the request comes back."""
    answer = server.get(route, run="a/b", **query)
    assert answer.status_code in (400, 404)
    assert why in answer.text
    assert "<b>" not in answer.text


def test_nothing_but_reading(server):
    """There is nothing to post."""
    assert server.get("/runs", method="POST").status_code == 405
    assert server.get("/run", method="HEAD", run="a/b").status_code == 200


def test_numbers_beyond_bounds_are_clamped(server):
    """A million buckets are as many as records; a record beyond is the last."""
    _, arrays = server.packed("/heat", run="a/b", quantity="norm", buckets=10**9)
    assert arrays["values"].shape[1] == 100
    assert server.packed("/snapshot", run="a/b", index=10**6)[0]["index"] == 99
    assert server.packed("/snapshot", run="a/b", index=-3)[0]["index"] == 0


def test_a_run_is_followed_while_it_is_written(tmp_path):
    """The next request has the new records; a run that began anew starts again."""
    layout, random = layout_of(2), np.random.default_rng(0)
    with RunWriter(tmp_path / "a") as writer:
        writer.write(record_of(0, layout, random))
        server = Server(tmp_path)
        before = server.json("/run", run="a")
        writer.write(record_of(1, layout, random))
        writer.finding(1, {"symptom": "clipping", "since": 0})
        after = server.json("/run", run="a")
    assert (before["records"], after["records"]) == (1, 2)
    assert after["version"] > before["version"]
    assert after["findings"][0]["title"] == "clipping acts on nearly every step"
    shutil.rmtree(tmp_path / "a")
    write_run(tmp_path / "a", steps=3, every=1)
    server.reload()
    again = server.json("/run", run="a")
    assert again["records"] == 3
    assert again["version"] > after["version"]


def test_the_bundle_is_served_and_loads_nothing_from_elsewhere(server):
    """One script, which names no other host."""
    answer = server.get("/index.js")
    assert answer.status_code == 200
    assert answer.content_type.startswith("text/javascript")
    assert "http://" not in answer.text.replace("http://www.w3.org", "")
    assert "https://" not in answer.text


def test_runs_that_only_tensorboard_can_read_are_the_same(made):
    """From a bucket there is only its data provider: the same store comes of it."""
    server = Server(made[0])
    reader = Reader(made[0] / "a" / "b")
    reader.read()
    ctx = tb_context.RequestContext()
    source = Provided(server.provider, ctx, "", "a/b")
    assert source.read()
    direct, provided = reader.store, source.store
    version = provided.version
    assert source.read()
    assert provided.version == version  # nothing is new, and nothing is read
    assert provided.steps.tolist() == direct.steps.tolist()
    assert provided.findings == direct.findings
    assert provided.notes == direct.notes
    for mine, theirs in zip(provided.chunks, direct.chunks, strict=True):
        n = mine.count
        np.testing.assert_array_equal(
            mine.data[:, :n].view(np.uint64), theirs.data[:, :n].view(np.uint64)
        )
        np.testing.assert_array_equal(mine.totals[:, :n], theirs.totals[:, :n])
        for own, other in zip(mine.counts, theirs.counts, strict=True):
            assert (own is None) == (other is None)
            if own is not None:
                np.testing.assert_array_equal(own(), other())


@pytest.mark.parametrize(
    ("flags", "kept"),
    [
        ({"logdir": "runs", "logdir_spec": ""}, None),
        ({"logdir": "gs://bucket/runs", "logdir_spec": ""}, 0),
        ({"logdir": "", "logdir_spec": "a:runs,b:s3://x/y"}, 0),
    ],
)
def test_tensorboard_keeps_every_step_only_where_it_must(flags, kept):
    """What we read ourselves need not be in its memory too."""
    flags = argparse.Namespace(samples_per_plugin={"images": 5}, **flags)
    Loader().fix_flags(flags)
    assert flags.samples_per_plugin.get("gradwatch") == kept
    assert flags.samples_per_plugin["images"] == 5
    flags.samples_per_plugin["gradwatch"] = 7
    Loader().fix_flags(flags)
    assert flags.samples_per_plugin["gradwatch"] == 7


def test_a_plugin_that_cannot_be_had_does_not_end_tensorboard(monkeypatch):
    """One warning, and TensorBoard starts without the tab."""

    def fail(*_):
        raise ImportError("no such thing")

    monkeypatch.setattr(Runs, "__init__", fail)
    with pytest.warns(RuntimeWarning, match="without the Gradients tab.*no such thing"):
        assert Loader().load(base_plugin.TBContext()) is None
    with pytest.warns(RuntimeWarning, match="without the Gradients tab"):
        Loader().fix_flags(argparse.Namespace())


def test_tensorboard_finds_the_tab():
    """The entry point is installed, and is the loader."""
    points = importlib.metadata.entry_points(group="tensorboard_plugins")
    assert any(point.load() is Loader for point in points)
