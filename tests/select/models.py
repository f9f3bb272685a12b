"""Models whose addresses are hard to tell apart."""

import keras
from keras import layers, ops

WIDTH = 3


def dense(name, units=WIDTH, **options):
    return layers.Dense(units, name=name, **options)


def chain(*parts, name="chain"):
    """Built, and without an input layer that has a name of its own."""
    return keras.Sequential([keras.Input((WIDTH,), name="door"), *parts], name=name)


def towers():
    """Two towers whose layers have equal names, and a head."""
    inputs = keras.Input((WIDTH,), name="door")
    left = chain(dense("conv"), dense("out"), name="left")(inputs)
    right = chain(dense("conv"), dense("out"), name="right")(inputs)
    both = layers.Add(name="add")([left, right])
    return keras.Model(inputs, dense("head", 2)(both), name="towers")


class Bag(keras.Model):
    """Layers of any names, one after the other."""

    def __init__(self, names, make=dense, **options):
        super().__init__(name="bag", **options)
        self.parts = [make(name) for name in names]

    def call(self, x):
        for part in self.parts:
            x = part(x)
        return x


class SharedTowers(keras.Model):
    """The same block, with two layers in it, hangs below both towers."""

    def __init__(self):
        super().__init__(name="shared_towers")
        block = chain(dense("c"), dense("d"), name="block")
        self.left = chain(dense("own"), block, name="left")
        self.right = chain(dense("own"), block, name="right")

    def call(self, x):
        return self.left(x) + 2 * self.right(x)


class Transposed(layers.Layer):
    """Reads the kernel of another layer, which it also calls its own."""

    def __init__(self, other, **options):
        super().__init__(**options)
        self.kernel = other.kernel
        self.shift = self.add_weight(shape=(WIDTH,), initializer="ones", name="shift")

    def call(self, x):
        return ops.matmul(x, ops.transpose(self.kernel)) + self.shift


class Tied(keras.Model):
    """An encoder, a decoder with the same kernel, and a scale of the model's own."""

    def __init__(self):
        super().__init__(name="tied")
        self.encoder = dense("encoder", use_bias=False)
        self.encoder.build((None, WIDTH))
        self.decoder = Transposed(self.encoder, name="decoder")
        self.scale = self.add_weight(shape=(), initializer="ones", name="scale")

    def call(self, x):
        return self.decoder(self.encoder(x)) * self.scale


class Namesakes(keras.Model):
    """A weight and a layer of one name."""

    def __init__(self):
        super().__init__(name="namesakes")
        self.own = self.add_weight(shape=(WIDTH,), initializer="ones", name="a")
        self.layer = dense("a")

    def call(self, x):
        return self.layer(x) * self.own


class TwoOfAName(layers.Layer):
    """Three weights, two of which are called the same."""

    def build(self, shape):
        self.one = self.add_weight(shape=(WIDTH,), initializer="ones", name="k")
        self.two = self.add_weight(shape=(WIDTH,), initializer="ones", name="k")
        self.three = self.add_weight(shape=(WIDTH,), initializer="ones", name="k#2")

    def call(self, x):
        return x * self.one * self.two * self.three
