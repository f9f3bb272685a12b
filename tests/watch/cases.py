"""The situations in which training goes through, as a table of builders."""

import keras
import numpy as np
from keras import layers, ops, optimizers, regularizers

from .gan import gan
from .models import QUICK, WIDTH, X, Y

BACKEND = keras.config.backend()
CASES = {}


def case(function):
    """Puts a builder into the table: it returns a model and the arguments of `fit`.

    Where there are several fits, "then" is a list of what is done before each of the
    later ones: a function of the model that returns arguments.
    """
    CASES[function.__name__] = function
    return function


def stack(*parts, shape=(WIDTH,), optimizer="sgd", loss="mse", **compiled):
    model = keras.Sequential([keras.Input(shape), *parts], name="demo")
    model.compile(optimizer, loss, **(QUICK | compiled))
    return model


def dense(name, units=2, **options):
    return layers.Dense(units, name=name, **options)


@case
def plain():
    return stack(dense("a", 4, activation="tanh"), dense("b"), optimizer="adam"), {}


@case
def compiled_by_xla():
    """On torch, Keras would use a compiler that is not there."""
    jit = BACKEND != "torch"
    return stack(dense("a", 4, activation="relu"), dense("b"), jit_compile=jit), {}


@case
def two_fits_in_a_row_and_a_resumed_one():
    fits = [lambda _: {}, lambda _: {"initial_epoch": 2, "epochs": 4}]
    return stack(dense("a", 4), dense("b"), optimizer="adam"), {"then": fits}


@case
def a_frozen_layer_that_is_set_free_and_compiled_again():
    """It has dropout, which draws on; and a new optimizer, which begins."""
    model = stack(
        dense("a", 4, trainable=False), layers.Dropout(0.5, name="drop"), dense("b")
    )

    def free(model):
        model.get_layer("a").trainable = True
        model.compile("adam", "mae", metrics=["mse"], **QUICK)
        return {"shuffle": True}

    return model, {"then": [free]}


class Masked(layers.Layer):
    """Large, with a gradient that is a product: XLA rounds it with what follows."""

    def build(self, shape):
        size = (shape[-1], 300)
        self.w = self.add_weight(shape=size, name="w", initializer="glorot_normal")
        mask = np.random.default_rng(0).normal(size=size)
        self.mask = ops.convert_to_tensor(mask.astype("float32"))

    def call(self, x):
        return x @ (self.w * self.mask)


def products(**compiled):
    jit = BACKEND != "torch"
    inputs = x = keras.Input((WIDTH,))
    x = dense("in", 300)(x)
    x = Masked(name="masked")(x)
    gate, value = dense("gate", 300, activation="sigmoid")(x), dense("value", 300)(x)
    gated = layers.Multiply(name="gated")([gate, value])
    x = layers.Add(name="sum")([x, gated])
    model = keras.Model(inputs, dense("out")(x))
    model.compile("adam", "mse", jit_compile=jit, **compiled)
    return model, {}


@case
def products_by_xla():
    return products()


@case
def products_by_xla_in_several_steps():
    return products(steps_per_execution=1 if BACKEND == "torch" else 2)


@case
def eager():
    return stack(dense("a"), run_eagerly=True), {}


@case
def several_steps_per_execution():
    """Keras for torch takes one step at a time, and warns of anything else."""
    steps = 1 if BACKEND == "torch" else 3
    return stack(dense("a"), optimizer="adam", steps_per_execution=steps), {}


@case
def accumulation_and_global_clipnorm():
    optimizer = optimizers.Adam(0.1, gradient_accumulation_steps=2, global_clipnorm=0.1)
    return stack(dense("a", 4), dense("b"), optimizer=optimizer), {}


@case
def float16_with_a_dynamic_loss_scale():
    optimizer = optimizers.LossScaleOptimizer(
        optimizers.Adam(0.1, clipnorm=0.3),
        initial_scale=2.0**18,
        dynamic_growth_steps=2,
    )
    half = {"dtype": "mixed_float16"}
    parts = [dense("a", 4, **half), dense("b", **half)]
    return stack(*parts, optimizer=optimizer), {"epochs": 2}


@case
def bfloat16_with_a_fixed_loss_scale():
    optimizer = optimizers.SGD(0.1, momentum=0.9, loss_scale_factor=8.0)
    return stack(dense("a", dtype="mixed_bfloat16"), optimizer=optimizer), {}


@case
def averages_decay_schedule_and_clipnorm():
    schedule = optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    optimizer = optimizers.AdamW(
        schedule, clipnorm=0.2, use_ema=True, ema_overwrite_frequency=3
    )
    return stack(dense("a", 4), dense("b"), optimizer=optimizer), {"epochs": 2}


@case
def clipvalue_regularisers_constraints_and_a_frozen_layer():
    model = stack(
        dense("a", 4, kernel_regularizer=regularizers.L2(0.1)),
        dense("frozen", 4, trainable=False),
        layers.ActivityRegularization(0.1, name="activity"),
        dense("b", kernel_constraint="unit_norm", bias_constraint="non_neg"),
        optimizer=optimizers.SGD(0.1, clipvalue=0.05),
    )
    return model, {}


@case
def dropout_batch_norm_and_class_weights():
    model = stack(
        dense("a", 6),
        layers.BatchNormalization(name="norm"),
        layers.Dropout(0.5, name="drop"),
        layers.GaussianNoise(0.1, name="noise"),
        dense("b", activation="softmax"),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    labels = np.arange(8) % 2
    options = {"class_weight": {0: 1.0, 1: 3.0}, "validation_data": (X, labels)}
    return model, {"y": labels, "shuffle": True, "epochs": 2} | options


@case
def several_inputs_and_outputs_and_sample_weights():
    first, second = keras.Input((WIDTH,), name="p"), keras.Input((WIDTH,), name="q")
    shared = dense("shared", 4)
    joint = layers.Concatenate(name="joint")([shared(first), shared(second)])
    outputs = {"u": dense("u")(joint), "v": dense("v", 1)(joint)}
    model = keras.Model({"p": first, "q": second}, outputs, name="demo")
    losses, weights = {"u": "mse", "v": "mae"}, {"u": 1.0, "v": 0.3}
    model.compile("adam", losses, loss_weights=weights, metrics={"v": "mse"}, **QUICK)
    y = {"u": Y, "v": Y[:, :1]}
    each = {"u": np.linspace(0, 1, 8), "v": np.linspace(1, 2, 8)}
    return model, {"x": {"p": X, "q": X[::-1]}, "y": y, "sample_weight": each}


@case
def embedding_and_lstm():
    model = stack(
        layers.Embedding(7, 3, name="words"),
        layers.LSTM(3, name="lstm"),
        dense("b"),
        shape=(4,),
        optimizer="adam",
    )
    return model, {"x": np.arange(32).reshape(8, 4) % 5}


class OwnStep(keras.Model):
    """A model whose layers are built by the data, with a penalty and its own step."""

    def __init__(self):
        super().__init__(name="demo")
        self.a = dense("a", 4)
        self.b = dense("b")

    def call(self, x):
        hidden = self.a(x)
        self.add_loss(0.01 * ops.mean(ops.square(hidden)))
        return self.b(hidden)

    def train_step(self, *args):
        return super().train_step(*args)


@case
def an_unbuilt_model_with_a_step_of_its_own():
    model = OwnStep()
    model.compile("adam", "mse", **QUICK)
    return model, {}


@case
def an_unbuilt_sequential_model():
    model = keras.Sequential([dense("a", 4), dense("b")], name="demo")
    model.compile("sgd", "mse", **QUICK)
    return model, {}


class Data(keras.utils.PyDataset):
    def __len__(self):
        return 3

    def __getitem__(self, place):
        return X[place : place + 2], Y[place : place + 2]


@case
def a_dataset_of_python():
    return stack(dense("a")), {"x": Data(), "epochs": 2}


def batches(count=3):
    for place in range(count):
        yield X[place : place + 2], Y[place : place + 2]


@case
def a_generator_of_unknown_length():
    return stack(dense("a")), {"x": batches()}


@case
def a_tf_dataset_of_unknown_length():
    import tensorflow as tf

    kind = (tf.TensorSpec((None, WIDTH)), tf.TensorSpec((None, 2)))
    data = tf.data.Dataset.from_generator(batches, output_signature=kind)
    return stack(dense("a")), {"x": data, "epochs": 2}


@case
def two_optimizers():
    return gan(**QUICK), {"y": X[::-1]}
