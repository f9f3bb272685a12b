"""`why_none` answers for one name what `missing` says for all."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import gradwatch as gw
from gradwatch.testing import assert_untouched

from .models import SEQUENCE, X, chain, dense, do, mlp, stop

Y = np.zeros((len(X), 2), "float32")


@pytest.fixture
def model():
    made = chain(dense("a"), do(stop, "cut"), dense("b", 2))
    made.compile(loss="mse", optimizer="sgd")
    return made


@pytest.mark.parametrize(
    ("name", "cause", "place"),
    [
        ("a/kernel", "stop_gradient", "cut"),
        ("a/bias", "stop_gradient", "cut"),
        ("a", "stop_gradient", "cut"),
        ("a:input", "stop_gradient", "cut"),
        ("inputs", "stop_gradient", "cut"),
        ("b/kernel", "none", ""),
        ("b", "none", ""),
        ("cut", "none", ""),
    ],
)
def test_every_kind_of_name_has_an_answer(model, name, cause, place):
    """A weight, a layer, what goes in, an input; and names that have a gradient."""
    with assert_untouched(model):
        reason = gw.why_none(model, X, Y, name)
    assert (reason.cause, reason.address) == (cause, place)
    assert str(reason).endswith(".")


def test_the_answer_is_the_reason_of_the_result(model):
    """The same object of thought: cause, place and words."""
    wrt = [gw.weights(), gw.activations(), gw.inputs()]
    missing = gw.gradients(model, X, Y, wrt=wrt).missing
    assert set(missing) == {"a/kernel", "a/bias", "a", "inputs"}
    for name, reason in missing.items():
        assert gw.why_none(model, X, Y, name) == reason


def test_labels_may_be_left_out_with_a_target(model):
    """`why_none(model, x, name, target=…)` and the long form mean the same."""
    target = gw.mean_output()
    short = gw.why_none(model, X, "a/bias", target=target)
    assert short == gw.why_none(model, X, None, "a/bias", target=target)
    assert short == gw.why_none(model, X, name="a/bias", target=target)
    assert short.cause == "stop_gradient"


def test_another_loss_or_target_gives_another_answer():
    """The question is about one target; arguments are those of `gradients`."""
    inputs = keras.Input((3,))
    trunk = dense("trunk")(inputs)
    model = keras.Model(inputs, [dense("one")(trunk), dense("two")(trunk)])
    for head, cause in (("one", "none"), ("two", "other_output")):
        reason = gw.why_none(model, X, f"{head}/bias", target=gw.mean_output("one"))
        assert reason.cause == cause
    plain = mlp(compiled=False)
    assert gw.why_none(plain, X, Y, "head/bias", loss="mae").cause == "none"


def test_a_frozen_weight_is_explained():
    """There is a gradient, but `fit` does not use it."""
    model = mlp()
    model.get_layer("hidden").trainable = False
    for name in ("hidden/bias", "hidden/kernel"):
        reason = gw.why_none(model, X, Y, name)
        assert (reason.cause, reason.address) == ("frozen", name)
        assert "not trainable" in str(reason)


def test_a_cut_frozen_weight_names_the_cut(model):
    """Thawing would not help, so that is not what is said."""
    model.get_layer("a").trainable = False
    assert gw.why_none(model, X, Y, "a/bias").cause == "stop_gradient"


def test_the_mode_of_the_pass_can_be_chosen():
    """A layer that runs in training only was not called at inference."""

    class Optional(keras.Model):
        def __init__(self):
            super().__init__(name="optional")
            self.a, self.extra = dense("a"), dense("extra")
            self.extra.build((None, 3))

        def call(self, x, training=False):
            return self.extra(self.a(x)) if training else self.a(x)

    model = Optional()
    model(X)
    target = gw.mean_output()
    for training, cause in ((True, "none"), (False, "not_called")):
        for name in ("extra/kernel", "extra"):
            reason = gw.why_none(model, X, name, target=target, training=training)
            assert reason.cause == cause


def test_whole_number_inputs_are_explained():
    """The classic: the gradient of tokens."""
    model = chain(
        layers.Embedding(5, 2, name="embed"),
        layers.Flatten(name="flat"),
        dense("b", 1),
        shape=(2,),
        dtype="int32",
    )
    tokens = np.array([[0, 1], [2, 3]])
    target = gw.mean_output()
    assert gw.why_none(model, tokens, "inputs", target=target).cause == "integer"
    for name in ("embed/embeddings", "embed"):
        assert gw.why_none(model, tokens, name, target=target).cause == "none"


def test_one_call_of_a_shared_layer_can_be_asked():
    """`d@1` and `d@2` have answers of their own."""
    inputs = keras.Input((3,))
    shared = dense("d")
    first = shared(inputs)
    model = keras.Model(inputs, shared(ops.stop_gradient(first)))
    target = gw.mean_output()
    assert gw.why_none(model, X, "d@1", target=target).cause == "stop_gradient"
    assert gw.why_none(model, X, "d@2", target=target).cause == "none"
    assert gw.why_none(model, X, "d/kernel", target=target).cause == "none"


def test_a_short_name_and_a_layer_object_will_do(model):
    """The same patterns as everywhere else."""
    cut = ("stop_gradient", "cut")
    for name in (model.get_layer("a"), gw.weights("a/bias"), gw.activations("a")):
        reason = gw.why_none(model, X, Y, name)
        assert (reason.cause, reason.address) == cut


def test_a_tensor_inside_a_loop_is_explained():
    """A cell that cannot be looked at says so, and so does a weight that can."""
    model = chain(layers.LSTM(3, name="rnn"), shape=SEQUENCE.shape[1:])
    target = gw.mean_output()
    reason = gw.why_none(model, SEQUENCE, "rnn/lstm_cell", target=target)
    assert reason.cause == "inside_loop"
    weight = gw.why_none(model, SEQUENCE, "rnn/lstm_cell/kernel", target=target)
    assert weight.cause == "none"


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("a/kernle", r"`name` must be.*'a/kernle'.*Closest: 'a/kernel'"),
        ("zzz", r"`name` must be.*'zzz'.*`gradwatch\.layers\(model\)`"),
        ("", r"`name` must be"),
        ("kernel", r"`name` must .*'a/kernel', 'b/kernel'"),
        (3.5, r"`name` must be.*3\.5"),
    ],
    ids=repr,
)
def test_a_name_that_is_not_there_is_refused(model, name, match):
    """The argument in the sentence is `name`; there is always a full list behind."""
    with assert_untouched(model), pytest.raises(gw.GradwatchError, match=match) as info:
        gw.why_none(model, X, Y, name)
    assert "Closest: ." not in str(info.value)


def test_a_reason_is_a_value():
    """Equal when its parts are; it prints as its sentence."""
    one, two = gw.Reason("frozen", "It is.", "a"), gw.Reason("frozen", "It is.", "a")
    assert one == two
    assert str(one) == "It is."
    assert one != gw.Reason("frozen", "It is.", "b")
