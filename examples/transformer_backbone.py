"""Gradients inside a transformer: a tiny BERT backbone of keras-hub, random weights.

Needs keras-hub; without it the script says so and ends.
"""

import sys

import keras
import numpy as np

import gradwatch as gw

try:
    import keras_hub
except ImportError:
    print("This example needs keras-hub: pip install keras-hub")
    sys.exit()

keras.utils.set_random_seed(0)
backbone = keras_hub.models.BertBackbone(
    vocabulary_size=200,
    num_layers=2,
    num_heads=2,
    hidden_dim=32,
    intermediate_dim=64,
    max_sequence_length=16,
    dropout=0.0,
)
pooled = backbone.output["pooled_output"]
model = keras.Model(backbone.input, keras.layers.Dense(2, name="classifier")(pooled))
model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))

random = np.random.default_rng(0)
x = {
    "token_ids": random.integers(200, size=(4, 16)),
    "segment_ids": np.zeros((4, 16), "int32"),
    "padding_mask": np.arange(16) < np.array([[16], [12], [9], [5]]),
}
y = np.array([0, 1, 1, 0])

layers = gw.layers(model)  # print it for the whole table
print(f"{len(layers)} layers, such as {layers[8]}\n")

g = gw.gradients(
    model,
    x,
    y,
    wrt=[
        gw.weights("**/query/kernel"),
        gw.activations(["token_embedding", "transformer_layer_?"]),
        gw.inputs("token_ids"),
    ],
)
# The token ids are whole numbers: the gradient is at the embedding, not at the input.
print(g)

# Padding takes no part: only as many tokens as are real have a gradient.
real = (g.to_numpy()["token_embedding"] != 0).any(axis=-1).sum(axis=-1)
print("\ntokens with a gradient, in each text:", real.tolist())
assert real.tolist() == [16, 12, 9, 5]
