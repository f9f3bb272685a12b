"""A model that raises inside: its own error, with the layer's address beside it."""

import keras
import numpy as np
import pytest
from keras import layers

import gradwatch as gw
from gradwatch.testing import assert_untouched

from .models import WIDTH, X, chain, dense

BACKEND = keras.backend.backend()


class OddError(Exception):
    """An error that cannot be made again from its text alone."""

    def __init__(self, text, code):
        super().__init__(text)
        self.code = code


class Boom(layers.Layer):
    """Raises what it is told to, when numbers come by."""

    error = None

    def call(self, x):
        if self.error is not None and not isinstance(x, keras.KerasTensor):
            raise self.error
        return x

    def compute_output_shape(self, shape):
        return shape


class Outer(layers.Layer):
    def __init__(self, **options):
        super().__init__(**options)
        self.boom = Boom(name="boom")

    def call(self, x):
        return self.boom(x)

    def compute_output_shape(self, shape):
        return shape


def model_with(part, boom, error):
    model = chain(dense("a"), part, dense("b"))
    model.compile(loss="mse", optimizer="sgd")
    boom.error = error
    return model


def ask(model, x=X, **options):
    return gw.gradients(model, x, target=gw.mean_output(), **options)


def ours(error):
    return [n for n in getattr(error, "__notes__", []) if n.startswith("gradwatch:")]


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "eager"])
@pytest.mark.parametrize("wrt", [gw.weights(), gw.activations()], ids=["w", "a"])
def test_the_original_error_comes_with_the_address(compiled, wrt):
    """Its type and its text are the model's own; the note names the layer."""
    boom = Boom(name="boom")
    model = model_with(boom, boom, FloatingPointError("boom"))
    with (
        assert_untouched(model),
        pytest.raises(FloatingPointError, match="boom") as info,
    ):
        ask(model, wrt=wrt, compiled=compiled)
    note = "gradwatch: raised inside layer 'boom' (Boom) of 'demo'."
    assert ours(info.value) == [note]


@pytest.mark.parametrize("error", [OddError("odd", 42), StopIteration("odd")])
def test_an_error_of_any_class_comes_through(error):
    """As the class that Keras gives it, also where that cannot be made anew."""
    boom = Boom(name="boom")
    model = model_with(boom, boom, error)
    with pytest.raises(Exception, match="odd") as plain:
        model(X)
    with assert_untouched(model), pytest.raises(Exception, match="odd") as info:
        ask(model)
    assert type(info.value) is type(plain.value)
    assert ours(info.value)


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "eager"])
def test_the_innermost_layer_is_named(compiled):
    """By its full address, through a layer and through models in the model."""
    outer = Outer(name="outer")
    part = chain(chain(outer, name="inner"), name="mid")
    model = model_with(part, outer.boom, ValueError("boom"))
    with assert_untouched(model), pytest.raises(ValueError, match="boom") as info:
        ask(model, compiled=compiled)
    assert ours(info.value) == [
        "gradwatch: raised inside layer 'mid/inner/outer/boom' (Boom) of 'demo'."
    ]


def test_an_error_that_the_model_handles_is_not_blamed():
    """A layer may catch what its sublayer raises; the one that gets out is named."""

    class Careful(Outer):
        def call(self, x):
            try:
                return super().call(x)
            except ValueError:
                return x * 2.0

    careful, boom = Careful(name="careful"), Boom(name="later")
    model = chain(careful, boom, dense("b"))
    careful.boom.error = ValueError("handled")
    assert len(ask(model)) == 2
    boom.error = KeyError("not handled")
    with pytest.raises(KeyError, match="not handled") as info:
        ask(model, wrt=gw.activations())
    assert "layer 'later' (Boom)" in ours(info.value)[0]


def test_an_error_in_the_models_own_call_is_named():
    """It is raised in no layer; the note says so."""

    class Own(keras.Model):
        broken = False

        def __init__(self):
            super().__init__(name="own")
            self.a = dense("a")

        def call(self, x):
            x = self.a(x)
            if self.broken:
                raise LookupError("own")
            return x

    model = Own()
    model(X)
    model.broken = True
    with assert_untouched(model), pytest.raises(LookupError, match="own") as info:
        ask(model)
    assert "'own'" in ours(info.value)[0]
    assert "inside layer" not in ours(info.value)[0]


def test_an_unbuilt_model_that_raises_is_explained_too():
    """The first use builds; an error then has its address as well."""

    class Lazy(keras.Model):
        def __init__(self):
            super().__init__(name="lazy")
            self.a, self.boom = dense("a"), Boom(name="boom")
            self.boom.error = ValueError("boom")

        def call(self, x):
            return self.boom(self.a(x))

    for verb in (ask, lambda m: gw.why_none(m, X, None, "a", target=gw.mean_output())):
        with pytest.raises(ValueError, match="boom") as info:
            verb(Lazy())
        assert "layer 'boom' (Boom) of 'lazy'" in ours(info.value)[0]


def test_keras_words_about_arguments_stay_as_they_are():
    """The text Keras adds to an error is the one it adds without us."""
    boom = Boom(name="boom")
    model = model_with(boom, boom, ValueError("boom"))

    def text(run):
        with pytest.raises(ValueError, match="boom") as info:
            run()
        return str(info.value).replace("\n", " ")

    without = text(lambda: model(X))
    assert "x=" in without
    assert text(lambda: ask(model, compiled=False)) == without
    boom.error = ValueError("boom")
    assert "x=" in text(lambda: ask(model))


def test_an_inspector_goes_on_after_an_error():
    """A failed call leaves the inspector as good as new."""
    boom = Boom(name="boom")
    model = chain(dense("a"), boom, dense("b"))
    inspect = gw.Inspector(model, target=gw.mean_output())
    boom.error = ValueError("boom")
    with pytest.raises(ValueError, match="boom"):
        inspect(X)
    boom.error = None
    assert len(inspect(X)) == 4
    if BACKEND == "torch":  # which runs the model anew each time
        boom.error = ValueError("boom")
        with pytest.raises(ValueError, match="boom") as info:
            inspect(X)
        assert "layer 'boom'" in ours(info.value)[0]
    else:
        assert len(inspect(X)) == 4


# errors that show only when numbers flow ----------------------------------------------


def embedding(nested=False):
    parts = [layers.Embedding(5, 2, name="embed"), layers.Flatten(name="flat")]
    options = {"shape": (2,), "dtype": "int32"}
    if nested:
        parts = [chain(*parts, name="inner", **options)]
    model = chain(*parts, dense("b"), **options)
    model.compile(loss="mse", optimizer="sgd")
    return model


GOOD = np.array([[0, 1], [2, 3]], "int32")
BAD = np.array([[0, 1], [2, 9]], "int32")


@pytest.mark.parametrize("nested", [False, True], ids=["top", "nested"])
@pytest.mark.parametrize("when", ["first", "kept", "eager"])
def test_an_index_out_of_range_at_run_time_names_the_embedding(nested, when):
    """A compiled pass knows no layers; the place is found all the same."""
    model = embedding(nested)
    inspect = gw.Inspector(model, target=gw.mean_output(), compiled=when != "eager")
    if when == "kept":
        inspect(GOOD)
    place = "inner/embed" if nested else "embed"
    if BACKEND == "jax":  # which reads NaN there, and goes on
        with assert_untouched(model):
            found = inspect(BAD)
        assert any(row.nonfinite for row in found.summary())
        return
    with (
        assert_untouched(model),
        pytest.raises(
            Exception, match=r"index out of range|is not in \[0, 5\)"
        ) as info,
    ):
        inspect(BAD)
    assert f"layer {place!r} (Embedding)" in ours(info.value)[-1]
    assert len(inspect(GOOD)) == 3


def test_a_shape_that_only_meets_inside_is_explained():
    """A subclassed model has no declared inputs; the layer that minds is named."""

    class Free(keras.Model):
        def __init__(self):
            super().__init__(name="free")
            self.a, self.b = dense("a"), dense("b")

        def call(self, x):
            return self.b(self.a(x))

    model = Free()
    model(X)
    with assert_untouched(model), pytest.raises(ValueError, match="incompatible") as e:
        ask(model, np.ones((2, WIDTH + 1), "float32"))
    assert ours(e.value)
