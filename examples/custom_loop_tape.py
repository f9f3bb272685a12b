"""A custom training loop: `tf.GradientTape` becomes `gw.Tape`, and gradients get names.

For TensorFlow and torch. JAX has no tape; there, `gw.gradients` gives the same names
and values.
"""

import sys

import keras
import numpy as np

import gradwatch as gw

if keras.backend.backend() == "jax":
    print("JAX differentiates functions and has no tape: use `gw.gradients` instead.")
    sys.exit()

keras.utils.set_random_seed(0)
model = keras.Sequential(
    [
        keras.Input((4,)),
        keras.layers.Dense(16, activation="tanh", name="hidden"),
        keras.layers.Dense(1, name="out"),
    ]
)
optimizer = keras.optimizers.Adam(0.02)
loss_function = keras.losses.MeanSquaredError()
optimizer.build(model.trainable_variables)

random = np.random.default_rng(0)
x = keras.ops.convert_to_tensor(random.normal(size=(64, 4)).astype("float32"))
y = keras.ops.sum(keras.ops.sin(x), axis=1, keepdims=True)

for step in range(41):
    # This line was `with tf.GradientTape() as tape:`. The rest stays as it was.
    with gw.Tape(model, wrt=[gw.weights(), gw.activations("hidden")]) as tape:
        loss = loss_function(y, model(x, training=True))
    if step % 10 == 0:
        g = tape.gradients(loss)
        norms = {row.name: row.norm for row in g.summary()}
        print(
            f"step {step:2}: loss {float(g.value):.3f}, norm at hidden/kernel "
            f"{norms['hidden/kernel']:.3f}, at the activation {norms['hidden']:.4f}"
        )
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)

# Plain variables work too, under names of your choice.
w, b = keras.Variable(2.0), keras.Variable(1.0)
with gw.Tape() as tape:
    value = keras.ops.square(w * 3.0 + b)
g = tape.gradients(value, {"w": w, "b": b})
print("\nd(3w + b)² at w=2, b=1:", {name: float(g[name]) for name in g})
assert (float(g["w"]), float(g["b"])) == (42.0, 14.0)
