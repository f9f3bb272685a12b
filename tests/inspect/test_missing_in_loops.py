"""Tensors inside a loop, a branch or a map: let out where that can be, else said so."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import gradwatch as gw
from gradwatch.testing import assert_untouched

from .models import SEQUENCE, WIDTH, X, chain, dense

STEPS = SEQUENCE.shape[1]
BACKEND = keras.backend.backend()


def ask(model, wrt, x=SEQUENCE, **options):
    with assert_untouched(model):
        return gw.gradients(model, x, target=gw.mean_output(), wrt=wrt, **options)


def recurrent(layer, **options):
    return chain(layer(WIDTH, name="rnn", **options), shape=SEQUENCE.shape[1:])


RNNS = {"LSTM": "lstm_cell", "GRU": "gru_cell", "SimpleRNN": "simple_rnn_cell"}


def steps_are_visible(kind, compiled):
    """Where the loop runs in Python: eager TensorFlow, and torch without kernels."""
    if BACKEND == "torch":
        return kind == "SimpleRNN"
    return BACKEND == "tensorflow" and not compiled


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "eager"])
@pytest.mark.parametrize("kind", RNNS)
def test_a_cell_shows_its_steps_or_says_why_not(kind, compiled):
    """Either one entry per time step, or one reason that offers the ways out."""
    model = recurrent(getattr(layers, kind))
    cell = f"rnn/{RNNS[kind]}"
    found = ask(model, gw.activations(cell), compiled=compiled)
    names = {*found, *found.missing}
    if steps_are_visible(kind, compiled):
        calls = {name.partition("[")[0] for name in names}
        assert calls == {f"{cell}@{n}" for n in range(1, STEPS + 1)}
        return
    assert names == {cell}
    reason = found.missing[cell]
    assert (reason.cause, reason.address) == ("inside_loop", cell)
    assert "`gradwatch.activations('rnn')`" in str(reason)
    assert "unroll=True" in str(reason)


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "eager"])
@pytest.mark.parametrize("kind", RNNS)
def test_an_unrolled_cell_shows_every_step(kind, compiled):
    """`unroll=True` without kernels: as many calls as time steps, no probe counted."""
    options = {} if kind == "SimpleRNN" else {"use_cudnn": False}
    model = recurrent(getattr(layers, kind), unroll=True, **options)
    cell = f"rnn/{RNNS[kind]}"
    found = ask(model, [gw.activations(cell), gw.activations("rnn")], compiled=compiled)
    names = {*found, *found.missing} - {"rnn"}
    calls = {name.partition("[")[0] for name in names}
    assert calls == {f"{cell}@{n}" for n in range(1, STEPS + 1)}
    # The last step's output is the layer's output.
    np.testing.assert_allclose(
        found.to_numpy()[f"{cell}@{STEPS}[0]"],
        found.to_numpy()["rnn"],
        rtol=1e-5,
        atol=1e-7,
    )
    np.testing.assert_allclose(
        found.activation(f"{cell}@{STEPS}[0]"),
        found.activation("rnn"),
        rtol=1e-5,
        atol=1e-7,
    )
    # The outputs of the other steps are used as states only.
    assert {found.missing[n].cause for n in found.missing} == {"not_on_path"}
    assert f"{cell}@1[0]" in found.missing


@pytest.mark.parametrize("kind", RNNS)
def test_the_weights_of_a_cell_have_gradients_however_the_loop_runs(kind):
    """Compiled, eager and unrolled give the same numbers."""
    looped = recurrent(getattr(layers, kind))
    unrolled = recurrent(getattr(layers, kind), unroll=True)
    unrolled.set_weights(looped.get_weights())
    reference = ask(unrolled, gw.weights())
    assert len(reference) == 3
    for compiled in (True, False):
        found = ask(looped, gw.weights(), compiled=compiled)
        assert not found.missing
        for name, gradient in found.to_numpy().items():
            np.testing.assert_allclose(
                gradient, reference.to_numpy()[name], rtol=1e-4, atol=1e-6
            )


def test_the_shares_of_steps_inside_a_loop_say_why_not():
    """`per_call` asks for each step's share of a cell's kernel."""
    model = recurrent(layers.LSTM)
    found = ask(model, gw.weights("rnn", per_call=True))
    shares = {n: r for n, r in found.missing.items() if "@" in n}
    assert shares
    assert {(r.cause, r.address) for r in shares.values()} == {
        ("inside_loop", "rnn/lstm_cell")
    }
    assert len(found) == 3


def test_the_shares_of_unrolled_steps_add_up():
    """The gradient of a shared kernel is the sum of what each step contributes."""
    model = recurrent(layers.SimpleRNN, unroll=True)
    found = ask(model, gw.weights("rnn", per_call=True)).to_numpy()
    cell = "rnn/simple_rnn_cell"
    for own in ("kernel", "recurrent_kernel", "bias"):
        shares = [found[f"{cell}@{n}/{own}"] for n in range(1, STEPS + 1)]
        np.testing.assert_allclose(
            np.sum(shares, axis=0), found[f"{cell}/{own}"], rtol=1e-4, atol=1e-6
        )


class StopCell(layers.Layer):
    """A cell of one's own that stops the gradient behind its sublayer."""

    state_size = output_size = WIDTH

    def __init__(self, **options):
        super().__init__(**options)
        self.inner = dense("inner")

    def build(self, shape):
        self.inner.build(shape)

    def call(self, x, states):
        out = ops.stop_gradient(self.inner(x)) + 0.5 * states[0]
        return out, [out]


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "eager"])
@pytest.mark.parametrize("unroll", [False, True], ids=["loop", "unrolled"])
def test_a_cut_inside_a_loop_is_found(unroll, compiled):
    """Not zeros: the loop's body is looked into on every backend."""
    cell = layers.RNN(StopCell(name="cell"), unroll=unroll, name="rnn")
    model = chain(dense("pre"), cell, shape=SEQUENCE.shape[1:])
    wrt = [gw.weights(), gw.activations("pre"), gw.inputs()]
    found = ask(model, wrt, compiled=compiled)
    assert list(found) == []
    assert {(r.cause, r.address) for r in found.missing.values()} == {
        ("stop_gradient", "rnn/cell")
    }


class DelayCell(StopCell):
    """What goes in comes out one step later: only the state leads to the output."""

    def __init__(self, stop, **options):
        super().__init__(**options)
        self.stop = stop

    def call(self, x, states):
        later = self.inner(x)
        return states[0], [ops.stop_gradient(later) if self.stop else later]


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "eager"])
@pytest.mark.parametrize("stop", [False, True], ids=["open", "cut"])
def test_a_path_from_one_round_of_a_loop_to_the_next_is_followed(stop, compiled):
    """Open it has a gradient; cut, the place is inside the cell."""
    model = chain(
        dense("pre"),
        layers.RNN(DelayCell(stop, name="cell"), name="rnn"),
        shape=SEQUENCE.shape[1:],
    )
    found = ask(model, gw.weights(), compiled=compiled)
    names = ["pre/kernel", "pre/bias", "rnn/cell/inner/kernel", "rnn/cell/inner/bias"]
    if not stop:
        assert list(found) == names
        assert all(np.any(gradient) for gradient in found.to_numpy().values())
        return
    assert list(found.missing) == names
    assert {(r.cause, r.address) for r in found.missing.values()} == {
        ("stop_gradient", "rnn/cell")
    }


def test_stacked_cells_show_every_step():
    """Each of several cells is called once for each step, no probe counted."""
    cells = [layers.SimpleRNNCell(WIDTH, name=f"cell{n}") for n in (1, 2)]
    stacked = layers.StackedRNNCells(cells, name="stack")
    model = chain(
        layers.RNN(stacked, unroll=True, name="rnn"), shape=SEQUENCE.shape[1:]
    )
    found = ask(model, gw.activations("rnn/**"))
    names = {*found, *found.missing}
    calls = {name.partition("[")[0] for name in names}
    for cell in ("", "/cell1", "/cell2"):
        mine = {c for c in calls if c.startswith(f"rnn/stack{cell}@")}
        assert mine == {f"rnn/stack{cell}@{n}" for n in range(1, STEPS + 1)}


def test_the_inner_layer_of_time_distributed_shows_its_steps():
    """`TimeDistributed` calls its layer once for each step, in plain sight."""
    inner = layers.TimeDistributed(dense("inner"), name="each")
    model = chain(inner, shape=SEQUENCE.shape[1:])
    found = ask(model, [gw.activations("each/inner"), gw.activations("each")])
    whole = found.to_numpy()["each"]
    assert list(found)[:-1] == [f"each/inner@{n}" for n in range(1, STEPS + 1)]
    for step in range(STEPS):
        np.testing.assert_allclose(
            found.to_numpy()[f"each/inner@{step + 1}"],
            whole[:, step],
            rtol=1e-5,
            atol=1e-7,
        )


# branches, maps and loops of `keras.ops` ----------------------------------------------


class Inside(layers.Layer):
    """Calls a sublayer inside something that may be compiled apart."""

    def __init__(self, **options):
        super().__init__(**options)
        self.part = dense("part")

    def build(self, shape):
        self.part.build((None, shape[-1]))

    def compute_output_shape(self, shape):
        return shape


class Mapped(Inside):
    def call(self, x):
        return ops.vectorized_map(lambda row: self.part(row[None])[0], x)


class Looped(Inside):
    def call(self, x):
        return ops.fori_loop(0, 3, lambda _, h: self.part(h), x)


class Branched(Inside):
    def __init__(self, **options):
        super().__init__(**options)
        self.other = dense("other")

    def build(self, shape):
        super().build(shape)
        self.other.build(shape)

    def call(self, x):
        positive = ops.sum(x) > -100.0
        return ops.cond(positive, lambda: self.part(x), lambda: self.other(x))


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "eager"])
@pytest.mark.parametrize("kind", [Mapped, Looped, Branched])
def test_a_layer_inside_a_map_loop_or_branch(kind, compiled):
    """Its weights and the layer around it have gradients; it may be hidden."""
    model = chain(kind(name="outer"), dense("b"))
    wrt = [gw.weights("outer/part"), gw.activations(), gw.inputs()]
    found = ask(model, wrt, X, compiled=compiled)
    for name in ("outer/part/kernel", "outer/part/bias", "outer", "b", "inputs"):
        assert np.any(found.to_numpy()[name]), name
    part = {n for n in (*found, *found.missing) if n.startswith("outer/part")}
    part -= {"outer/part/kernel", "outer/part/bias"}
    in_python = BACKEND == "torch" or (BACKEND == "tensorflow" and not compiled)
    if in_python and kind is not Mapped:
        calls = {"outer/part@1", "outer/part@2", "outer/part@3"}
        assert part == (calls if kind is Looped else {"outer/part"})
        assert part <= set(found)
        return
    assert part == {"outer/part"}
    reason = found.missing["outer/part"]
    assert (reason.cause, reason.address) == ("inside_loop", "outer/part")
    assert "`gradwatch.activations('outer')`" in str(reason)
    with pytest.raises(gw.AddressError, match=r"'outer/part'.*inside a compiled"):
        found.activation("outer/part")


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "eager"])
def test_the_branch_that_was_not_taken(compiled):
    """In a graph both branches are there and the gradient is zero; in Python the
    layer was not called. Never "lost"."""
    model = chain(Branched(name="outer"), dense("b"))
    found = ask(model, gw.weights("outer/other"), X, compiled=compiled)
    in_python = BACKEND == "torch" or (BACKEND == "tensorflow" and not compiled)
    if in_python:
        assert {r.cause for r in found.missing.values()} == {"not_called"}
        assert list(found) == []
    else:
        assert list(found) == ["outer/other/kernel", "outer/other/bias"]
        assert not np.any(found.to_numpy()["outer/other/kernel"])


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "eager"])
def test_the_gradient_through_a_map_is_that_of_the_plain_layer(compiled):
    """A map over rows is the layer itself; so are its gradients."""
    mapped, plain = Mapped(name="outer"), dense("outer")
    one, two = chain(mapped), chain(plain)
    two.set_weights(one.get_weights())
    found = ask(one, [gw.weights(), gw.inputs()], X, compiled=compiled).to_numpy()
    right = ask(two, [gw.weights(), gw.inputs()], X).to_numpy()
    for (name, gradient), expected in zip(found.items(), right.values(), strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, err_msg=name)
