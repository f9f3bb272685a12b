"""The noun: what an attribution knows, and into what it can be made."""

import keras
import numpy as np
import pytest

import gradwatch as gw
from gradwatch import attribute
from gradwatch.attribute import Attribution, Place

from .models import CLASSES, START, TOKENS, X, close, numbers

TARGET = gw.class_score(CLASSES)


@pytest.fixture(scope="module")
def integrated(image_model):
    return gw.integrated_gradients(image_model, X, TARGET, baseline=START, steps=20)


def test_an_attribution_says_what_it_is(integrated):
    """Method, target, layer, settings, scores, and a line of text."""
    assert integrated.method == "integrated_gradients"
    assert integrated.target == "class_score(one per example)"
    assert integrated.layer is None
    assert integrated.settings == {
        "baseline": "given",
        "rule": "gauss_legendre",
        "steps": 20,
    }
    assert len(integrated) == 3
    assert "inputs (3, 6, 5, 2) by integrated_gradients, delta at" in repr(integrated)
    assert (integrated.activation == X).all()
    assert (integrated.inputs == X).all()


def test_sums_over_channels_keep_the_total(integrated):
    """One number per pixel; a second sum has nothing to sum over."""
    summed = integrated.sum_channels()
    close(summed.values, integrated.values.sum(axis=-1), 1e-6)
    assert summed.places[0].spatial == (1, 2)
    with pytest.raises(gw.GradwatchError, match="`sum_channels` needs values"):
        summed.sum_channels()


@pytest.mark.parametrize("size", [(12, 10), (3, 4), (6, 5), (7, 23)])
def test_upsampling_is_that_of_images(integrated, size):
    """Larger or smaller: the bilinear resize of Keras, on every backend alike."""
    small = integrated.sum_channels().upsample(size)
    resized = keras.ops.image.resize(
        integrated.sum_channels().values[..., None], size, "bilinear"
    )
    expected = np.asarray(keras.ops.convert_to_numpy(resized))[..., 0]
    close(small.values, expected, 1e-5)


def test_upsampling_goes_to_the_size_of_the_input(image_model):
    """A map of a layer is laid over the image; a size can be given."""
    cam = gw.grad_cam(image_model, X, TARGET, layer="relu")
    assert cam.values.shape == (3, 4, 3)
    assert cam.upsample().values.shape == (3, 6, 5)
    assert cam.upsample(8).values.shape == (3, 8, 8)
    hidden = gw.saliency(image_model, X, TARGET, layer="hidden")
    with pytest.raises(gw.GradwatchError, match="`upsample` needs values with the sp"):
        hidden.upsample()
    with pytest.raises(gw.GradwatchError, match="`size` must be a whole number"):
        cam.upsample((1, 2, 3))


def test_some_of_the_examples_can_be_taken(integrated):
    """By number, slice or list; the batch axis stays."""
    assert (integrated[1].values == integrated.values[1:2]).all()
    assert (integrated[-1].score == integrated.score[-1:]).all()
    assert (integrated[1:].delta == integrated.delta[1:]).all()
    assert (integrated[[2, 0]].inputs == X[[2, 0]]).all()
    assert len(list(integrated)) == 3
    with pytest.raises(IndexError, match="There are 3 examples"):
        integrated[3]


def test_what_is_saved_is_what_is_loaded(integrated, text_model, tmp_path):
    """Values, inputs, numbers and words; several places and tokens too."""
    tokens = gw.saliency(text_model, TOKENS, TARGET, layer=["embed", "window"])
    for number, a in enumerate((integrated, tokens)):
        path = tmp_path / f"{number}.npz"
        a.save(path)
        b = Attribution.load(path)
        assert repr(a) == repr(b)
        assert (b.method, b.target, b.layer) == (a.method, a.target, a.layer)
        assert b.settings == a.settings
        assert (b.score == a.score).all()
        for ours, theirs in zip(a.places, b.places, strict=True):
            assert (ours.values == theirs.values).all()
            assert (ours.activation == theirs.activation).all()
            assert ours.channels == theirs.channels
        assert (b.inputs == a.inputs).all()
    assert (Attribution.load(tmp_path / "0.npz").delta == integrated.delta).all()
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    np.save(tmp_path / "array.npy", np.zeros(3))
    (tmp_path / "text.npz").write_text("words")
    (tmp_path / "empty.npz").touch()
    for name in ("other.npz", "array.npy", "text.npz", "empty.npz"):
        with pytest.raises(gw.GradwatchError, match=f"`path` must be .*{name}"):
            Attribution.load(tmp_path / name)


def test_a_dataset_is_not_loaded_as_an_attribution(text_model, tmp_path):
    """An export ends in `.npz`, too: the message says what it is."""
    path, single = tmp_path / "many.npz", tmp_path / "one.npz"
    options = {"method": gw.saliency, "layer": "embed", "to": tmp_path / "many.zarr"}
    attribute.attribute_dataset(text_model, TOKENS, TARGET, **options).export(path)
    gw.saliency(text_model, TOKENS, TARGET, layer="embed").save(single)
    with pytest.raises(gw.GradwatchError, match="`path` must .*export of a dataset"):
        Attribution.load(path)
    with pytest.raises(gw.GradwatchError, match="`path` must be a path that ends in"):
        attribute.AttributedDataset.open(single)


def test_the_same_can_be_asked_again(image_model):
    """Of another batch or another model, with the same method and arguments."""
    a = attribute.layer_conductance(
        image_model, X, TARGET, layer="relu", baseline=0.5, steps=7
    )
    b = a.again(image_model, X)
    assert (a.values == b.values).all()
    other = a.again(image_model, X[::-1].copy())
    assert other.settings == a.settings
    assert np.abs(other.values - a.values).max() > 1e-3


def test_several_places_are_told_apart_by_name(image_model):
    """`values` is a dict, and `place` finds one."""
    a = gw.saliency(image_model, X, TARGET, layer=["conv", "hidden"])
    assert list(a.values) == ["conv", "hidden"]
    assert isinstance(a.place("conv"), Place)
    assert a.layer == "conv, hidden"
    with pytest.raises(gw.AddressError, match="`name` must be one of"):
        a.place("mid")


def test_baselines_are_what_they_say(image_model):
    """The target at the baseline tells which one was used."""
    mean = np.broadcast_to(X.mean(axis=(1, 2), keepdims=True), X.shape)
    blurred = attribute.blurred(1.5)

    def score(at):
        return gw.saliency(image_model, np.ascontiguousarray(at), TARGET).score

    pairs = {
        "zeros": ("zeros", np.zeros_like(X)),
        "number": (0.5, np.full_like(X, 0.5)),
        "one example": (START[0], np.broadcast_to(START[0], X.shape)),
        "mean": ("mean", mean),
        "function": (lambda x: x / 2, X / 2),
        "blur": (blurred, blurred(X, 3)),
    }
    for baseline, at in pairs.values():
        a = gw.integrated_gradients(image_model, X, TARGET, baseline=baseline, steps=20)
        close(a.baseline_score, score(at.astype("float32")), 1e-5)


def test_a_blur_is_a_gaussian_in_space_only():
    """A single bright pixel becomes a bell; channels and examples stay apart."""
    image = np.zeros((2, 15, 15, 2), "float32")
    image[0, 7, 7, 0] = 1.0
    found = attribute.blurred(1.5)(image, 3)
    assert found[1].max() == found[..., 1].max() == 0
    bell = np.exp(-0.5 * (np.arange(-7, 8) / 1.5) ** 2)
    bell[np.abs(np.arange(-7, 8)) > 5] = 0
    bell /= bell.sum()
    close(found[0, ..., 0], np.outer(bell, bell), 1e-5)
    flat = attribute.blurred(2.0)(numbers(1, 1, 1, 1) * np.ones((1, 9, 9, 1)), 3)
    assert np.ptp(flat) < 1e-6


def test_an_image_without_channels_has_none():
    """A model that adds them itself: the input is all space."""
    model = keras.Sequential(
        [
            keras.Input((6, 5)),
            keras.layers.Reshape((6, 5, 1)),
            keras.layers.Conv2D(2, 2, name="conv"),
            keras.layers.GlobalAveragePooling2D(),
        ]
    )
    a = gw.saliency(model, numbers(2, 6, 5), gw.class_score(0))
    assert a.places[0].channels is None
    assert a.places[0].spatial == (1, 2)
    cam = gw.grad_cam(model, numbers(2, 6, 5), gw.class_score(0), layer="conv")
    assert cam.upsample().values.shape == (2, 6, 5)


def test_a_size_is_whole_numbers_from_one(image_model):
    """Also NumPy's; all else is refused before anything is empty."""
    a = gw.grad_cam(image_model, X, TARGET, layer="relu")
    assert a.upsample(np.int64(9)).values.shape == (3, 9, 9)
    for size in (0, -1, 2.5, True, "9", (4, 0), (4, 2.5)):
        with pytest.raises(gw.GradwatchError, match="`size` must be a whole number"):
            a.upsample(size)


def test_a_full_disk_leaves_what_was_saved_before(integrated, tmp_path, monkeypatch):
    """The new file takes the place of the old one when it is whole."""
    path = tmp_path / "why.npz"
    integrated.save(path)

    def full(file, **arrays):
        file.write(b"PK")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="No space left"):
        integrated[0].save(path)
    assert len(Attribution.load(path)) == 3
    assert list(tmp_path.iterdir()) == [path]
