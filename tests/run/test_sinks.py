"""Numbers that go elsewhere too: what arrives there, and what if it does not."""

import json
import math
import struct
import sys
import time
import types

import pytest

from gradwatch.run import MlflowSink, RunError, Sink, Sinks, WandbSink, numbers

from .records import record

STEPS = {step: numbers(record(step)) for step in (0, 10, 20)}


class Kept:
    """A sink that keeps what it is given, and fails when told to."""

    def __init__(self):
        self.calls = []
        self.error = None

    def _take(self, *call):
        if self.error is not None:
            raise self.error
        self.calls.append(call)

    def start(self, info):
        self._take("start", info)

    def write(self, step, numbers):
        self._take(step, numbers)

    def close(self):
        self._take("close")


def feed(sink):
    """A whole run of three steps."""
    sink.start({"model": "demo"})
    for step, found in STEPS.items():
        sink.write(step, found)
    sink.close()


def write_steps(sink, steps):
    for step in steps:
        sink.write(step, {})


def test_all_sinks_get_everything():
    """In the order they were given, each its own dictionaries."""
    first, second = Kept(), Kept()
    group = Sinks([first, second])
    assert len(group) == 2
    group.start({"model": "demo"})
    group.write(3, {"a": 1.0})
    group.close()
    expected = [("start", {"model": "demo"}), (3, {"a": 1.0}), ("close",)]
    assert first.calls == second.calls == expected
    assert first.calls[1][1] is not second.calls[1][1]


@pytest.mark.parametrize(
    "error", [OSError("no net"), ValueError("x"), SystemError("y")]
)
def test_a_sink_that_raises_is_one_warning_and_the_others_go_on(error):
    """It is asked again at each step, as what it could not reach may be back."""
    bad, good = Kept(), Kept()
    group = Sinks([bad, good])
    group.start({})
    bad.error = error
    with pytest.warns(RuntimeWarning, match="Kept could not write step 0: .*") as seen:
        write_steps(group, range(5))
    assert len(seen) == 1
    bad.error = None
    group.write(5, {})
    group.close()
    assert [call[0] for call in good.calls] == ["start", 0, 1, 2, 3, 4, 5, "close"]
    assert [call[0] for call in bad.calls] == ["start", 5, "close"]


def test_each_bad_sink_is_warned_of():
    """One warning per sink, not one for all."""
    sinks = [Kept(), Kept()]
    for sink in sinks:
        sink.error = OSError("no net")
    group = Sinks(sinks)
    with pytest.warns(RuntimeWarning, match="Kept could not start: .*no net") as seen:
        feed(group)
    assert len(seen) == 2


def test_an_interrupt_is_not_swallowed():
    """Stopping the training is what the user asked for."""
    bad = Kept()
    bad.error = KeyboardInterrupt("stop")
    with pytest.raises(KeyboardInterrupt, match="stop"):
        Sinks([bad]).write(0, {})


def test_what_is_no_sink_is_refused_at_once():
    """Not at the first step, an hour into the training."""
    with pytest.raises(RunError, match=r"`sinks`.*`start`, `write` and `close`.*str"):
        Sinks(["wandb"])


@pytest.mark.parametrize("sink", [Kept(), WandbSink(), MlflowSink(), Sinks()])
def test_ours_are_sinks(sink):
    """A group of sinks is one itself."""
    assert isinstance(sink, Sink)


# Weights & Biases ---------------------------------------------------------------------


class FakeRun:
    """The four methods of a W&B run that are used."""

    def __init__(self):
        self.config = types.SimpleNamespace(update=self._configure)
        self.configured, self.metrics, self.logged = {}, {}, []
        self.finished = False

    def _configure(self, values, allow_val_change=False):
        assert allow_val_change
        self.configured.update(values)

    def define_metric(self, name, step_metric):
        assert name not in self.metrics
        self.metrics[name] = step_metric

    def log(self, numbers):
        self.logged.append(numbers)

    def finish(self):
        self.finished = True


def test_a_wandb_run_that_was_given_is_left_open():
    """Its owner logs more to it: our steps are a metric of their own."""
    run = FakeRun()
    feed(WandbSink(run))
    assert run.configured == {"gradwatch": {"model": "demo"}}
    assert run.logged == [{"gradwatch/step": s, **found} for s, found in STEPS.items()]
    assert run.metrics == dict.fromkeys(STEPS[0], "gradwatch/step")
    assert not run.finished


def test_a_wandb_run_of_our_own_is_finished(monkeypatch):
    """`init` gets what the sink was given, and only once training starts."""
    run, inits = FakeRun(), []

    def init(**given):
        inits.append(given)
        return run

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))
    sink = WandbSink(project="demo", mode="offline")
    assert inits == []
    feed(sink)
    sink.close()
    assert inits == [{"project": "demo", "mode": "offline"}]
    assert run.finished


def finished_run(path):
    """The records of an offline run, once the last of them is on disk.

    `finish` of wandb 0.31 may return a moment before its own process has written them.
    """
    for _ in range(3000):
        found = list(wandb_records(path))
        if any(each.HasField("exit") for each in found):
            return found
        time.sleep(0.1)
    raise AssertionError("The run was never finished.")


def wandb_records(path):
    """The records in the file of a run: a LevelDB log of protobuf messages."""
    from wandb.proto import wandb_internal_pb2

    data, at, parts = path.read_bytes(), 7, []
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:  # the rest of a block is padding
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        if kind == 0:
            break
        parts.append(data[at + 7 : at + 7 + length])
        at += 7 + length
        if kind in (1, 4):  # full, or last
            yield wandb_internal_pb2.Record.FromString(b"".join(parts))
            parts = []


# W&B starts a process of its own, and leaves its sockets to the garbage collector.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_wandb_offline_records_every_number(tmp_path, monkeypatch):
    """Read back from the file that `wandb sync` would upload."""
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    # On a busy machine its process takes longer to start than it is given.
    monkeypatch.setenv("WANDB__SERVICE_WAIT", "300")
    monkeypatch.setenv("WANDB_INIT_TIMEOUT", "300")
    for name in ("DIR", "CACHE_DIR", "CONFIG_DIR", "DATA_DIR"):
        monkeypatch.setenv(f"WANDB_{name}", str(tmp_path))
    feed(WandbSink(project="demo", dir=str(tmp_path), mode="offline"))
    [path] = tmp_path.glob("wandb/offline-run-*/*.wandb")
    found, metrics = {}, {}
    for each in finished_run(path):
        items = {
            (item.key or "/".join(item.nested_key)): json.loads(item.value_json)
            for item in each.history.item
        }
        if items:
            found[items["gradwatch/step"]] = items
        if each.metric.name:
            metrics[each.metric.name] = each.metric.step_metric
    assert found.keys() == STEPS.keys()
    for step, expected in STEPS.items():
        for name, number in expected.items():
            assert found[step][name] == pytest.approx(number, rel=1e-12)
            assert metrics[name] == "gradwatch/step"


# MLflow -------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("mine", [True, False])
def test_mlflow_records_every_number(tmp_path, monkeypatch, mine):
    """Read back from a local store; a run that was given is left open."""
    # The store in plain files needs no database; MLflow asks to be told so.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = pytest.importorskip("mlflow")
    uri = (tmp_path / "runs").as_uri()
    client = mlflow.MlflowClient(tracking_uri=uri)
    run_id = client.create_run("0").info.run_id if mine else None
    sink = MlflowSink(run_id, uri, None if mine else "demo")
    feed(sink)
    run = client.get_run(sink.run_id)
    assert run.info.status == ("RUNNING" if mine else "FINISHED")
    assert run.data.tags["gradwatch.model"] == "demo"
    if not mine:
        assert client.get_experiment(run.info.experiment_id).name == "demo"
    for name in STEPS[0]:
        history = client.get_metric_history(sink.run_id, name)
        assert {m.step: m.value for m in history} == {
            step: pytest.approx(found[name]) for step, found in STEPS.items()
        }


class FakeClient:
    """The methods of an MLflow client that are used."""

    made = None

    def __init__(self, tracking_uri):
        FakeClient.made = self
        self.uri, self.batches, self.tags, self.ended = tracking_uri, [], {}, False

    def create_run(self, experiment_id):
        info = types.SimpleNamespace(run_id=f"run of {experiment_id}")
        return types.SimpleNamespace(info=info)

    def get_experiment_by_name(self, name):
        known = types.SimpleNamespace(experiment_id="7")
        return known if name == "known" else None

    def create_experiment(self, name):
        return "8"

    def set_tag(self, run_id, key, value):
        self.tags[key] = value

    def log_batch(self, run_id, metrics):
        self.batches.append((run_id, metrics))

    def set_terminated(self, run_id):
        self.ended = True


@pytest.fixture
def fake_mlflow(monkeypatch):
    """MLflow as a module of fakes, with no active run."""
    fake = types.SimpleNamespace(MlflowClient=FakeClient, active_run=lambda: None)
    entities = types.SimpleNamespace(Metric=lambda *parts: parts)
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    return fake


def test_mlflow_gets_names_it_allows_and_never_two_alike(fake_mlflow):
    """`#`, `@` and brackets of addresses become dashes, and are told apart."""
    sink = MlflowSink()
    sink.start({})
    sink.write(0, {"a#2/norm": 1.0, "a@2/norm": 2.0, "a-2/norm": math.nan, "b[1]": 4.0})
    sink.write(1, {"a@2/norm": 5.0})
    [(_, first), (_, second)] = FakeClient.made.batches
    names = ["a-2/norm", "a-2/norm-2", "a-2/norm-3", "b-1"]
    assert [metric[0] for metric in first] == names
    assert [(metric[0], metric[1], metric[3]) for metric in second] == [
        ("a-2/norm-2", 5.0, 1)
    ]


def test_mlflow_gets_at_most_a_thousand_numbers_at_once(fake_mlflow):
    """More is refused by its server."""
    sink = MlflowSink()
    sink.start({"note": "x" * 9000})
    sink.write(0, {f"w{i}/norm": float(i) for i in range(2500)})
    sizes = [len(metrics) for _, metrics in FakeClient.made.batches]
    assert sizes == [1000, 1000, 500]
    assert len(FakeClient.made.tags["gradwatch.note"]) == 5000


def test_mlflow_joins_the_active_run(fake_mlflow):
    """And leaves it open."""
    active = types.SimpleNamespace(info=types.SimpleNamespace(run_id="theirs"))
    fake_mlflow.active_run = lambda: active
    sink = MlflowSink()
    feed(sink)
    assert sink.run_id == "theirs"
    assert not FakeClient.made.ended


@pytest.mark.parametrize(("name", "number"), [("known", 7), ("new", 8), (None, 0)])
def test_mlflow_finds_or_makes_the_experiment(fake_mlflow, name, number):
    """By name; without one it is MLflow's default."""
    sink = MlflowSink(experiment=name)
    feed(sink)
    assert sink.run_id == f"run of {number}"
    assert FakeClient.made.ended


# What is not installed, or not started ------------------------------------------------


@pytest.mark.parametrize(
    ("sink", "library"), [(WandbSink(), "wandb"), (MlflowSink(), "mlflow")]
)
def test_without_the_library_the_extra_is_named(monkeypatch, sink, library):
    """When training starts; and in a group that is a warning."""
    monkeypatch.setitem(sys.modules, library, None)
    extra = rf"needs {library}.*pip install \"gradwatch\[{library}\]\""
    with pytest.raises(ImportError, match=extra):
        sink.start({})
    with pytest.warns(RuntimeWarning, match=extra):
        Sinks([sink]).start({})


@pytest.mark.parametrize("sink", [WandbSink(), MlflowSink()])
def test_a_sink_that_was_not_started_says_so(sink):
    """And may be closed all the same."""
    with pytest.raises(RunError, match=r"`start` must come before `write`"):
        sink.write(0, {})
    sink.close()


def test_a_wandb_run_and_words_for_a_new_one_are_refused():
    """One of them would be ignored without a word."""
    with pytest.raises(RunError, match=r"`run` must be left out.*project"):
        WandbSink(FakeRun(), project="demo")
