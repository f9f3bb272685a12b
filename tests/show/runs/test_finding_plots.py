"""What convicted a training, drawn: the numbers of the rules, told again by loops."""

import json
import pickle

import matplotlib.pyplot as plt
import numpy as np
import pytest

import gradwatch as gw
from gradwatch import GradwatchError
from gradwatch.diagnose import SYMPTOMS, Finding, Measured, evidence_of
from gradwatch.diagnose._evidence import PANELS

from .conftest import weights, write

STEPS = range(0, 60, 2)
FACT = {"watched": True, "trainable": True}


def model(**layers):
    """What the monitor notes of a model with these layers, two weights each."""
    result = {"weights": {}, "layers": layers}
    for layer in layers:
        shape = {"kernel": [4, 8], "bias": [8]}
        for role in ("kernel", "bias"):
            fact = {**FACT, "layer": layer, "shape": shape[role]}
            result["weights"][f"{layer}/{role}"] = fact
    return {"model": result}


def drawn(ax):
    """The lines of a panel that are numbers."""
    some = [line for line in ax.lines if len(line.get_xdata()) > 2]
    return [line for line in some if line.get_linestyle() != "None"]


def rules(ax):
    """Where vertical lines stand: the first step that shows it, and the sure one."""
    return [x.get_xdata()[0] for x in ax.lines if list(x.get_ydata()) == [0, 1]]


def deep(tmp_path, fall=10.0):
    """Six layers, each with a tenth of the next one's gradient."""
    layers = [f"dense_{n}" for n in range(6)]
    names = [f"{layer}/{role}" for layer in layers for role in ("kernel", "bias")]
    random = np.random.default_rng(1)
    size = np.array([fall ** (n // 2 - 5.0) for n in range(12)])

    def rows_of(place, step):
        norm = size * np.exp(0.1 * random.normal(size=12))
        columns = {"norm": norm, "mean": norm / 8, "mean_abs": norm / 8}
        columns |= dict.fromkeys(("nan", "posinf", "neginf", "zeros"), np.zeros(12))
        columns |= {"weight_norm": np.full(12, 2.0), "update_norm": norm / 1000}
        return columns, {"global_norm": 1.0, "loss": 1.0, "learning_rate": 0.1}

    notes = model(**{layer: {} for layer in layers})
    return write(tmp_path / "deep", weights(*names), STEPS, rows_of, notes=notes)


def test_vanishing_is_shown_along_depth_and_over_steps(tmp_path):
    """Left the profile at the sure step, right its slope over time, with the limit."""
    run = deep(tmp_path)
    [finding] = [f for f in gw.diagnose(run) if f.symptom == "vanishing"]
    figure = finding.plot()
    profile, course = figure.axes
    kernels = [f"dense_{n}/kernel" for n in range(6)]
    pulls = np.array([run[n].norm * run[n].weight_norm for n in kernels])
    at = list(run.steps).index(finding.step)
    [trend] = drawn(profile)
    np.testing.assert_allclose(trend.get_xdata(), pulls[:, at], rtol=1e-5)
    assert [t.get_text() for t in profile.get_yticklabels()] == kernels
    [line] = drawn(course)
    for place, ratio in enumerate(line.get_ydata()):
        slope, _ = np.polyfit(range(6), np.log10(pulls[:, place]), 1)
        assert ratio == pytest.approx(10 ** (-5 * slope), rel=1e-4)
    assert rules(course) == [finding.since, finding.step]
    # What the finding says is what is drawn at its step.
    [said] = finding.evidence.values()
    assert line.get_ydata()[at] == pytest.approx(said)
    heights = [y for x in course.lines for y in x.get_ydata()]
    assert min(abs(y - 1e-3) for y in heights) < 1e-9
    guilty = [
        t.get_text() for t in profile.get_yticklabels() if t.get_color() != "#1F2328"
    ]
    assert guilty == list(finding.addresses)


def test_a_healthy_profile_is_on_the_other_side_of_the_limit(tmp_path):
    """The zone would not hold the line: the picture tells the two apart."""
    run = deep(tmp_path, fall=1.5)
    assert not [f for f in gw.diagnose(run) if f.symptom == "vanishing"]
    measured = Measured("kernels_along_depth", 0.1, low=1e-3)
    figure = Finding("vanishing", step=20, measured=measured).plot(run)
    [line] = drawn(figure.axes[1])
    assert min(line.get_ydata()) > 1e-3


def test_dead_units_are_the_zeros_of_their_bias(tmp_path):
    """The line is the column of the run, and half is the limit."""
    relu = {"activation": "relu"}

    def rows_of(place, step):
        zeros = np.array([0.1, 0.6 + place / 1000, 0.1, 0.0])
        columns = {"norm": np.ones(4), "zeros": zeros, "weight_norm": np.ones(4)}
        columns |= dict.fromkeys(("nan", "posinf", "neginf"), np.zeros(4))
        return columns | {"mean": np.ones(4), "update_norm": np.full(4, 0.01)}, {}

    names = ("a/kernel", "a/bias", "b/kernel", "b/bias")
    notes = model(a=relu, b=relu)
    run = write(tmp_path / "dead", weights(*names), STEPS, rows_of, notes=notes)
    [finding] = gw.diagnose(run)
    assert (finding.symptom, finding.addresses) == ("dead-units", ("a",))
    ax = finding.plot(theme="dark").axes[0]
    [line] = drawn(ax)
    np.testing.assert_allclose(line.get_ydata(), run["a/bias"].zeros, rtol=1e-6)
    assert rules(ax) == [finding.since, finding.step]


def broken(tmp_path):
    """Four weights, of which one has a NaN from step 30 on."""

    def rows_of(place, step):
        nan = np.array([0.0, 0.0, float(step >= 30), 0.0])
        columns = {"norm": np.ones(4), "nan": nan, "weight_norm": np.ones(4)}
        columns |= dict.fromkeys(("posinf", "neginf", "zeros"), np.zeros(4))
        return columns, {"global_norm": 2.0 + place, "loss": 1.0}

    names = ("a/kernel", "a/bias", "b/kernel", "b/bias")
    notes = model(a={}, b={})
    return write(tmp_path / "broken", weights(*names), STEPS, rows_of, notes=notes)


def test_what_is_not_finite_is_a_row_of_crosses(tmp_path):
    """The norm until then is a line, and no number is drawn behind."""
    run = broken(tmp_path)
    [finding] = [f for f in gw.diagnose(run) if f.symptom == "nonfinite"]
    ax = finding.plot().axes[0]
    [line] = drawn(ax)
    there = np.isfinite(line.get_ydata())
    assert list(line.get_xdata()[there]) == list(range(0, 30, 2))
    np.testing.assert_allclose(line.get_ydata()[there], 2.0 + np.arange(15))
    [crosses] = [x for x in ax.lines if x.get_label() == "NaN"]
    assert list(crosses.get_xdata()) == list(range(30, 60, 2))


@pytest.mark.parametrize("quantity", PANELS)
def test_every_quantity_has_a_picture(tmp_path, quantity):
    """One panel or two, the limits on those that they are for."""
    measured = Measured(quantity, 0.5, low=0.6, high=0.8)
    finding = Finding("clipping", ("dense_1",), 4, 12, measured=measured)
    seen = evidence_of(finding, deep(tmp_path))
    assert [each.panel.label for each in seen] == [p.label for p in PANELS[quantity]]
    for each in seen:
        top = 1.0 if each.panel.scale == "share" else np.inf
        expected = ((0.0, 0.6), (0.8, top)) if each.panel.limited else ()
        assert each.zones == expected
    assert finding.plot(deep(tmp_path / "b")).axes


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_every_symptom_has_a_picture(tmp_path, symptom):
    """In both themes, and pyplot knows none of them."""
    run = deep(tmp_path)
    finding = Finding(
        symptom, ("dense_1",), 4, 12, {"something": 0.5}, "a few", try_first="It."
    )
    figure = finding.plot(run, theme="dark")
    assert figure.axes
    assert plt.get_fignums() == []
    assert SYMPTOMS[symptom][1:] in figure.get_suptitle()
    assert "Healthy: a few." in figure.get_supxlabel()


KINDS = [
    ("exploding", "gradient_growth", "gradient_bursts"),
    ("exploding", "gradient_growth", "sequence_growth"),
    ("exploding", "kernels_along_depth", "activations_along_depth"),
    ("exploding", "kernels_along_depth", "biases_along_depth"),
    ("large-updates", "update_ratio", "weight_growth"),
    ("nonfinite", "nonfinite_gradients", "skipped_steps"),
]


@pytest.mark.parametrize(("symptom", "usually", "quantity"), KINDS)
def test_a_symptom_that_shows_in_another_way_is_drawn_in_that_way(
    tmp_path, symptom, usually, quantity
):
    """What was measured says which."""
    measured = Measured(quantity, 3.0, high=1.0)
    figure = Finding(symptom, step=12, measured=measured).plot(deep(tmp_path))
    measured = Measured(usually, 3.0, high=1.0)
    usual = Finding(symptom, step=12, measured=measured).plot(deep(tmp_path / "b"))
    assert figure.axes[-1].get_ylabel() != usual.axes[-1].get_ylabel()


def test_a_finding_knows_its_run_and_does_not_hold_it(tmp_path):
    """A path: it can be pickled, and is no part of what is compared or written."""
    run = deep(tmp_path)
    finding = gw.diagnose(run)[0]
    assert finding.directory == str(run.directory)
    again = Finding.from_dict(json.loads(finding.to_json()))
    assert again == finding
    assert again.directory is None
    assert "directory" not in finding.to_dict()
    assert pickle.loads(pickle.dumps(finding)).plot().axes


def test_no_json_chooses_what_is_read(tmp_path):
    """A directory in what others wrote is passed over."""
    told = {"symptom": "clipping", "directory": str(tmp_path)}
    assert Finding.from_dict(told).directory is None


def test_a_finding_without_a_run_says_what_to_do(tmp_path):
    """And takes the run, or its directory."""
    run = deep(tmp_path)
    finding = Finding("clipping", step=10)
    with pytest.raises(GradwatchError, match=r"`run` must .*finding\.plot\(.*open_run"):
        finding.plot()
    assert finding.plot(run).axes
    assert finding.plot(run.directory).axes


def test_a_finding_with_long_addresses_stays_on_the_page(tmp_path):
    """The address is folded; what it is is always said in full."""
    name = "/".join(["a_very_long_part_of_an_address"] * 8)
    measured = Measured("dead_units", 0.6, high=0.5)
    finding = Finding("dead-units", (name, "b"), 4, 12, measured=measured)
    title = finding.plot(deep(tmp_path)).get_suptitle()
    assert title.startswith("Units are dead: a_very")
    assert title.endswith(" and 1 more")
    assert len(title) < 90
