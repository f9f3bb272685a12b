"""A watched training is, bit for bit, the training that would have been."""

import functools
import random
import sys

import keras
import numpy as np
import pytest

from gradwatch.monitor import GradientMonitor
from gradwatch.monitor._watching import optimizers_of
from gradwatch.run import open_run

from .cases import CASES
from .models import arrays, fit

LAYERED = (
    *("plain", "compiled_by_xla", "several_steps_per_execution"),
    *("float16_with_a_dynamic_loss_scale", "dropout_batch_norm_and_class_weights"),
    *("several_inputs_and_outputs_and_sample_weights", "embedding_and_lstm"),
    *("an_unbuilt_model_with_a_step_of_its_own", "two_optimizers"),
    "products_by_xla",
)
# Said by Keras of every generator that ends.
ENDS = "ignore:Your input ran out of data:UserWarning"
# A tap on an activation is one operation more: the compiler puts the terms of a loss in
# another order there, or rounds a product and a sum apart. The last digit may differ.
FUSED_OTHERWISE = {("tensorflow", "products_by_xla"), ("jax", "products_by_xla")}
# Without XLA that is only in the loss; no weight's last digit differs.
ROUNDED = {("tensorflow", "two_optimizers"), *FUSED_OTHERWISE}
ADDED = {"grad_norm", "update_ratio"}


def streams():
    """The state of every random stream outside the model."""
    numpy_state = np.random.get_state()
    found = [repr(random.getstate()), repr(numpy_state[1].tolist()), numpy_state[2]]
    if "torch" in sys.modules:
        found.append(sys.modules["torch"].get_rng_state().tolist())
    if keras.config.backend() == "tensorflow":
        found.append(float(sys.modules["tensorflow"].random.uniform(())))
    return [*found, float(keras.random.uniform(()))]  # what the next draw gives


def attributes(model):
    """The names of everything on the model, its layers and its optimizers."""
    parts = [*model._flatten_layers(), *optimizers_of(model)]
    # `_tracked` lists of TensorFlow and the like are attributes, too: their lengths.
    return [
        {
            name: len(value) if isinstance(value, list | dict | tuple) else type(value)
            for name, value in vars(part).items()
        }
        for part in parts
    ]


def state(model):
    variables = [v for o in optimizers_of(model) for v in o.variables]
    return arrays([*model.variables, *variables, *model.metrics_variables])


# Keras itself fails there: the averages are of another fit.
ONCE = {("jax", "averages_decay_schedule_and_clipnorm")}


def run(name, again=True, **monitored):
    """Trains a model anew; again, unwatched, to see what the first time left."""
    keras.utils.set_random_seed(3)
    model, options = CASES[name]()
    monitor = [GradientMonitor(**monitored)] if monitored else []
    later = options.pop("then", [])
    history = fit(model, *monitor, **options).history
    earlier = []
    for change in later:
        earlier.append({k: v for k, v in history.items() if k not in ADDED})
        then = change(model)
        history = fit(model, *monitor, **then).history
    found = {
        "earlier histories": earlier,
        "history": {k: v for k, v in history.items() if k not in ADDED},
        "streams": streams(),
        "attributes": attributes(model),
        "function": model.train_function.__qualname__,
        "state": state(model),
    }
    if monitor:
        assert set(history) == set(found["history"]) | ADDED
    if again and (keras.config.backend(), name) not in ONCE:
        more = CASES[name]()[1]  # a generator can be used once
        more.pop("then", None)
        found["second history"] = fit(model, **more).history
        found["second state"] = state(model)
    return found


# Both tests of a case compare with the same one.
unwatched = functools.cache(run)


def assert_same(found, expected):
    for key, value in found.items():
        if key.endswith("state"):
            for mine, theirs in zip(value, expected[key], strict=True):
                assert mine.dtype == theirs.dtype
                assert mine.tobytes() == theirs.tobytes(), key
        else:
            assert repr(value) == repr(expected[key]), key


@pytest.mark.filterwarnings(ENDS)
@pytest.mark.parametrize("name", CASES)
def test_training_is_the_same_bit_for_bit(tmp_path, name):
    """Weights, optimizer, metrics and random streams; the next `fit`, too."""
    found = run(name, directory=tmp_path, every=2, histograms=False)
    assert_same(found, unwatched(name))
    steps = open_run(tmp_path).steps
    assert len(steps) >= 2
    assert (steps % 2 == 0).all()


@pytest.mark.parametrize("name", LAYERED)
def test_training_is_the_same_with_activations_and_histograms(tmp_path, name):
    """Taps on the layers change nothing either, but for rounding in some cases."""
    found = run(name, again=False, directory=tmp_path, every=1, activations=True)
    expected = dict(unwatched(name))
    if (keras.config.backend(), name) in ROUNDED:
        for metric, values in expected.pop("history").items():
            np.testing.assert_allclose(found["history"][metric], values, rtol=1e-6)
        del found["history"]
    if (keras.config.backend(), name) in FUSED_OTHERWISE:
        for mine, theirs in zip(found.pop("state"), expected.pop("state"), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    assert_same(found, expected)
    run_ = open_run(tmp_path)
    assert run_.steps.tolist() == [*range(len(run_.steps))]
    assert run_.activations
