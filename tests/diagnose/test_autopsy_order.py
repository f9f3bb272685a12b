"""What comes first is what is named: data, weights, forward, backward, update."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import gradwatch as gw
from gradwatch.diagnose import autopsy
from gradwatch.testing import assert_untouched

from .sick import Weighted, X, Y, Z, chain, faulty, functional, head


def look(model, x, y=-Y, **options):
    """An autopsy that must leave no trace."""
    with assert_untouched(model):
        return autopsy(model, x, y, **options)


def bad(array, *values):
    out = np.array(array)
    out.flat[-len(values) :] = values
    return out


# data ---------------------------------------------------------------------------------


def test_nan_in_the_inputs():
    """Counted, and the first one located; it comes before all that it breaks."""
    found = look(faulty(ops.log), bad(X, np.nan, np.inf))
    assert (found.where, found.address, found.direction) == ("input", "x", "data")
    assert (found.evidence["nan"], found.evidence["posinf"]) == (1, 1)
    assert found.evidence["first_index"] == [1, 0]
    assert found.cause == "NaN in the data"
    assert found.sure
    assert "goes on to `first:input`" in str(found)


def test_the_input_of_several_is_named():
    """By its key."""
    a, b = keras.Input((2,), name="a"), keras.Input((2,), name="b")
    model = keras.Model({"a": a, "b": b}, head()(a + b))
    model.compile(loss="mse")
    found = look(model, {"a": X, "b": bad(X, -np.inf)})
    assert found.address == "x[b]"
    assert found.cause == "infinity in the data"


# Keras converts the array, and NumPy warns as it does in `fit`.
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_numbers_beyond_float32():
    """They are finite in what was given, and infinite when Keras has converted it."""
    found = look(faulty(ops.tanh), np.array([[1e300, 1.0], [2.0, 3.0]]))
    assert (found.where, found.address) == ("input", "x")
    assert found.cause == "numbers in the data beyond float32"


def test_nan_in_the_labels():
    """The labels are data, too."""
    found = look(faulty(ops.tanh), X, bad(Y, np.nan))
    assert (found.where, found.address) == ("input", "y")
    assert "goes on to the loss" in str(found)


def test_weights_of_the_examples():
    """Of examples and of classes, each under its own name."""
    model = faulty(ops.tanh)
    found = look(model, X, sample_weight=np.array([1.0, np.nan]))
    assert (found.where, found.address) == ("input", "sample_weight")
    labels = np.array([[0], [1]])
    found = look(model, X, labels, class_weight={0: 1.0, 1: np.inf})
    assert (found.where, found.address) == ("input", "class_weight")


def test_whole_numbers_are_always_finite():
    """Token ids and class numbers are not searched."""
    model = chain(layers.Embedding(5, 2), layers.Flatten(), head(), shape=(3,))
    assert not look(model, np.array([[0, 1, 4], [4, 4, 4]])).found


def test_data_that_breaks_nothing_is_said_to():
    """The model itself catches it."""
    found = look(faulty(lambda x: ops.where(ops.isnan(x), 0.0, x)), bad(X, np.nan))
    assert found.where == "input"
    model = chain(keras.layers.Lambda(lambda x: x[:, :1], name="cut"), head())
    found = look(model, bad(X, np.nan))
    assert found.where == "input"


# weights ------------------------------------------------------------------------------


def test_a_weight_that_was_broken_before():
    """Named before the activations that it breaks."""
    model = faulty(ops.tanh)
    model.get_layer("head").kernel.assign([[np.nan], [1.0]])
    found = look(model, X)
    assert (found.where, found.address) == ("weight", "head/kernel")
    assert found.direction is None
    assert found.evidence["nan"] == 1
    assert "earlier step" in found.try_first


def test_a_moving_average_that_was_broken_before():
    """It is a weight, though it is not trained."""
    model = chain(layers.BatchNormalization(name="norm"), head())
    model.get_layer("norm").moving_mean.assign([np.inf, 0.0])
    found = look(model, X)
    assert (found.where, found.address) == ("weight", "norm/moving_mean")
    assert "stays finite" in str(found)


# loss ---------------------------------------------------------------------------------


def test_the_loss_itself():
    """All activations are finite; the loss takes the logarithm of zero."""
    model = faulty(ops.relu, loss=lambda y, p: -ops.mean(y * ops.log(p)))
    found = look(model, -X)
    assert (found.where, found.address, found.direction) == ("loss", "loss", "forward")
    assert (found.cause, found.sure) == ("log of zero", True)


def test_a_target_of_ones_own():
    """It takes the place of the loss, without labels."""
    target = gw.loss(lambda y, p: ops.mean(ops.log(p)))
    assert look(faulty(ops.relu), -X, target=target).where == "loss"
    found = look(faulty(ops.relu), -X, None, target=lambda p: ops.sum(ops.log(p)))
    assert (found.where, found.address) == ("loss", "target")
    found = look(faulty(ops.sqrt), Z, None, target=gw.mean_output())
    assert (found.where, found.address) == ("activation gradient", "fault")


def test_the_derivative_of_the_loss():
    """The loss is finite; what it sends back is not."""
    model = faulty(ops.relu, loss=lambda y, p: ops.mean(ops.sqrt(p)))
    found = look(model, -X)
    assert (found.where, found.address) == ("activation gradient", "head")
    assert found.cause == "sqrt at 0: the derivative is infinite there"
    assert "arises in the loss" in str(found)


def test_a_penalty_belongs_to_the_loss():
    """A regulariser that overflows, with every activation finite."""
    model = chain(Weighted(name="first"), head(kernel_regularizer="l2"))
    model.get_layer("head").kernel.assign([[1e25], [1e25]])
    found = look(model, X * 1e-25)
    assert found.where == "loss"
    assert "float32 overflow" in found.cause


def test_what_regularises_is_named():
    """By the weight; the advice is that of the operation."""

    def penalty(kernel):
        return ops.sum(ops.log(ops.relu(-kernel)))

    found = look(chain(Weighted(name="first"), head(kernel_regularizer=penalty)), X)
    assert (found.where, found.address) == ("loss", "head/kernel")
    assert (found.cause, found.sure) == ("log of zero", True)
    assert "in what `head/kernel` adds to the loss" in str(found)


def test_the_derivative_of_what_regularises():
    """A norm of zeros; everything else on the way back is finite."""

    def penalty(kernel):
        return ops.sum(ops.sqrt(ops.sum(kernel * kernel, axis=0)))

    zeros = head(kernel_regularizer=penalty, kernel_initializer="zeros")
    found = look(chain(Weighted(name="first"), zeros), X)
    assert (found.where, found.address) == ("weight gradient", "head/kernel")
    assert found.cause == "norm at zero: the derivative is infinite there"
    assert found.sure


class Adds(layers.Layer):
    """Puts out what it gets, and adds a logarithm of zero to the loss."""

    def call(self, x):
        self.add_loss(ops.mean(ops.log(x * 0.0)))
        return x


def test_a_layer_that_adds_to_the_loss():
    """By `add_loss`, or by a regulariser of its activity: the layer is named."""
    found = look(chain(Weighted(name="first"), Adds(name="adds"), head()), X)
    assert (found.where, found.address) == ("loss", "adds")
    assert (found.cause, found.sure) == ("log of zero", True)
    penalty = lambda a: ops.mean(1.0 / ops.relu(-a))  # noqa: E731
    found = look(chain(Weighted(name="first"), head(activity_regularizer=penalty)), X)
    assert (found.where, found.address) == ("loss", "head")
    assert (found.cause, found.sure) == ("division by zero", True)


def test_a_model_that_adds_to_the_loss():
    """In its own `call`, as an autoencoder does."""

    class Own(keras.Model):
        def __init__(self):
            super().__init__(name="own")
            self.head = head()

        def call(self, x):
            outputs = self.head(x)
            self.add_loss(ops.mean(ops.log(outputs * 0.0)))
            return outputs

    model = Own()
    model.compile("sgd", "mse")
    model(X)
    found = look(model, X)
    assert (found.where, found.address) == ("loss", "loss")
    assert (found.cause, found.sure) == ("log of zero", True)
    assert "`call` of 'own' itself adds it" in str(found)


def test_a_moving_average_that_the_pass_breaks():
    """What comes out is finite, and so are the gradients: the variance is not."""

    class Spread(layers.Layer):
        def build(self, shape):
            self.square = self.add_weight(shape=(), trainable=False, name="square")

        def call(self, x):
            self.square.assign(ops.mean(x * x))
            return x * 1e-25

    found = look(chain(Weighted(name="first"), Spread(name="spread"), head()), X * 1e25)
    assert (found.where, found.address) == ("weight", "spread/square")
    assert found.direction == "forward"
    assert (found.cause, found.sure) == ("float32 overflow in multiply", True)
    assert "as the forward pass sets it" in str(found)


# gradients ----------------------------------------------------------------------------


def test_the_gradient_of_a_weight_alone():
    """Those of the activations are finite."""
    model = chain(Weighted(name="first"), head())
    model.get_layer("first").scale.assign(1e-15)
    found = look(model, X * 1e30)
    assert (found.where, found.address) == ("weight gradient", "first/scale")
    assert found.direction == "backward"


def test_both_gradients_of_a_layer():
    """The layer is named, not its weight: the gradient goes on from there."""

    def loss(y, p):
        return ops.mean(p - ops.stop_gradient(p)) * 1e30

    model = chain(Weighted(name="first"), Weighted(name="second"), loss=loss)
    model.get_layer("second").scale.assign(1e10)
    found = look(model, X * 1e10, np.ones((2, 2)))
    assert (found.where, found.address) == ("activation gradient", "second")


def test_a_gradient_that_no_weight_needs():
    """`fit` does not differentiate with respect to the inputs: nothing is wrong."""
    inputs = keras.Input((2,))
    model = keras.Model(inputs, head()(ops.sqrt(inputs)))
    model.compile(loss="mse")
    found = look(model, Z)
    assert not found.found
    assert "training does not see it" in str(found)


# update -------------------------------------------------------------------------------


def steep(optimizer, slope=1e30):
    """A model whose weight has this gradient."""
    loss = lambda y, p: ops.mean(p)  # noqa: E731
    model = chain(Weighted(name="first"), loss=loss, optimizer=optimizer)
    return model, np.full((2, 2), slope, "float32")


def test_an_update_that_overflows():
    """The gradient is finite, the weight after the step is not."""
    model, x = steep(keras.optimizers.SGD(1e30))
    found = look(model, x)
    assert (found.where, found.address) == ("update", "first/scale")
    assert found.direction == "update"
    assert found.cause == "learning rate so large that the update overflows"
    assert found.sure
    assert found.evidence["largest_gradient"] == pytest.approx(1e30)
    assert found.evidence["learning_rate"] == pytest.approx(1e30)


@pytest.mark.parametrize("rate", [np.inf, np.nan])
def test_a_learning_rate_that_is_not_finite(rate):
    """No earlier step broke anything: it was set so."""
    model, x = steep(keras.optimizers.SGD(rate), 1.0)
    found = look(model, x)
    assert (found.where, found.address) == ("update", "first/scale")
    assert (found.cause, found.sure) == (f"the learning rate is {rate}", True)
    assert found.evidence["learning_rate"] == str(rate)  # JSON can hold it


def test_a_schedule_of_ones_own():
    """Keras has not been told of the class; it is asked for the rate of this step."""

    class Half(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            return 0.5 / ops.cast(step, "float32")

    model, x = steep(keras.optimizers.SGD(Half()), 1.0)
    found = look(model, x)
    assert (found.where, found.cause) == ("update", "the learning rate is inf")
    model.optimizer.build(model.trainable_variables)
    model.optimizer.iterations.assign(1)
    assert not look(model, x).found


def test_a_constraint_that_breaks_the_weight():
    """The step is finite; what bounds the weight afterwards is not."""
    weights = {"kernel_constraint": lambda w: w / ops.sum(w * 0.0)}
    found = look(chain(Weighted(name="first"), head(**weights)), X)
    assert (found.where, found.address) == ("update", "head/kernel")
    assert found.cause == "the constraint of the weight is not finite"


@pytest.mark.parametrize("name", ["sgd", "adam", "rmsprop", "adamw", "lion", "ftrl"])
def test_a_healthy_update(name):
    """Before the optimizer was built, and after; it stays as it is."""
    model, x = steep(name, 1.0)
    assert not look(model, x).found
    model.fit(x, -Y, verbose=0)
    assert not look(model, x).found


def test_a_state_that_overflows():
    """Adam squares the gradient; from then on the weight never moves again."""
    model, x = steep("adam")
    found = look(model, x)
    assert (found.where, found.address) == ("update", "first/scale")
    assert "state overflows" in found.cause
    model.train_on_batch(X, -Y)
    assert look(model, x).where == "update"


def test_a_state_that_was_broken_before():
    """The step on copies begins from the optimizer's own state."""
    model, x = steep(keras.optimizers.SGD(0.1, momentum=0.9), 1.0)
    model.train_on_batch(x, -Y)
    for variable in model.optimizer.variables:
        if "momentum" in variable.path:
            variable.assign(np.nan)
    found = look(model, x)
    assert found.where == "update"
    assert found.cause == "the optimizer's state was not finite before the step"


def test_clipping_and_a_loss_scale_are_the_optimizers():
    """What saves the step in `fit` saves it here."""
    model, x = steep(keras.optimizers.SGD(1e30, clipvalue=1.0))
    assert not look(model, x).found
    # Divided by its scale once more, this gradient would do no harm.
    inner = keras.optimizers.SGD(1e10)
    model, x = steep(keras.optimizers.LossScaleOptimizer(inner))
    assert look(model, x).where == "update"
    model, x = steep(keras.optimizers.SGD(1e-3, loss_scale_factor=128.0), 1.0)
    assert not look(model, x).found


def test_an_optimizer_that_cannot_be_copied():
    """It says so, and answers for the rest."""

    class Own(keras.optimizers.SGD):
        def __init__(self, rate):
            super().__init__(rate)

    model, x = steep(Own(1e30))
    found = look(model, x)
    assert not found.found
    assert "update was not looked at: Own could not be copied" in str(found)


# nothing ------------------------------------------------------------------------------


def test_nothing_is_wrong():
    """It says so, and how far from an overflow the pass is."""
    found = look(functional(ops.exp), X)
    assert not found.found
    assert (found.where, found.address, found.direction) == (None, None, None)
    value = float(np.exp(X[1]).sum())
    assert found.evidence["largest_activation"] == pytest.approx(value, rel=1e-5)
    assert found.evidence["activation_at"] == "head"
    expected = np.log10(np.finfo("float32").max / value)
    assert found.evidence["activation_headroom"] == pytest.approx(expected, abs=0.01)
    assert found.evidence["largest_gradient"] > 0
    assert "Nothing is non-finite" in str(found)
    assert "end of float32" in str(found)


def test_what_is_closest_to_its_own_end_is_told():
    """A number of float16 is closer to an overflow than a larger one of float32."""
    found = look(faulty(lambda x: x * 1000, dtype="float16"), X, None)
    assert found.evidence["activation_at"] == "fault"
    assert found.evidence["activation_dtype"] == "float16"
    assert found.evidence["activation_headroom"] == pytest.approx(1.21, abs=0.01)
