"""Every kind of input, output and layer that people have."""

import keras
import numpy as np
import pytest
from keras import layers
from tests.zoo import zoo

import gradwatch as gw
from gradwatch import attribute

from .models import BATCH, CLASSES, TOKENS, X, close, cnn, fill, numbers

IG = gw.integrated_gradients


def difference(a):
    """How far from complete, as a share of the largest difference."""
    return np.abs(a.delta).max() / np.abs(a.score - a.baseline_score).max()


def line(rank, name):
    """A convolution in one or three dimensions, and a mean."""
    conv = {1: layers.Conv1D, 3: layers.Conv3D}[rank]
    pool = {1: layers.GlobalAveragePooling1D, 3: layers.GlobalAveragePooling3D}[rank]
    parts = [conv(3, 2, activation="relu", name="conv"), pool(), layers.Dense(3)]
    shape = (*(5, 4, 6)[:rank], 2)
    return fill(keras.Sequential([keras.Input(shape), *parts], name=name)), shape


@pytest.mark.parametrize("rank", [1, 3])
def test_one_and_three_dimensions(rank):
    """Series and volumes: values, maps, and their size. All else here is images."""
    model, shape = line(rank, f"rank{rank}")
    x = numbers(BATCH, *shape)
    a = IG(model, x, gw.class_score(CLASSES), steps=200)
    assert a.values.shape == x.shape
    assert a.sum_channels().values.shape == x.shape[:-1]
    assert difference(a) < 1e-2
    cam = gw.grad_cam(model, x, gw.class_score(CLASSES), layer="conv")
    assert cam.values.shape == (BATCH, *(n - 1 for n in shape[:-1]))
    assert cam.upsample().values.shape == x.shape[:-1]
    fine = attribute.score_cam(model, x, gw.class_score(CLASSES), layer="conv")
    assert fine.values.shape == cam.values.shape


def test_channels_first_is_channels_last_with_its_axes_moved():
    """The map of a layer, the sum over channels, the covered window: all know it."""
    if keras.config.backend() == "tensorflow":
        pytest.skip("TensorFlow has no convolution with channels first on a CPU")
    last = cnn()
    inputs = keras.Input((2, 6, 5), name="image")
    options = {"data_format": "channels_first"}
    h = layers.Conv2D(3, 2, activation="relu", name="conv", **options)(inputs)
    h = layers.Conv2D(4, 2, name="mid", **options)(h)
    h = layers.ReLU(name="relu")(h)
    h = layers.Permute((2, 3, 1), name="turn")(h)
    h = layers.Flatten(name="flat")(h)
    h = layers.Dense(5, activation="tanh", name="hidden")(h)
    first = keras.Model(inputs, layers.Dense(3, name="head")(h))
    first.set_weights(last.get_weights())
    turned, target = np.moveaxis(X, -1, 1), gw.class_score(CLASSES)
    for name in ("grad_cam", "grad_cam_plus_plus", "layer_cam", "score_cam"):
        method = getattr(attribute, name)
        # The ReLU has no data format of its own: that of the model counts.
        ours = method(first, turned, target, layer="relu")
        close(ours.values, method(last, X, target, layer="relu").values)
    ours, theirs = (gw.saliency(m, x, target) for m, x in ((first, turned), (last, X)))
    close(ours.sum_channels().values, theirs.sum_channels().values)
    ours = attribute.occlusion(first, turned, target, window=2)
    close(ours.values, attribute.occlusion(last, X, target, window=2).values)
    ours = attribute.guided_grad_cam(first, turned, target, layer="relu")
    theirs = attribute.guided_grad_cam(last, X, target, layer="relu")
    close(np.moveaxis(ours.values, 1, -1), theirs.values)


def test_a_data_format_can_be_given_where_nothing_says_it():
    """A model without a convolution; the setting of Keras, or the argument."""
    model = keras.Sequential(
        [
            keras.Input((4, 3, 5)),
            layers.Activation("tanh", name="map"),
            layers.Flatten(),
        ]
    )
    x = numbers(2, 4, 3, 5)
    shapes = {
        form: gw.grad_cam(
            model, x, gw.class_score(0), layer="map", data_format=form
        ).values.shape
        for form in (None, "channels_last", "channels_first")
    }
    assert shapes == {
        None: (2, 4, 3),
        "channels_last": (2, 4, 3),
        "channels_first": (2, 3, 5),
    }
    keras.config.set_image_data_format("channels_first")
    cam = gw.grad_cam(model, x, gw.class_score(0), layer="map")
    assert cam.values.shape == (2, 3, 5)


def two_inputs():
    image, table = keras.Input((6, 5, 2), name="image"), keras.Input((4,), name="table")
    h = layers.Conv2D(3, 2, activation="relu", name="conv")(image)
    h = layers.GlobalAveragePooling2D(name="pool")(h)
    h = layers.Concatenate(name="both")([h, layers.Dense(3, name="side")(table)])
    h = layers.Dense(6, activation="tanh", name="mixed")(h)
    outputs = {
        "kind": layers.Dense(3, name="kind")(h),
        "size": layers.Dense(1, name="size")(h),
    }
    return fill(keras.Model({"image": image, "table": table}, outputs))


def test_several_inputs_each_with_a_baseline_and_several_outputs():
    """A baseline for each input; values by name; one output is chosen."""
    model = two_inputs()
    x = {"image": numbers(3, 6, 5, 2), "table": numbers(3, 4, seed=1)}
    baseline = {"image": "mean", "table": np.ones(4)}
    target = gw.class_score(1, output="kind")
    a = IG(model, x, target, baseline=baseline, steps=200)
    assert set(a.values) == {"inputs[image]", "inputs[table]"}
    assert difference(a) < 1e-3
    start = {
        "image": np.broadcast_to(
            x["image"].mean(axis=(1, 2), keepdims=True), (3, 6, 5, 2)
        ),
        "table": np.ones((3, 4)),
    }
    at_start = gw.saliency(model, start, target)
    close(a.baseline_score, at_start.score)
    size = IG(model, x, gw.output("size"), steps=200)  # regression
    assert difference(size) < 1e-3
    assert size.place("table").values.shape == (3, 4)


def test_whole_numbers_among_the_inputs_are_left_alone():
    """Floating-point inputs are attributed to, tokens stay as they are."""
    tokens = keras.Input((7,), dtype="int32", name="tokens")
    table = keras.Input((4,), name="table")
    h = layers.GlobalAveragePooling1D()(layers.Embedding(11, 3, name="embed")(tokens))
    h = layers.Dense(5, activation="tanh")(layers.Concatenate()([h, table]))
    model = fill(keras.Model([tokens, table], layers.Dense(3)(h)))
    a = IG(model, [TOKENS, numbers(3, 4)], gw.class_score(CLASSES))
    assert a.names == ["inputs[table]"]
    assert difference(a) < 1e-5
    assert list(a.inputs) == ["inputs[tokens]", "inputs[table]"]


def test_tokens_have_scores_through_their_embedding(text_model):
    """One number per token; noise and windows act on the embedding, too."""
    target = gw.class_score(CLASSES)
    a = IG(text_model, TOKENS, target, layer="embed").sum_channels()
    assert a.values.shape == TOKENS.shape
    assert difference(a) < 1e-5
    assert (a.inputs == TOKENS).all()
    noisy = gw.smoothgrad(text_model, TOKENS, target, layer="embed", samples=4)
    plain = gw.saliency(text_model, TOKENS, target, layer="embed")
    assert 0 < np.abs(noisy.values - plain.values).max() < 1
    covered = attribute.occlusion(text_model, TOKENS, target, layer="embed")
    assert covered.values.shape == TOKENS.shape
    # A covered token is an embedding of zeros: the mean of windows changes by little.
    assert np.abs(covered.values).max() > 0


def test_each_call_of_a_shared_layer_has_values_of_its_own():
    """`shared@2` is the second call; without a number, both together."""
    model, x, _ = zoo()["siamese"].build()
    target = gw.mean_output()
    both = IG(model, x, target, layer="shared")
    assert both.names == ["shared@1", "shared@2"]
    assert difference(both) < 1e-4
    second = IG(model, x, target, layer="shared@2")
    assert second.names == ["shared@2"]
    assert difference(second) < 1e-4


def test_what_goes_into_a_layer_can_be_asked_for():
    """`activations(…, at="input")` names the other side."""
    model = cnn()
    target = gw.class_score(CLASSES)
    inside = gw.activations("hidden", at="input")
    a = gw.saliency(model, X, target, layer=inside)
    b = gw.saliency(model, X, target, layer="flat")
    close(a.values, b.values)
    assert a.layer == "hidden:input"
    a, b = (IG(model, X, target, layer=where) for where in (inside, "flat"))
    close(a.values, b.values)


@pytest.mark.parametrize("kind", ["attention", "lstm_dropout", "graph_of_ops"])
def test_sequences_and_graphs_are_complete(kind):
    """Attention, recurrence and plain operations: the values add up."""
    model, x, _ = zoo()[kind].build()
    a = IG(model, x, gw.mean_output(), steps=128)
    assert difference(a) < 1e-2
    assert a.values.shape == x.shape


@pytest.mark.parametrize("kind", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_gives_float32(kind):
    """Sums are in full precision; what is missing is the model's own rounding."""
    model, x, _ = zoo()[kind].build()
    a = IG(model, x, gw.mean_output(), steps=32)
    assert a.values.dtype == np.float32
    assert difference(a) < 0.05
    layer = next(iter(gw.layers(model)))
    inner = IG(model, x, gw.mean_output(), layer=layer, steps=32)
    assert inner.values.dtype == np.float32
    assert difference(inner) < 0.1


def test_examples_do_not_mix():
    """Batch normalisation at inference: an example alone has the same values."""
    model = fill(
        keras.Sequential(
            [
                keras.Input((6,)),
                layers.Dense(5, name="a"),
                layers.BatchNormalization(name="norm"),
                layers.ReLU(name="relu"),
                layers.Dense(3, name="b"),
            ]
        )
    )
    model.get_layer("norm").moving_variance.assign(np.full(5, 2.0))
    x = numbers(4, 6)
    target = gw.class_score([0, 1, 2, 1])
    whole = IG(model, x, target, steps=9)
    for number, index in enumerate([0, 1, 2, 1]):
        alone = IG(model, x[number : number + 1], gw.class_score(index), steps=9)
        close(whole.values[number], alone.values[0], 1e-5)


def test_a_model_of_one_batch_size_is_walked_batch_by_batch():
    """Points are not put together, whatever `batch_size` says, where they cannot be."""
    free = fill(keras.Sequential([keras.Input((6,)), *_two()]))
    inputs = keras.Input(batch_shape=(BATCH, 6))
    h = keras.ops.reshape(inputs, (inputs.shape[0], 6))
    first, second = _two()
    fixed = keras.Model(inputs, second(first(h)))
    fixed.set_weights(free.get_weights())
    x, target = numbers(BATCH, 6), gw.class_score(CLASSES)
    for options in ({}, {"layer": "a"}, {"batch_size": 2}):
        a = IG(fixed, x, target, steps=7, **options)
        close(a.values, IG(free, x, target, steps=7, **options).values, 1e-5)
    covered = attribute.occlusion(fixed, x, target)
    close(covered.values, attribute.occlusion(free, x, target).values, 1e-5)


def test_a_model_built_by_its_first_batch_takes_others():
    """A Sequential without an `Input`: Keras takes any batch, and so do we."""
    model = keras.Sequential(_two())
    model(numbers(4, 6))
    x = numbers(BATCH, 6, seed=1)
    a = IG(model, x, gw.class_score(CLASSES), steps=7)
    assert difference(a) < 1e-3
    assert gw.gradients(model, x, target=gw.mean_output(), wrt=gw.inputs())


def _two():
    return layers.Dense(5, activation="tanh", name="a"), layers.Dense(3, name="b")


def test_a_function_of_the_outputs_sees_the_batch_it_was_written_for():
    """It may hold something for each example: nothing is repeated or cut."""
    model = cnn()
    weights = np.array([1.0, 2.0, 3.0], "float32")

    def weighed(outputs):
        scores = keras.ops.sum(outputs[:, :2], axis=1)
        return scores * keras.ops.convert_to_tensor(weights)

    a = IG(model, X, weighed, steps=5)
    b = IG(model, X, lambda out: keras.ops.sum(out[:, :2], axis=1), steps=5)
    close(a.values, b.values * weights[:, None, None, None])
    # Also where examples and references go through the model together.
    a = attribute.deep_lift(model, X, weighed)
    b = attribute.deep_lift(model, X, lambda out: keras.ops.sum(out[:, :2], axis=1))
    close(a.values, b.values * weights[:, None, None, None])
    close(a.score, b.score * weights)


def test_a_gradient_of_some_rows_has_all_of_them():
    """Where a framework gives only the rows that were read, the rest is zero."""

    class Reads(layers.Layer):
        def call(self, x):
            return keras.ops.take(x, [0, 2, 2], axis=0)

        def compute_output_shape(self, shape):
            return shape

    inputs = keras.Input((4,))
    h = layers.Dense(3, name="a")(inputs)
    model = fill(keras.Model(inputs, layers.Dense(2, name="b")(Reads()(h))))
    x = numbers(3, 4)
    kernel = model.get_weights()[2][:, 1]
    a = gw.saliency(model, x, gw.class_score(1), layer="a", absolute=False)
    close(a.values, np.array([1, 0, 2])[:, None] * kernel, 1e-5)


def image_and_series():
    """A picture, a series and a row, each with layers of its own."""
    image = keras.Input((6, 5, 2), name="image")
    series = keras.Input((4, 3), name="series")
    row = keras.Input((2,), name="row")
    h = layers.Conv2D(3, 2, activation="relu", name="conv")(image)
    parts = [layers.GlobalAveragePooling2D()(h), layers.LSTM(3)(series), row]
    head = layers.Dense(3, name="head")(layers.Concatenate()(parts))
    return fill(keras.Model([image, series, row], head))


def test_a_series_beside_images_has_its_channels_last():
    """It is no image without channels, though the convolutions have two axes more."""
    model = image_and_series()
    x = [numbers(3, 6, 5, 2), numbers(3, 4, 3, seed=1), numbers(3, 2, seed=2)]
    target = gw.class_score(CLASSES)
    a = IG(model, x, target).sum_channels()
    shapes = {name: values.shape for name, values in a.values.items()}
    assert shapes == {
        "inputs[image]": (3, 6, 5),
        "inputs[series]": (3, 4),
        "inputs[row]": (3, 2),
    }
    covered = attribute.occlusion(model, x, target).values
    assert covered["inputs[series]"].shape == (3, 4)
    # Nor is it what a map over the image masks.
    values = attribute.score_cam(model, x, target, layer="conv").values
    masked = score_cam_of_the_image(model, x)
    close(values, masked)
    guided = attribute.guided_grad_cam(model, x, target, layer="conv")
    plain = attribute.guided_backprop(model, x, target)
    close(guided.values["inputs[series]"], plain.values["inputs[series]"])


def score_cam_of_the_image(model, x):
    """The map from the paper, one channel after the other."""
    activation = gw.saliency(model, x, gw.class_score(0), layer="conv").activation
    scores = []
    for channel in np.moveaxis(activation, -1, 0):
        mask = keras.ops.image.resize(
            channel[..., None], (6, 5), data_format="channels_last"
        )
        mask = keras.ops.convert_to_numpy(mask)
        low = mask.min(axis=(1, 2, 3), keepdims=True)
        mask = (mask - low) / (mask.max(axis=(1, 2, 3), keepdims=True) - low)
        found = keras.ops.convert_to_numpy(model([x[0] * mask, *x[1:]]))
        scores.append(found[np.arange(3), CLASSES])
    weights = np.exp(scores) / np.exp(scores).sum(axis=0)
    total = sum(
        w[:, None, None] * c
        for w, c in zip(weights, np.moveaxis(activation, -1, 0), strict=True)
    )
    return np.maximum(total, 0)


def test_tokens_keep_their_place_before_a_convolution_with_channels_first():
    """An embedding has its numbers last, whatever the convolutions do."""
    inputs = keras.Input((7,), dtype="int32", name="tokens")
    h = layers.Embedding(11, 4, name="embed")(inputs)
    h = layers.Permute((2, 1), name="turned")(h)
    # Nothing of it is run but its name: not every machine has such convolutions.
    conv = layers.SpatialDropout1D(0.5, name="drop")
    conv.data_format = "channels_first"
    h = layers.Flatten()(conv(h))
    model = fill(keras.Model(inputs, layers.Dense(3, name="head")(h)))
    a = gw.input_x_gradient(model, TOKENS, gw.class_score(CLASSES), layer="embed")
    assert a.sum_channels().values.shape == TOKENS.shape
    turned = gw.saliency(model, TOKENS, gw.class_score(0), layer="turned")
    assert turned.sum_channels().values.shape == TOKENS.shape


def test_inputs_are_told_apart_by_name_whatever_their_order():
    """`x` as a list and data as a dict, or the other way round, are the same."""
    second, first = keras.Input((3,), name="b"), keras.Input((3,), name="a")
    h = layers.Concatenate()([second, first])
    h = layers.Dense(4, activation="tanh")(h)
    model = fill(keras.Model([second, first], layers.Dense(3)(h)))
    x = [numbers(3, 3, seed=1), numbers(3, 3, seed=2)]
    data = [numbers(5, 3, seed=3), numbers(5, 3, seed=4)]
    target = gw.class_score(CLASSES)
    named = [dict(zip("ba", both, strict=True)) for both in (x, data)]
    expected = attribute.expected_gradients(model, x, target, data=data).values
    for given, drawn in ((x, named[1]), (named[0], data), named):
        found = attribute.expected_gradients(model, given, target, data=drawn).values
        for name, values in expected.items():
            close(found[name], values, 1e-5)
    with pytest.raises(gw.GradwatchError, match="`baseline` must be a dict by name"):
        IG(model, named[0], target, baseline=x)
    drawn = [attribute.sampled(data[0]), "zeros"]
    with pytest.raises(gw.GradwatchError, match="`baseline` must be one `sampled"):
        IG(model, x, target, baseline=drawn)


def test_an_input_of_another_output_adds_nothing():
    """Two towers with a head each: the one that is not asked for has zeros."""
    left, right = keras.Input((4,), name="left"), keras.Input((3,), name="right")
    outputs = {
        "a": layers.Dense(3, name="a")(layers.Dense(5, activation="tanh")(left)),
        "b": layers.Dense(2, name="b")(right),
    }
    model = fill(keras.Model([left, right], outputs))
    x = [numbers(3, 4, seed=1), numbers(3, 3, seed=2)]
    target = gw.class_score(CLASSES, output="a")
    for method in (gw.saliency, gw.input_x_gradient, IG, attribute.deep_lift):
        a = method(model, x, target)
        assert np.abs(a.values["inputs[left]"]).max() > 0.01
        assert a.values["inputs[right]"].shape == (3, 3)
        assert not a.values["inputs[right]"].any()
    assert difference(a) < 1e-5
    alone = gw.saliency(keras.Model(left, outputs["a"]), x[0], gw.class_score(CLASSES))
    found = gw.saliency(model, x, target).values["inputs[left]"]
    close(found, alone.values, 1e-5)
    # A layer of the other one was named by mistake.
    with pytest.raises(gw.GradwatchError, match="`target` must depend on .*'b'"):
        gw.saliency(model, x, target, layer="b")
