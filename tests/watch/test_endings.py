"""However `fit` ends, model and optimizer are as they were, and can go on."""

import gc

import keras
import numpy as np
import pytest
from keras import ops

from gradwatch.monitor import GradientMonitor
from gradwatch.run import open_run

from .models import QUICK, X, Y, arrays, fit, mlp, single


class Stop(keras.callbacks.Callback):
    """Does something in the middle of the third step, or after it."""

    def __init__(self, what, when="on_train_batch_end"):
        super().__init__()
        self._what = what
        setattr(self, when, self._at)

    def _at(self, number, logs=None):
        if number == 2:
            self._what(self)


class TroubleError(Exception):
    """Not of Keras, and not of ours."""


def trouble(*_):
    raise TroubleError("in the middle")


def interrupt(*_):
    raise KeyboardInterrupt


def stop(callback):
    callback.model.stop_training = True


class Refuse(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        trouble()


def broken_data():
    for place in range(0, 8, 2):
        if place == 4:
            raise TroubleError("in the data")
        yield X[place : place + 2], Y[place : place + 2]


# How `fit` ends: the callback beside the monitor, options of `fit`, and what is raised.
ENDINGS = {
    "well": ([], {}, type(None)),
    "stopped": ([Stop(stop)], {}, type(None)),
    "a callback raises": ([Stop(trouble)], {}, TroubleError),
    "a callback raises before a step": (
        [Stop(trouble, "on_train_batch_begin")],
        {},
        TroubleError,
    ),
    "a callback raises at the end of an epoch": (
        [Stop(trouble, "on_epoch_end")],
        {"epochs": 3},
        TroubleError,
    ),
    "a callback raises at the start": ([Refuse()], {}, TroubleError),
    "interrupted": ([Stop(interrupt)], {}, KeyboardInterrupt),
    "the data raises": ([], {"x": broken_data}, Exception),
}


def failure(train):
    """What it raises, if anything: `pytest.raises` would hold it for the whole test."""
    try:
        train()
    except BaseException as error:  # noqa: BLE001 - KeyboardInterrupt is one of them
        return error
    return None


def marks(model):
    """What a tap may leave: names on instances, and what the functions are."""
    parts = [model, *model._flatten_layers(), model.optimizer]
    return (
        [sorted(vars(part)) for part in parts],
        len(model.optimizer.variables),
        model.train_function,
    )


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A model that has trained, and a monitor: what is compiled is used by all."""
    model = single()
    fit(model)
    fit(model)  # Keras itself notes something the second time
    directory = tmp_path_factory.mktemp("run")
    monitor = GradientMonitor(directory, every=1, histograms=False)
    return model, monitor, marks(model), everything(model)


def everything(model):
    return arrays([*model.variables, *model.optimizer.variables])


def rewind(model, values):
    for variable, value in zip(
        [*model.variables, *model.optimizer.variables], values, strict=True
    ):
        variable.assign(value)


@pytest.fixture
def trained(shared):
    """Model and monitor, as if nothing had happened to them."""
    model, monitor, _, values = shared
    monitor.close()
    rewind(model, values)
    return model, monitor


@pytest.mark.parametrize(
    ("ending", "held"),
    [*((ending, True) for ending in ENDINGS), ("interrupted", False)],
)
def test_nothing_is_left_on_the_model(trained, shared, ending, held):
    """Also while the error is held, as a notebook does."""
    model, monitor = trained
    callbacks, options, error = ENDINGS[ending]
    options = {k: v() if callable(v) else v for k, v in options.items()}
    kept = failure(lambda: fit(model, monitor, *callbacks, **options))
    assert isinstance(kept, error)
    if not held:
        del kept
    gc.collect()
    assert marks(model) == shared[2]


@pytest.mark.parametrize("ending", ["stopped", "a callback raises", "interrupted"])
def test_training_goes_on_after_an_ending(trained, ending):
    """The next `fit`, unwatched or watched, is the one an unwatched one has."""
    model, monitor = trained
    callbacks, options, error = ENDINGS[ending]

    def three(*watched):
        given = {k: v() if callable(v) else v for k, v in options.items()}
        raised = failure(lambda: fit(model, *watched, *callbacks, **given))
        assert isinstance(raised, error)
        del raised
        fit(model)
        fit(model, *watched)
        return everything(model)

    start = everything(model)
    watched = three(monitor)
    rewind(model, start)
    for mine, theirs in zip(watched, three(), strict=True):
        assert mine.tobytes() == theirs.tobytes()


class Collect(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        gc.collect()


def test_what_an_earlier_fit_leaves_to_the_collector_ends_no_later_one(
    tmp_path, trained
):
    """What Keras made for a `fit` may go at any time."""
    model, _ = trained
    model.optimizer.iterations.assign(0)
    monitor = GradientMonitor(tmp_path, every=1, histograms=False)
    gc.disable()
    try:
        fit(model, monitor)
        failure(lambda: fit(model, monitor, Stop(trouble)))
        fit(model, monitor, Collect())
    finally:
        gc.enable()
    assert open_run(tmp_path).steps.tolist() == [*range(11)]


class RefuseToEnd(keras.callbacks.Callback):
    def on_train_end(self, logs=None):
        trouble()


def test_an_error_at_the_very_end_leaves_nothing_either(trained, shared):
    """Raised by a callback that comes before the monitor, which is not called then."""
    model, monitor = trained
    assert isinstance(failure(lambda: fit(model, RefuseToEnd(), monitor)), TroubleError)
    assert marks(model) == shared[2]


def test_what_was_recorded_before_an_error_is_in_the_run(tmp_path, trained):
    """An error loses no step that ran before it."""
    model, _ = trained
    monitor = GradientMonitor(tmp_path, every=1, histograms=False)
    with pytest.raises(TroubleError, match="in the middle"):
        fit(model, monitor, Stop(trouble))
    assert len(open_run(tmp_path).steps) == 3


def test_a_model_that_raises_inside_is_left_as_it_was(tmp_path):
    """The user's own error comes through, and the taps come out."""

    class Fragile(keras.layers.Layer):
        broken = False

        def call(self, x):
            if Fragile.broken:
                raise TroubleError("in the model")
            return x * 2.0

    model = keras.Sequential(
        [keras.Input((3,)), Fragile(name="f"), keras.layers.Dense(2, name="a")]
    )
    model.compile("sgd", "mse", **QUICK)
    fit(model)
    fit(model)
    before = marks(model)
    Fragile.broken = True
    monitor = GradientMonitor(tmp_path, every=1, activations=True)
    with pytest.raises(TroubleError, match="in the model"):
        fit(model, monitor)
    assert marks(model) == before
    Fragile.broken = False
    if keras.config.backend() == "jax":
        return  # Keras loses the weights when the first step of a `fit` raises there
    fit(model, monitor)
    assert len(open_run(tmp_path).steps) == 4


class Save(keras.callbacks.Callback):
    def __init__(self, path):
        super().__init__()
        self._path = path

    def on_epoch_end(self, epoch, logs=None):
        self.model.save(self._path)


def test_checkpoints_of_a_watched_training_load_into_an_unwatched_model(tmp_path):
    """With their optimizer state, from `ModelCheckpoint` and from `model.save`."""
    model = mlp("adam")
    whole, weights = tmp_path / "whole.keras", tmp_path / "some.weights.h5"
    checkpoint = keras.callbacks.ModelCheckpoint(str(weights), save_weights_only=True)
    monitor = GradientMonitor(tmp_path / "run", every=1, activations=True)
    fit(model, monitor, checkpoint, Save(str(whole)))
    loaded, other = keras.models.load_model(str(whole)), mlp("adam")
    other.optimizer.build(other.trainable_variables)
    other.load_weights(str(weights))
    for fresh in (loaded, other):
        found = [*fresh.variables, *fresh.optimizer.variables]
        expected = [*model.variables, *model.optimizer.variables]
        for mine, theirs in zip(arrays(found), arrays(expected), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    assert int(ops.convert_to_numpy(loaded.optimizer.iterations)) == 4
