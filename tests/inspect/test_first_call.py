"""The first look on TensorFlow is not compiled, and says what later ones say."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import gradwatch as gw
from gradwatch.engine import _engine

from .models import chain, dense

BACKEND = keras.backend.backend()
X = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
LATER = BACKEND == "tensorflow"
looks_first = pytest.mark.skipif(not LATER, reason="only TensorFlow has both")


def ask(model, x=X, **question):
    question.setdefault("target", gw.mean_output())
    return gw.gradients(model, x, **question)


def traces(model):
    """How often the passes of a model were prepared."""
    return sum(engine.traces for engine in _engine._engines[model].values())


def same(one, two):
    """Names, numbers and reasons."""
    assert list(one) == list(two)
    assert {n: str(r) for n, r in one.missing.items()} == {
        n: str(r) for n, r in two.missing.items()
    }
    for a, b in ((one, two), (one.outputs, two.outputs)):
        for name in a:
            pair = [ops.convert_to_numpy(part[name]) for part in (a, b)]
            np.testing.assert_allclose(*pair, rtol=1e-4, atol=1e-6)


def everything():
    """Dropout, batch statistics, attention and a recurrent layer."""
    inputs = keras.Input((5, 4))
    h = layers.Dropout(0.5, seed=1, name="drop")(inputs)
    h = layers.BatchNormalization(name="norm")(h)
    h = layers.MultiHeadAttention(2, 3, name="attend")(h, h)
    h = layers.LSTM(3, name="lstm")(h)
    model = keras.Model(inputs, layers.Dense(2, name="head")(h), name="demo")
    model.compile(loss="mse", optimizer="sgd")
    return model


def recurrent(steps):
    return chain(layers.LSTM(3, name="lstm"), dense("b"), shape=(steps, 3))


@pytest.mark.skipif(BACKEND == "torch", reason="torch compiles nothing")
def test_the_second_look_compiles_and_the_third_does_not():
    """JAX, where a single pass is faster compiled, compiles the first."""
    model = chain(dense("a"), dense("b"))
    seen = []
    for _ in range(4):
        ask(model)
        seen.append(traces(model))
    assert seen == ([0, 1, 1, 1] if LATER else [1, 1, 1, 1])


@pytest.mark.skipif(BACKEND == "torch", reason="torch compiles nothing")
def test_a_choice_is_heeded_at_the_first_look():
    """So it is with an inspector, which is kept for many."""
    model = chain(dense("a"), dense("b"))
    ask(model, compiled=True)
    assert traces(model) == 1
    inspect = gw.Inspector(model, target=gw.mean_output())
    inspect(X)
    assert inspect.num_traces == 1


@pytest.mark.parametrize("target", [None, gw.mean_output()], ids=["loss", "output"])
@pytest.mark.parametrize(
    "wrt",
    [gw.weights(), [gw.weights(), gw.activations("attend"), gw.inputs()]],
    ids=["weights", "all"],
)
def test_both_looks_agree_with_the_chosen_ones(target, wrt):
    """The masks of dropout, the batch statistics, and the state of the model."""
    model, rng = everything(), np.random.default_rng(0)
    x, y = rng.normal(size=(4, 5, 4)), rng.normal(size=(4, 2))
    question = {"wrt": wrt, "target": target, "training": True}
    looks = [
        gw.gradients(model, x, None if target else y, **question, **chosen)
        for chosen in ({}, {}, {"compiled": True}, {"compiled": False})
    ]
    engines = list(_engine._engines[model].values())
    assert engines[0].traces == (1 if BACKEND != "torch" else 2)
    for look in looks[1:]:
        same(looks[0], look)
        assert float(look.value) == pytest.approx(float(looks[0].value), 1e-5)


class Branches(layers.Layer):
    """Calls one sublayer in a branch, the other in a loop."""

    def __init__(self, **options):
        super().__init__(**options)
        self.one, self.two, self.more = dense("one"), dense("two"), dense("more")

    def build(self, shape):
        for layer in (self.one, self.two, self.more):
            layer.build(shape)

    def call(self, x):
        on = ops.sum(x) < 1e9
        x = ops.cond(on, lambda: self.one(x), lambda: self.two(x))
        return ops.fori_loop(0, 2, lambda _, h: self.more(h), x)


@pytest.mark.parametrize("pattern", ["branches/one", "branches/two", "branches/more"])
@looks_first
def test_a_layer_inside_a_branch_or_a_loop_is_missing_at_once(pattern):
    """Without compilation its tensors could be seen, but only in that look."""
    model = chain(Branches(name="branches"), dense("b"))
    question = {"wrt": [gw.activations(pattern), gw.weights("b")]}
    first, second = ask(model, **question), ask(model, **question)
    same(first, second)
    assert first.missing[pattern].cause == "inside_loop"


@looks_first
def test_a_model_that_handles_errors_hides_nothing():
    """A look that only a compiled pass can finish is given up, whatever comes of it."""

    class Careful(Branches):
        def call(self, x):
            try:
                return super().call(x)
            except RuntimeError:
                return x

    model = chain(Careful(name="branches"), dense("b"))
    question = {"wrt": [gw.activations("branches"), gw.activations("more")]}
    same(ask(model, **question), ask(model, **question))


@looks_first
def test_the_cell_of_a_loop_is_missing_at_once():
    """As in the second look; and a neuron in it cannot be a target."""
    model, x = recurrent(4), np.ones((2, 4, 3), "float32")
    looks = [ask(model, x, wrt=gw.activations()) for _ in range(2)]
    same(*looks)
    assert looks[0].missing["lstm/lstm_cell"].cause == "inside_loop"
    for _ in range(2):
        with pytest.raises(gw.TargetError, match="layer"):
            ask(model, x, target=gw.neuron("lstm/lstm_cell", 0))


@looks_first
@pytest.mark.parametrize(("steps", "expected"), [(30, 0), (150, 1)])
def test_a_long_loop_is_compiled_at_once(steps, expected):
    """Each round of it would take the time of a small model."""
    model = recurrent(steps)
    ask(model, np.ones((2, steps, 3), "float32"))
    assert traces(model) == expected


@looks_first
def test_half_precision_is_compiled_at_once():
    """There the rounding of single operations would show."""
    model = chain(layers.Dense(3, dtype="mixed_bfloat16", name="half"), dense("b"))
    ask(model)
    assert traces(model) == 1


def test_a_model_that_cannot_be_compiled_can_be_looked_at_again():
    """Python that needs numbers runs in the first look, so also in the next ones."""

    class Asking(layers.Layer):
        def call(self, x):
            return x * 2.0 if bool(ops.sum(x) > 0) else x * 3.0

        def compute_output_shape(self, shape):
            return shape

    model = chain(dense("a"), Asking(name="asking"), dense("b"))
    if BACKEND == "jax":  # which runs nothing without a trace
        with pytest.raises(Exception, match="[Cc]oncret|[Tt]race"):
            ask(model)
        return
    looks = [ask(model) for _ in range(3)]
    same(looks[0], looks[1])
    same(looks[0], looks[2])
    if LATER:
        with pytest.raises(Exception, match="Tensor") as info:
            ask(model, compiled=True)
        assert any("'asking'" in note for note in info.value.__notes__)


@looks_first
def test_an_error_is_the_same_in_every_look():
    """Its class, its text and the note that names the layer."""
    model = chain(
        layers.Embedding(5, 2, name="embed"),
        layers.Flatten(),
        shape=(2,),
        dtype="int32",
    )
    said = []
    for question in ({}, {"compiled": True}, {}):
        with pytest.raises(Exception, match="is not in") as info:
            ask(model, np.array([[0, 9]], "int32"), **question)
        error = info.value
        # Between these is the stack of the trace.
        text = [part.split("defined at")[0] for part in str(error).split("\n\n")]
        said.append((type(error), text[0], "9 is not in" in text[-1], error.__notes__))
        ask(model, np.array([[0, 1]], "int32"))  # the last error is of a kept pass
    assert said[0] == said[1] == said[2]
    assert "layer 'embed' (Embedding)" in said[0][-1][-1]


@looks_first
def test_a_function_of_the_model_does_not_keep_the_first_look():
    """A trace in it would hold the weights of that look for good, and no taps."""
    import tensorflow as tf

    class Traced(layers.Layer):
        def __init__(self, bends):
            super().__init__(name="traced")
            self.soft, self.bends = layers.Activation("tanh", name="soft"), bends

        def build(self, shape):
            self.kernel = self.add_weight(shape=(shape[-1], 3), name="kernel")

        def call(self, x):
            return self.bent(x) if self.bends else self.function(x)

        @tf.function
        def bent(self, x):
            return self.soft(x)

        @tf.function
        def function(self, x):
            return x @ self.kernel

    class Model(keras.Model):
        def __init__(self, bends):
            super().__init__()
            self.traced = Traced(bends)

        def call(self, x):
            return self.traced(x)

    for bends, wrt in enumerate((gw.weights(), gw.activations("soft"))):
        model, chosen = Model(bends), Model(bends)
        model(X[:2])
        chosen(X[:2])
        chosen.set_weights(model.get_weights())
        first = ask(model, wrt=wrt)
        same(first, ask(chosen, wrt=wrt, compiled=True))
        same(first, ask(model, wrt=wrt))
    assert first.missing["traced/soft"].cause == "inside_loop"
