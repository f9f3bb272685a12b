"""What is drawn of a run is what the run holds, read back from the artists."""

import io
import math
import re

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from PIL import Image

from gradwatch import AddressError, GradwatchError
from gradwatch.run import Layout, open_run
from gradwatch.show import palette
from gradwatch.show.charts import IS_NAN, IS_POSINF, UNMEASURED, ZERO
from gradwatch.show.runs import _heat
from gradwatch.summarise import BUCKETS

from .conftest import NAMES, weights, write


def images(figure):
    """The numbers, and what has no place on their scale, of a heat map."""
    result, states = figure.axes[0].images
    return result.get_array(), states.get_array()


def lines(figure):
    """The lines of a figure that are drawn as lines."""
    return [x for x in figure.axes[0].lines if x.get_linestyle() != "None"]


def signs(figure, label):
    """The markers that the legend gives this name."""
    return [x for x in figure.axes[0].lines if x.get_label() == label]


def pixels(figure, **options):
    """The picture as it is saved."""
    file = io.BytesIO()
    figure.savefig(file, format="png", **options)
    return np.asarray(Image.open(file).convert("RGB")).reshape(-1, 3)


def has_colour(figure, colour, **options):
    wanted = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)])
    return bool(
        (np.abs(pixels(figure, **options) - wanted.astype(int)) < 6).all(1).any()
    )


def slow_worst(run, name, count):
    """Loops: the largest finite norm of each bucket, and whether it has a NaN."""
    series = run[name]
    low, high = int(run.steps[0]), int(run.steps[-1]) + 1
    worst, bad = [math.nan] * count, [False] * count
    for at, step in enumerate(series.steps):
        bucket = int((step - low) / (high - low) * count)
        value = series.norm[at]
        if value is not np.ma.masked and not worst[bucket] >= value:
            worst[bucket] = float(value)
        bad[bucket] |= bool(series.nan[at] > 0)
    return worst, bad


@pytest.mark.parametrize("count", [45, 11])
def test_a_heat_map_shows_the_worst_of_each_bucket(run, monkeypatch, count):
    """Each cell is the largest of its steps; nothing is averaged."""
    monkeypatch.setattr(_heat, "COLUMNS", count)
    monkeypatch.setattr(_heat.columns_for, "__defaults__", (count,))
    values, states = images(run.plot("norm"))
    assert values.shape == (8, count)
    for line, name in enumerate(NAMES):
        worst, bad = slow_worst(run, name, count)
        for column in range(count):
            state = states[line, column]
            if bad[column]:
                assert state == IS_NAN
            elif state is np.ma.masked:
                assert float(values[line, column]) == pytest.approx(worst[column])
    assert (states == IS_NAN).sum() == 1
    assert (states == IS_POSINF).sum() == 1


def test_zero_and_not_measured_are_not_small_numbers(run):
    """Each has a colour of its own, and the legend says which."""
    values, states = images(run.plot("norm"))
    zero, unmeasured = states[2, 7], states[5, 20]
    assert (zero, unmeasured) == (ZERO, UNMEASURED)
    assert values.mask[2, 7]
    assert values.mask[5, 20]
    [legend] = run.plot("norm").legends
    said = [text.get_text() for text in legend.get_texts()]
    assert {"NaN", "+∞", "exactly zero", "not measured"} <= set(said)
    assert "−∞" not in said


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_one_nan_of_hundreds_of_weights_is_a_sign_on_the_page(tmp_path, theme):
    """A line may be thinner than a pixel; what is not finite is seen all the same."""
    names = [f"block_{n}/kernel" for n in range(900)]

    def drawn(directory, bad):
        def rows_of(place, step):
            nan = np.zeros(900)
            nan[451] = step == bad
            return {"norm": np.full(900, 0.5), "nan": nan}, {}

        run = write(directory, weights(*names), range(0, 700, 37), rows_of)
        figure = run.plot("norm", theme=theme)
        for legend in figure.legends:  # it shows the sign as well
            legend.remove()
        return figure

    nan = palette.THEMES[theme].nan
    assert not has_colour(drawn(tmp_path / "a", None), nan, dpi=60)
    figure = drawn(tmp_path / "b", 333)
    assert [list(x.get_ydata()) for x in signs(figure, "NaN")] == [[451]]
    assert has_colour(figure, nan, dpi=60)


def test_findings_stand_on_their_lines_and_above(run):
    """From the first step that shows it to when it was sure; the legend names both."""
    figure = run.plot("norm")
    drawn = [(list(x.get_xdata()), list(x.get_ydata())) for x in lines(figure)]
    assert ([4, 30.5], [0, 0]) in drawn
    badges = {
        t.get_text(): t.xy[0] for t in figure.axes[0].texts if t.get_text() in "12"
    }
    assert badges == {"1": 30.0, "2": 50.0}
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "1  vanishing since step 4" in said
    assert "2  clipping since step 12" in said


def test_a_finding_elsewhere_is_not_marked(run):
    """Of what is not drawn, nothing is said."""
    figure = run.plot("norm", "block_3")
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "1  clipping since step 12" in said
    assert not any("vanishing" in text for text in said)


def test_a_few_weights_are_lines_with_their_numbers(run):
    """The line of a weight is its series, and its name stands at the end."""
    figure = run.plot("norm", ["block_1", "block_3/dense/bias"])
    chosen = ["block_1/dense/kernel", "block_1/dense/bias", "block_3/dense/bias"]
    drawn = lines(figure)
    assert len(drawn) == 3
    for line, name in zip(drawn, chosen, strict=True):
        series = run[name].norm.filled(np.nan)
        np.testing.assert_allclose(line.get_ydata(), series, rtol=1e-6)
        assert list(line.get_xdata()) == list(run.steps)
    said = [text.get_text() for text in figure.axes[0].texts]
    assert set(chosen) <= set(said)
    [nan] = signs(figure, "NaN")
    [posinf] = signs(figure, "+∞")
    assert (list(nan.get_xdata()), list(posinf.get_xdata())) == ([60], [80])
    hollow = [x for x in figure.axes[0].lines if x.get_markerfacecolor() == "none"]
    assert [list(x.get_xdata()) for x in hollow] == [[14], []]  # and the legend's
    assert [x.get_label() for x in hollow][-1:] == ["exactly zero"]


def test_a_quantity_may_be_of_the_step_as_a_whole(run):
    """The loss is a line."""
    [line] = lines(run.plot("loss"))
    np.testing.assert_allclose(line.get_ydata(), run.totals.loss.filled(np.nan))


def test_one_step_is_a_point(tmp_path):
    """A line of one number would not be seen."""
    run = write(
        tmp_path / "a", weights("a/kernel"), [7], lambda *_: ({"norm": 2.0}, {})
    )
    [line] = lines(run.plot())
    assert (list(line.get_xdata()), line.get_markevery()) == ([7], [0])
    assert line.get_marker() == "o"


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("block_2/dense/bias", [5]),
        ("block_2", [4, 5]),
        ("*/bias", [1, 3, 5, 7]),
        ("block_?/dense/kernel", [0, 2, 4, 6]),
        (re.compile("[13]/.*kernel"), [2, 6]),
        (["block_0/*/kernel", "block_3"], [0, 6, 7]),
    ],
)
def test_names_are_addresses_layers_globs_or_regular_expressions(run, pattern, meant):
    """What is drawn is what was asked for, along depth."""
    figure = run.plot("norm", pattern)
    assert len(lines(figure)) == len(meant)
    said = {text.get_text() for text in figure.axes[0].texts}
    assert {NAMES[line] for line in meant} <= said


@pytest.mark.parametrize(("asked", "result"), [(41, 40), (88, 88), (None, 88)])
def test_the_flow_is_that_of_the_nearest_recorded_step(run, asked, result):
    """Markers are the means of |g| at that step, and the title says which it is."""
    figure = run.plot_flow(asked)
    ax = figure.axes[0]
    near = f", the recorded step nearest to {asked}" if asked == 41 else ""
    assert ax.get_title(loc="left").endswith(f"at step {result}{near}")
    dots = {}
    for line in ax.lines:
        if line.get_marker() in ("o", "D") and line.get_linestyle() == "None":
            for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True):
                dots[int(y)] = x
    at = list(run.steps).index(result)
    for place, name in enumerate(NAMES):
        assert dots[place] == pytest.approx(float(run[name].mean_abs[at]))


def test_a_weight_that_no_gradient_reached_is_in_the_flow(tmp_path):
    """What the monitor noted of the model says what is missing."""
    fact = {"watched": True, "trainable": True, "shape": [2, 2]}
    notes = {"model": {"weights": {"a/kernel": fact, "b/kernel": fact}}}
    row = {"norm": 1.0, "mean_abs": 0.1, "min": -1.0, "max": 1.0, "nan": 0.0}
    row |= {"posinf": 0.0, "neginf": 0.0}
    run = write(
        tmp_path / "a", weights("a/kernel"), [0], lambda *_: (row, {}), notes=notes
    )
    figure = run.plot_flow(0)
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == [
        "a/kernel",
        "b/kernel",
    ]
    [legend] = figure.legends
    assert "no gradient" in [text.get_text() for text in legend.get_texts()]


def test_a_histogram_shows_the_share_of_elements_by_size_and_sign(run):
    """Negative ones are below, positive ones above, zeros between them."""
    name = "block_1/dense/bias"
    figure = run.plot_histogram(name)
    meshes = [c for c in figure.axes[0].collections if isinstance(c, QuadMesh)]
    above, below, middle = (np.ma.filled(m.get_array(), 0.0) for m in meshes)
    series = run[name]
    zeros = float(series.zeros[0])
    np.testing.assert_allclose(middle[0], zeros, rtol=1e-6)
    octave = {mesh: mesh.get_coordinates()[:, 0, 1] for mesh in meshes}
    for place in range(len(series)):
        total = series.histograms[place].sum() / (1 - zeros)
        [positive] = np.flatnonzero(above[:, place])
        [negative] = np.flatnonzero(below[:, place])
        assert above[positive, place] == pytest.approx(3 / total)
        assert below[negative, place] == pytest.approx((1 + place) / total)
    # Where 2 ** -3 and -(2 ** -6) stand, told by the tick of 0.1 and the octaves.
    ticks = dict(
        zip(
            [t.get_text() for t in figure.axes[0].get_yticklabels()],
            figure.axes[0].get_yticks(),
            strict=True,
        )
    )
    tenth = ticks["$10^{-1}$"]
    start = octave[meshes[0]][positive]
    assert start - tenth == pytest.approx(-3 - math.log2(0.1))
    start = octave[meshes[1]][negative + 1]
    assert -start - tenth == pytest.approx(-6 - math.log2(0.1))
    assert [list(x.get_xdata()) for x in signs(figure, "NaN")] == []


def test_a_long_address_and_a_long_run_stay_on_the_page(tmp_path):
    """A title is folded, not cut off by the edge of the figure."""
    name = "/".join(f"stage_with_a_long_name_{n}" for n in range(6)) + "/kernel"
    counts = np.ones((1, BUCKETS), np.int64)
    directory = tmp_path / ("experiments_of_" * 6) / ("learning_rate_" * 6)
    columns = {"norm": 1.0, "zeros": 0.0, "nan": 0, "posinf": 0, "neginf": 0}
    run = write(
        directory,
        weights(name),
        range(4),
        lambda place, step: (columns, {}),
        counts_of=lambda place: counts,
    )
    for figure in (run.plot_histogram(name), run.plot("norm")):
        figure.draw_without_rendering()
        title = figure.axes[0].get_title(loc="left")
        box = figure.axes[0]._left_title.get_window_extent()
        assert "…" in title
        assert box.x1 <= figure.bbox.width
    assert run.plot_histogram(name).axes[0].get_title(loc="left").count("kernel") == 1


def test_a_histogram_says_where_elements_were_not_finite(run):
    """A histogram holds finite elements only; the rest stands at the edge."""
    [sign] = signs(run.plot_histogram("block_1/dense/kernel"), "NaN")
    assert list(sign.get_xdata()) == [60]


PICTURES = {
    "heat map": lambda run, **o: run.plot("norm", **o),
    "lines": lambda run, **o: run.plot("norm", "block_0", **o),
    "flow": lambda run, **o: run.plot_flow(0, **o),
    "histogram": lambda run, **o: run.plot_histogram("block_0/dense/bias", **o),
}


@pytest.mark.parametrize("picture", PICTURES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_picture_leaves_no_trace_and_has_its_page(run, picture, theme):
    """pyplot does not know it, and no style outlives it."""
    before = dict(mpl.rcParams)
    figure = PICTURES[picture](run, theme=theme)
    assert plt.get_fignums() == []
    assert dict(mpl.rcParams) == before
    page = palette.THEMES[theme].paper.lower()
    assert mpl.colors.to_hex(figure.get_facecolor()) == page
    assert mpl.colors.to_hex(pixels(figure)[0] / 255) == page


@pytest.mark.parametrize("picture", PICTURES)
def test_another_theme_is_refused(run, picture):
    """The error names the two there are."""
    with pytest.raises(GradwatchError, match='`theme` must be "light" or "dark"'):
        PICTURES[picture](run, theme="sepia")


WRONG = [
    (lambda run: run.plot("norms"), "`quantity` must be .*'norms'. Closest: 'norm'"),
    (lambda run: run.plot("x"), "There are 'norm', 'update_ratio', .*'loss_scale'"),
    (lambda run: run.plot(kind="weights"), "`kind` must be one of 'weight', 'activ"),
    (lambda run: run.plot(kind="activation"), "`kind` must .*this run has 'weight'"),
    (lambda run: run.plot("update_ratio", kind="value"), "`kind` must .*known of 'wei"),
    (lambda run: run.plot(names="blok_1"), "`names` must match .*Closest: 'block"),
    (lambda run: run.plot(names=[]), "`names` must name something"),
    (lambda run: run.plot(names=[3]), "`names` must be an address, a glob"),
    (lambda run: run.plot("loss", "block_1"), "`names` must be left out for 'loss'"),
    (lambda run: run.plot("loss_scale"), "`quantity` must be one that was measured"),
    (lambda run: run.plot_flow(89), "`step` must be a step from 0 to 88.*Received: 89"),
    (lambda run: run.plot_flow(1.5), "`step` must be a step from 0 to 88"),
    (lambda run: run.plot_flow(0, "none"), "`names` must match"),
    (lambda run: run.plot_histogram("none"), "`name` must be a weight"),
]


@pytest.mark.parametrize(("ask", "words"), WRONG)
def test_what_cannot_be_drawn_is_refused_with_a_way_out(run, ask, words):
    """Rule, what was received, way out."""
    with pytest.raises(GradwatchError, match=words):
        ask(run)


def test_no_histograms_is_said(tmp_path):
    """With how to have them."""
    run = write(tmp_path / "a", weights("a/kernel"), [0], lambda *_: ({"norm": 1}, {}))
    with pytest.raises(GradwatchError, match="`name` .*histograms=True"):
        run.plot_histogram("a/kernel")


def test_an_activation_has_no_histogram(tmp_path):
    """It says which names have."""
    layout = Layout(("a/kernel", "a"), ("weight", "activation"), (4, 0))
    run = write(tmp_path / "a", layout, [0], lambda *_: ({"norm": 1.0}, {}))
    with pytest.raises(GradwatchError, match="`name` must be a weight.*'a'"):
        run.plot_histogram("a")
    assert len(lines(run.plot(kind="activation"))) == 1


def test_an_empty_run_is_refused(tmp_path):
    """A directory in which nothing was recorded yet."""
    from gradwatch.run import RunWriter

    with RunWriter(tmp_path / "a") as writer:
        writer.finding(0, {"symptom": "frozen"})
    run = open_run(tmp_path / "a")
    for ask in (run.plot, run.plot_flow, lambda: run.plot_histogram("a/kernel")):
        with pytest.raises(GradwatchError, match="at least one recorded step"):
            ask()


def test_an_unknown_name_is_an_address_error(run):
    """So that `except KeyError` finds it."""
    with pytest.raises(AddressError, match="`names` must match"):
        run.plot(names="nothing/*")


def test_steps_recorded_seldom_leave_no_stripes():
    """Often at first and seldom later: columns are as wide as the later gaps."""
    steps = np.array([*range(100), *range(100, 10_000, 50)])
    count = _heat.columns_for(steps)
    edges = np.linspace(steps[0], steps[-1] + 1, count + 1)
    held, _ = np.histogram(steps, edges)
    assert count > 100
    assert held.min() >= 1
