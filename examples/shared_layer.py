"""A layer that is called twice: the gradient of each call, and their sum.

A Siamese network runs two inputs through one encoder. Its weights have one gradient,
the sum over both calls; each call's activation has a gradient of its own.
"""

import keras
import numpy as np

import gradwatch as gw

keras.utils.set_random_seed(0)
left, right = keras.Input((6,), name="left"), keras.Input((6,), name="right")
encoder = keras.layers.Dense(4, activation="tanh", name="encoder")
distance = keras.layers.Subtract(name="distance")([encoder(left), encoder(right)])
model = keras.Model([left, right], keras.layers.Dense(1, name="score")(distance))
model.compile(loss="mse")

random = np.random.default_rng(0)
x = [random.normal(size=(8, 6)).astype("float32") for _ in range(2)]
y = random.normal(size=(8, 1)).astype("float32")

g = gw.gradients(
    model,
    x,
    y,
    wrt=[gw.weights("encoder", per_call=True), gw.activations("encoder")],
)
print(g)

values = g.to_numpy()
parts = values["encoder@1/kernel"] + values["encoder@2/kernel"]
print(
    "\nencoder/kernel is the sum of its calls:",
    np.allclose(values["encoder/kernel"], parts),
)
assert np.allclose(values["encoder/kernel"], parts, atol=1e-6)

# One call only:
second = gw.gradients(model, x, y, wrt=gw.activations("encoder@2"))
print("asked for one call:", list(second))

# All calls of an activation, added up:
total = keras.ops.convert_to_numpy(g.total("encoder"))
assert np.allclose(total, values["encoder@1"] + values["encoder@2"])
print("their sum has shape", total.shape)
