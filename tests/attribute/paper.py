"""The network of `models.cnn` in NumPy with loops, and each method as its paper has it.

Slow and plain on purpose: one example at a time, float64, nothing of Keras. A layer is
a pair of functions: forward, and backward given what went in and came out.
"""

import numpy as np

from .models import weights_of


class Conv:
    def __init__(self, kernel, bias):
        self.kernel, self.bias = kernel, bias

    def forward(self, x):
        high, wide = self.kernel.shape[:2]
        rows, columns = x.shape[0] - high + 1, x.shape[1] - wide + 1
        y = np.zeros((rows, columns, self.kernel.shape[3]))
        for i in range(rows):
            for j in range(columns):
                patch = x[i : i + high, j : j + wide]
                y[i, j] = np.tensordot(patch, self.kernel, 3) + self.bias
        return y

    def backward(self, g, x, y, rule):
        high, wide = self.kernel.shape[:2]
        back = np.zeros_like(x)
        for i in range(g.shape[0]):
            for j in range(g.shape[1]):
                back[i : i + high, j : j + wide] += self.kernel @ g[i, j]
        return back


class Dense:
    def __init__(self, kernel, bias):
        self.kernel, self.bias = kernel, bias

    def forward(self, x):
        return x @ self.kernel + self.bias

    def backward(self, g, x, y, rule):
        return self.kernel @ g


class Flat:
    def forward(self, x):
        return x.ravel()

    def backward(self, g, x, y, rule):
        return g.reshape(x.shape)


class Relu:
    def forward(self, x):
        return np.maximum(x, 0)

    def backward(self, g, x, y, rule):
        if rule == "guided":  # Springenberg et al., figure 1
            return g * (x > 0) * (g > 0)
        if rule == "deconvnet":
            return g * (g > 0)
        return g * (x > 0)


class Tanh:
    def forward(self, x):
        return np.tanh(x)

    def backward(self, g, x, y, rule):
        return g * (1 - y**2)


PLACES = {"image": 0, "conv": 2, "relu": 4, "flat": 5, "hidden": 7}
"""How many layers have run when this comes out."""


class Network:
    """The network, with the weights of a Keras model."""

    def __init__(self, model):
        self.layers = [
            Conv(*weights_of(model, "conv")),
            Relu(),
            Conv(*weights_of(model, "mid")),
            Relu(),
            Flat(),
            Dense(*weights_of(model, "hidden")),
            Tanh(),
            Dense(*weights_of(model, "head")),
        ]

    def run(self, x, begin="image"):
        """Everything that comes out from `begin` on, `x` first."""
        outs = [np.asarray(x, "float64")]
        for layer in self.layers[PLACES[begin] :]:
            outs.append(layer.forward(outs[-1]))
        return outs

    def score(self, x, index, begin="image"):
        return self.run(x, begin)[-1][index]

    def at(self, x, place):
        return self.run(x)[PLACES[place]]

    def gradient(self, x, index, place="image", begin="image", rule="plain"):
        """The gradient of a score at a place."""
        outs = self.run(x, begin)
        g = np.zeros(3)
        g[index] = 1
        first = PLACES[begin]
        for number in reversed(range(PLACES[place], len(self.layers))):
            here = number - first
            g = self.layers[number].backward(g, outs[here], outs[here + 1], rule)
        return g

    def gradient_of_neuron(self, x, place, neuron):
        """The gradient of one number at a place, with respect to the image."""
        outs = self.run(x)
        g = np.zeros_like(outs[PLACES[place]])
        g[neuron] = 1
        for number in reversed(range(PLACES[place])):
            g = self.layers[number].backward(g, outs[number], outs[number + 1], "plain")
        return g

    def multipliers(self, x, reference, index, place="image", begin="image"):
        """DeepLIFT: m = Δy / Δx at each nonlinearity, from the last to the first."""
        outs, refs = self.run(x, begin), self.run(reference, begin)
        g = np.zeros(3)
        g[index] = 1
        first = PLACES[begin]
        for number in reversed(range(PLACES[place], len(self.layers))):
            layer, here = self.layers[number], number - first
            if isinstance(layer, Relu | Tanh):
                change = outs[here] - refs[here]
                result = outs[here + 1] - refs[here + 1]
                slope = layer.backward(
                    np.ones_like(change), outs[here], outs[here + 1], "plain"
                )
                for place_ in np.ndindex(change.shape):
                    if abs(change[place_]) > 1e-6:
                        slope[place_] = result[place_] / change[place_]
                g = g * slope
            else:
                g = layer.backward(g, outs[here], outs[here + 1], "plain")
        return g


def mean_gradient(network, x, start, index, place="image", begin="image", points=None):
    """∫ ∂F/∂y dα by the rule of Gauss and Legendre, from its definition."""
    nodes, weights = np.polynomial.legendre.leggauss(points or 50)
    total = 0
    for node, weight in zip(nodes, weights, strict=True):
        at = start + (node + 1) / 2 * (x - start)
        total = total + weight / 2 * network.gradient(at, index, place, begin)
    return total


def integrated_gradients(network, x, start, index, begin="image"):
    return (x - start) * mean_gradient(network, x, start, index, begin, begin)


def conductance(network, x, start, index, place, steps, rule):
    """Σ ∂F/∂y · Δy from point to point."""
    total = 0
    for step in range(steps):
        a = start + step / steps * (x - start)
        b = start + (step + 1) / steps * (x - start)
        slope = network.gradient(a, index, place)
        if rule == "trapezoid":
            slope = (slope + network.gradient(b, index, place)) / 2
        total = total + slope * (network.at(b, place) - network.at(a, place))
    return total


def neuron_conductance(network, x, start, index, place, neuron, points):
    nodes, weights = np.polynomial.legendre.leggauss(points)
    total = 0
    for node, weight in zip(nodes, weights, strict=True):
        at = start + (node + 1) / 2 * (x - start)
        outer = network.gradient(at, index, place)[neuron]
        total = total + weight / 2 * outer * network.gradient_of_neuron(
            at, place, neuron
        )
    return (x - start) * total


def grad_cam(network, x, index, place):
    activation, g = network.at(x, place), network.gradient(x, index, place)
    cam = np.zeros(activation.shape[:2])
    for channel in range(activation.shape[2]):
        weight = sum(g[i, j, channel] for i, j in np.ndindex(cam.shape)) / cam.size
        cam += weight * activation[..., channel]
    return np.maximum(cam, 0)


def grad_cam_plus_plus(network, x, index, place):
    activation, g = network.at(x, place), network.gradient(x, index, place)
    cam = np.zeros(activation.shape[:2])
    for c in range(activation.shape[2]):
        weight = 0
        for i, j in np.ndindex(cam.shape):
            # Eq. 19: the sum runs over places (a, b) of A; the gradient is at (i, j).
            below = 2 * g[i, j, c] ** 2
            for a, b in np.ndindex(cam.shape):
                below += activation[a, b, c] * g[i, j, c] ** 3
            alpha = g[i, j, c] ** 2 / below if below else 0
            weight += alpha * max(g[i, j, c], 0)
        cam += weight * activation[..., c]
    return np.maximum(cam, 0)


def layer_cam(network, x, index, place):
    activation, g = network.at(x, place), network.gradient(x, index, place)
    return np.maximum((np.maximum(g, 0) * activation).sum(axis=2), 0)


def stretched(image, size):
    """Bilinear interpolation, pixel by pixel; centres are aligned."""
    out = np.zeros(size)
    for i, j in np.ndindex(*size):
        y = min(max((i + 0.5) * image.shape[0] / size[0] - 0.5, 0), image.shape[0] - 1)
        x = min(max((j + 0.5) * image.shape[1] / size[1] - 0.5, 0), image.shape[1] - 1)
        top, left = int(y), int(x)
        low, right = min(top + 1, image.shape[0] - 1), min(left + 1, image.shape[1] - 1)
        above = image[top, left] * (left + 1 - x) + image[top, right] * (x - left)
        below = image[low, left] * (left + 1 - x) + image[low, right] * (x - left)
        out[i, j] = above * (top + 1 - y) + below * (y - top)
    return out


def score_cam(network, x, index, place):
    activation = network.at(x, place)
    scores = []
    for channel in range(activation.shape[2]):
        mask = stretched(activation[..., channel], x.shape[:2])
        spread = mask.max() - mask.min()
        mask = (mask - mask.min()) / spread if spread else np.zeros_like(mask)
        scores.append(network.score(x * mask[..., None], index))
    weights = np.exp(scores) / np.exp(scores).sum()
    return np.maximum((weights * activation).sum(axis=2), 0)


def occlusion(network, x, start, index, window, stride):
    total, times = np.zeros(x.shape[:2]), np.zeros(x.shape[:2])
    full = network.score(x, index)
    tops = _starts(x.shape[0], window[0], stride[0])
    for top in tops:
        for left in _starts(x.shape[1], window[1], stride[1]):
            where = np.s_[top : top + window[0], left : left + window[1]]
            covered = x.copy()
            covered[where] = start[where]
            total[where] += full - network.score(covered, index)
            times[where] += 1
    return total / times


def _starts(length, window, stride):
    starts = [0]
    while starts[-1] + window < length:
        starts.append(starts[-1] + stride)
    return starts
