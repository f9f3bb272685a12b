"""Missing gradients say why: the cause, the place, and what to do.

Four ways to lose a gradient, and what gradwatch says of each. A loop or a branch that
hides its tensors is the fifth: see docs/how-to/why-is-my-gradient-none.md.
"""

import keras
import numpy as np
from keras import layers, ops

import gradwatch as gw

keras.utils.set_random_seed(0)
x = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")


def show(title, reason):
    print(f"\n{title}\n  {reason.cause} at {reason.address!r}: {reason}")


def network(middle):
    """Returns encoder → middle → head."""
    inputs = keras.Input((3,))
    hidden = layers.Dense(3, name="encoder")(inputs)
    return keras.Model(inputs, layers.Dense(1, name="head")(middle(hidden)))


# 1. Somebody stopped it.
model = network(layers.Lambda(ops.stop_gradient, name="teacher"))
reason = gw.why_none(model, x, name="encoder/kernel", target=gw.output())
show("stop_gradient", reason)
assert (reason.cause, reason.address) == ("stop_gradient", "teacher")

# 2. It goes through whole numbers.
model = network(layers.Lambda(lambda t: ops.cast(t > 0, "float32"), name="binarise"))
reason = gw.why_none(model, x, name="encoder/kernel", target=gw.output())
show("a comparison", reason)
assert (reason.cause, reason.address) == ("integer", "binarise")

# 3. The layer is frozen. Without asking for it by name, it is listed as missing.
model = network(layers.Activation("tanh", name="tanh"))
model.get_layer("encoder").trainable = False
g = gw.gradients(model, x, target=gw.output())
show("a frozen layer", g.missing["encoder/kernel"])
assert g.missing["encoder/kernel"].cause == "frozen"
g = gw.gradients(model, x, target=gw.output(), wrt=gw.weights("encoder/kernel"))
print("  asked for by name:", g.to_numpy()["encoder/kernel"].shape)

# 4. The target looks at another output.
inputs = keras.Input((3,))
trunk = layers.Dense(4, name="trunk")(inputs)
outputs = {name: layers.Dense(1, name=name)(trunk) for name in ("price", "rating")}
model = keras.Model(inputs, outputs)
g = gw.gradients(model, x, target=gw.output("price"))
show("another head", g.missing["rating/kernel"])
assert g.missing["rating/kernel"].cause == "other_output"
