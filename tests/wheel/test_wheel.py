"""The installed wheel: complete, typed, and working where the sources are not."""

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import gradwatch as gw

DIST = importlib.metadata.distribution("gradwatch")


def test_gradwatch_comes_from_the_wheel():
    """It is imported from this environment, installed from a .whl, not editable."""
    assert Path(gw.__file__).is_relative_to(sys.prefix)
    origin = json.loads(DIST.read_text("direct_url.json"))
    assert origin["url"].endswith(".whl")


def test_wheel_holds_the_package_and_nothing_else():
    """Types are marked as shipped; tests and tools are not installed on users."""
    files = {str(file) for file in DIST.files}
    assert "gradwatch/py.typed" in files
    # The command is what pip makes of an entry point, beside the interpreter.
    inside = {name for name in files if not name.startswith("..")}
    tops = {name.partition("/")[0] for name in inside}
    assert tops == {"gradwatch", f"gradwatch-{gw.__version__}.dist-info"}
    assert {Path(name).stem for name in files - inside} == {"gradwatch"}


def test_wheel_brings_the_command():
    """`gradwatch --version` runs, and has a native sweep for this machine."""
    command = Path(sys.executable).with_name("gradwatch")
    done = subprocess.run(
        [command, "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"gradwatch {gw.__version__} (native sweep: ")


def test_wheel_brings_the_builds_of_the_native_sweep():
    """For every platform, and listed; the sources in C stay in the repository."""
    files = {Path(file).name for file in DIST.files if "/native/" in str(file)}
    assert "builds.json" in files
    for build in ("linux-aarch64.so", "macos-arm64.dylib", "windows-x86_64.dll"):
        assert f"sweep-{build}" in files
    assert not {name for name in files if name.endswith((".c", ".h"))}


def test_wheel_brings_the_gradients_tab():
    """The built pages are in it, and TensorBoard finds the loader."""
    files = {str(file) for file in DIST.files}
    static = {Path(name).name for name in files if "/static/" in name}
    assert {"gradwatch.js", "report.css", "report.html"} <= static
    assert {"notebook.css", "gradwatch.mplstyle", "palette.toml"} <= static
    assert len([name for name in files if name.endswith(".js")]) == 1
    [point] = DIST.entry_points.select(group="tensorboard_plugins")
    assert point.name == "gradwatch"
    assert callable(point.load())


def test_metadata_say_what_the_readme_says():
    """Version, licence and the extras that the errors tell users to install."""
    assert DIST.version == gw.__version__
    assert DIST.metadata["License-Expression"] == "Apache-2.0"
    extras = set(DIST.metadata.get_all("Provides-Extra"))
    assert {"tensorflow", "jax", "torch", "plot"} <= extras


def test_inspecting_a_model_works(tmp_path):
    """Gradients by name, their table and the plot, on the running backend."""
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(2, name="a"), keras.layers.Dense(1)]
    )
    model.compile(loss="mse")
    x, y = np.ones((4, 3), "float32"), np.zeros((4, 1), "float32")
    gradients = gw.gradients(model, x, y, wrt=[gw.weights("a"), gw.activations("a")])
    # d mean((hb)²) / da = 2 · output · kernel / 4, for each of the four equal rows.
    kernel = keras.ops.convert_to_numpy(model.layers[-1].kernel)
    expected = 2 * model.predict(x, verbose=0) @ kernel.T / 4
    np.testing.assert_allclose(gradients.to_numpy()["a"], expected, rtol=1e-5)
    assert "a/kernel" in str(gradients)


def test_unknown_address_is_an_error_with_the_way_out():
    """The error's text survives the packaging, closest names and all."""
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="first")])
    with pytest.raises(ValueError, match=r"`wrt`.*frist.*first"):
        gw.gradients(
            model, np.ones((1, 3)), target=gw.mean_output(), wrt=gw.weights("frist")
        )
