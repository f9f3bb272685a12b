"""The fault suite is what it says: known faults, known health, the same each time."""

import ast
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import gradwatch as gw
from bench import faults
from gradwatch.diagnose._symptoms import SYMPTOMS

ROOM = Path(faults.__file__).parent
CHEAP = {
    "sick": ["deep-sigmoid-mlp", "frozen-embedding", "division-by-blank-picture"],
    "healthy": ["relu-mlp", "text-cnn", "variational-autoencoder"],
}


def losses(name, seed):
    """The loss of each batch, not the mean of the epoch so far that Keras shows."""
    seen = []

    def keep(batch, logs):
        before = sum(seen[len(seen) - batch :]) if batch else 0.0
        seen.append(logs["loss"] * (batch + 1) - before)

    watcher = keras.callbacks.LambdaCallback(on_train_batch_end=keep)
    model = faults.by_name(name).train(seed, [watcher])
    assert isinstance(model, keras.Model)
    return np.asarray(seen)


def test_names_are_unique():
    """A family is found by its name."""
    names = [fault.name for fault in faults.FAULTS]
    assert len(set(names)) == len(names)
    assert [faults.by_name(name).name for name in names] == names


def test_there_are_as_many_healthy_runs_as_sick_ones():
    """At least sixty of either, and every family is one or the other."""
    assert len(faults.sick()) >= 60
    assert len(faults.healthy()) >= 60
    assert {*faults.sick(), *faults.healthy()} == set(faults.FAULTS)


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_every_symptom_has_several_families(symptom):
    """One architecture is not enough to tell a rule from a coincidence."""
    assert sum(symptom in fault.symptoms for fault in faults.FAULTS) >= 3


def test_only_known_symptoms_are_named_and_none_twice():
    """What must be found and what may be found are apart."""
    for fault in faults.FAULTS:
        assert fault.symptoms | fault.tolerated <= set(SYMPTOMS), fault.name
        assert not fault.symptoms & fault.tolerated, fault.name


def test_nothing_is_tolerated_in_a_healthy_run():
    """Each finding there is a false alarm."""
    assert not [fault.name for fault in faults.healthy() if fault.tolerated]


def test_a_wrong_name_is_an_error_that_names_the_closest():
    """The rule, what was received, the closest, the way out."""
    with pytest.raises(
        gw.AddressError,
        match=r"must be that of a family.*'deep-sigmod-mlp'.*Closest: 'deep-sigmoid-",
    ):
        faults.by_name("deep-sigmod-mlp")


def test_the_suite_knows_no_framework():
    """Keras, NumPy and gradwatch only, so that each run is one on all backends."""
    found = set()
    for file in ROOM.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(node.module.split(".")[0])
    assert found - sys.stdlib_module_names == {"keras", "numpy", "gradwatch"}


@pytest.mark.parametrize("name", ["relu-mlp", "dropout-mlp"])
def test_the_same_seed_gives_the_same_run(name):
    """And another seed another run."""
    one, two, other = (losses(name, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("name", CHEAP["healthy"])
def test_a_healthy_run_learns(name):
    """Sixty steps, and the loss at the end is well below that at the beginning."""
    seen = losses(name, 0)
    assert len(seen) == 60
    assert seen[-6:].mean() < 0.9 * seen[:3].mean()


@pytest.mark.parametrize("name", CHEAP["sick"])
def test_a_sick_run_ends(name):
    """It takes its sixty steps whatever becomes of the loss."""
    assert len(losses(name, 0)) == 60
