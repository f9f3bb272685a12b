"""A gradient that is missing says why, and where; the same on every backend."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import gradwatch as gw
from gradwatch.testing import assert_untouched

from .models import WIDTH, X, chain, dense, do, stop

EVERYTHING = [gw.weights(), gw.activations(), gw.inputs()]


def look(model, x=X, target=None, wrt=None, **options):
    """`{name: "cause @place", "zero" or "ok"}`, the same compiled and not."""
    target, wrt = target or gw.mean_output(), wrt or EVERYTHING
    seen = []
    for compiled in (True, False):
        with assert_untouched(model):
            found = gw.gradients(
                model, x, target=target, wrt=wrt, compiled=compiled, **options
            )
        facts = {n: "ok" if np.any(g) else "zero" for n, g in found.to_numpy().items()}
        for name, reason in found.missing.items():
            facts[name] = f"{reason.cause} @{reason.address}"
            assert str(reason).endswith("."), str(reason)
        seen.append((facts, {n: str(r) for n, r in found.missing.items()}))
    assert seen[0] == seen[1], "compiled and not compiled disagree"
    return seen[0][0]


def before(cut):
    """The facts of `a → cut → b`: everything before the cut misses its gradient."""
    return dict.fromkeys(["a/kernel", "a/bias", "a", "inputs"], cut)


def after(place, zero=()):
    """What comes after the cut has gradients."""
    names = ["b/kernel", "b/bias", "b", place]
    return {name: "zero" if name in zero else "ok" for name in names if name}


# stop_gradient ------------------------------------------------------------------------


class Stop(layers.Layer):
    def call(self, x):
        return ops.stop_gradient(x) * 2.0


class StopBetween(layers.Layer):
    """Cuts between its own two sublayers."""

    def __init__(self, **options):
        super().__init__(**options)
        self.first, self.second = dense("first"), dense("second")

    def call(self, x):
        return self.second(ops.stop_gradient(self.first(x)))


def test_stop_gradient_in_a_lambda_is_named():
    """The Lambda's address is the place."""
    found = look(chain(dense("a"), do(stop, "cut"), dense("b")))
    assert found == before("stop_gradient @cut") | after("cut")


def test_stop_gradient_in_a_layer_of_ones_own_is_named():
    """The layer's address is the place, although more happens in its call."""
    found = look(chain(dense("a"), Stop(name="cut"), dense("b")))
    assert found == before("stop_gradient @cut") | after("cut")


def test_stop_gradient_between_two_sublayers_is_in_the_layer_around_them():
    """Neither sublayer is blamed."""
    found = look(chain(dense("a"), StopBetween(name="outer"), dense("b")))
    cut = "stop_gradient @outer"
    first = dict.fromkeys(
        ["outer/first", "outer/first/kernel", "outer/first/bias"], cut
    )
    second = dict.fromkeys(
        ["outer/second", "outer/second/kernel", "outer/second/bias"], "ok"
    )
    assert found == before(cut) | first | second | after("outer")


def test_stop_gradient_between_layers_of_a_functional_graph_is_named():
    """A `keras.ops` node has an address of its own."""
    inputs = keras.Input((WIDTH,))
    cut = ops.stop_gradient(dense("a")(inputs))
    model = keras.Model(inputs, dense("b")(cut))
    (name,) = set(gw.layers(model)) - {"a", "b"}
    assert look(model) == before(f"stop_gradient @{name}") | after(name)


def test_stop_gradient_in_a_model_in_the_model_is_named_by_its_path():
    """The place is the full address, however deep."""
    inner = chain(dense("n1"), do(stop, "cut"), dense("n2"), name="inner")
    middle = chain(inner, name="middle")
    found = look(chain(dense("a"), middle, dense("b")))
    cut = "stop_gradient @middle/inner/cut"
    assert before(cut).items() <= found.items()
    assert found["middle/inner/n1/kernel"] == cut
    assert found["middle/inner/n2/kernel"] == "ok"


def test_stop_gradient_in_the_model_of_ones_own_is_in_no_layer():
    """A cut in the model's own `call` has an empty place, and the sentence says so."""

    class Own(keras.Model):
        def __init__(self):
            super().__init__(name="own")
            self.a, self.b = dense("a"), dense("b")

        def call(self, x):
            return self.b(ops.stop_gradient(self.a(x)))

    model = Own()
    model(X)
    assert look(model) == before("stop_gradient @") | after("")
    reason = gw.why_none(model, X, None, "a/kernel", target=gw.mean_output())
    assert "model's own `call`" in str(reason)


def test_stop_gradient_in_the_target_is_in_the_target():
    """Nothing is left, and the place is the target."""
    model = chain(dense("a"), dense("b"))
    found = look(model, target=lambda out: ops.mean(ops.stop_gradient(out)))
    assert set(found.values()) == {"stop_gradient @target"}


def test_the_first_of_two_cuts_is_named():
    """Each name is told of the cut that stands right behind it."""
    model = chain(dense("a"), do(stop, "c1"), dense("m"), do(stop, "c2"), dense("b"))
    found = look(model)
    assert before("stop_gradient @c1").items() <= found.items()
    assert found["m/kernel"] == found["c1"] == "stop_gradient @c2"
    assert found["c2"] == "ok"


def forked(left, right):
    """a → left and right → add."""
    inputs = keras.Input((WIDTH,))
    trunk = dense("a")(inputs)
    return keras.Model(inputs, layers.Add(name="b")([left(trunk), right(trunk)]))


def test_cuts_on_two_paths_are_both_named():
    """The place is the first that runs; the sentence names the other too."""
    model = forked(do(stop, "c1"), do(ops.round, "c2"))
    assert before("stop_gradient @c1").items() <= look(model).items()
    reason = gw.gradients(model, X, target=gw.mean_output()).missing["a/bias"]
    assert "in layer 'c1'" in str(reason)
    assert "'c2'" in str(reason)


def test_one_open_path_is_enough():
    """Cut on one path and alive on another, the gradient is there, and right."""
    model = forked(do(stop, "cut"), do(lambda x: x * 3.0, "alive"))
    assert set(look(model).values()) == {"ok"}
    found = gw.gradients(model, X, target=gw.mean_output(), wrt=EVERYTHING).to_numpy()
    at_trunk = np.full(X.shape, 3 / X.size)
    np.testing.assert_allclose(found["a"], at_trunk, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found["a/kernel"], X.T @ at_trunk, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found["cut"], 1 / X.size, rtol=1e-5, atol=1e-7)


def test_a_function_called_twice_is_followed_call_by_call():
    """What is cut in one call of a (compiled) function is open in the other."""
    inputs = keras.Input((WIDTH,))
    one, two = dense("one")(inputs), dense("two")(inputs)
    gelu = lambda x: ops.gelu(ops.log_softmax(x))  # noqa: E731
    left = do(lambda x: ops.stop_gradient(gelu(x)), "left")(one)
    right = do(gelu, "right")(two)
    # Not the mean: a softmax does not care for what all have in common.
    model = keras.Model(inputs, layers.Add(name="add")([left, right]))
    found = look(model, target=gw.output(index=1))
    assert found["one/kernel"] == found["one"] == "stop_gradient @left"
    assert found["two/kernel"] == found["two"] == found["inputs"] == "ok"


# whole numbers, and flat functions ----------------------------------------------------

INTEGER = {
    "argmax": lambda x: ops.one_hot(ops.argmax(x, -1), WIDTH),
    "cast": lambda x: ops.cast(ops.cast(x, "int32"), "float32"),
    "greater": lambda x: ops.cast(x > 0, "float32"),
    "equal": lambda x: ops.cast(ops.equal(x, 0.0), "float32"),
    "where": lambda x: ops.where(x > 0, ops.ones_like(x), ops.zeros_like(x)),
    "argsort": lambda x: ops.cast(ops.argsort(x), "float32"),
    "isnan": lambda x: ops.cast(ops.isnan(x), "float32"),
}


@pytest.mark.parametrize("function", INTEGER.values(), ids=INTEGER)
def test_whole_numbers_and_truth_values_cut(function):
    """The cause is "integer"; what the layer gives still has a gradient."""
    found = look(chain(dense("a"), do(function, "cut"), dense("b")))
    found.pop("b/kernel")  # zero where the function gives zeros
    expected = before("integer @cut") | after("cut")
    expected.pop("b/kernel")
    assert found == expected


FLAT = {
    "round": ops.round,
    "floor": ops.floor,
    "ceil": ops.ceil,
    "sign": ops.sign,
    "floor_divide": lambda x: ops.floor_divide(x, 0.5),
}


@pytest.mark.parametrize("function", FLAT.values(), ids=FLAT)
def test_flat_functions_cut(function):
    """TensorFlow and JAX would give zeros here; zero is not what was measured."""
    found = look(chain(dense("a"), do(function, "cut"), dense("b")))
    found.pop("b/kernel")
    expected = before("not_differentiable @cut") | after("cut")
    expected.pop("b/kernel")
    assert found == expected


@pytest.mark.parametrize(
    ("make", "place", "word"),
    [
        (lambda x: ops.round(x), "round", "`round`"),
        (lambda x: ops.one_hot(ops.argmax(x, -1), WIDTH), "argmax", "`argmax`"),
    ],
    ids=["round", "argmax"],
)
def test_plain_operations_of_a_graph_are_places(make, place, word):
    """The operation's own address is the place, and its Keras name is in the text."""
    inputs = keras.Input((WIDTH,))
    model = keras.Model(inputs, dense("b")(make(dense("a")(inputs))))
    assert look(model)["a/kernel"].endswith(f" @{place}")
    reason = gw.why_none(model, X, None, "a", target=gw.mean_output())
    assert word in str(reason)


def test_the_values_of_a_top_k_pass_and_its_indices_cut():
    """One operation, two outputs, two answers."""
    values = do(lambda x: ops.top_k(x, 2)[0], "top", (2,))
    indices = do(lambda x: ops.cast(ops.top_k(x, 2)[1], "float32") + 1.0, "top", (2,))
    assert set(look(chain(dense("a"), values, dense("b"))).values()) == {"ok"}
    found = look(chain(dense("a"), indices, dense("b")))
    assert found == before("integer @top") | after("top")


def test_whole_number_inputs_have_no_gradient():
    """Tokens are not differentiable; the embedding that reads them is offered."""
    model = chain(
        layers.Embedding(5, 2, name="embed"),
        layers.Flatten(name="flat"),
        dense("b"),
        shape=(2,),
        dtype="int32",
    )
    tokens = np.array([[0, 1], [2, 3]], "int32")
    found = look(model, tokens)
    assert found.pop("inputs") == "integer @inputs"
    assert set(found.values()) == {"ok"}
    wrt = gw.activations("embed", at="input")
    assert look(model, tokens, wrt=wrt) == {"embed:input": "integer @embed"}
    missing = gw.gradients(model, tokens, target=gw.mean_output(), wrt=gw.inputs())
    assert "int32" in str(missing.missing["inputs"])
    assert "gradwatch.activations(" in str(missing.missing["inputs"])


def test_an_activation_of_whole_numbers_has_no_gradient():
    """The layer ran and its output is known, but it is made of integers."""
    cut = do(lambda x: ops.argmax(x, -1), "pick")
    model = chain(dense("a"), cut, layers.Embedding(WIDTH, 2, name="embed"))
    found = look(model, wrt=gw.activations())
    assert found == {"a": "integer @pick", "pick": "integer @pick", "embed": "ok"}


# zero, and measured -------------------------------------------------------------------


def test_a_dead_relu_gives_zeros_that_are_not_missing():
    """Connected and zero is a finding of its own, not a cut."""
    dead = dense(
        "dead",
        kernel_initializer="zeros",
        bias_initializer=keras.initializers.Constant(-5),
        activation="relu",
    )
    found = look(chain(dense("a"), dead, dense("b")))
    zeros = {n for n, fact in found.items() if fact == "zero"}
    assert zeros == {
        "a", "a/kernel", "a/bias", "inputs", "dead/kernel", "dead/bias", "b/kernel",
    }  # fmt: skip
    assert found["dead"] == "ok"


@pytest.mark.parametrize(
    "function",
    [lambda x: x * 0.0, lambda x: ops.clip(x, 50.0, 60.0)],
    ids=["times zero", "clipped"],
)
def test_a_zero_derivative_is_not_a_cut(function):
    """Multiplied by zero, or clipped flat: measured, zero."""
    found = look(chain(dense("a"), do(function, "flat"), dense("b")))
    assert {n: found[n] for n in before("zero")} == before("zero")


# not on the path ----------------------------------------------------------------------


def heads():
    inputs = keras.Input((WIDTH,))
    trunk = dense("trunk")(inputs)
    return keras.Model(inputs, [dense("b")(trunk), dense("side")(trunk)])


@pytest.mark.parametrize(
    "target", [gw.mean_output("b"), lambda out: ops.mean(out[0])], ids=["chosen", "fn"]
)
def test_the_head_of_another_output_is_named(target):
    """The sentence names the output and the target that would look at it."""
    found = look(heads(), target=target)
    side = {"side", "side/kernel", "side/bias"}
    assert {n for n, fact in found.items() if fact != "ok"} == side
    assert {found[name] for name in side} == {"other_output @side"}
    reason = gw.why_none(heads(), X, None, "side/bias", target=target)
    assert "'side'" in str(reason)
    assert "`target=gradwatch.output('side')`" in str(reason)


def test_a_result_that_is_thrown_away_is_not_on_the_path():
    """A layer that runs, but whose output nobody uses."""

    class Wasteful(keras.Model):
        def __init__(self):
            super().__init__(name="wasteful")
            self.a, self.waste = dense("a"), dense("waste")

        def call(self, x):
            self.waste(x)
            return self.a(x)

    model = Wasteful()
    model(X)
    found = look(model)
    waste = {"waste", "waste/kernel", "waste/bias"}
    assert {n for n, fact in found.items() if fact != "ok"} == waste
    assert {found[name] for name in waste} == {"not_on_path @waste"}


def test_a_value_of_which_only_the_shape_is_used_is_not_on_the_path():
    """`ones_like` and `shape` read no numbers; there is nothing to cut."""
    for function in (ops.ones_like, lambda x: ops.ones(ops.shape(x))):
        found = look(chain(dense("a"), do(function, "ones"), dense("b")))
        assert found["a/kernel"] == found["a"] == "not_on_path @a"
        assert found["inputs"] == "not_on_path @inputs"
        assert found["ones"] == "ok"


class Unread(layers.Layer):
    def build(self, shape):
        self.used = self.add_weight(shape=(WIDTH,), initializer="ones", name="used")
        self.dead = self.add_weight(shape=(WIDTH,), initializer="ones", name="dead")

    def call(self, x):
        return x * self.used


def test_a_weight_that_is_never_read_is_not_on_the_path():
    """It exists, its layer runs, and nothing depends on it."""
    found = look(chain(Unread(name="u"), dense("b")))
    assert found.pop("u/dead") == "not_on_path @u"
    assert set(found.values()) == {"ok"}


def test_moving_averages_are_not_on_the_path_while_training():
    """In training, batch statistics are used; at inference the averages are."""
    model = chain(dense("a"), layers.BatchNormalization(name="norm"))
    wrt = gw.weights("norm/moving_mean")
    assert look(model, wrt=wrt, training=True) == {
        "norm/moving_mean": "not_on_path @norm"
    }
    assert look(model, wrt=wrt) == {"norm/moving_mean": "ok"}


# not called, frozen -------------------------------------------------------------------


class Optional(keras.Model):
    """`extra_dense` runs in training only, `block` and `ext` never."""

    def __init__(self):
        super().__init__(name="optional")
        self.extra, self.more, self.ext = (
            dense("extra"),
            dense("extra_dense"),
            dense("ext"),
        )
        self.block = chain(dense("first"), name="block")
        self.more.build((None, WIDTH))
        self.ext.build((None, WIDTH))

    def call(self, x, training=False):
        x = self.extra(x)
        return self.more(x) if training else x


def optional():
    model = Optional()
    model(X)
    return model


def test_a_layer_that_did_not_run_is_named():
    """Its weights and its output say so; no name is taken for a longer or shorter."""
    found = look(optional())
    for layer in ("extra_dense", "ext"):
        for name in (layer, f"{layer}/kernel", f"{layer}/bias"):
            assert found[name] == f"not_called @{layer}"
    for name in ("block/first", "block/first/bias"):
        assert found[name] == "not_called @block/first"
    assert found["block"] == "not_called @block"
    assert found["extra"] == found["extra/kernel"] == "ok"


def test_what_runs_in_training_is_there_in_training():
    """The same layer has gradients in the mode in which it runs."""
    found = look(optional(), training=True)
    assert found["extra_dense"] == found["extra_dense/kernel"] == "ok"


def test_a_sublayer_that_its_layer_does_not_call_was_not_called():
    """That the layer around it ran does not count."""

    class Half(StopBetween):
        def call(self, x):
            return self.first(x)

    part = Half(name="half")
    part.second.build((None, WIDTH))
    found = look(chain(part, dense("b")))
    assert found["half/second/kernel"] == "not_called @half/second"
    assert found["half/second"] == "not_called @half/second"
    assert found["half/first/kernel"] == "ok"


def frozen():
    model = chain(dense("a"), dense("b"))
    model.get_layer("a").trainable = False
    return model


def test_a_frozen_weight_is_not_given_unasked():
    """It stands among the missing, with the way to ask for it."""
    found = look(frozen(), wrt=gw.weights())
    assert found == {
        "b/kernel": "ok",
        "b/bias": "ok",
        "a/kernel": "frozen @a/kernel",
        "a/bias": "frozen @a/bias",
    }
    missing = gw.gradients(frozen(), X, target=gw.mean_output()).missing
    assert "`wrt=gradwatch.weights('a/bias')`" in str(missing["a/bias"])


@pytest.mark.parametrize("pattern", ["a", "a/kernel", "**/kernel", 0, layers.Dense])
def test_a_frozen_weight_is_given_when_asked_for(pattern):
    """By any pattern, with the value it has when it is not frozen."""
    model = frozen()
    assert set(look(model, wrt=gw.weights(pattern)).values()) == {"ok"}
    asked = gw.gradients(model, X, target=gw.mean_output(), wrt=gw.weights("a/kernel"))
    model.get_layer("a").trainable = True
    thawed = gw.gradients(model, X, target=gw.mean_output())
    np.testing.assert_allclose(
        asked.to_numpy()["a/kernel"],
        thawed.to_numpy()["a/kernel"],
        rtol=1e-5,
        atol=1e-7,
    )


def test_the_same_sentences_everywhere():
    """One golden sentence for each cause: no backend has words of its own."""
    cut = forked(do(stop, "cut"), do(lambda x: stop(x) * 1.0, "cut2"))
    model = chain(dense("a"), do(INTEGER["argmax"], "pick"), dense("b"))
    flat = chain(dense("a"), do(ops.round, "flat"), dense("b"))

    def sentence(model, name, **options):
        options.setdefault("target", gw.mean_output())
        return str(gw.gradients(model, X, **options).missing[name])

    assert sentence(cut, "a/bias") == (
        "`stop_gradient` in layer 'cut' (also in layer 'cut2') cuts every path from "
        "the target. Remove it if this part is meant to learn."
    )
    assert sentence(model, "a/bias") == (
        "It is turned into whole numbers or truth values in layer 'pick', by the "
        "operation `argmax`, and no gradient passes through those. Use a soft version, "
        "such as a softmax for an argmax."
    )
    assert sentence(flat, "a/bias") == (
        "The operation `round` in layer 'flat' is not differentiable or is flat almost "
        "everywhere, so no gradient passes. Use a smooth version of it."
    )
    assert sentence(frozen(), "a/bias") == (
        "It is frozen (trainable=False), so training does not use its gradient. "
        "`wrt=gradwatch.weights('a/bias')` gives it all the same."
    )
    assert sentence(heads(), "side/bias", target=gw.mean_output("b")) == (
        "Only the output 'side' depends on it, and the target does not look at that. "
        "Use `target=gradwatch.output('side')` or a loss that includes it."
    )
