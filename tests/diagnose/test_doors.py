"""What `diagnose` and `assert_healthy` take, and what they say to anything else."""

import keras
import numpy as np
import pytest
from keras import layers

import gradwatch as gw
from gradwatch.record import RunWriter

from .made_up import facts, records
from .test_rules import nan_in_the_middle, vanishing


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


def test_a_model_with_a_single_layer_and_one_that_is_frozen():
    """Nothing to compare: nothing found, and no error."""
    assert gw.diagnose(gw.gradients(deep("relu", depth=0), X, Y)) == ()
    model = deep("relu", depth=2)
    for layer in model.layers[:-1]:
        layer.trainable = False
    assert gw.diagnose(gw.gradients(model, X, Y)) == ()
