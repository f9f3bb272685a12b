"""The gradients of the loss are the very ones that the next training step applies.

With plain gradient descent of rate 1, a step takes away the gradient and nothing else.
"""

import keras
import numpy as np
import pytest

import gradwatch as gw
from gradwatch.testing import assert_untouched

from .addresses import weight_at
from .cases import CASES
from .frameworks import BACKEND, array, as_it_was, quick_compilation, tensors
from .looks import prepared

KINDS = [
    "mlp",
    "cnn",
    "returns_its_input",
    "lstm_dropout",
    "embedding",
    "masked_labels",
    "siamese",
    "list_outputs",
    "dict_outputs",
    "added_loss",
    "regularised",
    "own_compute_loss",
    "frozen",
    "mixed_float16",
    "mixed_bfloat16",
    "stateful_lstm",
    "unbuilt_subclassed",
    "bert",
]


# Keras's own word for it, which we give a reason for.
no_gradients_said = pytest.mark.filterwarnings("ignore:Gradients do not exist")


@pytest.fixture(autouse=True)
def quick():
    with quick_compilation():
        yield


def values(model):
    """All trainable weights, in float64, by address."""
    names = gw.layers(model).weights
    found = {name: weight_at(model, name) for name in names}
    return {name: array(v) for name, v in found.items() if v.trainable}


def not_applied(model, gradients, before):
    """The names whose weight did not change by its gradient, and nothing else."""
    after = values(model)
    assert set(gradients) == set(before)
    return [
        name
        for name, gradient in gradients.items()
        if not np.allclose(before[name] - after[name], array(gradient), 2e-4, 2e-6)
    ]


@pytest.mark.parametrize("name", KINDS)
def test_a_training_step_takes_away_exactly_these_gradients(name):
    """With dropout masks, batch statistics, regularisers, loss weights and scale."""
    if BACKEND == "torch" and "stateful" in CASES[name].tags:
        pytest.skip("On torch, Keras 3.15 cannot train a stateful RNN.")
    model, x, y = prepared(name)
    with assert_untouched(model):
        gradients = gw.gradients(model, x, y)
    before = values(model)
    loss = model.train_on_batch(tensors(x), tensors(y))
    assert float(array(gradients.value)) == pytest.approx(
        float(np.ravel(loss)[0]), 1e-4
    )
    assert not_applied(model, gradients, before) == []


def test_each_step_of_a_training_is_foreseen():
    """The second and third step too: the masks of dropout differ, and are foreseen."""
    model, x, y = prepared("cnn")
    seen = []
    for _ in range(3):
        gradients = gw.gradients(model, x, y)
        before = values(model)
        model.train_on_batch(x, y)
        assert not_applied(model, gradients, before) == []
        seen.append(array(gradients["head/kernel"]))
    assert not np.allclose(seen[0], seen[1])


def test_sample_weights_count_as_in_training():
    """An example of weight 0 is not there, one of weight 3 is there three times."""
    model, x, y = prepared("mlp")
    weights = np.array([0.0, 3.0, 0.5])
    gradients = gw.gradients(model, x, y, target=gw.loss(sample_weight=weights))
    before = values(model)
    model.train_on_batch(x, y, sample_weight=weights)
    assert not_applied(model, gradients, before) == []


def test_sample_weights_of_several_outputs_count_as_in_training():
    """One array of weights for each output."""
    model, x, y = prepared("list_outputs")
    weights = [np.array([0.0, 3.0, 0.5]), np.array([1.0, 0.2, 2.0])]
    gradients = gw.gradients(model, x, y, target=gw.loss(sample_weight=weights))
    before = values(model)
    model.train_on_batch(x, y, sample_weight=weights)
    assert not_applied(model, gradients, before) == []


def test_class_weights_count_as_in_fit():
    """A batch of all examples, one step."""
    model, x, _ = prepared("mlp")
    y = np.array([0, 2, 2], "int32")
    weights = {0: 3.0, 1: 7.0, 2: 0.25}
    gradients = gw.gradients(model, x, y, target=gw.loss(class_weight=weights))
    before = values(model)
    settings = {"batch_size": len(x), "shuffle": False, "verbose": 0}
    model.fit(x, y, class_weight=weights, epochs=1, **settings)
    assert not_applied(model, gradients, before) == []


def test_a_fixed_loss_scale_is_taken_out_again():
    """As the optimizer does before it applies the gradients."""
    model, x, y = prepared("mlp")
    optimizer = keras.optimizers.SGD(1.0, loss_scale_factor=512.0)
    model.compile(optimizer=optimizer, loss=model.loss)
    gradients = gw.gradients(model, x, y)
    before = values(model)
    model.train_on_batch(x, y)
    assert not_applied(model, gradients, before) == []


@no_gradients_said
def test_a_loss_made_of_added_losses_only_counts_as_in_training():
    """Compiled without a loss: what the layers add is all there is."""
    model, x, _ = prepared("added_loss")
    # A fresh model of the same layers: `compile` without a loss keeps the old one.
    model = keras.Model(model.inputs, model.outputs)
    model.compile(optimizer=keras.optimizers.SGD(1.0))
    gradients = gw.gradients(model, x)
    before = values(model)
    model.train_on_batch(tensors(x))
    assert set(before) - set(gradients) == {"head/kernel", "head/bias"}
    assert {r.cause for r in gradients.missing.values()} == {"not_on_path"}
    before = {name: before[name] for name in gradients}
    assert not_applied(model, gradients, before) == []


@no_gradients_said
def test_an_output_without_a_loss_has_no_gradient():
    """`loss=[…, None]`: training leaves that head alone, and a reason says why."""
    model, x, y = prepared("list_outputs")
    model.compile(optimizer=keras.optimizers.SGD(1.0), loss=[model.loss[0], None])
    gradients = gw.gradients(model, x, y)
    before = values(model)
    model.train_on_batch(x, y)
    assert set(before) - set(gradients) == {"place/kernel", "place/bias"}
    assert gradients.missing["place/kernel"].cause == "other_output"
    before = {name: before[name] for name in gradients}
    assert not_applied(model, gradients, before) == []


class Noise(keras.layers.Layer):
    """Draws from the generator that Keras makes when it is first needed."""

    def call(self, x, training=False):
        return x + keras.random.normal(keras.ops.shape(x)) if training else x


@pytest.mark.skipif(BACKEND == "jax", reason="There, Keras asks for a seed generator.")
@pytest.mark.parametrize("before_look", [True, False])
def test_unseeded_noise_is_foreseen(before_look):
    """Also when looking comes first, and Keras has no generator of its own yet."""
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(5, name="dense"),
            Noise(name="noise"),
            keras.layers.Dense(2, name="head"),
        ]
    )
    model.compile(optimizer=keras.optimizers.SGD(1.0), loss="mse")
    x, y = np.ones((3, 4), "float32"), np.ones((3, 2), "float32")
    if before_look:
        keras.random.normal((1,))
    with assert_untouched(model):
        gradients = gw.gradients(model, x, y)
    before = values(model)
    model.train_on_batch(x, y)
    assert not_applied(model, gradients, before) == []


def test_a_layer_that_assigns_to_its_weight_counts_as_in_training():
    """Spectral normalisation first divides the kernel, then the step is taken."""
    inner = keras.layers.Dense(5, name="dense")
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.SpectralNormalization(inner, name="spectral"),
            keras.layers.Dense(2, name="head"),
        ]
    )
    model.compile(optimizer=keras.optimizers.SGD(1.0), loss="mse")
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(3, n)).astype("float32") for n in (4, 2))
    with assert_untouched(model):
        gradients = gw.gradients(model, x, y)
    before = values(model)
    if BACKEND != "jax":  # whose trainer drops what a layer assigns to its weights
        with as_it_was(model):
            model(x, training=True)
            before = values(model)
    model.train_on_batch(x, y)
    assert not_applied(model, gradients, before) == []


def test_what_the_optimizer_does_is_not_in_the_gradient():
    """Clipping, momentum and weight decay come after: the gradient is the raw one."""
    model, x, y = prepared("mlp")
    plain = gw.gradients(model, x, y).to_numpy()
    model.compile(
        optimizer=keras.optimizers.AdamW(0.1, clipnorm=1e-3, weight_decay=0.5),
        loss=model.loss,
    )
    again = gw.gradients(model, x, y).to_numpy()
    assert all(np.allclose(plain[name], again[name], 1e-5, 1e-6) for name in plain)


def test_inference_mode_uses_the_moving_averages():
    """`training=False` is another pass: no dropout, statistics of the past."""
    model, x, y = prepared("cnn")
    learning = gw.gradients(model, x, y)
    looking = gw.gradients(model, x, y, training=False)
    loss = model.evaluate(x, y, batch_size=len(x), verbose=0)
    assert float(array(looking.value)) == pytest.approx(loss, rel=1e-5)
    assert float(array(learning.value)) != pytest.approx(loss, rel=1e-2)
