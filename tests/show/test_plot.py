import ast
import io
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

import gradwatch.show
from gradwatch.show import palette, plot_flow
from gradwatch.summarise import Row, summarise_array

MUTED = palette.THEMES["light"].muted


def places_of(axes):
    """Returns {label: y} of the addresses down the page."""
    names = [label.get_text() for label in axes.get_yticklabels()]
    return dict(zip(names, axes.get_yticks(), strict=True))


def legend_of(figure):
    owner = figure.legends[0] if figure.legends else figure.axes[0].get_legend()
    return {text.get_text() for text in owner.get_texts()}


def markers(axes, marker, colour=None):
    """Returns the points drawn with a marker."""
    return [
        (float(x), float(y))
        for line in axes.lines
        if line.get_marker() == marker
        and colour in (None, line.get_markerfacecolor(), line.get_markeredgecolor())
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    ]


def reaches(axes):
    """Returns the lines from the typical to the largest value, as point pairs."""
    return [
        segment
        for collection in axes.collections
        if isinstance(collection, LineCollection)
        for segment in collection.get_segments()
    ]


def test_markers_lie_at_the_mean_and_lines_end_at_the_largest(network):
    """Each gradient is drawn in its place, at its own numbers."""
    figure = plot_flow(network, title="t")
    axes = figure.axes[0]
    measured = [row for row in network if row.mean_abs]
    drawn = [point for shape in "oDs^" for point in markers(axes, shape)]
    drawn = [point for point in drawn if point[0] > 0]
    assert sorted(x for x, _ in drawn) == sorted(row.mean_abs for row in measured)
    ends = {float(segment[0][0]): float(segment[1][0]) for segment in reaches(axes)}
    for row in measured:
        assert ends[row.mean_abs] == max(abs(row.min), abs(row.max))
    places = dict(drawn)
    spots = places_of(axes)
    assert list(spots) == [row.name for row in network]
    for row in measured:
        if row.kind == "weight":
            assert places[row.mean_abs] == spots[row.name]


def test_depth_runs_down_the_page_kind_after_kind(network):
    """The first row is on top, and there is a gap between two kinds."""
    axes = plot_flow(network, title="t").axes[0]
    bottom, top = axes.get_ylim()
    assert top < bottom
    steps = np.diff(axes.get_yticks())
    assert steps.tolist() == [1, 1, 1, 1, 1, 2.5, 1, 1, 2.5, 1]
    words = {text.get_text() for text in axes.texts}
    assert {"weights", "activations", "inputs"} <= words


def test_each_kind_of_gradient_has_its_own_marker(network):
    """Weights, biases, activations and inputs differ by shape, not by colour alone."""
    axes = plot_flow(network, title="t").axes[0]
    assert len(markers(axes, "o", palette.BLUE)) == 2
    assert len(markers(axes, "D", palette.ORANGE)) == 2
    assert len(markers(axes, "s", palette.GREEN)) == 2
    assert len(markers(axes, "^", palette.PURPLE)) == 1


def test_what_has_no_place_on_a_log_scale_is_marked_at_the_edge(network):
    """NaN and ∞ at the high end, zeros and missing at the low end, each by its mark."""
    figure = plot_flow(network, title="t")
    axes = figure.axes[0]
    spots = places_of(axes)
    assert markers(axes, "x", palette.ALARM) == [(1, spots["image"])]
    assert markers(axes, "o", "none") == [(0, spots["dropped"])]
    missing = ["conv2/kernel", "conv2/bias", "mask"]
    assert markers(axes, "|", MUTED) == [(0, spots[name]) for name in missing]
    assert legend_of(figure) == {
        *("weight", "bias or scale", "activation", "input"),
        *("all zero", "NaN or ∞", "no gradient"),
    }


def test_edge_marks_lie_inside_the_axes(network):
    """The marks at the ends are within the frame, a fixed distance from its sides."""
    figure = plot_flow(network, title="t")
    figure.draw_without_rendering()
    axes = figure.axes[0]
    frame = axes.get_window_extent()
    for line in axes.lines:
        if line.get_marker() in ("x", "|"):
            (x, y), *_ = line.get_transform().transform(line.get_xydata())
            distance = frame.x1 - x if line.get_marker() == "x" else x - frame.x0
            assert distance == pytest.approx(0.11 * figure.dpi)
            assert frame.y0 < y < frame.y1


def test_a_gradient_without_a_value_breaks_the_line_of_its_neighbours():
    """The thin line never runs through a missing, zero or NaN gradient."""
    rows = [
        summarise_array(f"l{i}/k", "weight", np.full((2, 2), 2.0)) for i in range(5)
    ]
    rows[2] = Row.absent("l2/k", "weight", (2, 2), "float32", "why")
    axes = plot_flow(rows, title="t").axes[0]
    (trend,) = (line for line in axes.lines if line.get_linestyle() == "-")
    assert np.isnan(trend.get_xdata()).tolist() == [False, False, True, False, False]


def test_the_legend_names_only_what_is_drawn():
    """One healthy weight needs one entry."""
    rows = [summarise_array("a/kernel", "weight", np.ones((2, 2)))]
    assert legend_of(plot_flow(rows, title="t")) == {"weight"}


def test_everything_nan_is_a_figure_of_crosses():
    """With no value to place there is no made-up scale, and every row is marked."""
    rows = [
        summarise_array(f"d{i}/k", "weight", np.full((2, 2), np.nan)) for i in range(4)
    ]
    figure = plot_flow(rows, title="t")
    axes = figure.axes[0]
    assert len(markers(axes, "x")) == 4
    assert legend_of(figure) == {"NaN or ∞"}
    assert len(axes.get_xticks()) == 0
    assert axes.get_xlabel() == "no gradient has a finite element other than zero"
    assert {label.get_color() for label in axes.get_yticklabels()} == {palette.ALARM}


def test_an_empty_gradient_is_not_called_missing():
    """A gradient of no elements has its own words in the legend."""
    rows = [summarise_array("a", "activation", np.zeros((0, 3)))]
    assert legend_of(plot_flow(rows, title="t")) == {"no elements"}


def test_no_rows_are_refused():
    """Nothing to plot is an error that says what to do."""
    with pytest.raises(ValueError, match="`rows` must hold at least one gradient"):
        plot_flow([], title="t")


@pytest.mark.parametrize("count", [1, 3, 60, 61, 300])
def test_any_number_of_gradients_is_drawn(count):
    """From one to hundreds: all points are inside the axes, and labels do not touch."""
    rows = [
        summarise_array(f"stage_{i // 40}/l{i}/k", "weight", np.full((2, 2), 0.9**i))
        for i in range(count)
    ]
    figure = plot_flow(rows, title="t")
    figure.draw_without_rendering()
    axes = figure.axes[0]
    down = count <= 60
    assert (axes.get_xscale() == "log") == down
    assert (axes.get_yscale() == "log") != down
    points = markers(axes, "o")
    assert len(points) == count
    low, high = sorted(axes.get_xlim() if down else axes.get_ylim())
    assert all(low < row.mean_abs <= row.max < high for row in rows)
    labels = (axes.yaxis if down else axes.xaxis).get_ticklabels()
    boxes = [label.get_window_extent() for label in labels]
    assert not any(a.overlaps(b) for a, b in pairwise(boxes))
    assert figure.get_figheight() <= 15
    assert figure.get_figwidth() <= 18


def test_a_long_axis_names_blocks(mobilenet):
    """158 gradients are labelled by block, in order, and all of them are drawn."""
    figure = plot_flow(mobilenet, title="t")
    axes = figure.axes[0]
    names = [label.get_text() for label in axes.get_xticklabels()]
    assert [name for name in names if name.startswith("block")] == [
        f"block_{i}" for i in range(1, 17)
    ]
    assert "expanded_conv" in names
    points = markers(axes, "o", palette.BLUE) + markers(axes, "D", palette.ORANGE)
    assert len(points) == 158
    by_place = [value for _, value in sorted(points)]
    assert by_place == [row.mean_abs for row in mobilenet]


def flat(mobilenet):
    """The same gradients under names that have no blocks."""
    return [replace(row, name=f"variable{i}") for i, row in enumerate(mobilenet)]


@pytest.mark.parametrize("rename", [list, flat])
def test_labels_along_a_long_axis_do_not_touch(mobilenet, rename):
    """Of blocks or addresses too near each other only some are named."""
    figure = plot_flow(rename(mobilenet), title="t")
    figure.draw_without_rendering()
    labels = figure.axes[0].get_xticklabels()
    boxes = [label.get_window_extent() for label in labels]
    assert len(boxes) > 10
    assert not any(a.overlaps(b) for a, b in pairwise(boxes))


def test_the_limit_of_float16_is_shown_where_it_matters():
    """Values that float16 rounds to zero get a line to be judged by; others do not."""
    fine = summarise_array("a/k", "weight", np.full((2, 2), 1e-7))
    lost = summarise_array("b/k", "weight", np.full((2, 2), 1e-8))
    words = [
        text.get_text() for text in plot_flow([fine, lost], title="t").axes[0].texts
    ]
    assert words == ["zero in float16"]
    assert not plot_flow([fine], title="t").axes[0].texts


@pytest.mark.parametrize("name", ["$a^{$", "_hidden", "a" * 300, "x\ny", "[b]"])
def test_names_are_drawn_as_they_are(name):
    """Dollar signs are no formulas, a leading line is no secret, long names fold."""
    rows = [summarise_array(name, "weight", np.ones((2, 2)))]
    figure = plot_flow(rows, title=name[:40])
    figure.savefig(io.BytesIO(), format="png")
    (label,) = figure.axes[0].get_yticklabels()
    assert len(label.get_text()) <= 46
    assert label.get_text()[:2] == name[:2].replace("\n", "\\n")[:2]


def test_extreme_values_can_be_drawn():
    """The ends of the float64 range are on the axis, without a warning."""
    rows = [
        summarise_array("a/k", "weight", np.full((2, 2), 5e-324)),
        summarise_array("b/k", "weight", np.full((2, 2), 1.7e308)),
    ]
    plot_flow(rows, title="t").savefig(io.BytesIO(), format="png")


def test_nothing_global_changes(network):
    """Settings of matplotlib and the figures of pyplot are as before."""
    settings, figures = dict(mpl.rcParams), plt.get_fignums()
    plot_flow(network, title="t")
    assert dict(mpl.rcParams) == settings
    assert plt.get_fignums() == figures


def test_the_users_style_does_not_spoil_our_figure(network):
    """Whatever style is set, our own figure is dark ink on white."""
    with plt.style.context("dark_background"):
        figure = plot_flow(network, title="t")
    assert mpl.colors.to_hex(figure.get_facecolor()) == "#ffffff"
    title = figure.axes[0].get_title(loc="left")
    assert title == "t"
    assert figure.axes[0].xaxis.label.get_color() == palette.THEMES["light"].ink


def test_a_notebook_can_show_the_figure(network):
    """IPython asks an object it does not know for `_repr_png_`: it is a picture."""
    png = plot_flow(network, title="t")._repr_png_()
    assert png.startswith(b"\x89PNG")
    picture = mpl.image.imread(io.BytesIO(png))
    assert len(np.unique(picture.reshape(-1, picture.shape[-1]), axis=0)) > 50


def test_given_axes_are_drawn_into(network, mobilenet):
    """The user's figure comes back, its size and other axes untouched."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
    assert plot_flow(network, title="t", ax=left) is figure
    assert figure.get_size_inches().tolist() == [9, 4]
    assert not right.lines
    assert left.get_xscale() == "log"
    assert left.get_legend() is not None
    plot_flow(mobilenet, title="t", ax=right)
    assert right.get_yscale() == "log"


def test_given_axes_too_small_for_the_names_get_blocks(mobilenet):
    """Forty names do not fit two inches: the axes decide, not the count alone."""
    _, axes = plt.subplots(figsize=(6, 2))
    plot_flow(mobilenet[:40], title="t", ax=axes)
    assert axes.get_yscale() == "log"


def test_axes_of_a_subfigure_give_the_whole_figure(network):
    """What comes back can always be saved."""
    figure = plt.figure()
    axes = figure.subfigures(1, 2)[0].subplots()
    assert plot_flow(network, title="t", ax=axes) is figure


def test_axes_without_a_figure_are_refused(network):
    """Removed axes get the rule and the way out."""
    axes = Figure().add_subplot()
    axes.remove()
    with pytest.raises(ValueError, match="`ax` must belong to a figure"):
        plot_flow(network, title="t", ax=axes)


def test_without_matplotlib_the_error_names_the_extra(network, monkeypatch):
    """The one missing thing is named, and how to install it."""
    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("_flow", "_flow_axis", "_figure"):
        monkeypatch.delitem(sys.modules, f"gradwatch.show.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        ImportError, match=r'matplotlib.*pip install "gradwatch\[plot\]"'
    ):
        plot_flow(network, title="t")


def test_matplotlib_is_not_imported_until_a_plot_is_asked_for():
    """Following the imports of the room from its front door never meets matplotlib."""
    room = Path(gradwatch.show.__file__).parent
    todo, seen = ["__init__"], set()
    while todo:
        file = room / f"{todo.pop()}.py"
        if file.name in seen or not file.exists():
            continue
        seen.add(file.name)
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Import):
                assert not any(a.name.startswith("matplotlib") for a in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith("matplotlib")
                if node.level == 1:
                    names = [alias.name for alias in node.names]
                    todo += [node.module] if node.module else names
    assert {"__init__.py", "_plot.py", "_cells.py", "palette.py"} <= seen
    assert "_flow.py" not in seen
