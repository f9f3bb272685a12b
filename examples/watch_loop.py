"""A custom training loop, watched: `with gw.watch(model, optimizer, directory)`.

The loop stays as it is. What matters is that a compiled step is compiled inside the
block, which is when it is called for the first time.
"""

import keras
import numpy as np

import gradwatch as gw

STEPS = 30

keras.utils.set_random_seed(0)
model = keras.Sequential(
    [
        keras.Input((4,)),
        keras.layers.Dense(16, activation="tanh", name="hidden"),
        keras.layers.Dense(1, name="out"),
    ]
)
optimizer = keras.optimizers.SGD(0.1)
optimizer.build(model.trainable_variables)
loss_function = keras.losses.MeanSquaredError()

random = np.random.default_rng(0)
x = keras.ops.convert_to_tensor(random.normal(size=(64, 4)).astype("float32"))
y = keras.ops.sum(keras.ops.sin(x), axis=1, keepdims=True)


def train_tensorflow():
    import tensorflow as tf

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = loss_function(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)

    for _ in range(STEPS):
        step()


def train_torch():
    for _ in range(STEPS):
        model.zero_grad()
        loss_function(y, model(x, training=True)).backward()
        gradients = [v.value.grad for v in model.trainable_variables]
        optimizer.apply(gradients, model.trainable_variables)


def train_jax():
    import jax

    def compute_loss(trainable, rest):
        prediction, rest = model.stateless_call(trainable, rest, x, training=True)
        return loss_function(y, prediction), rest

    @jax.jit
    def step(trainable, rest, state):
        gradients, rest = jax.grad(compute_loss, has_aux=True)(trainable, rest)
        trainable, state = optimizer.stateless_apply(state, gradients, trainable)
        return trainable, rest, state

    trained = (model.trainable_variables, model.non_trainable_variables)
    training = [[v.value for v in part] for part in (*trained, optimizer.variables)]
    for _ in range(STEPS):
        training = step(*training)


# What the first gradient will be, asked beforehand.
expected = gw.gradients(model, x, y, loss=loss_function).summary()

train = {"tensorflow": train_tensorflow, "torch": train_torch, "jax": train_jax}
with gw.watch(model, optimizer, "runs/loop", every=10, activations="hidden"):
    train[keras.backend.backend()]()

run = gw.open_run("runs/loop")
print(run)
print("\nglobal norm:", run.totals.global_norm.round(4))
assert run.steps.tolist() == [0, 10, 20]
for row in expected:
    np.testing.assert_allclose(run[row.name].norm[0], row.norm, rtol=1e-4)
for name in run.names:  # plain SGD: the update is the rate times the gradient
    np.testing.assert_allclose(run[name].update_norm, 0.1 * run[name].norm, rtol=1e-3)
assert run.totals.global_norm[-1] < run.totals.global_norm[0]
