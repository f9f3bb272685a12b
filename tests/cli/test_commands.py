"""The commands: what they print, and with which exit status they end."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from click.testing import CliRunner
from keras import layers, ops

import gradwatch as gw
from gradwatch.cli import main
from gradwatch.native import library, why_not

X = np.linspace(0.5, 1, 48).reshape(16, 3).astype("float32")
Y = X.sum(axis=1, keepdims=True)


def train(directory, x):
    keras.utils.set_random_seed(0)  # whichever test is the first to ask for it
    inputs = keras.Input((3,))
    outputs = layers.Dense(1, name="out")(layers.Lambda(ops.log, name="logs")(inputs))
    model = keras.Model(inputs, outputs)
    model.compile("sgd", "mse", run_eagerly=keras.config.backend() != "jax")
    monitor = gw.GradientMonitor(directory, every=1, on_nonfinite="autopsy")
    model.fit(x, Y, batch_size=4, shuffle=False, verbose=0, callbacks=[monitor])
    return str(directory)


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    return train(tmp_path_factory.mktemp("runs") / "healthy", X)


@pytest.fixture(scope="module")
def sick(tmp_path_factory):
    bad = X.copy()
    bad[9] = 0
    return train(tmp_path_factory.mktemp("runs") / "sick", bad)


def run(*arguments):
    return CliRunner().invoke(main, arguments)


def test_autopsy_prints_what_was_found_while_training(sick):
    """The layer, the operation, the step; as JSON for a script."""
    said = run("autopsy", sick)
    assert said.exit_code == 0
    assert said.output == f"{gw.Autopsy.load(sick)}\n"
    assert "Step 2." in said.output
    assert "`logs`" in said.output
    assert "log of zero" in said.output
    values = json.loads(run("autopsy", sick, "--json").output)
    assert gw.Autopsy.from_dict(values) == gw.Autopsy.load(sick)


def test_diagnose_ends_with_1_where_something_is_wrong(sick, healthy):
    """For CI: 0, 1, and 2 for what cannot be read."""
    said = run("diagnose", sick)
    assert said.exit_code == 1
    assert "[nonfinite]" in said.output
    said = run("diagnose", healthy)
    assert said.exit_code == 0
    assert said.output.startswith("Nothing is wrong in 4 recorded steps")
    (result,) = json.loads(run("diagnose", sick, "--json").output)
    assert result["addresses"] == ["logs"]
    assert run("diagnose", sick, "--ignore", "nonfinite").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["autopsy", "nowhere"], "which does not exist"),
        (["autopsy", "{healthy}"], "which has none"),
        (["diagnose", "nowhere"], "nowhere"),
        (["diagnose", "{healthy}", "--ignore", "hunger"], "hunger"),
        (["dissect"], "No such command"),
        (["autopsy"], "Missing argument"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_2(healthy, arguments, told):
    """No traceback."""
    said = run(*(a.format(healthy=healthy) for a in arguments))
    assert said.exit_code == 2
    assert told in said.output
    assert "Traceback" not in said.output


def test_debug_shows_where(healthy):
    """The error itself, for a bug report."""
    with pytest.raises(gw.GradwatchError, match="`directory` must be"):
        CliRunner().invoke(
            main, ["--debug", "autopsy", healthy], catch_exceptions=False
        )


def test_it_is_a_module_as_well():
    """`python -m gradwatch --version`, which reports the native sweep as well."""
    asked = [sys.executable, "-m", "gradwatch", "--version"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    current = library()
    sweep = (
        f"native sweep: {current.name}" if current else f"no native sweep: {why_not()}"
    )
    assert done.stdout == f"gradwatch {gw.__version__} ({sweep})\n"


def test_the_version_says_that_the_native_sweep_is_disabled():
    """The reason stands beside the version."""
    env = {**os.environ, "GRADWATCH_NATIVE": "0"}
    asked = [sys.executable, "-m", "gradwatch", "--version"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, env=env)
    assert done.stdout.endswith(" (no native sweep: GRADWATCH_NATIVE=0 is set)\n")
