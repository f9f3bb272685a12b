"""What is printed and drawn: the numbers that were measured."""

import numpy as np
import pytest

import gradwatch as gw
from gradwatch.attribute import quality

from ..models import CLASSES, X

TARGET = gw.class_score(CLASSES)
SHARE = np.linspace(0, 1, 5)
SCORES = np.array([[8.0, 4.0, 2.0, 1.0, 0.0], [4.0, 4.0, 2.0, 1.0, 0.0]])
RANDOM = np.stack([SCORES + 1, SCORES + 3])
CURVE = quality.Curve("deletion", "saliency", "class_score(3)", SHARE, SCORES, RANDOM)
FORGOT = quality.Randomisation(
    *("input_x_gradient", "class_score(3)", "cascading", ["head", "conv"]),
    absolute=np.array([[0.9, 0.7], [0.5, 0.3]]),
    signed=np.array([[0.2, 0.4], [np.nan, -0.1]]),
    ssim=None,
)


def test_each_result_is_a_sentence(image_model):
    """With the numbers in it, and a full stop."""
    a = gw.integrated_gradients(image_model, X, TARGET, steps=5)
    complete = quality.completeness(a)
    assert repr(complete).startswith("integrated_gradients of class_score(one per ex")
    assert f"{complete.relative.max():.2%}" in repr(complete)
    stable = quality.sensitivity_max(a, image_model, samples=1)
    assert "1 perturbation of at most 0.02" in repr(stable)
    assert f"worst {stable.relative.max():.1%}" in repr(stable)
    faithful = quality.infidelity(a, image_model, samples=3)
    assert f"infidelity {faithful.values.mean():.3g}" in repr(faithful)
    assert "3 examples and 3 perturbations" in repr(faithful)
    for found in (complete, stable, faithful, CURVE, FORGOT):
        assert repr(found).endswith(".")
    assert repr(CURVE) == (
        "deletion by saliency of class_score(3): area 2.5, in random order 4.5 (mean "
        "of 2 examples); lower than chance, as it should be, in 2 of 2."
    )
    assert repr(FORGOT) == (
        "input_x_gradient of class_score(3), from the last 1 to all of 2 layers drawn "
        "at random: rank correlation 0.17 with that of the trained model. It passes: "
        "it depends on what the model learnt."
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_curve_is_drawn_with_chance_behind_it(theme):
    """The mean of the examples, each of them faintly, and the random orders."""
    figure = CURVE.plot(theme=theme)
    [ax] = figure.axes
    lines = {line.get_label(): line.get_ydata() for line in ax.lines}
    assert np.allclose(lines["saliency: area 2.5"], SCORES.mean(axis=0))
    assert np.allclose(lines["random order: area 4.5"], RANDOM.mean(axis=(0, 1)))
    assert len(ax.lines) == 4
    assert ax.get_ylabel() == "class_score(3)"
    page = sum(figure.get_facecolor()[:3])
    assert page > 2.9 if theme == "light" else page < 0.6


def test_several_methods_are_drawn_together():
    """Each with its own colour, mark and name, also two of one method."""
    figure = CURVE.plot(CURVE)
    named = [line for line in figure.axes[0].lines if "saliency" in line.get_label()]
    assert len({line.get_color() for line in named}) == 2
    assert len({line.get_marker() for line in named}) == 2


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_likeness_is_drawn_layer_by_layer(theme):
    """One panel for each measure there is; NaN is left out of the mean."""
    figure = FORGOT.plot(FORGOT, theme=theme)
    assert [ax.get_title(loc="left") for ax in figure.axes] == [
        "rank correlation",
        "rank correlation of the sizes",
    ]
    drawn = [ax.lines[0].get_ydata() for ax in figure.axes]
    assert np.allclose(drawn[0], [1, 0.3, -0.1])
    assert np.allclose(drawn[1], [1, 0.8, 0.4])


def test_a_figure_of_other_things_is_refused():
    """A theme that does not exist, a curve of the other kind, other layers."""
    with pytest.raises(gw.GradwatchError, match='`theme` must be "light"'):
        CURVE.plot(theme="blue")
    with pytest.raises(gw.GradwatchError, match="`others` must be curves of deletion"):
        CURVE.plot(FORGOT)
    other = quality.Randomisation(
        *("saliency", "", "cascading", ["head"]), *[np.ones((1, 1))] * 2, None
    )
    with pytest.raises(gw.GradwatchError, match="`others` must be cascading"):
        FORGOT.plot(other)


@pytest.mark.parametrize("progress", [True, False, None])
def test_a_bar_is_shown_to_those_who_want_it(image_model, capsys, progress):
    """True: always; None: in a terminal only, and this is none."""
    a = gw.input_x_gradient(image_model, X, TARGET)
    few = {"steps": 3, "orders": 1}
    quality.deletion(a, image_model, **few, progress=progress)
    told = capsys.readouterr()
    assert told.out == ""
    assert ("deletion" in told.err) == (progress is True)
