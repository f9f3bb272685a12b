"""Models and batches that cannot be used: one sentence, status 2, and the way out."""

import sys

import keras
import pytest

DATA = "--data {}/"
SMALL, X, BATCH = "{}/small.keras", "{}/x.npy", "{}/batch.npz"
CLASS = "--target class:1"

FILES = [
    ("{}/no.keras", "which does not exist"),
    ("{}/directory", "which is a directory"),
    ("{}/words.keras", "which is not of that format"),
    ("{}/old.h5", "which ends in '.h5'"),
    ("{}/lambda.keras", "`--unsafe-load` allows it to run that code"),
    ("{}/custom.keras", "registers it with `--import`"),
]
INSPECT = [
    (f"{SMALL} --data {{}}/no.npz", "which does not exist"),
    (f"{SMALL} --data {{}}/directory", "a directory"),
    (f"{SMALL} --data {{}}/words.npz", "which NumPy cannot read"),
    (f"{SMALL} --data {{}}/small.keras", "which NumPy cannot read"),
    (f"{SMALL} --data {{}}/objects.npz", "which holds Python objects"),
    (f"{SMALL} --data {{}}/nothing.npz", "which is empty"),
    (f"{SMALL} --data {{}}/short.npz", "'x' has 4, 'y' has 3"),
    (f"{SMALL} {DATA}single.npy {CLASS}", "The batch axis is missing"),
    (f"{SMALL} {DATA}flat.npy {CLASS}", "The last axis is missing"),
    (f"{SMALL} {DATA}wide.npy {CLASS}", "takes (batch, 6, 6, 1)"),
    (f"{SMALL} {DATA}none.npy {CLASS}", "at least one example"),
    (f"{SMALL} {DATA}towers.npz {CLASS}", "by name: 'image'"),
    (f"{{}}/towers.keras {DATA}tower.npz", "'left', 'right'. Received:"),
    (f"{{}}/towers.keras {DATA}x.npy", "which holds 'x'"),
    (f"{SMALL} --data {X}", "must hold the labels `y`"),
    (f"{SMALL} --data {X} --target class", "`--target` must be one of"),
    (f"{SMALL} --data {X} --target class:one", "`--target` must be one of"),
    (f"{SMALL} --data {X} --target hunger", "Received: 'hunger'"),
    (f"{SMALL} --data {X} --target class:9", "`--target` must be from -3 to 2"),
    (f"{SMALL} --data {X} --target output:no", "Received: 'no'"),
    (f"{SMALL} --data {X} --target output", "Take one unit"),
    (f"{SMALL} --data {BATCH} --wrt conv", "`--wrt activations:conv`"),
    (f"{SMALL} --data {BATCH} --wrt weights:convolution", "Closest: 'conv'"),
    (f"{SMALL} --data {X} {CLASS} --plot x.bmpp", "Drawing into 'x.bmpp' failed"),
    (f"{SMALL} --data {X} {CLASS} --rows 0", "x>=1"),
    (f"{SMALL}", "Missing option '--data'"),
    (f"{{}}/towers.keras {DATA}towers.npz", "compile"),
]
ATTRIBUTE = [
    ("--method saliency", "`--target` must say which number"),
    ("--method saliency --target loss", "`--target` must say which number"),
    ("--method hunger --target class:1", "'hunger' is not one of"),
    (f"{CLASS}", "Missing option '--method'"),
    (f"--method saliency {CLASS} --steps 5", "`--steps` must be an option of"),
    (f"--method grad_cam {CLASS} --layer no", "`--layer` must name"),
    (f"--method grad_cam {CLASS} --layer `layer`", "Received: '`layer`', which"),
    (f"--method integrated_gradients {CLASS} --steps some", "`--steps` must be"),
    (f"--method integrated_gradients {CLASS} --baseline some", "`--baseline` must be"),
]


def refused(said, told):
    assert said.exit_code == 2, said.output
    assert "Traceback" not in said.output
    assert told in " ".join(said.stderr.split()), said.stderr
    assert said.stdout == ""


@pytest.mark.parametrize(("file", "told"), FILES)
def test_a_file_that_holds_no_model(gradwatch, files, file, told):
    """What it is instead, and which flag would help."""
    refused(gradwatch("layers", file.format(files.root)), told)


@pytest.mark.parametrize(("line", "told"), INSPECT)
def test_inspect_refuses(gradwatch, files, line, told):
    """Data that do not fit, targets and names that there are not."""
    line = line.replace("{}", str(files.root))
    refused(gradwatch("inspect", *line.split()), told)


def test_data_that_do_not_fit_a_sequential_are_told_as_those_of_any_model(
    gradwatch, files, tmp_path
):
    """It has no `input`; what it takes is known all the same."""
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.save(tmp_path / "plain.keras")
    line = ("inspect", tmp_path / "plain.keras", "--target", "mean", "--data")
    refused(gradwatch(*line, files.root / "x.npy"), "which takes (batch, 3)")
    refused(gradwatch(*line, files.root / "towers.npz"), "1 input as `x`, or by name")


@pytest.mark.parametrize(("line", "told"), ATTRIBUTE)
def test_attribute_refuses(gradwatch, files, line, told):
    """In the words of the shell: `--layer`, not `layer`."""
    model, data = files.root / "small.keras", files.root / "x.npy"
    refused(gradwatch("attribute", model, "--data", data, *line.split()), told)


def test_code_in_a_file_runs_only_when_that_is_allowed(gradwatch, files):
    """The flag is all it takes."""
    said = gradwatch("layers", files.root / "lambda.keras", "--unsafe-load")
    assert said.exit_code == 0
    assert "doubled" in said.output


def test_a_module_of_ones_own_is_imported(gradwatch, files, tmp_path):
    """From where the command is called; one that is not there is named."""
    module = (
        "import keras\n"
        "class Scaled(keras.layers.Layer):\n"
        "    def call(self, x):\n"
        "        return 2 * x\n"
        "keras.saving.get_custom_objects()['Scaled'] = Scaled\n"
    )
    (tmp_path / "my_own_layers.py").write_text(module)
    line = ("layers", files.root / "custom.keras", "--import")
    refused(gradwatch(*line, "not_my_layers"), "No module named 'not_my_layers'")
    said = gradwatch(*line, "my_own_layers")
    keras.saving.get_custom_objects().pop("Scaled", None)
    assert said.exit_code == 0, said.output
    assert "Scaled" in said.output


def test_another_backend_needs_another_process(gradwatch, files):
    """Keras runs already: it says so, and does not compute on the wrong one."""
    other = {"torch": "jax", "jax": "torch"}.get(keras.config.backend(), "jax")
    said = gradwatch("layers", files.root / "small.keras", "--backend", other)
    refused(said, f"Received: '{other}', but Keras runs on")
    same = keras.config.backend()
    said = gradwatch("layers", files.root / "small.keras", "--backend", same)
    assert said.exit_code == 0


def test_what_a_model_raises_is_one_sentence(gradwatch, files, monkeypatch):
    """And a traceback with `--debug`, wherever it stands."""
    from gradwatch import inspect

    def broken(*_, **__):
        raise RuntimeError("the cat is on the keyboard\n\nand a long graph")

    monkeypatch.setattr(inspect, "gradients", broken)
    model, data = files.root / "small.keras", files.root / "batch.npz"
    said = gradwatch("inspect", model, "--data", data)
    refused(said, "RuntimeError: the cat is on the keyboard `--debug` shows where.")
    said = gradwatch("inspect", model, "--data", data, "--debug")
    assert isinstance(said.exception, RuntimeError)


def test_a_missing_matplotlib_names_the_extra(gradwatch, files, monkeypatch):
    """As if it were not installed."""
    ours = ("gradwatch.show._flow", "gradwatch.show._figure")
    for name in list(sys.modules):
        if name.startswith(("matplotlib", *ours)):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    model, data = files.root / "small.keras", files.root / "batch.npz"
    said = gradwatch("inspect", model, "--data", data, "--plot", "x.png")
    refused(said, 'pip install "gradwatch[plot]"')
