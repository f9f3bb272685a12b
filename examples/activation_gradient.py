"""The gradient of a class score with respect to an activation inside the model.

The recipe that fails most often computes the activation with one call of a model and
the score with another: the tape then sees no way from one to the other, and the
gradient is None. `gradients` takes both from the same pass. Here the answer is checked
against a finite difference.
"""

import keras
import numpy as np

import gradwatch as gw

keras.utils.set_random_seed(0)
model = keras.Sequential(
    [
        keras.Input((12, 12, 1)),
        keras.layers.Conv2D(4, 3, activation="relu", name="conv1"),
        keras.layers.Conv2D(8, 3, activation="tanh", name="conv2"),
        keras.layers.GlobalAveragePooling2D(name="average"),
        keras.layers.Dense(5, name="scores"),
    ]
)
x = np.random.default_rng(0).normal(size=(2, 12, 12, 1)).astype("float32")

g = gw.gradients(model, x, target=gw.class_score(3), wrt=gw.activations("conv1"))
print(g)

activation = g.activation("conv1")  # the tensor itself, from the same pass
print("\nthe activation has shape", tuple(activation.shape))


def score_from(activation):
    """Runs the rest of the model on an activation of conv1."""
    for layer in model.layers[1:]:
        activation = layer(activation)
    return keras.ops.convert_to_numpy(activation)[:, 3].sum()


# Move the activation a little in some direction: how fast does the score change?
activation = keras.ops.convert_to_numpy(activation)
direction = np.random.default_rng(1).normal(size=activation.shape).astype("float32")
step = 1e-2
change = score_from(activation + step * direction) - score_from(
    activation - step * direction
)
measured = change / (2 * step)
promised = float((g.to_numpy()["conv1"] * direction).sum())
print(f"finite difference {measured:+.5f}, gradient {promised:+.5f}")
assert abs(measured - promised) < 2e-3 * max(1, abs(promised))
