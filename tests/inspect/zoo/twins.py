"""Finite differences: the slow, independent twin of every gradient.

A forward pass is run with a small multiple of a fixed random direction added at one
point (a weight, an input, one tensor of one call of one layer), and with as much taken
away. Nothing of gradwatch is used: the disturbance is made by a tiny shadow of
`layer.call`, written here.
"""

import contextlib
import inspect
import re
import sys
from collections import Counter

import keras
import numpy as np
from keras.src.backend.common.masking import get_keras_mask, set_keras_mask
from keras.src.backend.common.stateless_scope import get_stateless_scope

from .addresses import ACTIVATION, drawn, layer_at, own_weights, weight_at
from .frameworks import (
    BACKEND,
    array,
    at_random_state,
    build_loss,
    compile_function,
    tensors,
)

STEP = 1e-6
TRIALS = 2


def close(claimed, measured):
    """Equal, as far as a central difference in float64 can tell."""
    return abs(claimed - measured) <= 2e-6 * (1 + abs(claimed))


class Disturbed:
    """The target as a function of how far each point is disturbed."""

    def __init__(self, model, x, y, target, training, shapes, random_state):
        """Takes the points and their shapes by name, as gradwatch names them."""
        self.random_state = random_state
        self.model, self.target, self.training = model, target, training
        self.x, self.y = tensors(x), tensors(y)
        self.names = list(shapes)
        self.directions = {n: drawn(n, s, seed=1) for n, s in shapes.items()}
        if "inputs" in shapes:
            # Padding is exactly zero; a little more than zero would not be padding.
            self.directions["inputs"] *= array(self.x) != 0
        build_loss(model, self.x, self.y)
        self.compiled = compile_function(self.forward)

    def run(self, amounts):
        with at_random_state(self.random_state):
            return self.compiled(tensors(amounts))

    def derivative(self, amounts, step=STEP):
        """The derivative when each point moves by its amount along its direction."""
        up, down = (
            float(array(self.run(sign * step * amounts)[0])) for sign in (1, -1)
        )
        return (up - down) / (2 * step)

    def undisturbed(self):
        """The target's value and the tensor at each point."""
        value, seen = self.run(np.zeros(len(self.names)))
        return float(array(value)), {name: array(t) for name, t in seen.items()}

    def wrong(self, gradients):
        """The points at which these are not the gradients, with both numbers.

        All points are moved at once, by random amounts: one claim that is wrong makes
        the sum of the claims wrong. Only then is each point moved by itself.
        """
        claims = np.array(
            [np.sum(gradients[name] * self.directions[name]) for name in self.names]
        )
        norms = np.array([np.linalg.norm(gradients[name]) for name in self.names])
        weights = 1 / np.maximum(norms, 1 / 30)  # so that every point counts
        rng = np.random.default_rng(0)
        together = [
            weights * rng.choice([-1.0, 1.0], len(claims)) for _ in range(TRIALS)
        ]
        if all(close(np.sum(a * claims), self.derivative(a)) for a in together):
            return []
        one_by_one = weights * np.eye(len(claims))
        measured = [self.derivative(amounts) / max(amounts) for amounts in one_by_one]
        return [
            f"{name}: {claim:.9g} claimed, {found:.9g} measured"
            for name, claim, found, weight in zip(
                self.names, claims, measured, weights, strict=True
            )
            if not close(weight * claim, weight * found)
        ] or [f"Only together: {claims} claimed, {measured} measured"]

    # ------------------------------------------------------------------------------

    def forward(self, amounts):
        self.amounts, self.seen = amounts, {}
        with keras.StatelessScope(self.variables(), collect_losses=True), self.taps():
            x = self.inputs()
            mode = {}
            if self.model._call_has_training_arg:
                mode = {"training": self.training}
            outputs = self.model(x, **mode)
            value = self.target(self.model, x, self.y, outputs, self.training)
        return value, self.seen

    def disturb(self, name, tensor):
        if name not in self.directions:
            return tensor
        self.seen[name] = tensor
        direction = keras.ops.convert_to_tensor(self.directions[name], tensor.dtype)
        amount = keras.ops.cast(self.amounts[self.names.index(name)], tensor.dtype)
        moved = tensor + amount * direction
        set_keras_mask(moved, get_keras_mask(tensor))
        return moved

    def variables(self):
        known = {}
        for name in self.names:
            with contextlib.suppress(KeyError, AttributeError):
                known[id(weight_at(self.model, name))] = name
        return [
            (v, self.disturb(known[id(v)], v.value) if id(v) in known else v.value)
            for v in self.model.variables
        ]

    def inputs(self):
        if not keras.tree.is_nested(self.x):
            return self.disturb("inputs", self.x)
        flat = keras.tree.flatten_with_path(self.x)
        keys = ["".join(f"[{part}]" for part in path) for path, _ in flat]
        if isinstance(self.x, list):  # named as the graph names them
            keys = [f"[{spec.name}]" for spec in self.model.inputs]
        moved = [
            self.disturb(f"inputs{key}", tensor)
            for key, (_, tensor) in zip(keys, flat, strict=True)
        ]
        return keras.tree.pack_sequence_as(self.x, moved)

    @contextlib.contextmanager
    def taps(self):
        # Keras cannot rematerialise inside a `tf.function`; the value is the same.
        remat = {layer: layer._remat_mode for layer in self.model._flatten_layers()}
        for layer in remat:
            layer._remat_mode = None
        addresses = {tapped_layer(name) for name in self.names}
        counts = Counter()
        shadowed = []
        for address in sorted(addresses):
            with contextlib.suppress(KeyError, AttributeError):
                layer = layer_at(self.model, address)
                layer.__dict__["call"] = self.shadow(layer, address, counts)
                shadowed.append(layer)
        try:
            yield
        finally:
            for layer in shadowed:
                del layer.__dict__["call"]
            for layer, mode in remat.items():
                layer._remat_mode = mode

    def shadow(self, layer, address, counts):
        original = layer.call
        signature = inspect.signature(original)
        probes = probing_calls(self.model, address)
        several = any(
            name.startswith(f"{address}@") and "/" not in name[len(address) :]
            for name in self.names
        )

        def call(*args, **kwargs):
            if only_for_shapes():
                return original(*args, **kwargs)
            counts[address] += 1
            number = counts[address] - probes
            if number < 1:
                return original(*args, **kwargs)
            place = f"{address}@{number}" if several else address
            bound = signature.bind(*args, **kwargs)
            for name, part in self.tensor_arguments(bound.arguments).items():
                bound.arguments[name] = self.each(
                    f"{place}:input{part}", bound.arguments[name]
                )
            with self.own_weights(layer, f"{address}@{number}"):
                outputs = original(*bound.args, **bound.kwargs)
            return self.each(place, outputs)

        return call

    @contextlib.contextmanager
    def own_weights(self, layer, place):
        """Disturbs the weights of a layer during one of its calls, `dense@2/kernel`."""
        mapping = get_stateless_scope().state_mapping
        before = dict(mapping)
        if isinstance(layer, keras.Layer):
            for name, variable in own_weights(layer).items():
                value = mapping.get(id(variable))
                mapping[id(variable)] = self.disturb(f"{place}/{name}", value)
        yield
        mapping.update(before)

    def tensor_arguments(self, arguments):
        """The arguments that hold tensors; a single one is not told apart by name."""
        names = [
            name
            for name, value in arguments.items()
            if "mask" not in name
            and any(keras.ops.is_tensor(t) for t in keras.tree.flatten(value))
        ]
        return {name: "" if len(names) == 1 else f"[{name}]" for name in names}

    def each(self, name, structure):
        flat = keras.tree.flatten_with_path(structure)
        moved = [
            self.disturb(name + "".join(f"[{part}]" for part in path), tensor)
            for path, tensor in flat
        ]
        return keras.tree.pack_sequence_as(structure, moved) if flat else structure


def tapped_layer(name):
    """The layer of an activation, or of a weight in one call: `dense@2/kernel`."""
    if re.search(r"@\d+/[^/]+$", name):
        return name.rpartition("@")[0]
    return ACTIVATION.fullmatch(name)["layer"]


# calls whose result is thrown away ----------------------------------------------------


def probing_calls(model, address):
    """How often a loop of torch calls a cell first, only to see what it gives."""
    parts = address.split("/")
    for depth in range(1, len(parts)):
        outer = layer_at(model, "/".join(parts[:depth]))
        if isinstance(outer, keras.layers.RNN) and not outer.unroll:
            return int(BACKEND == "torch")
    return 0


def only_for_shapes():
    """Whether this is `RNN` calling the cells of `StackedRNNCells` one by one."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "_maybe_config_dropout_masks":
            return True
        frame = frame.f_back
    return False


# targets ------------------------------------------------------------------------------


def compiled_loss(model, x, y, outputs, training):
    """What `fit` differentiates."""
    return model.compute_loss(
        x=x, y=y, y_pred=outputs, sample_weight=None, training=training
    )


def waves(outputs):
    """Some function of every number of every output, of no symmetry at all."""
    total = 0.0
    for place, tensor in enumerate(keras.tree.flatten(outputs), start=1):
        total = total + keras.ops.mean(keras.ops.sin(place * tensor + 0.3))
    return total
