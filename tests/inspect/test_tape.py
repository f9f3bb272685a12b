"""`Tape`: gradients by name in a training loop of one's own."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import gradwatch as gw
from gradwatch.testing import assert_untouched

from .models import WIDTH, X, array, chain, dense, do, mlp, stop

BACKEND = keras.backend.backend()
Y = np.linspace(0, 1, len(X) * 2).reshape(-1, 2).astype("float32")
BOTH = [gw.weights(), gw.activations()]

has_tape = pytest.mark.skipif(BACKEND == "jax", reason="JAX has no tape")


def tensor(values=X):
    return ops.convert_to_tensor(values)


def squared(model, x=X, **options):
    return ops.mean((model(tensor(x), **options) - tensor(Y)) ** 2)


def called(model):
    """Keras notes on a model that it was called; the tape is not to blame for that."""
    model(tensor())
    return model


def record(model, wrt=None, function=squared):
    with gw.Tape(model, wrt=wrt) as tape:
        target = function(model)
    return tape, target


@pytest.mark.skipif(BACKEND != "jax", reason="the others have a tape")
@pytest.mark.parametrize("wrt", [None, gw.activations(), "wrong"])
def test_jax_is_pointed_to_gradients(wrt):
    """JAX differentiates functions: the error names the verb to use, at once."""
    model = mlp()
    with (
        assert_untouched(model),
        pytest.raises(gw.GradwatchError, match=r"`Tape`.*`gradwatch\.gradients\("),
    ):
        gw.Tape(model, wrt=wrt)


# the values ---------------------------------------------------------------------------


@has_tape
def test_names_and_values_are_those_of_gradients():
    """The same addresses, shapes and numbers as the verb gives."""
    model = mlp()
    tape, target = record(model, BOTH)
    found = tape.gradients(target)
    right = gw.gradients(model, X, Y, wrt=BOTH, loss="mse")
    assert list(found) == list(right)
    assert float(array(found.value)) == pytest.approx(float(array(right.value)))
    for name, gradient in right.to_numpy().items():
        np.testing.assert_allclose(
            found.to_numpy()[name], gradient, rtol=1e-5, atol=1e-7
        )
    for name in ("hidden", "head"):
        np.testing.assert_allclose(
            array(found.activation(name)),
            array(right.activation(name)),
            rtol=1e-5,
            atol=1e-7,
        )
    assert "hidden/kernel" in str(found)
    assert found.plot() is not None


@has_tape
def test_it_may_be_asked_again_and_for_other_targets():
    """Two targets of one pass, in any order, as often as one likes."""
    model = mlp()
    with gw.Tape(model, wrt=BOTH) as tape:
        out = model(tensor())
        one, two = ops.mean(out), ops.sum(out**2)
    first = tape.gradients(one).to_numpy()
    second = tape.gradients(two).to_numpy()
    again = tape.gradients(one).to_numpy()
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
    np.testing.assert_allclose(
        first["head"], 1 / out.shape[0] / 2, rtol=1e-5, atol=1e-7
    )
    np.testing.assert_allclose(second["head"], 2 * array(out), rtol=1e-5)


@has_tape
def test_everything_called_inside_is_named():
    """Two calls of one model are two calls of each layer; nested layers count."""
    inner = chain(dense("deep"), name="inner")
    model = chain(inner)
    with gw.Tape(model, wrt=gw.activations("deep")) as tape:
        target = ops.mean(model(tensor()) * 2 + model(tensor()))
    found = tape.gradients(target).to_numpy()
    assert list(found) == ["inner/deep@1", "inner/deep@2"]
    np.testing.assert_allclose(
        found["inner/deep@1"], 2 * found["inner/deep@2"], rtol=1e-5, atol=1e-7
    )


@has_tape
def test_two_tapes_record_two_models_at_once():
    """A GAN step: each tape names its own model's layers, although names repeat."""
    generator = chain(dense("dense"), name="generator")
    critic = chain(dense("dense", 1), layers.ReLU(name="relu"), name="critic")
    called(generator), called(critic)
    with (
        assert_untouched(generator),
        assert_untouched(critic),
        gw.Tape(generator, wrt=BOTH) as one,
        gw.Tape(critic, wrt=BOTH) as two,
    ):
        fake = critic(generator(tensor()))
        real = critic(tensor())
        target = ops.mean(fake) - 3 * ops.mean(real)
    first, second = one.gradients(target), two.gradients(target)
    shapes = {name: tuple(g.shape) for name, g in first.items()}
    assert shapes == {
        "dense/kernel": (WIDTH, WIDTH),
        "dense/bias": (WIDTH,),
        "dense": (len(X), WIDTH),
    }
    shapes = {name: tuple(g.shape) for name, g in second.items()}
    assert shapes == {
        "dense/kernel": (WIDTH, 1),
        "dense/bias": (1,),
        **{f"{name}@{n}": (len(X), 1) for n in (1, 2) for name in ("dense", "relu")},
    }
    arrays = second.to_numpy()
    np.testing.assert_allclose(arrays["relu@1"], 1 / len(X), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(arrays["relu@2"], -3 / len(X), rtol=1e-5, atol=1e-7)


@has_tape
@pytest.mark.parametrize("order", [1, -1])
def test_two_tapes_on_one_model_do_not_hide_each_other(order):
    """Inner and outer tape both see every layer."""
    model = mlp()
    asked = [gw.activations("hidden"), gw.activations("head")][::order]
    with gw.Tape(model, wrt=asked[0]) as outer, gw.Tape(model, wrt=asked[1]) as inner:
        target = squared(model)
    right = gw.gradients(model, X, Y, wrt=gw.activations(), loss="mse").to_numpy()
    for tape, name in ((outer, asked[0].pattern), (inner, asked[1].pattern)):
        found = tape.gradients(target)
        assert list(found) == [name]
        # A tape and a compiled pass round differently; near zero that is all there is.
        values = found.to_numpy()[name]
        np.testing.assert_allclose(values, right[name], rtol=1e-5, atol=1e-7)


@has_tape
def test_gradients_may_be_asked_inside_a_tape():
    """The verb inside the block disturbs neither the model nor the tape."""
    model = mlp()
    with gw.Tape(model, wrt=gw.activations("hidden")) as tape:
        inside = gw.gradients(model, X, Y, wrt=gw.activations("head"))
        target = squared(model)
    assert list(inside) == ["head"]
    assert list(tape.gradients(target)) == ["hidden"]


@has_tape
def test_what_runs_inside_runs_for_real():
    """Unlike `gradients`, a training step moves the averages."""
    model = chain(layers.BatchNormalization(name="norm"))
    before = array(model.get_layer("norm").moving_mean).copy()
    with gw.Tape(model):
        model(tensor() + 5.0, training=True)
    assert not np.allclose(array(model.get_layer("norm").moving_mean), before)


# plain variables and tensors ----------------------------------------------------------


@has_tape
def test_plain_variables_are_named_by_the_caller():
    """w² b at w=2, b=3: the gradients are 12 and 4."""
    w, b = keras.Variable(2.0), keras.Variable(3.0)
    with gw.Tape() as tape:
        y = w * w * b
    found = tape.gradients(y, {"w": w, "b": b})
    assert {name: float(v) for name, v in found.to_numpy().items()} == {"w": 12, "b": 4}
    assert float(array(found.value)) == 12
    assert str(found).startswith("Gradients of the target = 12")


@has_tape
def test_variables_of_the_backend_are_named_too():
    """`tf.Variable`, or a torch tensor that requires a gradient."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        w = tf.Variable(2.0)
    else:
        import torch

        w = torch.tensor(2.0, requires_grad=True)
    with gw.Tape() as tape:
        y = w * w
    assert float(tape.gradients(y, {"w": w}).to_numpy()["w"]) == 4


@has_tape
@pytest.mark.parametrize("form", ["tensor", "list", "dict"])
def test_watched_tensors_are_differentiable(form):
    """A plain tensor, or a structure of them, watched inside the block."""
    x = tensor()
    with gw.Tape() as tape:
        tape.watch({"tensor": x, "list": [x], "dict": {"x": x}}[form])
        y = ops.sum(x * x)
    found = tape.gradients(y, {"x": x})
    np.testing.assert_allclose(found.to_numpy()["x"], 2 * X, rtol=1e-5, atol=1e-7)
    assert not getattr(x, "requires_grad", False), "left behind on the user's tensor"


@has_tape
def test_the_input_of_a_model_can_be_watched():
    """What the message for `inputs()` recommends does work."""
    model, x = mlp(), tensor()
    with gw.Tape(model) as tape:
        tape.watch(x)
        target = ops.mean((model(x) - tensor(Y)) ** 2)
    found = tape.gradients(target, {"x": x}).to_numpy()["x"]
    right = gw.gradients(model, X, Y, wrt=gw.inputs()).to_numpy()["inputs"]
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-7)


# missing ------------------------------------------------------------------------------


@has_tape
def test_what_the_tape_has_no_path_to_is_missing():
    """Cut, and the verb that names the place is pointed to."""
    model = chain(dense("a"), do(stop, "cut"), dense("b", 2))
    tape, target = record(model, BOTH)
    found = tape.gradients(target)
    assert list(found) == ["b/kernel", "b/bias", "cut", "b"]
    assert set(found.missing) == {"a/kernel", "a/bias", "a"}
    for reason in found.missing.values():
        assert reason.cause == "not_on_path"
        assert "`gradwatch.why_none(" in str(reason)


@has_tape
def test_a_layer_that_was_not_called_is_missing():
    """Only one of two models ran inside."""
    model = mlp()
    tape, target = record(model, BOTH, lambda model: ops.mean(tensor()))
    missing = tape.gradients(target).missing
    assert set(missing) == {*gw.layers(model), *gw.layers(model).weights}
    assert {reason.cause for reason in missing.values()} == {"not_called"}


@has_tape
def test_a_forward_pass_outside_the_block_is_explained():
    """Nothing ran inside: the sentence says that it must."""
    model = mlp()
    target = squared(model)
    with gw.Tape(model, wrt=gw.activations()) as tape:
        pass
    reasons = tape.gradients(target).missing.values()
    assert {reason.cause for reason in reasons} == {"not_called"}
    assert all("inside" in str(reason) for reason in reasons)


@has_tape
def test_a_plain_tensor_that_was_not_watched_is_missing():
    """The sentence says to watch it; there is no model to ask about."""
    x = tensor()
    with gw.Tape() as tape:
        y = ops.sum(x * x)
    (reason,) = tape.gradients(y, {"x": x}).missing.values()
    assert "`tape.watch(" in str(reason)
    assert "why_none" not in str(reason)


@has_tape
def test_an_unused_variable_is_missing():
    """It is not zero: nothing depends on it."""
    w, v = keras.Variable(2.0), keras.Variable(3.0)
    with gw.Tape() as tape:
        y = w * w
    found = tape.gradients(y, {"w": w, "v": v})
    assert list(found) == ["w"]
    assert found.missing["v"].cause == "not_on_path"


# frozen and unbuilt -------------------------------------------------------------------


@has_tape
def test_frozen_weights_are_given_when_asked_for():
    """By name; unasked they are reported as frozen. They stay frozen."""
    model = called(mlp())
    model.get_layer("hidden").trainable = False
    with assert_untouched(model):
        tape, target = record(model, [gw.weights("hidden/kernel"), gw.weights()])
        found = tape.gradients(target)
        assert list(found) == ["hidden/kernel", "head/kernel", "head/bias"]
        assert {n: r.cause for n, r in found.missing.items()} == {
            "hidden/bias": "frozen"
        }
    right = gw.gradients(model, X, Y, wrt=gw.weights("hidden/kernel")).to_numpy()
    np.testing.assert_allclose(
        found.to_numpy()["hidden/kernel"], right["hidden/kernel"], rtol=1e-5
    )


@has_tape
def test_an_unbuilt_model_is_built_by_its_first_call():
    """Its weights are named although they did not exist when the block began."""

    def lazy():
        return keras.Sequential([dense("a"), dense("b", 2)], name="lazy")

    names = ["a/kernel", "a/bias", "b/kernel", "b/bias", "a", "b"]
    tape, target = record(lazy(), BOTH)
    assert list(tape.gradients(target)) == names
    tape, target = record(lazy(), gw.weights("b/bias"))
    assert list(tape.gradients(target)) == ["b/bias"]


@has_tape
def test_a_half_built_model_is_no_different():
    """A weight of a layer that is built inside the block can be asked by name."""

    class Half(keras.Model):
        def __init__(self):
            super().__init__(name="half")
            self.a, self.b = dense("a"), dense("b", 2)
            self.a.build((None, WIDTH))

        def call(self, x):
            return self.b(self.a(x))

    tape, target = record(Half(), gw.weights("b/kernel"))
    assert list(tape.gradients(target)) == ["b/kernel"]
    tape, target = record(Half(), gw.weights("b/kernle"))
    with pytest.raises(gw.AddressError, match=r"`wrt` must name.*'b/kernel'"):
        tape.gradients(target)


# like tf.GradientTape -----------------------------------------------------------------


@has_tape
def test_gradient_gives_the_structure_of_its_sources():
    """A list for a list, a dict for a dict, one for one; None where there is none."""
    model, unused = mlp(), keras.Variable(1.0)
    tape, target = record(model)
    variables = model.trainable_variables
    named = list(tape.gradients(target).to_numpy().values())
    in_list = tape.gradient(target, variables)
    assert isinstance(in_list, list)
    for gradient, expected in zip(in_list, named, strict=True):
        np.testing.assert_array_equal(array(gradient), expected)
    in_dict = tape.gradient(target, {"k": variables[0], "u": unused})
    np.testing.assert_array_equal(array(in_dict["k"]), named[0])
    assert in_dict["u"] is None
    np.testing.assert_array_equal(array(tape.gradient(target, variables[1])), named[1])


@has_tape
def test_gradient_of_a_vector_is_that_of_its_sum():
    """As `tf.GradientTape` means it, on every backend."""
    model = mlp()
    with gw.Tape(model) as tape:
        out = model(tensor())
        total = ops.sum(out)
    for one, two in zip(
        tape.gradient(out, model.trainable_variables),
        tape.gradient(total, model.trainable_variables),
        strict=True,
    ):
        np.testing.assert_allclose(array(one), array(two), rtol=1e-5, atol=1e-7)


def train(model, optimizer, tape_of):
    """Three steps of a loop written for `tf.GradientTape`."""
    for _ in range(3):
        with tape_of(model) as tape:
            loss = squared(model, training=True)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
    return model.get_weights()


@has_tape
def test_training_with_a_tape_gives_the_same_weights_bit_for_bit():
    """One line changed, dropout and batch norm and all; nothing else moves."""

    def model():
        keras.utils.set_random_seed(3)
        return chain(
            dense("a", kernel_regularizer="l2"),
            layers.BatchNormalization(name="norm"),
            layers.Dropout(0.4, name="drop"),
            dense("b", 2),
        )

    if BACKEND == "tensorflow":
        import tensorflow as tf

        plain = train(model(), keras.optimizers.Adam(), lambda _: tf.GradientTape())
    else:
        plain = train(model(), keras.optimizers.Adam(), TorchTape)
    for wrt in (None, BOTH):
        watched = train(
            model(), keras.optimizers.Adam(), lambda m, w=wrt: gw.Tape(m, wrt=w)
        )
        for one, two in zip(plain, watched, strict=True):
            np.testing.assert_array_equal(one, two)


class TorchTape:
    """`tape.gradient` by `autograd.grad`: the loop without gradwatch."""

    def __init__(self, _):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def gradient(self, loss, variables):
        import torch

        return list(torch.autograd.grad(loss, [v.value for v in variables]))


@has_tape
def test_the_weights_named_are_those_the_optimizer_gets():
    """The named result can be applied, too."""
    model = mlp()
    optimizer = keras.optimizers.SGD(0.5)
    before = model.get_weights()
    tape, target = record(model)
    found = tape.gradients(target)
    optimizer.apply([found[n] for n in found], model.trainable_variables)
    for old, new, gradient in zip(
        before, model.get_weights(), found.to_numpy().values(), strict=True
    ):
        np.testing.assert_allclose(new, old - 0.5 * gradient, rtol=1e-5, atol=1e-7)


# misuse -------------------------------------------------------------------------------


@has_tape
def test_a_tape_that_was_never_entered_has_nothing():
    """Every method says so."""
    tape = gw.Tape(mlp())
    for ask in (
        lambda: tape.gradients(ops.ones(())),
        lambda: tape.gradient(ops.ones(()), []),
        lambda: tape.watch(ops.ones(())),
    ):
        with pytest.raises(gw.GradwatchError, match=r"`Tape`.*never entered"):
            ask()


@has_tape
def test_a_tape_records_one_block():
    """A second block, beside or inside the first, is refused; the first goes on."""
    model = called(mlp())
    with assert_untouched(model):
        tape, target = record(model)
        with pytest.raises(gw.GradwatchError, match="`Tape` records one `with`"):
            tape.__enter__()
        assert len(tape.gradients(target)) == 4
        inside = gw.Tape(model)
        with inside:
            with pytest.raises(gw.GradwatchError, match="`Tape` records one `with`"):
                inside.__enter__()
            target = squared(model)
        assert len(inside.gradients(target)) == 4


@has_tape
@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda out: out, r"`target` must be one number.*\(4, 2\).*`keras\.ops\.mean`"),
        (lambda out: 1.0, "`target` must be a tensor.*1.0"),
        (lambda out: None, "`target` must be a tensor.*None"),
        (lambda out: [ops.mean(out)], "`target` must be a tensor"),
        (lambda out: ops.argmax(ops.sum(out, 0)), "`target` must .*floating"),
    ],
    ids=["vector", "number", "None", "list", "integer"],
)
def test_a_target_is_one_number_made_inside(make, match):
    """A vector, a Python number, nothing, a list and an integer are refused."""
    model = mlp()
    tape, target = record(model, None, lambda model: make(model(tensor())))
    with pytest.raises(gw.TargetError, match=match) as info:
        tape.gradients(target)
    assert "Tensor(" not in str(info.value)


@has_tape
@pytest.mark.parametrize("shape", [(1,), (1, 1)])
def test_one_number_may_have_axes(shape):
    """A target of shape (1, 1) is one number, and prints as one."""
    model = mlp()
    tape, target = record(model, None, lambda model: ops.reshape(squared(model), shape))
    found = tape.gradients(target)
    assert len(found) == 4
    assert isinstance(found.to_dict()["value"], float)
    assert str(found).startswith("Gradients of the target = ")


@has_tape
@pytest.mark.parametrize(
    ("wrt", "match"),
    [
        (lambda: gw.inputs(), r"`wrt`.*`gradwatch\.inputs\(\)`.*`tape\.watch\(x\)`"),
        (lambda: [gw.weights(), gw.inputs()], r"`wrt`.*`tape\.watch\(x\)`"),
        (lambda: gw.weights(per_call=True), r"`wrt`.*per_call"),
        (lambda: "hidden", "`wrt` must say"),
        (list, "`wrt` must hold"),
    ],
    ids=["inputs", "with inputs", "per call", "name", "empty"],
)
def test_what_a_tape_cannot_select_is_refused_at_once(wrt, match):
    """Before the block, with the way to get it."""
    with pytest.raises(gw.GradwatchError, match=match):
        gw.Tape(mlp(), wrt=wrt())


@has_tape
def test_an_unknown_layer_is_refused_when_the_block_begins():
    """Nothing is left half open."""
    model = mlp()
    with (
        assert_untouched(model),
        pytest.raises(gw.AddressError, match=r"`wrt` must name.*'hidden'"),
        gw.Tape(model, wrt=gw.activations("hiden")),
    ):
        raise AssertionError("the block must not run")


@has_tape
@pytest.mark.parametrize("wrong", [42, "model", keras.Model])
def test_a_tape_needs_a_model_or_none(wrong):
    """Refused when the tape is made."""
    with pytest.raises(gw.GradwatchError, match="`model` must be"):
        gw.Tape(wrong)


@has_tape
def test_without_a_model_variables_are_needed():
    """There is nothing to name otherwise; nor is there anything to select."""
    with gw.Tape() as tape:
        y = ops.sum(tensor())
    with pytest.raises(gw.GradwatchError, match=r"`tape.gradients` .*variables"):
        tape.gradients(y)
    with pytest.raises(gw.GradwatchError, match="`wrt` selects from a model"):
        gw.Tape(wrt=gw.activations("a"))


@has_tape
@pytest.mark.parametrize(
    "variables",
    [
        lambda w: [w],
        lambda w: w,
        lambda w: {"w": 3.0},
        lambda w: {"w": np.ones(3)},
        lambda w: {3: w},
        lambda w: {},
    ],
    ids=["list", "variable", "number", "array", "key", "empty"],
)
def test_plain_variables_come_in_a_dict(variables):
    """Names to variables or tensors; all else is refused in words."""
    w = keras.Variable(2.0)
    with gw.Tape() as tape:
        y = w * w
    with pytest.raises(gw.GradwatchError, match="`variables` must"):
        tape.gradients(y, variables(w))


@has_tape
@pytest.mark.parametrize(
    "make",
    [lambda: np.ones(3), lambda: 3.0, lambda: ops.ones((2,), dtype="int32")],
    ids=["array", "number", "integers"],
)
def test_only_floating_point_tensors_can_be_watched(make):
    """One rule on both backends."""
    with gw.Tape() as tape, pytest.raises(gw.GradwatchError, match="`tensor` must"):
        tape.watch(make())


@has_tape
def test_watching_after_the_block_is_too_late():
    """It would be silently useless."""
    with gw.Tape() as tape:
        pass
    with pytest.raises(gw.GradwatchError, match="`watch` must be called inside"):
        tape.watch(tensor())


# when something goes wrong inside -----------------------------------------------------


class Boom(layers.Layer):
    broken = False

    def call(self, x):
        if self.broken:
            raise FloatingPointError("boom")
        return x


@has_tape
def test_a_model_that_raises_inside_is_put_back():
    """The error is the model's own, with the layer's address."""
    boom = Boom(name="boom")
    model = called(chain(dense("a"), chain(boom, name="inner")))
    model.get_layer("a").trainable = False
    boom.broken = True
    with (
        assert_untouched(model),
        pytest.raises(FloatingPointError, match="boom") as info,
    ):
        record(model, [*BOTH, gw.weights("a")])
    (note,) = [n for n in info.value.__notes__ if n.startswith("gradwatch:")]
    assert "layer 'inner/boom' (Boom) of 'demo'" in note


@has_tape
@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit, RuntimeError])
def test_any_way_out_of_the_block_puts_everything_back(error):
    """Ctrl-C after the forward pass; the user's own error has no note of ours."""
    model = called(mlp())
    model.get_layer("hidden").trainable = False

    def interrupted(model):
        model(tensor())
        raise error("stop")

    with assert_untouched(model), pytest.raises(error, match="stop") as info:
        record(model, [*BOTH, gw.weights("hidden")], interrupted)
    assert not getattr(info.value, "__notes__", [])


@has_tape
def test_a_tape_leaves_no_trace():
    """After the block, and after asking, the model is as it was."""
    model = called(mlp())
    with assert_untouched(model):
        tape, target = record(model, BOTH)
        tape.gradients(target)
        tape.gradient(target, model.trainable_variables)
