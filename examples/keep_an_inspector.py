"""A loop that looks at gradients keeps an `Inspector`: compiled once, used many times.

The pass is traced for the first batch of a shape. Later batches, other classes and new
values of the weights run through it as it is.
"""

import keras
import numpy as np

import gradwatch as gw

keras.utils.set_random_seed(0)
model = keras.Sequential(
    [
        keras.Input((10,)),
        keras.layers.Dense(32, activation="relu", name="hidden"),
        keras.layers.Dense(3, name="scores"),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(0.01),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)
random = np.random.default_rng(0)
x = random.normal(size=(96, 10)).astype("float32")
y = np.argmax(x[:, :3], axis=1)

inspect = gw.Inspector(model, wrt=gw.weights("hidden/kernel"))
for epoch in range(5):
    g = inspect(x[:32], y[:32])
    row = g.summary()[0]
    print(
        f"epoch {epoch}: loss {float(g.value):.3f}, norm of {row.name} {row.norm:.4f}"
    )
    model.fit(x, y, batch_size=32, verbose=0)

# Another class is data, not another program.
sensitivity = gw.Inspector(model, target=gw.class_score(0), wrt=gw.inputs())
for index in range(3):
    g = sensitivity(x[:32], target=gw.class_score(index))
    strongest = np.abs(g.to_numpy()["inputs"]).mean(axis=0).argmax()
    print(f"class {index} listens most to feature {strongest}")

if keras.backend.backend() == "torch":
    print("torch runs operation by operation: there is nothing to trace.")
else:
    print(f"traced {inspect.num_traces} and {sensitivity.num_traces} time")
    assert inspect.num_traces == sensitivity.num_traces == 1
