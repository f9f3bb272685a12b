"""Pictures of attributions: the right kind, the right numbers, the right words."""

import io
import re
from dataclasses import replace

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

import gradwatch as gw
from gradwatch.attribute import Attribution, Place
from gradwatch.show.palette import THEMES, rgb

LIGHT = THEMES["light"]


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def made(values, data=None, channels=None, *, sources=None, name="inputs"):
    """An attribution without a model: these numbers, over these inputs."""
    data = values if data is None else data
    place = Place(name, values, data, channels)
    sources = sources or (Place("inputs", data, data, channels),)
    score = np.arange(len(values)) + 0.5
    layer = None if name == "inputs" else name
    return Attribution(
        (place,), sources, "a_method", "class_score(1)", score, layer=layer
    )


def tokens_of(values, ids):
    """Over the embedding of whole numbers."""
    source = (Place("inputs", ids, ids, None),)
    return made(values, values, 2, sources=source, name="embed")


def images(figure):
    """All that `imshow` drew, as arrays, in the order of the axes."""
    return [image.get_array() for ax in figure.axes for image in ax.images]


def texts(figure):
    return {text.get_text() for text in figure.findobj(mpl.text.Text)}


def near(colour, other):
    return np.abs(np.asarray(colour[:3]) - rgb(other)).max() < 0.02


PICTURE = numbers(2, 6, 5, 3)
HEAT = numbers(2, 6, 5, 3, seed=1)


def test_a_picture_is_shown_beside_its_heat():
    """Two pictures per example; the strongest pixels have the full colours."""
    figure = made(HEAT, PICTURE, 3).plot()
    first, heat, *_ = images(figure)
    data = PICTURE[0]
    stretched = (data - data.min()) / (data.max() - data.min())
    assert np.abs(first - stretched).max() < 1e-6
    total = HEAT[0].sum(axis=-1)
    strongest = np.unravel_index(np.abs(total).argmax(), total.shape)
    hue = LIGHT.positive if total[strongest] > 0 else LIGHT.negative
    assert near(heat[strongest], hue)
    # Every pixel: redder than blue where it speaks for the target, and vice versa.
    strong = np.abs(total) > 0.2 * np.abs(total).max()
    assert ((heat[..., 0] > heat[..., 2]) == (total > 0))[strong].all()
    assert {"example 0: 0.5", "example 1: 1.5", "a_method"} <= texts(figure)


def test_a_scale_is_symmetric_or_starts_at_zero():
    """Diverging about zero; sequential where nothing is below it."""
    figure = made(HEAT, PICTURE, 3).plot()
    limits = [ax.get_ylim() for ax in figure.axes[2::3]]
    assert len(limits) == 2
    for low, high in limits:
        assert low == -high < 0
    figure = made(np.abs(HEAT), PICTURE, 3).plot()
    limits = [ax.get_ylim() for ax in figure.axes[2::3]]
    assert [low for low, _ in limits] == [0, 0]
    peak = np.abs(HEAT[0]).sum(axis=-1)
    where = np.unravel_index(peak.argmax(), peak.shape)
    assert near(images(figure)[1][where], LIGHT.rising[-1])


def test_channels_first_and_grey_pictures_are_the_same_pictures():
    """The axis of the channels is where the place says; without one, all is space."""
    last = images(made(HEAT, PICTURE, 3).plot())
    moved = (np.moveaxis(HEAT, 3, 1), np.moveaxis(PICTURE, 3, 1))
    first = images(made(*moved, 1).plot())
    for one, other in zip(last, first, strict=True):
        assert np.allclose(one, other)
    grey = made(HEAT[..., 0], PICTURE[..., 0]).plot()
    assert images(grey)[0].shape == (6, 5)
    single = made(HEAT[..., :1], PICTURE[..., :1], 3).plot()
    assert np.allclose(images(grey)[1], images(single)[1])


def test_a_layer_is_laid_over_the_input():
    """A map of 3 × 3 over a picture of 6 × 5 has its pixels."""
    source = (Place("inputs", PICTURE, PICTURE, 3),)
    cam = made(
        np.abs(HEAT[:, :3, :3, 0]), numbers(2, 3, 3, 8), sources=source, name="c"
    )
    figure = cam.plot()
    assert images(figure)[1].shape == (6, 5, 3)
    assert "a_method, c" in texts(figure)
    both = made(HEAT, PICTURE, 3).plot(beside=cam)
    # The input once, two heats and two scales, for each example.
    assert len(both.axes) == 2 * 5


def test_a_volume_is_shown_by_its_middle_slices():
    """Three of them, one along each axis."""
    values = numbers(1, 4, 5, 6, 1)
    figure = made(values, values, 4).plot()
    assert {(5, 6), (4, 6), (4, 5)} <= {i.shape[:2] for i in images(figure)}
    assert any("inputs[2,:,:]" in text.replace("\n", "") for text in texts(figure))


def test_each_slice_of_a_cube_lies_over_its_own_picture():
    """Slices of the same shape are three inputs, as those of different shapes are."""
    data = np.random.default_rng(0).random((1, 4, 4, 4, 1))
    drawn = images(made(numbers(1, 4, 4, 4, 1), data, 4).plot())
    inputs = [picture for picture in drawn if picture.shape == (4, 4)]
    slices = [data[0, ..., 0].take(2, axis) for axis in range(3)]
    assert len(inputs) == 3
    assert all(map(np.allclose, inputs, slices))


def test_what_is_beside_is_drawn_whatever_its_method():
    """Two settings of one method share their name and their tensor."""
    data = numbers(1, 3)
    one, two = made(numbers(1, 3, seed=1), data), made(numbers(1, 3, seed=2), data)
    widths = [
        sum(patch.get_width() for patch in ax.patches)
        for ax in one.plot(beside=two).axes
    ]
    assert widths == pytest.approx([float(one.values.sum()), float(two.values.sum())])
    assert one.to_html(beside=two).count("<table>") == 2


def test_bars_are_as_long_as_the_values():
    """Sorted by size; names and features beside; the rest in one bar."""
    values, data = numbers(3, 9), numbers(3, 9, seed=2)
    names = [f"the <{i}>$" for i in range(9)]
    figure = made(values, data).plot(names=names, top=4)
    for row, ax in enumerate(figure.axes[:3]):
        widths = [patch.get_width() for patch in ax.patches]
        order = sorted(range(9), key=lambda i, row=row: -abs(values[row, i]))
        assert widths[:4] == pytest.approx([float(values[row, i]) for i in order[:4]])
        assert sum(widths) == pytest.approx(float(values[row].sum()), rel=1e-5)
        labels = [label.get_text() for label in ax.get_yticklabels()]
        assert labels[0] == f"{names[order[0]]} = {data[row, order[0]]:.4g}"
        assert labels[-1] == "5 others"
        for patch, width in zip(ax.patches, widths, strict=True):
            hue = LIGHT.negative if width < 0 else LIGHT.positive
            assert near(patch.get_facecolor(), hue)


WORDS = [["not", "good", "$x$"], ["fine"]]


def test_words_stand_on_the_colour_of_their_sum():
    """One box for each word; channels are added up; padding is counted in words."""
    values = numbers(2, 4, 8)
    a = tokens_of(values, np.arange(8).reshape(2, 4))
    figure = a.plot(tokens=WORDS)
    boxes = figure.axes[0].patches
    assert len(boxes) == 4
    total = values.sum(axis=-1)
    for box, value in zip(boxes, [*total[0, :3], total[1, 0]], strict=True):
        red, _, blue = box.get_facecolor()[:3]
        assert (red > blue) == (value > 0)
    assert {"not", "good", "$x$", "fine"} <= texts(figure)
    left = f"3 places are not shown; together: {total[1, 1:].sum():+.3g}"
    assert left.replace("-", "−") in texts(figure)
    # Without words, the numbers of the tokens.
    assert {"0", "5", "7"} <= texts(a.plot())


def test_a_layer_over_time_is_laid_over_its_tokens():
    """A convolution has fewer places than there are words."""
    ids = np.arange(14).reshape(2, 7)
    source = (Place("inputs", ids, ids, None),)
    a = made(numbers(2, 5), numbers(2, 5, 3), sources=source, name="window")
    assert len(a.plot().axes[0].patches) == 14


def test_series_are_lines_on_a_coloured_ground():
    """The lines are the data; a strip for each channel below."""
    values, data = numbers(2, 20, 3), numbers(2, 20, 3, seed=4)
    figure = made(values, data, 2).plot(names=["a", "b", "c"])
    above, below = figure.axes[0], figure.axes[1]
    for channel, line in enumerate(above.lines):
        assert np.allclose(line.get_ydata(), data[0, :, channel])
    assert above.images[0].get_array().shape == (1, 20, 3)
    assert below.images[0].get_array().shape == (3, 20, 3)
    assert [label.get_text() for label in below.get_yticklabels()] == ["a", "b", "c"]
    strip = below.images[0].get_array()
    strong = np.abs(values[0].T) > 0.2 * np.abs(values[0]).max()
    assert ((strip[..., 0] > strip[..., 2]) == (values[0].T > 0))[strong].all()


def test_several_inputs_are_several_panels():
    """A picture and a row of numbers: each as it is."""
    row = numbers(2, 4)
    places = (Place("inputs[p]", HEAT, PICTURE, 3), Place("inputs[r]", row, row, None))
    sources = (Place("inputs[p]", PICTURE, PICTURE, 3), places[1])
    a = Attribution(places, sources, "m", "t", np.zeros(2))
    names = ["one", "two", "three", "four"]
    figure = a.plot(names={"r": names})
    assert len(images(figure)) == 2 * 2
    assert any(text.startswith("one = ") for text in texts(figure))
    with pytest.raises(gw.AddressError, match="`name` must be one of"):
        a.plot(names={"x": names})


@pytest.mark.parametrize("kind", ["image", "tokens", "bars", "lines"])
@pytest.mark.parametrize("theme", THEMES)
def test_numbers_that_are_not_finite_are_seen_and_counted(kind, theme):
    """In every kind of picture, on light and dark."""
    values, data, channels = {
        "image": (HEAT.copy(), PICTURE, 3),
        "tokens": (numbers(2, 4), numbers(2, 4, 3), None),
        "bars": (numbers(2, 4), None, None),
        "lines": (numbers(2, 4, 2), None, 2),
    }[kind]
    values[0][0] = np.nan
    figure = made(values, data, channels).plot(kind=kind, theme=theme)
    assert any("not finite" in text and "NaN" in text for text in texts(figure))
    colours = THEMES[theme]
    paper = mpl.colors.to_hex(figure.get_facecolor()).upper()
    assert paper == colours.paper
    if kind == "image":
        assert near(images(figure)[1][0, 0], colours.ink)
        assert not near(images(figure)[3][0, 0], colours.ink)


@pytest.mark.parametrize("shape", [(1, 6, 5, 3), (1, 4), (1, 4, 2)])
def test_an_attribution_of_zeros_says_so(shape):
    """No heat is made of nothing."""
    channels = len(shape) - 1 if len(shape) > 2 else None
    a = made(np.zeros(shape, "float32"), numbers(*shape), channels)
    for text in (texts(a.plot()), {a.to_html()}):
        assert any("values are zero" in line for line in text)


def test_many_examples_are_cut_and_counted():
    """The first eight, and the title says of how many."""
    figure = made(numbers(30, 3)).plot(titles=[f"no. {i}" for i in range(30)])
    assert "no. 7" in texts(figure)
    assert "no. 8" not in texts(figure)
    assert any("the first 8 of 30 examples" in text for text in texts(figure))


def test_nothing_global_changes():
    """Settings of matplotlib and the figures of pyplot are as before."""
    settings, figures = dict(mpl.rcParams), plt.get_fignums()
    with plt.style.context("ggplot"):
        figure = made(HEAT, PICTURE, 3).plot()
    assert dict(mpl.rcParams) == settings
    assert plt.get_fignums() == figures
    assert figure._repr_png_().startswith(b"\x89PNG")
    figure.savefig(io.BytesIO(), format="svg")


TOKENS = tokens_of(numbers(2, 4, 8), np.arange(8).reshape(2, 4))
PICTURES = made(HEAT, PICTURE, 3)
BAD = [
    (PICTURES, {"kind": "pie"}, r"`kind` must be one of \('image', 'tokens'"),
    (PICTURES, {"kind": "lines"}, "`kind` must suit the data: 'lines' needs a single"),
    (TOKENS, {"kind": "image"}, "`kind` must suit the data: 'image' needs two axes"),
    (PICTURES, {"tokens": [["a"], ["b"]]}, "`tokens` must go with a picture of 'tok"),
    (PICTURES, {"names": ["a"]}, "`names` must go with a picture of 'bars', 'lines'"),
    (TOKENS, {"tokens": "a b"}, "`tokens` must be a list .* Received: 'a b'"),
    (TOKENS, {"tokens": ["a", "b"]}, r"`tokens` must .* Received: \['a', 'b'\]. Split"),
    (TOKENS, {"tokens": 3}, "`tokens` must be a list of words .* Received: 3"),
    (TOKENS, {"tokens": [3, 4]}, r"`tokens` must be a list .* Received: \[3, 4\]"),
    (TOKENS, {"tokens": [["a"]]}, r"`tokens` must be a list .* Received: \[\['a'\]\]"),
    (
        TOKENS,
        {"tokens": [["a"] * 5, []]},
        "`tokens` must have at most 4 words .* Received: 5",
    ),
    (made(numbers(2, 3)), {"names": ["a"]}, "`names` must have one name for each of"),
    (made(numbers(2, 3)), {"names": "abc"}, "`names` must be a list of names"),
    (PICTURES, {"titles": 3}, "`titles` must have a line .* Received: 1"),
    (PICTURES, {"titles": ["a"]}, "`titles` must have a line for each of the 2 ex"),
    (PICTURES, {"top": 0}, "`top` must be a number of bars from 1"),
    (PICTURES, {"theme": "blue"}, '`theme` must be "light" or "dark"'),
    (PICTURES, {"beside": 3}, "`beside` must be an Attribution.* type int"),
    (
        PICTURES,
        {"beside": [made(HEAT)]},
        "`beside` must be an Attribution of the same inputs.*of other inputs",
    ),
    (PICTURES[[]], {}, "There must be an example to draw"),
]


@pytest.mark.parametrize(("a", "words", "message"), BAD)
def test_wrong_words_are_refused_with_a_way_out(a, words, message):
    """The argument, what was received, and what to do; the same for HTML."""
    with pytest.raises(gw.GradwatchError, match=message):
        a.plot(**words)
    if "theme" not in words:
        with pytest.raises(gw.GradwatchError, match=message):
            a.to_html(**words)


def test_nothing_is_shown_as_nothing():
    """A notebook shows a part that has no examples, and does not fall over it."""
    a = replace(made(numbers(2, 3)), delta=np.zeros(2))[0:0]
    assert "(0, 3)" in repr(a)
    assert "&lt;Attribution of class_score(1) to inputs (0, 3)" in a._repr_html_()


def test_words_may_come_from_a_generator():
    """As many as there are examples, also where only the first ones are drawn."""
    a = made(numbers(9, 3))
    figure = a.plot(titles=(f"row {number}" for number in range(9)))
    assert [ax.get_title("left") for ax in figure.axes][7] == "row 7"


def test_steps_of_time_are_whole_numbers():
    """There is no step 2.5."""
    figure = made(numbers(1, 20, 4), None, 2).plot()
    figure.canvas.draw()
    labels = {
        text.get_text() for ax in figure.axes[:2] for text in ax.get_xticklabels()
    }
    assert not {label for label in labels if "." in label}


EVIL = '<img src=x onerror="alert(1)">'


def test_html_escapes_every_word():
    """A token, a name, a title, a layer: whatever they are called, they are text."""
    ids = np.arange(8).reshape(2, 4)
    token = tokens_of(numbers(2, 4, 8), ids).to_html(tokens=[[EVIL], ["a"]])
    row = made(numbers(1, 2)).to_html(names=[EVIL, "b"], titles=[EVIL])
    series = made(numbers(1, 9, 2), None, 2).to_html(names=[EVIL, "b"], titles=EVIL)
    source = (Place("inputs", PICTURE, PICTURE, 3),)
    layer = made(HEAT[..., :1], PICTURE, 3, sources=source, name=EVIL).to_html()
    for page in (token, row, series, layer):
        assert "&lt;img src=x onerror=&quot;alert(1)&quot;&gt;" in page
        assert "<img src=x" not in page
        assert "<script" not in page
        assert not re.search(r'(?:src|href)="(?!data:)', page)


def test_html_shows_the_same_numbers():
    """Words with their values, bars as long as they are, pictures with a text."""
    values = numbers(1, 3)
    page = made(values).to_html(names=["one", "two", "three"])
    for value in values[0]:
        assert f">{value:+.3g}<".replace("-", "−") in page
    widths = sorted(float(w) for w in re.findall(r'"width:([\d.]+)em"', page))
    sizes = np.sort(np.abs(values[0]))
    assert widths == pytest.approx(list(7 * sizes / sizes.max()), abs=0.01)
    total = tokens = numbers(2, 4, 8)
    total = total.sum(axis=-1)
    page = tokens_of(tokens, np.arange(8).reshape(2, 4))._repr_html_()
    assert f'title="{total[0, 1]:+.3g}"'.replace("-", "−") in page
    page = PICTURES._repr_html_()
    assert page.count("<img ") == page.count('alt="The ') == 4
    assert "strongest at row" in page
