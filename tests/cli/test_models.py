"""Commands that run a model: what they print is what the doors of Python give."""

import inspect

import numpy as np
import pytest
from click.testing import CliRunner

import gradwatch as gw
from gradwatch import attribute
from gradwatch.cli import main
from gradwatch.cli._attribute import METHODS
from gradwatch.cli._targets import as_target, as_wrt


def close(row, other):
    assert row["name"] == other["name"]
    for key in ("norm", "mean", "min", "max"):
        np.testing.assert_allclose(row[key], other[key], rtol=1e-4, atol=1e-7)


def test_layers_are_those_of_python(gradwatch, files, parsed):
    """As a table and as JSON."""
    said = gradwatch("layers", files.root / "small.keras")
    assert said.exit_code == 0
    assert said.output == f"{gw.layers(files.model)}\n"
    values = parsed(gradwatch("layers", files.root / "small.keras", "--json").output)
    addresses = [layer["address"] for layer in values["layers"]]
    assert addresses == ["conv", "pool", "logits"]
    assert values["layers"][0]["weights"] == ["conv/kernel", "conv/bias"]


@pytest.mark.parametrize("data", ["batch.npz", "named.npz"])
def test_inspect_is_the_gradient_of_the_loss(gradwatch, files, parsed, data):
    """With `x`, or with the input by its name."""
    said = gradwatch(
        "inspect", files.root / "small.keras", "--data", files.root / data, "--json"
    )
    assert said.exit_code == 0, said.output
    values = parsed(said.stdout)
    expected = gw.gradients(files.model, files.x, files.y)
    np.testing.assert_allclose(values["value"], float(expected.value), rtol=1e-5)
    for row, other in zip(values["rows"], expected.summary(), strict=True):
        close(row, other.to_dict())


def test_inspect_leaves_labels_out_where_the_target_has_none(gradwatch, files, parsed):
    """One file of x and y serves the loss and every other target."""
    target = ("--target", "class:1", "--json")
    model = files.root / "small.keras"
    with_labels, without = (
        gradwatch("inspect", model, "--data", files.root / data, *target)
        for data in ("batch.npz", "x.npy")
    )
    assert with_labels.exit_code == 0, with_labels.output
    rows, others = (parsed(said.stdout)["rows"] for said in (with_labels, without))
    for row, other in zip(rows, others, strict=True):
        close(row, other)


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "--plot"),
        ("attribute", "--method", "saliency", "--plot"),
        ("attribute", "--method", "saliency", "--output"),
    ],
)
def test_a_place_that_is_not_is_told_before_the_model_runs(gradwatch, arguments):
    """Even before it is loaded: there is none here."""
    command, *options = arguments
    target = ("--target", "class:1")
    said = gradwatch(command, "no.keras", "--data", "no.npy", *target, *options, "a/b")
    assert said.exit_code == 2
    told = f"`{options[-1]}` must be in a directory that exists. Received: 'a/b'."
    assert told in said.stderr


def test_inspect_prints_the_table(gradwatch, files):
    """Plain text, as it goes into a pipe."""
    data = files.root / "batch.npz"
    said = gradwatch("inspect", files.root / "small.keras", "--data", data)
    assert said.exit_code == 0
    assert said.output.startswith("Gradients of the loss = ")
    assert "conv/kernel" in said.output
    assert "\x1b" not in said.output


def test_inspect_takes_targets_places_and_rows(gradwatch, files, parsed, tmp_path):
    """A class, two kinds of places, the first rows, a picture."""
    said = gradwatch(
        *("inspect", files.root / "small.keras", "--data", files.root / "x.npy"),
        *("--target", "class:1", "--wrt", "activations:c*", "--wrt", "inputs"),
        *("--rows", 2, "--plot", "flow.png", "--json"),
    )
    assert said.exit_code == 0, said.output
    expected = gw.gradients(
        files.model,
        files.x[:2],
        target=gw.class_score(1),
        wrt=[gw.activations("c*"), gw.inputs()],
    )
    rows = parsed(said.stdout)["rows"]
    assert [row["name"] for row in rows] == ["conv", "inputs"]
    assert rows[0]["shape"][0] == 2
    for row, other in zip(rows, expected.summary(), strict=True):
        close(row, other.to_dict())
    assert (tmp_path / "flow.png").read_bytes().startswith(b"\x89PNG")
    assert said.stderr == "Wrote flow.png.\n"  # not in the way of a parser


def test_sample_weights_count(gradwatch, files, parsed):
    """All but the first example weigh nothing."""
    said = gradwatch(
        *("inspect", files.root / "small.keras"),
        *("--data", files.root / "weighted.npz", "--json"),
    )
    weights = [1.0, 0.0, 0.0, 0.0]
    expected = gw.gradients(
        files.model, files.x, files.y, target=gw.loss(sample_weight=weights)
    )
    value = parsed(said.stdout)["value"]
    np.testing.assert_allclose(value, float(expected.value), rtol=1e-5)
    plain = float(gw.gradients(files.model, files.x, files.y).value)
    assert not np.isclose(value, plain, rtol=1e-3)


def test_a_model_of_several_inputs_and_outputs(gradwatch, files, parsed):
    """Inputs by name, in whatever structure the model has them."""
    said = gradwatch(
        *("inspect", files.root / "towers.keras", "--data", files.root / "towers.npz"),
        *("--target", "output:two", "--wrt", "weights", "--json"),
    )
    assert said.exit_code == 0, said.output
    rows = {row["name"]: row for row in parsed(said.stdout)["rows"]}
    assert rows["two/bias"]["norm"] == 4.0  # one for each of four examples
    assert not rows["one/bias"]["norm"]  # not on the way


def test_attribute_is_that_of_python(gradwatch, files, parsed, tmp_path):
    """Values, score and delta; kept in a file as well."""
    said = gradwatch(
        *("attribute", files.root / "small.keras", "--data", files.root / "x.npy"),
        *("--method", "integrated_gradients", "--target", "class:2", "--steps", 8),
        *("-o", "why.npz", "--json"),
    )
    assert said.exit_code == 0, said.output
    values = parsed(said.stdout)
    expected = gw.integrated_gradients(files.model, files.x, gw.class_score(2), steps=8)
    result = np.array(values["values"]["inputs"])
    np.testing.assert_allclose(result, expected.values, rtol=1e-3, atol=1e-6)
    kept = gw.Attribution.load(tmp_path / "why.npz")
    np.testing.assert_allclose(result, kept.values, rtol=1e-5, atol=1e-7)
    assert values["settings"]["steps"] == 8


def test_attribute_prints_a_line_for_each_example(gradwatch, files):
    """Its score, the sum, and where the largest number is."""
    said = gradwatch(
        *("attribute", files.root / "small.keras", "--data", files.root / "x.npy"),
        *("--method", "grad_cam", "--layer", "conv", "--target", "class:2"),
    )
    assert said.exit_code == 0, said.output
    expected = gw.grad_cam(files.model, files.x, gw.class_score(2), layer="conv")
    lines = [line.split() for line in said.output.splitlines()]
    lines = [line for line in lines if line and line[0].isdecimal()]
    assert len(lines) == 4
    for example, line in enumerate(lines):
        np.testing.assert_allclose(float(line[2]), expected.score[example], rtol=1e-2)
        total = expected.values[example].sum()
        np.testing.assert_allclose(float(line[3]), total, rtol=1e-2, atol=1e-6)


@pytest.mark.skipif(not hasattr(attribute.Attribution, "plot"), reason="not drawn yet")
def test_attribute_draws(gradwatch, files, tmp_path):
    """Into a file."""
    said = gradwatch(
        *("attribute", files.root / "small.keras", "--data", files.root / "x.npy"),
        *("--method", "saliency", "--target", "class:2", "--plot", "why.png"),
    )
    assert said.exit_code == 0, said.output
    assert (tmp_path / "why.png").read_bytes().startswith(b"\x89PNG")


def test_methods_are_those_of_the_room():
    """All that need no more than the options that there are."""
    known = {"layer", "steps", "baseline"}
    fitting = set()
    for name, function in vars(attribute).items():
        if inspect.isfunction(function) and not name.startswith("_"):
            takes = inspect.signature(function).parameters.values()
            needs = {
                p.name
                for p in takes
                if p.default is p.empty and p.kind is not p.VAR_KEYWORD
            }
            gives = str(inspect.signature(function).return_annotation)
            if needs - known == {"model", "x", "target"} and gives == "Attribution":
                fitting.add(name)
    assert set(METHODS) <= set(vars(attribute))
    # One needs data to compare with, the other a neuron; they say so themselves.
    assert fitting - set(METHODS) == {"expected_gradients", "neuron_conductance"}
    assert set(METHODS) - fitting == set()


TARGETS = {
    "class:3": "class_score(3)",
    "class:3,1": "class_score(one per example)",
    "class:-1@head": "class_score(-1, output='head')",
    "class:0@1": "class_score(0, output=1)",
    "mean": "mean_output()",
    "mean:head": "mean_output('head')",
    "output": "output()",
    "output:head": "output('head')",
    "output:1[2,0]": "output(1, index=(2, 0))",
    "output:[3]": "output(index=(3,))",
    "loss": "the loss",
}


@pytest.mark.parametrize("word", TARGETS)
def test_a_word_is_a_target(word):
    """As its Python form says it."""
    assert str(as_target(word)) == TARGETS[word]


def test_words_are_selectors():
    """The part behind the colon is a pattern, whatever is in it."""
    result = as_wrt(("weights", "weights:a/b*", "activations:c[1]", "inputs:x"))
    assert result == [
        gw.weights(),
        gw.weights("a/b*"),
        gw.activations("c[1]"),
        gw.inputs("x"),
    ]
    assert as_wrt(()) is None


@pytest.mark.parametrize("width", [40, 80, 200])
def test_inspect_fits_the_terminal(files, monkeypatch, width):
    """Colours, and no line that is too long."""
    from gradwatch.cli import _common

    monkeypatch.setattr(_common, "is_terminal", lambda: True)
    env = {"COLUMNS": str(width), "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    data = str(files.root / "x.npy")
    model = str(files.root / "small.keras")
    said = CliRunner(env=env).invoke(
        main,
        ["inspect", model, "--data", data, "--target", "class:1", "--wrt", "inputs"],
        color=True,
    )
    assert said.exit_code == 0, said.output
    import re

    assert "\x1b[1m" in said.output
    lines = re.sub(r"\x1b\[[0-9;]*m", "", said.output).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= width
