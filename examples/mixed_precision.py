"""Half precision: gradients with the loss scale taken out again.

Under `mixed_float16` Keras multiplies the loss, so that small gradients survive in
float16, and divides the gradients later. gradwatch does both, so the numbers are those
of the real loss. `underflow` tells how many elements float16 would lose without it.
"""

import keras
import numpy as np

import gradwatch as gw


def build(policy):
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((16,)),
            keras.layers.Dense(32, activation="tanh", dtype=policy, name="hidden"),
            keras.layers.Dense(1, dtype="float32", name="out"),
        ]
    )
    optimizer = keras.optimizers.SGD(0.1)
    if policy == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    model.compile(optimizer=optimizer, loss="mse")
    return model


random = np.random.default_rng(0)
x = random.normal(size=(64, 16)).astype("float32")
y = 1e-3 * random.normal(size=(64, 1)).astype("float32")

reference = None
for policy in ("float32", "mixed_float16", "mixed_bfloat16"):
    model = build(policy)
    model.layers[-1].kernel.assign(5e-3 * model.layers[-1].kernel)
    g = gw.gradients(
        model, x, y, wrt=[gw.weights("hidden/kernel"), gw.activations("hidden")]
    )
    weight, activation = g.summary()
    reference = reference or weight.norm
    print(
        f"{policy:15} norm at {weight.name} {weight.norm:.3e} "
        f"({weight.norm / reference:.3f} of float32), "
        f"float16 alone would lose {activation.underflow:.0%} at the activation"
    )
    assert abs(weight.norm / reference - 1) < 0.05
