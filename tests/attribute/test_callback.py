"""Pictures during training: in TensorBoard, and without a trace on the training."""

import functools
import io
import random
import sys
import warnings
from itertools import pairwise

import keras
import numpy as np
import pytest
from matplotlib.image import imread
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import gradwatch as gw
from gradwatch.attribute import saliency
from gradwatch.testing import assert_untouched

X = np.random.default_rng(0).normal(size=(12, 5)).astype("float32")
Y = np.stack([X.sum(axis=1), X[:, 0]], axis=1)


def network():
    """With a random stream and moving averages, which looking could move."""
    keras.utils.set_random_seed(5)
    layers = [
        keras.layers.Dense(4, activation="tanh", name="hidden"),
        keras.layers.BatchNormalization(name="norm"),
        keras.layers.Dropout(0.3, seed=3, name="dropout"),
        keras.layers.Dense(2, name="head"),
    ]
    model = keras.Sequential([keras.Input((5,)), *layers])
    model.compile(keras.optimizers.Adam(0.05), "mse")
    return model


def state(model):
    """Every number a training leaves behind, and the random streams."""
    variables = [*model.variables, *model.optimizer.variables]
    found = [np.asarray(keras.ops.convert_to_numpy(v)).tobytes() for v in variables]
    streams = [repr(random.getstate()), repr(np.random.get_state()[1].tolist())]
    if "torch" in sys.modules:
        streams.append(repr(sys.modules["torch"].get_rng_state().tolist()))
    return found, streams


def fit(model, *callbacks, epochs=2):
    return model.fit(
        X, Y, batch_size=4, epochs=epochs, verbose=0, callbacks=[*callbacks]
    )


@functools.cache
def trained(directory):
    """A training that is looked at, and one that is not; what they left."""
    plain = network()
    losses = fit(plain).history["loss"]
    model = network()
    target = Counting()
    images = gw.AttributionImages(
        directory, X, target, saliency, every=2, count=3, plot={"titles": list("abc")}
    )
    callbacks = [images, Noted(images, target)]
    watched = fit(model, *callbacks).history["loss"]
    # What they are now: other tests train the model further, as it is compiled.
    ends = (losses, state(plain)[0]), (watched, state(model)[0])
    return model, images, images.drawn.copy(), callbacks[1].seen.copy(), ends


class Counting:
    """A target that knows how often Python runs it."""

    calls = 0

    def __call__(self, outputs):
        Counting.calls += 1
        return outputs[:, 1]


class Noted(keras.callbacks.Callback):
    """After each batch: how many pictures there are, how often the target ran."""

    def __init__(self, images, target):
        super().__init__()
        self.images, self.target, self.seen = images, target, []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append((len(self.images.drawn), self.target.calls))


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("runs"))


def pictures(directory):
    """{tag: [(step, pixels)]}, as TensorBoard reads and matplotlib decodes them."""
    found = EventAccumulator(str(directory), size_guidance={"tensors": 0}).Reload()
    tags = {}
    for tag in found.Tags()["tensors"]:
        assert found.summary_metadata[tag].plugin_data.plugin_name == "images"
        for event in found.Tensors(tag):
            width, height, png = event.tensor_proto.string_val
            pixels = imread(io.BytesIO(png), format="png")
            assert pixels.shape[:2] == (int(height), int(width))
            tags.setdefault(tag, []).append((event.step, pixels))
    return tags


def test_a_training_that_is_looked_at_is_the_same(both):
    """Weights, averages, optimizer, random streams and losses: bit for bit."""
    model, _, _, _, (plain, watched) = both
    assert plain == watched
    before = state(model)
    with assert_untouched(model):
        saliency(model, X[:3], gw.class_score(1)).plot()
    assert state(model) == before


def test_tensorboard_reads_the_pictures(both):
    """Every two of six steps, and before; they differ as the model does."""
    _, images, drawn, _, _ = both
    assert drawn == [0, 2, 4, 6]
    found = pictures(images._writer.directory)
    assert list(found) == ["saliency"]
    assert [step for step, _ in found["saliency"]] == [0, 2, 4, 6]
    shown = [pixels for _, pixels in found["saliency"]]
    for one, other in pairwise(shown):
        assert one.shape == other.shape
        assert np.abs(one - other).max() > 0.1


def test_the_model_is_compiled_once(both):
    """After the second picture Python does not run the target any more."""
    _, _, _, seen, _ = both
    calls = [count for _, count in seen]
    assert [drawn for drawn, _ in seen] == [1, 2, 2, 3, 3, 4]
    if keras.config.backend() != "torch":  # which compiles nothing
        assert len(set(calls[1:])) == 1


def test_each_epoch_and_at_a_layer(both, tmp_path):
    """`"epoch"` is after each; the layer is in the name; a second fit goes on."""
    model = both[0]
    now = int(model.optimizer.iterations.value)
    images = gw.AttributionImages(
        tmp_path, X[:2], gw.class_score([1, 0]), saliency, layer="hidden"
    )
    fit(model, images, epochs=1)
    fit(model, images, epochs=1)
    assert images.drawn == [now, now + 3, now + 3, now + 6]
    files = sorted((tmp_path / "attributions").iterdir())
    assert len(files) == 2
    assert list(pictures(files[0])) == ["saliency/hidden"]


def said_while(training):
    """Our warnings. Not `pytest.warns`, which says Keras's own ones again as ours."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        training()
    return [str(w.message) for w in found if w.category is RuntimeWarning]


def test_a_failure_is_one_warning_and_the_training_goes_on(both, tmp_path):
    """Whatever the method raises while training is said once, with the step."""
    calls = []

    def fails_later(model, x, target):
        calls.append(len(x))
        if len(calls) > 1:
            raise RuntimeError("out of memory")
        return saliency(model, x, target)

    model = both[0]
    now = int(model.optimizer.iterations.value)
    images = gw.AttributionImages(
        tmp_path, X, gw.class_score(1), fails_later, every=1, count=2
    )
    [said] = said_while(lambda: fit(model, images, epochs=1))
    assert f"could not draw attributions at step {now + 1}: RuntimeError: out" in said
    assert calls == [2, 2]
    assert images.drawn == [now]
    assert int(model.optimizer.iterations.value) == now + 3


def test_a_disk_that_fails_is_tried_again(both, tmp_path, monkeypatch):
    """A full disk costs a picture, not those that come when there is room."""
    model = both[0]
    now = int(model.optimizer.iterations.value)
    images = gw.AttributionImages(tmp_path, X[:2], gw.class_score(1), saliency, every=1)
    write, steps = images._writer.write, []

    def full(step, *rest):
        steps.append(step)
        if step == now + 2:
            raise OSError(28, "No space left on device")
        write(step, *rest)

    monkeypatch.setattr(images._writer, "write", full)
    [said] = said_while(lambda: fit(model, images, epochs=1))
    assert "No space left on device. It is tried again the next time" in said
    assert steps == [now, now + 1, now + 2, now + 3]
    assert images.drawn == [now, now + 1, now + 3]


BAD = [
    ({"every": 0}, "`every` must be a number of steps from 1, or 'epoch'"),
    ({"every": "batch"}, "`every` must be a number .* Received: 'batch'"),
    ({"method": "saliency"}, "`method` must be a function .* Received: 'saliency'"),
    ({"count": 9}, "`count` must be a number of examples from 1 to 8"),
    ({"x": X[:0]}, "`x` must be a batch of inputs"),
    ({"x": 3.0}, "`x` must be a batch of inputs.* Received: 'float'"),
    ({"target": None}, "`target` must say what is explained"),
    ({"step": 20}, "`options` must be .*`integrated_gradients` takes.*'step'"),
    ({"plot": {"them": 1}}, "`plot` must be arguments that `plot` takes.*'them'"),
    ({"plot": "dark"}, "`plot` must be a dict of words .*'dark'"),
]


@pytest.mark.parametrize(("words", "message"), BAD)
def test_wrong_arguments_are_refused_at_once(words, message, tmp_path):
    """Not in the middle of a training."""
    words = {"x": X, "target": gw.class_score(1), **words}
    with pytest.raises(gw.GradwatchError, match=message):
        gw.AttributionImages(tmp_path, **words)


def test_what_the_model_cannot_do_is_said_before_it_trains(tmp_path):
    """A layer that does not exist ends `fit` at its first moment, with the way out."""
    model = network()
    before = state(model)[0]
    images = gw.AttributionImages(
        tmp_path, X, gw.class_score(1), saliency, layer="hiden"
    )
    with pytest.raises(gw.AddressError, match="`layer` .*hiden.*'hidden'"):
        fit(model, images)
    assert state(model)[0][: len(model.variables)] == before[: len(model.variables)]
    assert images.drawn == []


def test_a_method_without_a_picture_is_said_before_it_trains(tmp_path):
    """An attack gives a batch, which `plot` knows nothing of."""
    target = gw.class_score(1)
    images = gw.AttributionImages(tmp_path, X, target, gw.attribute.fgsm, epsilon=0.1)
    with pytest.raises(gw.GradwatchError, match="`method` must give an `Attribution`"):
        fit(network(), images)
    assert images.drawn == []
