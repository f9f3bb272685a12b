"""The pass is compiled once for each question and shape, and never goes stale."""

import gc
import threading
import weakref

import keras
import numpy as np
import pytest
from keras import layers, ops

import gradwatch as gw
from gradwatch.testing import assert_untouched, known

from .frameworks import BACKEND, array, quick_compilation
from .looks import EVERYTHING, prepared

compiles = pytest.mark.skipif(
    BACKEND == "torch", reason="torch runs every pass in Python; nothing is compiled."
)


@pytest.fixture(autouse=True)
def quick():
    with quick_compilation():
        yield


class Counting(layers.Layer):
    """Counts how often Python runs through it, where a look puts nothing back."""

    def __init__(self, **options):
        super().__init__(**options)
        self.dense = layers.Dense(3, name="dense")
        self.__dict__["seen"] = []  # Keras does not track it.

    @property
    def times(self):
        return len(self.seen)

    def call(self, x):
        self.seen.append(1)
        return ops.tanh(self.dense(x))


def counted():
    model = keras.Sequential(
        [
            keras.Input((None, 4)),
            Counting(name="counting"),
            layers.Dense(2, name="head"),
        ]
    )
    model.compile(optimizer=keras.optimizers.SGD(1.0), loss="mse")
    model(np.zeros((1, 2, 4), "float32"))
    model.layers[0].seen.clear()
    return model, model.layers[0]


def batch(examples=3, steps=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(examples, steps, 4)).astype("float32")
    return x, rng.normal(size=(examples, steps, 2)).astype("float32")


# once -----------------------------------------------------------------------------


@compiles
def test_the_same_shapes_are_traced_once():
    """Neither the counter of the inspector nor Python itself sees a second trace."""
    model, layer = counted()
    inspect = gw.Inspector(model, wrt=EVERYTHING)
    inspect(*batch())
    times = layer.times
    results = [inspect(*batch(seed=seed)) for seed in range(4)]
    assert (inspect.num_traces, layer.times) == (1, times)
    kernels = [array(g["head/kernel"]) for g in results]
    assert not np.allclose(kernels[0], kernels[1])


@compiles
def test_gradients_in_a_loop_are_traced_once():
    """At the second call at the latest; later ones run what was compiled."""
    model, layer = counted()
    times = []
    for seed in range(5):
        wrt = [gw.weights("head"), gw.activations("counting")]
        gw.gradients(model, *batch(seed=seed), wrt=wrt)
        times.append(layer.times)
    assert times[1:] == [times[1]] * 4
    assert (times[0] < times[1]) == (BACKEND == "tensorflow")


@compiles
def test_a_new_shape_is_traced_once():
    """And the old shape is still there afterwards."""
    model, _ = counted()
    inspect = gw.Inspector(model)
    for shape in ((3, 2), (3, 5), (2, 2), (3, 2), (3, 5), (2, 2)):
        inspect(*batch(*shape))
    assert inspect.num_traces == 3


@compiles
def test_another_class_needs_no_new_trace():
    """The index is data: one for all examples, one for each, from the end."""
    model, x, _ = prepared("mlp")
    inspect = gw.Inspector(model, wrt=gw.inputs())
    found = [
        array(inspect(x, target=gw.class_score(index))["inputs"])
        for index in (0, 1, 2, -1, [0, 1, 2])
    ]
    assert inspect.num_traces == 1
    assert np.allclose(found[2], found[3])
    assert all(np.allclose(found[4][i], found[i][i]) for i in range(3))
    assert not np.allclose(found[0], found[1])


@compiles
def test_other_sample_weights_need_no_new_trace():
    """Weights are data too, and they count."""
    model, x, y = prepared("mlp")
    inspect = gw.Inspector(model)
    ones, twos = np.ones(3), np.full(3, 2.0)
    once = inspect(x, y, target=gw.loss(sample_weight=ones))["head/bias"]
    twice = inspect(x, y, target=gw.loss(sample_weight=twos))["head/bias"]
    assert inspect.num_traces == 1
    assert np.allclose(2 * array(once), array(twice), rtol=1e-5)


@compiles
def test_twenty_shapes_do_not_pile_up():
    """The shape unused for longest is forgotten; the latest is not."""
    model, _ = counted()
    inspect = gw.Inspector(model, wrt=gw.weights("head/bias"))
    for steps in range(1, 21):
        inspect(*batch(steps=steps))
    inspect(*batch(steps=20))
    assert inspect.num_traces == 20
    inspect(*batch(steps=1))
    assert inspect.num_traces == 21


# never stale ----------------------------------------------------------------------


def test_changed_weights_change_the_gradients():
    """A compiled pass reads the weights of the moment, without a new trace."""
    right = known()
    inspect = gw.Inspector(right.model)
    inspect(right.x, right.y)
    traces = inspect.num_traces
    other = known(seed=8)
    right.model.set_weights(other.model.get_weights())
    found = inspect(other.x, other.y)
    assert all(np.allclose(found[n], other.weights[n], atol=1e-5) for n in found)
    if BACKEND != "torch":
        assert inspect.num_traces == traces


def test_training_changes_the_gradients():
    """`fit` between two looks: the second sees the trained weights."""
    model, x, y = prepared("mlp")
    inspect = gw.Inspector(model)
    before = array(inspect(x, y)["head/kernel"])
    model.fit(x, y, epochs=2, verbose=0)
    after = inspect(x, y)
    eager = gw.gradients(model, x, y, compiled=False)
    assert not np.allclose(before, array(after["head/kernel"]))
    assert np.allclose(array(eager["head/kernel"]), array(after["head/kernel"]), 1e-5)


def test_another_compiled_loss_is_noticed():
    """`compile` with another loss, also one of the same kind with other settings."""
    model, x, y = prepared("subclassed")
    inspect = gw.Inspector(model)
    found = []
    for loss in ("mse", "mae", keras.losses.Huber(0.1), keras.losses.Huber(9.0)):
        model.compile(loss=loss)
        found.append(array(inspect(x, y)["head/bias"]))
        expected = gw.gradients(model, x, y, loss=loss, compiled=False)["head/bias"]
        assert np.allclose(found[-1], array(expected), rtol=1e-5)
    assert not np.allclose(found[0], found[1])
    assert not np.allclose(found[2], found[3])


def test_another_loss_scale_is_noticed():
    """The scale changes during training; the gradients do not show it."""
    model, x, y = prepared("mixed_float16")
    inspect = gw.Inspector(model)
    before = array(inspect(x, y)["head/kernel"])
    model.optimizer.build(model.trainable_variables)
    model.optimizer.dynamic_scale.assign(64.0)
    assert np.allclose(array(inspect(x, y)["head/kernel"]), before, rtol=1e-2)


def test_freezing_and_thawing_is_noticed():
    """A frozen layer has a reason instead of a gradient, and the other way round."""
    model, x, y = prepared("mlp")
    inspect = gw.Inspector(model)
    everything = list(inspect(x, y))
    model.get_layer("hidden").trainable = False
    frozen = inspect(x, y)
    assert list(frozen) == [n for n in everything if not n.startswith("hidden/")]
    assert {r.cause for r in frozen.missing.values()} == {"frozen"}
    model.get_layer("hidden").trainable = True
    assert list(inspect(x, y)) == everything


def test_a_layer_put_in_later_is_noticed():
    """A sequential model grows, and so do its gradients."""
    model, x, _ = prepared("mlp")
    inspect = gw.Inspector(model, target=gw.mean_output())
    assert len(inspect(x)) == 6
    model.add(layers.Dense(2, name="more"))
    assert list(inspect(x))[-1] == "more/bias"


def test_the_mode_is_part_of_the_question():
    """The same inspector settings with `training` on and off are two passes."""
    model, x, y = prepared("cnn")
    on = gw.gradients(model, x, y, training=True)["conv/kernel"]
    off = gw.gradients(model, x, y, training=False)["conv/kernel"]
    again = gw.gradients(model, x, y, training=True)["conv/kernel"]
    assert not np.allclose(array(on), array(off))
    assert np.allclose(array(on), array(again), 1e-5, 1e-6)


EAGER = ["structures", "dict_outputs", "regularised", "stateful_lstm", "used_twice"]
if BACKEND != "jax":  # where each operation is compiled by itself, for seconds
    EAGER += ["cnn", "graph_of_ops", "lstm_states", "masked_embedding", "attention"]
    EAGER += ["mixed_float16", "rematerialised", "custom_cell"]


@pytest.mark.parametrize("name", EAGER)
def test_compiled_and_eager_passes_give_equal_results(name):
    """The same names and reasons (cells of loops are seen by the eager pass only)."""
    model, x, y = prepared(name)
    compiled = gw.gradients(model, x, y, wrt=EVERYTHING)
    with assert_untouched(model):
        eager = gw.gradients(model, x, y, wrt=EVERYTHING, compiled=False)
    assert [n for n in eager if n in compiled] == list(compiled)
    tolerance = 1e-2 if "float16" in name else 2e-4
    apart = [
        n
        for n in compiled
        if np.linalg.norm(array(eager[n]) - array(compiled[n]))
        > tolerance * np.linalg.norm(array(compiled[n])) + 1e-6
    ]
    assert apart == []
    causes = {n: r.cause for n, r in compiled.missing.items()}
    for each, reason in eager.missing.items():
        assert causes.get(each, "inside_loop" if "cell" in each else "") in (
            reason.cause,
            "inside_loop",
        )


# the model is not kept ------------------------------------------------------------


WAYS = (
    "a loss",
    "a layer object",
    "everything",
    "a function that holds the model",
    "a loss that holds the model",
    "an eager pass",
)


def questions(model):
    """Ways to ask that could each keep the model alive."""

    def closure(outputs):
        return ops.mean(outputs) * len(model.layers)

    def closed_loss(y, outputs):
        return ops.mean(ops.square(y - outputs)) * len(model.layers)

    return {
        "a loss": {},
        "a layer object": {"wrt": gw.activations(model.layers[-1])},
        "everything": {"wrt": EVERYTHING},
        "a function that holds the model": {"target": closure},
        "a loss that holds the model": {"loss": closed_loss},
        "an eager pass": {"compiled": False},
    }


HOLDING = [(name, how) for name in ("siamese", "subclassed") for how in WAYS]


@pytest.mark.parametrize(("name", "how"), [*HOLDING, ("lstm", "everything")])
def test_a_model_that_was_looked_at_can_be_collected(name, how):
    """Keeping what was compiled does not keep the model, whatever was asked."""
    model, x, y = prepared(name)
    question = questions(model)[how]
    y = None if "target" in question else y
    gw.gradients(model, x, y, **question)
    gone = weakref.ref(model)
    del model, question
    gc.collect()
    assert gone() is None


# several at once ------------------------------------------------------------------


def test_threads_that_look_at_one_model_do_not_disturb_each_other():
    """Each asks something else, so that all trace at the same time."""
    model, x, y = prepared("nested")
    expected = gw.gradients(model, x, y, wrt=EVERYTHING, compiled=False)
    addresses = list(gw.layers(model))[:4]
    results, errors = {}, []
    ready = threading.Barrier(len(addresses))

    def work(address):
        try:
            ready.wait()
            for _ in range(3):
                wrt = [gw.weights(), gw.activations(address)]
                results[address] = gw.gradients(model, x, y, wrt=wrt)
        except Exception as error:  # noqa: BLE001 - the test asserts there is none
            errors.append(error)

    with assert_untouched(model):
        threads = [threading.Thread(target=work, args=(a,)) for a in addresses]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []
    for address, found in results.items():
        assert address in found
        for each in found:
            assert np.allclose(array(found[each]), array(expected[each]), atol=1e-5)


def test_a_thread_that_predicts_is_not_tapped():
    """While one thread looks, another uses the model as ever."""
    model, x, y = prepared("mlp")
    right = array(model(x.astype("float32")))
    stop, wrong = threading.Event(), []

    def work():
        while not stop.is_set():
            found = array(model(x.astype("float32")))
            if not np.allclose(found, right, atol=1e-5):
                wrong.append(found)

    thread = threading.Thread(target=work)
    with assert_untouched(model):
        thread.start()
        try:
            for examples in (1, 2, 3):
                for address in gw.layers(model):
                    wrt = gw.activations(address)
                    found = gw.gradients(model, x[:examples], y[:examples], wrt=wrt)
                    assert list(found) == [address]
        finally:
            stop.set()
            thread.join()
    assert wrong == []


# inside fit -----------------------------------------------------------------------


class Looking(keras.callbacks.Callback):
    """Looks at the model during training, as often as it can."""

    def __init__(self, x, y):
        super().__init__()
        self.x, self.y, self.seen = x, y, []

    def look(self):
        gradients = gw.gradients(self.model, self.x, self.y, wrt=EVERYTHING)
        self.seen.append(gradients.to_numpy())

    def on_train_batch_begin(self, batch, logs=None):
        self.look()

    def on_train_batch_end(self, batch, logs=None):
        self.look()

    def on_epoch_end(self, epoch, logs=None):
        self.look()


def trained(looking):
    keras.utils.clear_session(free_memory=False)
    model, x, y = prepared("cnn")
    model.compile(
        optimizer=keras.optimizers.Adam(0.01), loss=model.loss, metrics=["accuracy"]
    )
    x, y = np.concatenate([x, -x]), np.concatenate([y, y])
    callback = Looking(x, y)
    history = model.fit(
        x,
        y,
        batch_size=3,
        epochs=2,
        shuffle=False,
        verbose=0,
        callbacks=[callback] if looking else [],
    )
    state = [array(v) for v in [*model.variables, *model.optimizer.variables]]
    return state, history.history, callback.seen, gw.gradients(model, x, y)


def test_looking_during_fit_does_not_change_the_training():
    """Weights, moving averages, seeds, optimizer and history: bit for bit the same."""
    alone = trained(looking=False)
    watched = trained(looking=True)
    assert len(watched[2]) == 2 * (2 + 2 + 1)
    for expected, found in zip(alone[0], watched[0], strict=True):
        assert np.array_equal(expected, found)
    assert alone[1] == watched[1]


def test_looking_during_fit_sees_the_weights_of_the_moment():
    """Each batch changes what is seen; the end of a batch is the begin of the next."""
    _, _, seen, after = trained(looking=True)
    first_begin, first_end, second_begin = seen[0], seen[1], seen[2]
    name = "head/kernel"
    assert not np.allclose(first_begin[name], first_end[name])
    assert np.allclose(first_end[name], second_begin[name], rtol=1e-5)
    assert np.allclose(seen[-1][name], array(after[name]), rtol=1e-4, atol=1e-6)
