"""The gradient of the loss for every weight, exactly as `fit` computes it.

The proof: after one step of plain gradient descent with learning rate 1, each weight
has moved by its gradient. Dropout, a regulariser and class weights are part of it.
"""

import keras
import numpy as np

import gradwatch as gw

keras.utils.set_random_seed(0)
model = keras.Sequential(
    [
        keras.Input((8,)),
        keras.layers.Dense(16, activation="relu", name="hidden"),
        keras.layers.Dropout(0.5, name="dropout"),
        keras.layers.Dense(3, kernel_regularizer="l2", name="scores"),
    ]
)
model.compile(
    optimizer=keras.optimizers.SGD(learning_rate=1.0),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)
random = np.random.default_rng(0)
x = random.normal(size=(32, 8)).astype("float32")
y = random.integers(3, size=32)
class_weight = {0: 1.0, 1: 2.0, 2: 0.5}

# Looking changes nothing: the model, its optimizer and its seeds stay as they are.
g = gw.gradients(model, x, y, target=gw.loss(class_weight=class_weight))
print(g)
print("\nby name:", g.to_numpy()["scores/bias"])

before = {v.path: keras.ops.convert_to_numpy(v) for v in model.trainable_variables}
model.train_on_batch(x, y, class_weight=class_weight)
moved = [
    before[v.path] - keras.ops.convert_to_numpy(v) for v in model.trainable_variables
]

print("\nlargest difference from what the training step really applied:")
for (name, gradient), step in zip(g.to_numpy().items(), moved, strict=True):
    difference = np.abs(gradient - step).max()
    print(f"  {name:14} {difference:.1e}")
    assert difference < 1e-5
