"""What `diagnose` and `assert_healthy` take, and what they say to anything else."""

from dataclasses import astuple, replace

import keras
import numpy as np
import pytest
from keras import layers

import gradwatch as gw
from gradwatch.diagnose import RuleEngine
from gradwatch.run import Layout, Record, RunWriter
from gradwatch.summarise import COLUMNS

from .made_up import facts, records
from .test_rules import (
    dead,
    half_of_the_units,
    nan_in_the_middle,
    vanishing,
    vanishing_in_biases,
)


def written(path, change=None, notes=True, **options):
    with RunWriter(path) as writer:
        if notes:
            writer.note("model", facts())
        for record in records(change, **options):
            writer.write(record)
    return path


def test_a_run_is_taken_as_object_and_as_directory(tmp_path):
    """With the same findings."""
    path = written(tmp_path / "a", vanishing)
    by_path, by_run = gw.diagnose(path), gw.diagnose(gw.open_run(path))
    assert [f.symptom for f in by_path] == ["vanishing"]
    assert by_path[0].to_json() == by_run[0].to_json()


def test_assert_healthy_lists_findings(tmp_path):
    """For a test suite: an AssertionError; known symptoms can be left out."""
    path = written(tmp_path / "a", vanishing)
    with pytest.raises(AssertionError, match=r"1 finding:\s+Gradients vanish"):
        gw.assert_healthy(path)
    gw.assert_healthy(path, ignore="vanishing")
    gw.assert_healthy(path, ignore=("vanishing", "noise"))
    gw.assert_healthy(written(tmp_path / "b"))


@pytest.mark.parametrize("what", [3, None, [1], {"a": 1}])
def test_anything_else_is_refused(what):
    """With what to give instead."""
    with pytest.raises(gw.GradwatchError, match=r"must be a run.*open_run"):
        gw.diagnose(what)


def test_a_directory_without_a_run_is_said_to_be_one(tmp_path):
    """As `open_run` says it."""
    with pytest.raises(gw.RunError, match="which does not exist"):
        gw.diagnose(tmp_path / "none")


def test_a_run_with_gaps_and_a_restart_is_read_as_it_counts(tmp_path):
    """Steps that were done again supersede those before them: the NaN is gone."""
    path = tmp_path / "a"
    with RunWriter(path) as writer:
        writer.note("model", facts())
        for record in records(nan_in_the_middle):
            if record.step % 3 == 0:
                writer.write(record)
        for record in records():
            if record.step >= 10:
                writer.write(record)
    assert gw.diagnose(path) == ()


def test_a_half_written_run_and_one_without_facts(tmp_path):
    """What is there is read."""
    path = written(tmp_path / "a", vanishing, notes=False)
    (file,) = path.iterdir()
    file.write_bytes(file.read_bytes()[:-7])
    assert [f.symptom for f in gw.diagnose(path)] == ["vanishing"]


@pytest.mark.parametrize("steps", [1, 4])
def test_a_short_run_is_said_to_be(tmp_path, steps):
    """Nothing found in it means little; what one step shows is found all the same."""
    path = written(tmp_path / "a", vanishing, steps=steps)
    with pytest.warns(RuntimeWarning, match=f"gradwatch: {steps} recorded step"):
        assert gw.diagnose(path) == ()
    with pytest.warns(RuntimeWarning, match="most findings need 5 in a row"):
        gw.assert_healthy(path)

    def nan_at_once(step, columns, totals):
        columns["nan"][:] = 1

    found = gw.diagnose(written(tmp_path / "b", nan_at_once, steps=steps))
    assert [finding.symptom for finding in found] == ["nonfinite"]


def test_a_run_without_a_step_is_not_healthy(tmp_path):
    """Nobody has seen it: `diagnose` says so, and a test suite does not pass."""
    path = written(tmp_path / "a", steps=0)
    with pytest.warns(RuntimeWarning, match="No step was recorded"):
        assert gw.diagnose(path) == ()
    with pytest.raises(
        gw.GradwatchError, match=r"`what` must hold.*`every` chose none"
    ):
        gw.assert_healthy(path)
    with pytest.raises(gw.GradwatchError, match="`what` must hold a gradient"):
        gw.assert_healthy(gw.GradientMonitor(tmp_path / "b"))


def test_a_run_of_a_model_that_is_frozen_altogether(tmp_path):
    """There are no gradients. Frozen at random it is a finding, else it is said."""
    known = facts()
    for fact in known["weights"].values():
        fact["trainable"] = False
    with RunWriter(tmp_path / "random") as writer:
        writer.note("model", known)
    (finding,) = gw.diagnose(tmp_path / "random")
    assert finding.symptom == "frozen"
    assert finding.addresses == tuple(f"dense_{i}" for i in range(6))
    for fact in known["weights"].values():
        fact["untrained"] = False
    with RunWriter(tmp_path / "trained") as writer:
        writer.note("model", known)
    with pytest.warns(RuntimeWarning, match="no weight of the model is trainable"):
        assert gw.diagnose(tmp_path / "trained") == ()
    with pytest.raises(gw.GradwatchError, match=r"`what` must hold.*is trainable"):
        gw.assert_healthy(tmp_path / "trained")


def test_a_run_of_an_older_version_is_read_as_far_as_it_goes(tmp_path):
    """With fewer columns, without the norms of updates, histograms, facts, or loss."""
    older = ("norm", "mean", "std", "zeros", "nan", "posinf", "neginf")
    keep = [COLUMNS.index(name) for name in older]

    def write(path, change):
        with RunWriter(path, native_every_seconds=None) as writer:
            for record in records(change):
                totals = {"global_norm": record.totals["global_norm"]}
                layout = replace(record.layout, columns=older)
                rows = np.ascontiguousarray(record.rows[:, keep])
                writer.write(Record(record.step, layout, rows, None, totals))
        return gw.open_run(path)

    run = write(tmp_path / "a", vanishing_in_biases)
    assert np.isnan(run["dense_0/kernel"].norm).sum() == 0
    assert [finding.symptom for finding in gw.diagnose(run)] == ["vanishing"]
    run = write(tmp_path / "b", None)
    with pytest.warns(RuntimeWarning, match="Nothing is known of the model"):
        assert gw.diagnose(run) == ()


def test_a_run_of_some_layers_only(tmp_path):
    """Those that were not asked for are not missed; what is there is judged."""
    known = facts()
    for name, fact in known["weights"].items():
        fact["watched"] = name.startswith(("dense_0", "dense_1"))
    with RunWriter(tmp_path) as writer:
        writer.note("model", known)
        for record in records(half_of_the_units):
            layout = Layout(*(part[:4] for part in astuple(record.layout)[:3]))
            rows = record.rows[:4]
            writer.write(Record(record.step, layout, rows, None, record.totals))
    assert [finding.symptom for finding in gw.diagnose(tmp_path)] == ["dead-units"]


def test_a_symptom_that_does_not_exist_cannot_be_ignored(tmp_path):
    """A slip of the pen would ignore nothing, or hide what it was meant to."""
    path = written(tmp_path / "a", vanishing)
    with pytest.raises(gw.GradwatchError, match=r"`ignore` must be.*'vanishing'"):
        gw.assert_healthy(path, ignore=("vanishin",))


def deep(activation, depth=8):
    hidden = [layers.Dense(16, activation) for _ in range(depth)]
    model = keras.Sequential([keras.Input((8,)), *hidden, layers.Dense(1)])
    model.compile(loss="mse")
    return model


X, Y = np.random.default_rng(0).normal(size=(16, 8)), np.ones((16, 1))


def test_one_gradient_is_enough_for_some_symptoms():
    """No course of time, but depth."""
    found = gw.diagnose(gw.gradients(deep("sigmoid"), X, Y))
    assert [f.symptom for f in found] == ["vanishing"]
    assert gw.diagnose(gw.gradients(deep("relu"), X, Y)) == ()


def test_a_gradient_that_is_not_there_or_not_finite():
    """Unreached and non-finite are seen at once."""
    x = keras.Input((8,))
    cut = layers.Dense(8, name="cut")(x)
    stop = layers.Lambda(keras.ops.stop_gradient, name="stop")(cut)
    model = keras.Model(x, layers.Dense(1, name="out")(stop))
    model.compile(loss="mse")
    (finding,) = gw.diagnose(gw.gradients(model, X, Y))
    assert finding.symptom == "unreached"
    assert finding.addresses == ("cut",)
    found = gw.diagnose(gw.gradients(deep("relu"), X * np.nan, Y))
    assert [f.symptom for f in found] == ["nonfinite"]


def test_what_a_nan_leaves_in_one_gradient_is_no_finding_of_its_own():
    """A ReLU makes zeros of NaN on some machines: the layers after it are not dead."""
    (record,) = records(dead, steps=1)
    record.rows[0, COLUMNS.index("nan")] = 1
    found = RuleEngine(facts(), single=True).read(record)
    assert [finding.symptom for finding in found] == ["nonfinite"]


def test_a_model_with_a_single_layer_and_one_that_is_frozen():
    """Nothing to compare: nothing found, and no error."""
    assert gw.diagnose(gw.gradients(deep("relu", depth=0), X, Y)) == ()
    model = deep("relu", depth=2)
    for layer in model.layers[:-1]:
        layer.trainable = False
    assert gw.diagnose(gw.gradients(model, X, Y)) == ()


def test_one_gradient_of_a_model_that_is_frozen_altogether():
    """There is nothing to judge: that is said, and no test suite passes with it."""
    model = deep("relu", depth=2)
    model.trainable = False
    found = gw.gradients(model, X, Y)
    with pytest.warns(RuntimeWarning, match="There is no gradient to judge"):
        assert gw.diagnose(found) == ()
    with pytest.raises(gw.GradwatchError, match=r"`what` must hold.*all are missing"):
        gw.assert_healthy(found)


@pytest.mark.parametrize("wrt", [gw.activations(), gw.inputs()], ids=str)
def test_gradients_of_activations_and_inputs_are_looked_at(wrt):
    """A NaN is one wherever it was asked for."""
    model = deep("relu", depth=2)
    assert gw.diagnose(gw.gradients(model, X, Y, wrt=wrt)) == ()
    model.layers[-1].kernel.assign(np.full((16, 1), np.nan))
    (finding,) = gw.diagnose(gw.gradients(model, X, Y, wrt=wrt))
    assert finding.symptom == "nonfinite"
    assert finding.addresses
    assert finding.evidence["gradients not finite"] >= X.size
