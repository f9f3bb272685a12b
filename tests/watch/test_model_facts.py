"""What is noted of a model before it trains, for those who judge the training."""

import keras
import numpy as np
import pytest
from keras import initializers, layers

from gradwatch.monitor._initialised import as_initialised, left_constant
from gradwatch.monitor._model_facts import model_facts
from gradwatch.select import walk

SHAPE = (40, 60)
RANDOM = [
    initializers.GlorotUniform(seed=0),
    initializers.GlorotNormal(seed=0),
    initializers.HeNormal(seed=0),
    initializers.LecunUniform(seed=0),
    initializers.Orthogonal(seed=0),
    initializers.RandomNormal(stddev=0.05, seed=0),
    initializers.RandomUniform(-0.05, 0.05, seed=0),
    initializers.TruncatedNormal(stddev=0.05, seed=0),
]


@pytest.mark.parametrize("made_by", RANDOM, ids=lambda made: type(made).__name__)
def test_a_weight_is_known_to_be_as_it_was_made(made_by):
    """And not when it has moved by a tenth of itself, or is that of another."""
    array = keras.ops.convert_to_numpy(made_by(SHAPE))
    random = np.random.default_rng(0)
    moved = array + 0.5 * array.std() * random.normal(size=SHAPE).astype("float32")
    assert as_initialised(array, made_by) is True
    assert as_initialised(moved, made_by) is False
    assert as_initialised(1.2 * array, made_by) is False


def test_a_few_numbers_tell_nothing():
    """Neither do those of an initialiser of the user's own."""
    assert as_initialised(np.ones(5), initializers.GlorotUniform()) is None
    assert as_initialised(np.ones(SHAPE), lambda shape, dtype=None: 0) is None


@pytest.mark.parametrize(
    ("initialiser", "start"),
    [
        (initializers.Zeros(), 0.0),
        (initializers.Ones(), 1.0),
        (initializers.Constant(0.1), 0.1),
    ],
)
def test_a_constant_is_left_by_a_single_number(initialiser, start):
    """In whatever precision the constant was rounded."""
    array = np.full(7, start, "float32")
    assert not left_constant(array, initialiser)
    array[3] += 1e-3
    assert left_constant(array, initialiser)
    assert not left_constant(array, initializers.GlorotUniform())


def test_facts_of_a_model_before_and_after_a_step():
    """Kernels are as drawn and biases zero; then no longer."""
    net = [keras.Input((SHAPE[0],)), layers.Dense(SHAPE[1], "tanh", name="a")]
    model = keras.Sequential([*net, layers.Dense(1, name="out")])
    tree = walk(model)

    def facts():
        return model_facts(tree, tree.weights)["weights"]

    before = facts()
    assert before["a/kernel"]["untrained"] is True
    assert "moved" not in before["a/bias"]
    assert before["a/kernel"]["shape"] == list(SHAPE)
    model.get_layer("a").bias.assign(np.full(SHAPE[1], 0.01, "float32"))
    model.get_layer("a").kernel.assign(2 * model.get_layer("a").kernel)
    after = facts()
    assert after["a/kernel"]["untrained"] is False
    assert after["a/bias"]["moved"] is True
    model.get_layer("a").trainable = False
    assert model_facts(walk(model), {})["weights"]["a/bias"]["held"] is True
