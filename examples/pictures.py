"""Draws the pictures of the README and the docs: real output, not mock-ups.

They go to `out/`, or to the folder that is given. Those of runs are drawn from what a
`gradwatch demo` wrote, if its folder is given too:
python examples/pictures.py docs/images gradwatch-demo
"""

import io
import pathlib
import sys

import keras
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch
from PIL import Image
from rich.console import Console
from rich.segment import Segment
from rich.style import Style

import gradwatch as gw
from gradwatch.demo import NAMES, SHAPES, draw_shapes

PIXELS, DPI = 1640, 180  # twice what a page shows, for sharp text
ADVANCE = 0.602  # the width of a monospaced character, in units of its size
MARGIN = 4  # characters left and right of the text in a terminal
INK, PAPER = "#d8dee9", "#1b2130"
COLOURS = {"red": "#ff7b72", "yellow": "#f2b84b", "green": "#7ee2a8"}
PROMPT = Style(color="green")


def build_network():
    """Returns a small convolutional network with a layer of each common kind."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(8, 5, strides=2, activation="relu", name="conv1"),
            layers.Conv2D(16, 3, activation="relu", name="conv2"),
            layers.BatchNormalization(momentum=0.9, name="norm"),
            layers.MaxPooling2D(name="pool"),
            layers.Conv2D(32, 3, activation="relu", name="conv3"),
            layers.GlobalAveragePooling2D(name="average"),
            layers.Dropout(0.1, name="dropout"),
            layers.Dense(len(SHAPES), name="scores"),
        ],
        name="shapes",
    )
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def build_troubled_network():
    """Returns a network whose gradient vanishes, and whose gate gets none."""
    layers = keras.layers
    inputs = keras.Input((28, 28, 1))
    pixels = layers.Conv2D(8, 5, strides=2, activation="relu", name="conv1")(inputs)
    pixels = layers.Conv2D(16, 3, strides=2, activation="relu", name="conv2")(pixels)
    hidden = layers.Flatten(name="flatten")(pixels)
    for depth in range(1, 6):
        before = hidden
        dense = layers.Dense(24, activation="sigmoid", name=f"dense{depth}")
        hidden = dense(before)
    gate = layers.Dense(24, activation="sigmoid", name="gate")(before)
    gate = layers.Lambda(keras.ops.stop_gradient, name="detach")(gate)
    gated = layers.Multiply(name="gated")([hidden, gate])
    scores = layers.Dense(len(SHAPES), name="scores")(gated)
    model = keras.Model(inputs, scores, name="shapes")
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def terminal(code, printed, after=(), columns=96):
    """Returns the picture of a terminal: some code, what it printed, more code."""
    console = Console(width=columns, color_system="truecolor", force_terminal=True)
    options = console.options.update_width(columns)
    lines = [[Segment(">>> ", PROMPT), Segment(line)] for line in code]
    more = [[Segment(">>> ", PROMPT), Segment(line)] for line in after]
    for line in Segment.split_lines(console.render(printed, options)):
        text = "".join(segment.text for segment in line).rstrip()
        lines.append(Segment.adjust_line_length(line, len(text), pad=False))
    lines += more
    widest = max(sum(len(segment.text) for segment in line) for line in lines)
    advance = PIXELS // (widest + 2 * MARGIN)  # whole pixels, or columns would drift
    size = advance / ADVANCE
    row = round(1.45 * size)
    height = round((len(lines) + 3.7) * row)
    figure = Figure(figsize=(PIXELS / DPI, height / DPI), facecolor="white")
    ax = figure.add_axes((0, 0, 1, 1), xlim=(0, PIXELS), ylim=(height, 0))
    ax.axis("off")
    shape = f"round,pad=0,rounding_size={row / 2}"
    box = (20, 20), PIXELS - 40, height - 40
    ax.add_patch(FancyBboxPatch(*box, boxstyle=shape, facecolor=PAPER, linewidth=0))
    for place, colour in enumerate(("#ff5f57", "#febc2e", "#28c840")):
        ax.add_patch(Circle((60 + 34 * place, 56), 11, color=colour))
    for number, line in enumerate(lines):
        column = MARGIN
        for text, style, _ in line:
            at = column * advance, (number + 3.1) * row
            _write(ax, at, text, style or Style(), 72 * size / DPI)
            column += len(text)
    return _pixels(figure)


def _write(ax, at, text, style, points):
    ax.text(
        *at,
        text,
        family="monospace",
        fontsize=points,
        color=COLOURS.get(style.color.name, INK) if style.color else INK,
        alpha=0.55 if style.dim else 1.0,
        weight="bold" if style.bold else "normal",
        parse_math=False,
    )


def _pixels(figure):
    width, height = figure.get_size_inches()
    file = io.BytesIO()
    figure.set_size_inches(PIXELS / DPI, height / width * PIXELS / DPI)
    figure.savefig(file, dpi=DPI)
    return np.asarray(Image.open(file).convert("RGB"))


def save(path, *parts):
    """Saves pictures below each other, in few colours: text needs no more."""
    picture = Image.fromarray(np.concatenate(parts))
    picture.quantize(240, dither=Image.Dither.NONE).save(path, optimize=True)
    print(
        f"{path}: {picture.width}×{picture.height}, {path.stat().st_size / 1000:.0f} kB"
    )


def draw_runs(folder, demo):
    """Draws the pictures of the two runs of a demo, for light and for dark pages."""
    faulty, repaired = (gw.open_run(demo / "runs" / name) for name in NAMES)
    [finding, *_] = gw.diagnose(faulty)
    folder.mkdir(exist_ok=True)
    for theme in ("light", "dark"):
        pictures = {
            "norm-faulty": faulty.plot("norm", theme=theme),
            "norm-repaired": repaired.plot("norm", theme=theme),
            "update-ratio": repaired.plot(
                "update_ratio", "dense_?/kernel", theme=theme
            ),
            "lines": repaired.plot(names=["conv_*/kernel", "scores"], theme=theme),
            "flow": faulty.plot_flow(40, theme=theme),
            "histogram": repaired.plot_histogram("conv_1/kernel", theme=theme),
            "finding": finding.plot(theme=theme),
        }
        for name, figure in pictures.items():
            file = io.BytesIO()  # at its own size: its words are set for that
            figure.savefig(file, dpi=PIXELS / figure.get_figwidth())
            pixels = np.asarray(Image.open(file).convert("RGB"))
            save(folder / f"{name}-{theme}.png", pixels)


def main():
    """Draws each picture."""
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    folder.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(3)
    x, y = draw_shapes(64, seed=2)

    model = build_troubled_network()
    g = gw.gradients(model, x, y, wrt=gw.weights("*/kernel"))
    code = ['g = gw.gradients(model, x, y, wrt=gw.weights("*/kernel"))', "print(g)"]
    top, plot = terminal(code, g, after=["g.plot()"]), _pixels(g.plot())
    save(folder / "front.png", top, plot)

    everything = [gw.weights(), gw.activations(), gw.inputs()]
    g = gw.gradients(build_network(), x, y, wrt=everything)
    save(folder / "gradient-flow.png", _pixels(g.plot()))
    if len(sys.argv) > 2:
        draw_runs(folder / "runs", pathlib.Path(sys.argv[2]))


if __name__ == "__main__":
    main()
