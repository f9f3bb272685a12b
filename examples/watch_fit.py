"""The three recipes: histograms per epoch, chosen layers, every N batches.

Each is one line in `callbacks`. The gradients are those that `fit` really used: no
second pass, no data argument. `tensorboard --logdir runs` shows them.
"""

import keras
import numpy as np

import gradwatch as gw

random = np.random.default_rng(0)
x = random.normal(size=(96, 12, 12, 1)).astype("float32")
y = (x.mean(axis=(1, 2, 3)) > 0).astype("int32")


def train(monitor):
    """Trains the same network from the same start: 6 batches in each of 2 epochs."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((12, 12, 1)),
            keras.layers.Conv2D(4, 3, activation="relu", name="conv1"),
            keras.layers.Conv2D(8, 3, activation="relu", name="conv2"),
            keras.layers.GlobalAveragePooling2D(name="average"),
            keras.layers.Dense(2, name="scores"),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.SGD(0.1),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model.fit(x, y, batch_size=16, epochs=2, verbose=0, callbacks=[monitor])


# Histograms at the end of each epoch.
history = train(gw.GradientMonitor("runs/epochs", every="epoch"))
epochs = gw.open_run("runs/epochs")
kernel = epochs["conv2/kernel"]
print(epochs)
print(f"\nhistograms of {kernel.name} at steps {kernel.histogram_steps}")
assert kernel.histogram_steps.tolist() == [5, 11]
assert kernel.histograms.sum(axis=1).max() <= kernel.size  # zeros are counted apart
assert history.history["grad_norm"] == epochs.totals.global_norm.tolist()

# Chosen layers only.
train(gw.GradientMonitor("runs/chosen", layers="conv*", every=1))
chosen = gw.open_run("runs/chosen")
print(f"\nchosen: {', '.join(chosen.names)}")
assert chosen.names == ("conv1/kernel", "conv1/bias", "conv2/kernel", "conv2/bias")

# Every N batches.
train(gw.GradientMonitor("runs/batches", every=4))
batches = gw.open_run("runs/batches")
print(f"every 4 batches: steps {batches.steps}")
assert batches.steps.tolist() == [0, 4, 8]

# Watching changes nothing, so three trainings of one seed had the same gradients. The
# update of plain SGD is the learning rate times the gradient.
for step in batches.steps:
    np.testing.assert_allclose(
        batches["conv1/kernel"].norm[batches.steps == step],
        chosen["conv1/kernel"].norm[chosen.steps == step],
        rtol=1e-5,
    )
np.testing.assert_allclose(
    chosen["conv1/kernel"].update_norm, 0.1 * chosen["conv1/kernel"].norm, rtol=1e-3
)
print("\ntensorboard --logdir runs   shows them all")
