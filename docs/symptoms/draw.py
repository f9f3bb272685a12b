"""Draws docs/images/symptoms: for each symptom a sick and a healthy run, side by side.

Run by hand; it trains two families of the fault suite for each picture, and prints what
was found in each:

    KERAS_BACKEND=torch python -m docs.symptoms.draw                  # all of them
    KERAS_BACKEND=torch python -m docs.symptoms.draw noise clipping   # some
    ... --runs folder    # keeps the runs there, and reads those that are there already

What is drawn is what the rule reads: the numbers come from the same snapshots.
"""

from __future__ import annotations

import argparse
import io
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np
from bench.faults import by_name
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from PIL import Image

import gradwatch as gw
from gradwatch.diagnose import Snapshot, quantities, snapshots
from gradwatch.show import palette
from gradwatch.show._figure import new_figure

PICTURES = Path(__file__).parents[1] / "images" / "symptoms"
LOOKS = (
    (palette.BLUE, "-", "o"),
    (palette.ORANGE, "--", "D"),
    (palette.GREEN, "-.", "s"),
    (palette.PURPLE, ":", "^"),
    (palette.SKY, "-", "P"),
)
DRAWN = (0, 30, 59)
"""The steps at which a quantity along depth is drawn."""


# What is read of a run ----------------------------------------------------------------


class Movers(keras.callbacks.Callback):
    """Writes down which rows of the first embedding have moved by the end."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def _table(self) -> Any:
        layers = self.model._flatten_layers(include_self=False)
        tables = [x for x in layers if isinstance(x, keras.layers.Embedding)]
        if not tables:
            return None
        return np.array(keras.ops.convert_to_numpy(tables[0].embeddings))

    def on_train_begin(self, logs: Any = None) -> None:
        del logs
        self._before = self._table()

    def on_train_end(self, logs: Any = None) -> None:
        del logs
        if self._before is not None:
            np.save(self._path, (self._table() != self._before).any(axis=1))


def trained(family: str, runs: Path) -> gw.Run:
    """Returns the run of a family, trained now if it is not there yet."""
    folder = runs / family
    if not folder.exists():
        watch = gw.GradientMonitor(folder, every=1, histograms=False, activations=True)
        by_name(family).train(0, [watch, Movers(runs / f"{family}.npy")])
    return gw.open_run(folder)


Numbers = dict[str, float]
Look = Callable[[Snapshot], Numbers]


def course(run: gw.Run, look: Look) -> dict[str, tuple[list[int], list[float]]]:
    """Returns what a look gives at each step, name by name."""
    found: dict[str, tuple[list[int], list[float]]] = {}
    for step in snapshots(run):
        with np.errstate(all="ignore"):
            numbers = look(step)
        for name, number in numbers.items():
            steps, values = found.setdefault(name, ([], []))
            steps.append(step.step)
            values.append(number)
    return found


def in_time(step: Snapshot) -> Numbers:
    """The share of elements that hold the gradient at a recurrent layer's input."""
    shares = list(quantities.sequence_shares(step).values())
    return {"input of the recurrent layer": shares[-1]} if shares else {}


def ratios(step: Snapshot) -> Numbers:
    """Update over weight of each kernel, and their median."""
    found = quantities.update_ratios(step)
    return found | {"median": float(np.nanmedian(list(found.values())))}


def agreement(step: Snapshot) -> Numbers:
    """How far the mean gradient of recent steps stands out."""
    return {"agreement of the last 32 steps": quantities.agreement(step)}


def norms(step: Snapshot) -> Numbers:
    """The norm of all gradients, and what clipping left of it."""
    return {
        "gradient": step.total("global_norm"),
        "after clipping": step.total("applied_norm"),
        "a fifth of the gradient": step.total("global_norm") / 5,
    }


def whole(step: Snapshot) -> Numbers:
    """The norm of all gradients, or NaN."""
    return {"norm of all gradients": step.total("global_norm")}


def progress(step: Snapshot) -> Numbers:
    """The norm of all gradients, and the loss."""
    return {"gradient": step.total("global_norm"), "loss": step.total("loss")}


# How it is drawn ----------------------------------------------------------------------


def style(label: str, known: dict[str, int]) -> dict[str, Any]:
    """Returns the look of what has this label, the same in both panels."""
    colour, dashes, marker = LOOKS[known.setdefault(label, len(known)) % len(LOOKS)]
    return {"color": colour, "linestyle": dashes, "marker": marker}


@dataclass
class Panel:
    """One of the two axes, and which label has which look so far."""

    ax: Axes
    run: gw.Run
    known: dict[str, int]
    extra: dict[str, Any]
    rows: Path

    def plot(self, x: Any, y: Any, label: str, **other: Any) -> None:
        """Draws a line with a marker now and then."""
        look = style(label, self.known)
        if len(x) > 20:
            look["markevery"] = (len(self.known) * 3 % 10, 12)
        options = {"linewidth": 1.8, "markersize": 5, "label": label} | look | other
        self.ax.plot(x, y, **options)

    def mark(self, x: Any, y: Any, label: str, *, edge: bool = False, **look: Any):
        """Draws markers; `edge`: at the lower edge, y is not used."""
        options = {"linestyle": "none", "markersize": 8, "label": label} | look
        if edge:
            blend = self.ax.get_xaxis_transform()
            options |= {"transform": blend, "clip_on": False, "zorder": 5}
            y = [0.05] * len(x)
        self.ax.plot(x, y, **options)

    def layers(self, names: list[str]) -> None:
        """Names the places of the x axis, or its ends where they are many."""
        crowded = sum(map(len, names)) > 60
        places = [0, len(names) - 1] if crowded else list(range(len(names)))
        self.ax.set_xticks(places, [names[place] for place in places])
        self.ax.set_xlim(-0.6, len(names) - 0.4)
        self.ax.set_xlabel("from input to output", color=palette.MUTED)


def draw_course(panel: Panel, look: Look) -> None:
    """Draws what a look gives, step by step."""
    for label, (steps, values) in course(panel.run, look).items():
        muted = label.startswith("a fifth")
        other = {"color": palette.MUTED, "linestyle": ":", "marker": ""}
        thick = {"color": palette.INK, "linestyle": "-", "marker": "", "linewidth": 2.6}
        chosen = other if muted else thick if label == "median" else {}
        panel.plot(steps, values, label, **chosen)
    panel.ax.set_xlabel("step", color=palette.MUTED)


def draw_progress(panel: Panel, look: Look) -> None:
    """Draws what a look gives, over the largest of the first five steps."""
    for label, (steps, values) in course(panel.run, look).items():
        panel.plot(steps, np.array(values) / max(values[:5]), label)
    panel.ax.set_xlabel("step", color=palette.MUTED)


def draw_broken(panel: Panel, look: Look) -> None:
    """Draws a norm, and crosses where it is not finite."""
    for label, (steps, values) in course(panel.run, look).items():
        panel.plot(steps, np.where(np.isfinite(values), values, np.nan), label)
        bad = [s for s, v in zip(steps, values, strict=True) if not math.isfinite(v)]
        if bad:
            panel.ax.plot(
                bad,
                [0.94] * len(bad),
                transform=panel.ax.get_xaxis_transform(),
                color=palette.ALARM,
                linestyle="none",
                marker="x",
                label="NaN or ∞",
            )
    panel.ax.set_xlabel("step", color=palette.MUTED)


def draw_depth(panel: Panel, look: Look) -> None:
    """Draws what a look gives along depth, over its value at the output end."""
    found = {name: values for name, (_, values) in course(panel.run, look).items()}
    table = np.array(list(found.values()))
    for step in DRAWN:
        panel.plot(range(len(table)), table[:, step] / table[-1, step], f"step {step}")
    panel.layers([name.rpartition("/")[0] for name in found])


def draw_bars(panel: Panel, look: Look) -> None:
    """Draws the median over the steps, and as a thin line from least to most.

    A bar has no foot on a logarithmic axis: there it is a point.
    """
    found = {name: values for name, (_, values) in course(panel.run, look).items()}
    table = np.array(list(found.values()))[:, : panel.extra.get("steps")]
    middle, low, high = np.median(table, 1), table.min(1), table.max(1)
    places = np.arange(len(found))
    if panel.ax.get_yscale() == "log":
        panel.ax.plot(places, middle, "o", markersize=10, color=palette.BLUE)
    else:
        panel.ax.bar(places, middle, 0.5, color=palette.BLUE)
    panel.ax.vlines(places, low, high, color=palette.INK, linewidth=1.5)
    for place, value, top in zip(places, middle, high, strict=True):
        text = f"{value:.2g}" if value < 100 else f"{value:,.0f}"
        above = {"xytext": (0, 8), "textcoords": "offset points", "ha": "center"}
        panel.ax.annotate(text, (place, top), **above, fontsize=11)
    roles = ("/kernel", "/bias")
    panel.layers([n.rpartition("/")[0] if n.endswith(roles) else n for n in found])


def draw_reached(panel: Panel, look: Look) -> None:
    """Draws the gradient of each kernel and bias at the last step, or that it is not.

    The look is not used: what has no gradient has no line in a record.
    """
    del look
    last = list(snapshots(panel.run))[-1]
    parameters = last.parameters
    facts = panel.run.notes["model"]["weights"]
    trains = [name for name in facts if facts[name]["trainable"]]
    layers = list(dict.fromkeys(parameters.layer_of(name) for name in trains))
    norm = dict(zip(parameters.names, last.norm, strict=True))
    top = max(norm.values())
    hollow = {"markerfacecolor": "none", "markeredgecolor": palette.INK}
    tick = {"marker": "|", "markersize": 14, "markeredgewidth": 2.5}
    for name in trains:
        role = parameters.role(name)
        aside = 0.18 if role == "bias" else 0
        place = [layers.index(parameters.layer_of(name)) + aside]
        shape = "D" if role == "bias" else "o"
        colour = palette.ORANGE if role == "bias" else palette.BLUE
        if name not in norm:
            panel.mark(
                place, 0, "no gradient at all", edge=True, color=palette.MUTED, **tick
            )
        elif norm[name] == 0:
            words = f"{role}: exact zeros"
            panel.mark(place, 0, words, edge=True, marker=shape, **hollow)
        else:
            size = [norm[name] / top]
            panel.mark(place, size, role, marker=shape, color=colour)
    panel.layers(layers)


def draw_moving(panel: Panel, look: Look) -> None:
    """Draws the update of each layer's kernel, and what is marked as frozen."""
    median = {n: np.median(v) for n, (_, v) in course(panel.run, look).items()}
    facts = panel.run.notes["model"]["weights"]
    kernels = [name for name in facts if name.endswith("kernel")]
    square = {"marker": "s", "markeredgecolor": palette.INK, "markeredgewidth": 1.5}
    for place, name in enumerate(kernels):
        fact = facts[name]
        if name in median:
            held = fact.get("held")
            words = "marked as frozen, and trains" if held else "trains"
            colour = palette.VERMILION if held else palette.BLUE
            shape = "D" if held else "o"
            panel.mark([place], [median[name]], words, marker=shape, color=colour)
        else:
            fresh = fact.get("untrained")
            words = "frozen, as initialised" if fresh else "frozen, trained before"
            fill = "white" if fresh else palette.GREEN
            panel.mark([place], 0, words, edge=True, markerfacecolor=fill, **square)
    panel.layers([name.rpartition("/")[0] for name in kernels])


def draw_zeros(panel: Panel, look: Look) -> None:
    """Draws the share of zeros against the size of the gradient, kernel by kernel."""
    del look
    points: dict[str, list[tuple[float, float]]] = {}
    for step in snapshots(panel.run):
        for line in np.flatnonzero(step.parameters.kernels):
            here = float(step.rms[line]), float(step.zeros[line])
            points.setdefault(step.parameters.names[line], []).append(here)
    for name, found in points.items():
        look_ = style(name, panel.known) | {"linestyle": "none"}
        sizes, zeros = zip(*found, strict=True)
        panel.ax.plot(sizes, zeros, **look_, markersize=4, alpha=0.7, label=name)
    corner = {"facecolor": palette.VERMILION, "alpha": 0.12, "linewidth": 0}
    panel.ax.fill_between([1e-9, 1e-5], 0.2, 1.03, **corner)
    panel.ax.set_xscale("log")
    panel.ax.set_xlim(3e-9, 3e-1)
    panel.ax.set_xlabel("root mean square of the gradient", color=palette.MUTED)


def draw_rows(panel: Panel, look: Look) -> None:
    """Draws each row of an embedding as a square: filled if it moved."""
    del look
    moved = np.load(panel.rows)
    across = 60 if len(moved) > 100 else 6
    grid = moved.reshape(-1, across)
    colours = ListedColormap(["#D8DCE0", palette.BLUE])
    panel.ax.pcolormesh(
        grid, cmap=colours, vmin=0, vmax=1, edgecolors="white", linewidth=1
    )
    panel.ax.invert_yaxis()
    for words, value in (("a row that moved", 1), ("a row that never moved", 0)):
        square = {"marker": "s", "markersize": 9, "linestyle": "none"}
        panel.ax.plot([], [], **square, color=colours(value), label=words)
    panel.ax.set_xticks([])
    panel.ax.set_yticks([])
    panel.ax.set_xlabel(f"{moved.sum():,} of {len(moved):,} rows moved")


# Which runs, and what of them ---------------------------------------------------------


@dataclass
class Picture:
    """What is drawn for a symptom.

    Attributes:
        sick: A family of the fault suite, and in words.
        healthy: Likewise.
        draw: Draws a panel.
        look: What of a run.
        label: Of the y axis.
        limits: Of the y axis.
        zones: Where the rule sees a sign: from, to.
        words: What the zones are.
        log: Whether the y axis is logarithmic.
        extra: For the drawing function.
    """

    sick: tuple[str, str]
    healthy: tuple[str, str]
    draw: Callable[[Panel, Look], None]
    look: Look
    label: str
    limits: tuple[float, float] | None = None
    zones: tuple[tuple[float, float], ...] = ()
    words: str = ""
    log: bool = True
    extra: dict[str, Any] = field(default_factory=dict)


PICTURES_OF = {
    "vanishing": Picture(
        ("deep-sigmoid-mlp", "eight sigmoid layers"),
        ("deep-relu-mlp", "five ReLU layers"),
        draw_depth,
        quantities.kernel_sensitivity,
        "gradient × weight of kernels,\nover that of the last",
        (1e-7, 1e2),
        ((1e-7, 1e-3),),
        "below 1/1,000",
    ),
    "vanishing-time": Picture(
        ("tanh-rnn-forgets", "a tanh RNN, 40 time steps"),
        ("simple-rnn-short", "a tanh RNN, 8 time steps"),
        draw_course,
        in_time,
        "share of elements that hold\nthe gradient",
        (0, 0.7),
        ((0, 0.08),),
        "below 0.08",
        log=False,
    ),
    "fading": Picture(
        ("tanh-output-out-of-reach", "targets that tanh cannot reach"),
        ("regression-mlp", "targets within reach"),
        draw_progress,
        progress,
        "over that of the beginning",
        (1e-6, 1e1),
        ((1e-6, 1e-3),),
        "gradient below 1/1,000",
    ),
    "exploding": Picture(
        ("residual-without-norm", "residual blocks, not normalised"),
        ("residual-mlp", "residual blocks, normalised"),
        draw_depth,
        quantities.bias_gradients,
        "gradient of biases,\nover that of the last",
        (1e-2, 1e5),
        ((10**1.75, 1e5),),
        "above 56",
    ),
    "nonfinite": Picture(
        ("missing-values-lstm", "missing values in the data"),
        ("lstm", "an LSTM"),
        draw_broken,
        whole,
        "norm of all gradients",
        (1e-2, 2),
    ),
    "dead-units": Picture(
        ("mlp-units-off", "an MLP with far negative biases"),
        ("relu-mlp", "an MLP"),
        draw_bars,
        quantities.dead_units,
        "share of units without a gradient",
        (0, 1.05),
        ((0.5, 1.05),),
        "half or more",
        log=False,
    ),
    "dead-layer": Picture(
        ("text-cnn-layer-off", "all units of 'conv_1' off"),
        ("dilated-convolutions", "no unit off"),
        draw_reached,
        whole,
        "norm of the gradient,\nover the largest",
        (3e-3, 3),
    ),
    "saturated": Picture(
        ("tanh-mlp-raw-inputs", "inputs in the hundreds"),
        ("tanh-mlp", "inputs of about one"),
        draw_course,
        quantities.slopes,
        "mean slope over the steepest",
        (0, 1),
        ((0, 0.1),),
        "below 0.1",
        log=False,
    ),
    "unreached": Picture(
        ("stop-gradient-mlp", "cut behind 'hidden_1'"),
        ("deep-relu-mlp", "no cut"),
        draw_reached,
        whole,
        "norm of the gradient,\nover the largest",
        (3e-3, 3),
    ),
    "underflow": Picture(
        ("float16-mlp", "float16, no loss scaling"),
        ("scaled-float16-mlp", "float16, with loss scaling"),
        draw_zeros,
        whole,
        "share of gradients that are zero",
        (-0.03, 1.03),
        words="small, and many zeros",
        log=False,
    ),
    "clipping": Picture(
        ("tight-global-norm-mlp", "a limit far below the norm"),
        ("mild-clipping-mlp", "a limit near the norm"),
        draw_course,
        norms,
        "norm of all gradients",
        (5e-3, 8),
    ),
    "small-updates": Picture(
        ("slow-adam-mlp", "learning rate about 3e-6"),
        ("regression-mlp", "a usual learning rate"),
        draw_course,
        ratios,
        "update over weight",
        (1e-6, 2),
        ((1e-6, 1e-4),),
        "below 0.0001",
    ),
    "large-updates": Picture(
        ("fast-adam-mlp", "learning rate about 3"),
        ("regression-mlp", "a usual learning rate"),
        draw_course,
        ratios,
        "update over weight",
        (1e-4, 50),
        ((0.2, 50),),
        "above 0.2",
    ),
    "initialisation": Picture(
        ("wide-mlp", "normal(1.0) for all kernels"),
        ("relu-mlp", "the usual initialiser"),
        draw_bars,
        quantities.weight_spreads,
        "spread of weights × root of inputs",
        (1e-2, 30),
        ((1e-2, 0.05), (3, 30)),
        "below 0.05, above 3",
        extra={"steps": 1},
    ),
    "dominating-layer": Picture(
        ("loud-branch-mlp", "a branch that is multiplied by 1,000"),
        ("relu-mlp", "no such branch"),
        draw_bars,
        quantities.layer_dominance,
        "gradient over that of\nthe second largest layer",
        (1e-1, 1e4),
        ((100, 1e4),),
        "above 100",
    ),
    "dominating-head": Picture(
        ("heavy-head-mlp", "one loss counts 10,000 times"),
        ("two-heads-mlp", "losses of the same size"),
        draw_course,
        quantities.head_dominance,
        "gradient × weight,\nover the quieter head",
        (0.5, 1e6),
        ((300, 1e6),),
        "above 300",
    ),
    "noise": Picture(
        ("returns-of-chance", "returns that owe all to chance"),
        ("slow-start-sgd-pairs", "labels that belong to the inputs"),
        draw_course,
        agreement,
        "agreement (1 is chance)",
        (0.3, 200),
        ((0.3, 15),),
        "below 15, from step 200 on",
        extra={"from": 200},
    ),
    "idle-rows": Picture(
        ("idle-rows-bag", "2,400 rows for 24 words"),
        ("word-bag", "24 rows for 24 words"),
        draw_rows,
        whole,
        "rows of the embedding",
        log=False,
    ),
    "frozen": Picture(
        ("frozen-mlp", "frozen as initialised"),
        ("frozen-trained-mlp", "frozen after training"),
        draw_moving,
        ratios,
        "update over weight of kernels",
        (3e-5, 1),
    ),
    "not-frozen": Picture(
        ("not-frozen-mlp", "layers say frozen, weights train"),
        ("frozen-trained-mlp", "frozen, and at rest"),
        draw_moving,
        ratios,
        "update over weight of kernels",
        (3e-5, 1),
    ),
    "stuck-loss": Picture(
        ("random-labels-mlp", "labels drawn at random"),
        ("sgd-mlp", "labels that belong to the inputs"),
        draw_progress,
        progress,
        "over that of the beginning",
        (0.01, 3),
    ),
}


def draw(symptom: str, runs: Path) -> None:
    """Trains the two runs of a symptom and writes its picture."""
    picture = PICTURES_OF[symptom]
    known: dict[str, int] = {}
    with new_figure(12, 4.5) as figure:
        axes = figure.subplots(1, 2, sharey=picture.limits is not None)
        pairs = (("Sick", picture.sick), ("Healthy", picture.healthy))
        for ax, (state, (family, words)) in zip(axes, pairs, strict=True):
            run = trained(family, runs)
            for finding in gw.diagnose(run):
                print(f"{symptom} · {family}: {finding.one_line()}")
            if picture.log:
                ax.set_yscale("log")
            rows = runs / f"{family}.npy"
            picture.draw(Panel(ax, run, known, picture.extra, rows), picture.look)
            finish(ax, picture)
            ax.set_title(f"{state}: {words}", loc="left", fontsize=13, weight="bold")
            ax.set_title(family, loc="right", fontsize=9, color=palette.MUTED)
        axes[0].set_ylabel(picture.label, fontsize=11)
        handles = legend(axes, picture.words)
        if handles:
            figure.legend(
                handles=handles, loc="outside lower center", ncols=7, fontsize=11
            )
        PICTURES.mkdir(parents=True, exist_ok=True)
        save(figure, PICTURES / f"{symptom}.png")


def save(figure: Figure, path: Path) -> None:
    """Writes a small file: few colours are enough."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=100, facecolor="white")
    few = Image.open(buffer).convert("RGB").quantize(64, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def finish(ax: Axes, picture: Picture) -> None:
    """Sets limits, zones and the grid."""
    if picture.limits:
        ax.set_ylim(*picture.limits)
    zone = {"color": palette.VERMILION, "alpha": 0.12, "linewidth": 0, "zorder": 0}
    since = picture.extra.get("from")
    for low, high in picture.zones:
        if since is None:
            ax.axhspan(low, high, **zone)
        else:
            ax.fill_between([since, ax.get_xlim()[1]], low, high, **zone)
            ax.set_xmargin(0)
    ax.grid(axis="y", color=palette.FAINT, linewidth=0.6)
    ax.tick_params(which="both", labelsize=10, length=0)
    ax.xaxis.label.set_size(11)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def legend(axes: Any, words: str) -> list[Any]:
    """Returns an entry for each label of both panels, and one for the zone."""
    found: dict[str, Any] = {}
    for ax in axes:
        for line, label in zip(*ax.get_legend_handles_labels(), strict=True):
            if label not in found:
                found[label] = Line2D([], [])
                found[label].update_from(line)
                found[label].set_label(label)
                found[label].set_transform(ax.transAxes)
    handles = list(found.values())
    if words:
        zone = {"facecolor": palette.VERMILION, "alpha": 0.2, "label": words}
        handles.append(Patch(**zone))
    return handles


def main() -> None:
    """Draws the pictures that are asked for."""
    parser = argparse.ArgumentParser(description="Draws the pictures of the symptoms.")
    parser.add_argument("symptoms", nargs="*", default=list(PICTURES_OF))
    parser.add_argument("--runs", type=Path, help="where runs are kept")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for symptom in asked.symptoms:
            draw(symptom, asked.runs or Path(scratch))


if __name__ == "__main__":
    main()
