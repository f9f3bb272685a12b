"""Addresses once more, slowly: the twin of what `gradwatch.select` does.

Written from the design's words alone: the path of names below the model, `#2` behind
the second sibling of a name, `@2` for the second call, `[1]` for one tensor of a
structure, `:input` for what goes in.
"""

import re
import zlib

import keras
import numpy as np

ACTIVATION = re.compile(
    r"(?P<layer>.+?)(@(?P<call>\d+))?(?P<input>:input)?(?P<path>(\[[^]]*\])*)"
)


def sublayers(layer):
    """The layers right below a layer, by name."""
    found = []
    for child in [*getattr(layer, "_operations", []), *getattr(layer, "_layers", [])]:
        known = any(child is other for other in found)
        if not known and not isinstance(child, keras.layers.InputLayer):
            found.append(child)
    names = []
    for child in found:
        count = sum(other.name == child.name for other in found[: len(names)])
        names.append(child.name + (f"#{count + 1}" if count else ""))
    return dict(zip(names, found, strict=True))


def layer_at(model, address):
    """The layer at an address."""
    layer = model
    for part in address.split("/"):
        layer = sublayers(layer)[part]
    return layer


def own_weights(layer):
    """The variables right at a layer, by name."""
    found = [*layer._trainable_variables, *layer._non_trainable_variables]
    assert len({v.name for v in found}) == len(found), "The twin does not number these."
    return {v.name: v for v in found}


def weight_at(model, address):
    """The variable at an address."""
    layer, _, name = address.rpartition("/")
    return own_weights(layer_at(model, layer) if layer else model)[name]


def path_of(text):
    """`[1][key]` as ("1", "key")."""
    return tuple(re.findall(r"\[([^]]*)\]", text))


def drawn(name, shape, seed=0):
    """Normally distributed numbers that depend on a name: the same everywhere."""
    rng = np.random.default_rng([zlib.crc32(name.encode()), seed])
    return rng.normal(size=shape)


def fill(model, addresses):
    """Gives every weight numbers that depend on its address, and none that is special.

    With Keras's own initial values biases are 0 and scales are 1, and a mix-up of the
    two would not be seen.
    """
    for address in addresses:
        variable = weight_at(model, address)
        if "float" in variable.dtype:
            shape = tuple(variable.shape)
            # Of the usual size: products of many layers neither vanish nor explode.
            size = np.prod(shape[:-1]) ** -0.5 if len(shape) > 1 else 0.4
            value = size * drawn(address, shape)
            if "variance" in address:
                value = 0.5 + np.abs(value)
            elif "gamma" in address:
                value = 1 + 0.5 * value
            variable.assign(value)
