"""The quantities that rules measure; the pictures of findings show the same ones.

Each takes a step. Those that return a dict give a number for each weight, layer or
activation, by its address.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ._snapshot import WINDOW, Numbers, Snapshot, median

Named = dict[str, float]
"""Numbers by address, along the depth of the model."""

FEWEST = 4
"""Minimum number of layers, or weights, that make a depth."""
SKIPS = 20
"""Number of recorded steps over which skipped ones are counted."""
_STEEPEST = {"tanh": 1.0, "sigmoid": 0.25, "hard_sigmoid": 0.25}


def of_weights(step: Snapshot, values: Numbers, chosen: NDArray[np.bool_]) -> Named:
    """Returns the values of the chosen weights by address."""
    names = step.parameters.names_of(chosen)
    return dict(zip(names, values[chosen].tolist(), strict=True))


def trend(numbers: Named) -> tuple[int, float, float]:
    """Fits a straight line to the logarithms along depth.

    Returns:
        How many are positive; the decades by which the line rises from the input to the
        output end; and its correlation. NaN where there are too few.
    """
    values = np.array([*numbers.values()])
    logs = np.log10(values[(values > 0) & (values < math.inf)])
    if len(logs) < FEWEST:
        return len(logs), math.nan, math.nan
    depth = np.arange(len(logs)) - (len(logs) - 1) / 2
    away = logs - logs.mean()
    square = float(depth @ depth)
    slope = float(depth @ away / square)
    spread = math.sqrt(float(away @ away) * square)
    correlation = slope * square / spread if spread > 0 else 0.0
    return len(logs), slope * (len(logs) - 1), correlation


# along depth --------------------------------------------------------------------------


def kernel_sensitivity(step: Snapshot) -> Named:
    """Gradient times weight of kernels."""
    return of_weights(step, step.sensitivity, step.parameters.kernels)


def bias_gradients(step: Snapshot) -> Named:
    """The root mean square of the gradients of biases."""
    return of_weights(step, step.rms, step.parameters.biases)


def activation_sizes(step: Snapshot) -> Named:
    """The root mean square of activations."""
    return step.activations.named(step.activations.size)


def input_over_output(numbers: Named) -> float:
    """Returns the ratio of the input end to the output end of a straight line."""
    return float(10.0 ** -trend(numbers)[1])


def layer_norms(step: Snapshot) -> Named:
    """The norm of the gradient of each layer; NaN where it is missing altogether."""
    parameters = step.parameters
    squares = np.bincount(parameters.layer_numbers, np.nan_to_num(step["norm"]) ** 2)
    norms = dict(zip(parameters.layer_order, np.sqrt(squares).tolist(), strict=True))
    missing = map(parameters.layer_of, parameters.missing)
    return in_model_order(step, dict.fromkeys(missing, math.nan) | norms)


def in_model_order(step: Snapshot, numbers: Named) -> Named:
    """Returns the numbers in the order of the model, as far as that was noted."""
    order: dict[str, int] = {}
    for weight in step.parameters.weight_facts:
        for name in (weight, step.parameters.layer_of(weight)):
            order.setdefault(name, len(order))
    last = len(order)
    return dict(sorted(numbers.items(), key=lambda item: order.get(item[0], last)))


def layer_dominance(step: Snapshot) -> Named:
    """The gradient of each layer over that of the second largest."""
    norms = layer_norms(step)
    finite = sorted(n for n in norms.values() if math.isfinite(n))
    second = finite[-2] if len(finite) > 1 else math.nan
    return {name: n / second if second else math.nan for name, n in norms.items()}


def head_sensitivity(step: Snapshot) -> Named:
    """Gradient times weight of each layer that gives an output."""
    heads = step.parameters.head_kernels.items()
    return {head: float(np.nansum(step.sensitivity[rows])) for head, rows in heads}


def head_dominance(step: Snapshot) -> Named:
    """Gradient times weight of each head over that of the quietest."""
    heads = head_sensitivity(step)
    least = min(heads.values(), default=0.0)
    return {f"head '{h}'": n / least if least else math.nan for h, n in heads.items()}


# of single weights and activations ----------------------------------------------------


def zero_shares(step: Snapshot) -> Named:
    """The share of exact zeros in the gradient of each weight."""
    return of_weights(step, step["zeros"], np.ones(len(step["norm"]), bool))


def dead_units(step: Snapshot) -> Named:
    """The share of units without a gradient, of layers that end in a ReLU."""
    parameters = step.parameters
    return of_weights(step, step["zeros"], parameters.biases & parameters.rectified)


def update_ratios(step: Snapshot) -> Named:
    """Update over weight of each kernel."""
    return of_weights(step, step.update_ratio, step.parameters.kernels)


def weight_spreads(step: Snapshot) -> Named:
    """The spread of kernels times the root of their inputs; not of heads."""
    parameters, spreads = step.parameters, {}
    for row in np.flatnonzero(parameters.plain_kernels):
        name, layer = parameters.names[row], parameters.layers[row]
        shape = parameters.fact(name, "shape")
        if shape is not None and layer not in parameters.heads:
            rms = step["weight_norm"][row] / math.sqrt(parameters.sizes[row])
            spreads[name] = float(rms * math.sqrt(math.prod(shape[:-1])))
    return spreads


def slopes(step: Snapshot) -> Named:
    """The mean slope of tanh and sigmoid layers over the steepest; not of heads.

    The slope of tanh is 1 - y², that of a sigmoid y - y²: their means need only the
    mean and the mean square of y.
    """
    activations, slopes = step.activations, {}
    columns = activations["mean"], activations["std"]
    for name, mean, std in zip(activations.names, *columns, strict=True):
        steepest = _STEEPEST.get(step.parameters.layer_fact(name, "own_activation"))
        if steepest and name.partition("@")[0] not in step.parameters.heads:
            slope = (1.0 if steepest == 1.0 else mean) - (mean**2 + std**2)
            slopes[name] = float(slope / steepest)
    return slopes


def sequence_shares(step: Snapshot) -> Named:
    """The share of elements that hold the gradient at a recurrent layer's input.

    The square of the mean magnitude over the mean square: 0.64 if all are alike.
    """
    gradients = step.activation_gradients
    square = gradients["mean"] ** 2 + gradients["std"] ** 2
    shares = gradients.named(gradients["mean_abs"] ** 2 / square).items()
    fact = step.parameters.layer_fact
    return {name: share for name, share in shares if fact(name, "feeds_recurrent")}


def sequence_growth(step: Snapshot) -> Named:
    """The gradient before each recurrent layer over that after it.

    After it comes the next sibling: what runs inside the layer is passed over.
    """
    gradients, growth = step.activation_gradients, {}
    sizes = gradients.size
    layers = [name.partition("@")[0] for name in gradients.names]
    for row, name in enumerate(gradients.names):
        if step.parameters.layer_fact(name, "feeds_recurrent"):
            later = zip(layers[row + 1 :], sizes[row + 1 :], strict=True)
            siblings = (n for other, n in later if _are_siblings(layers[row], other))
            growth[name] = float(sizes[row] / (next(siblings, 0.0) or math.nan))
    return growth


def _are_siblings(layer: str, other: str) -> bool:
    return layer != other and layer.rpartition("/")[0] == other.rpartition("/")[0]


# of the step as a whole ---------------------------------------------------------------


def gradient_norm(step: Snapshot) -> float:
    """The norm of all gradients; NaN where some element is not finite."""
    return math.nan if (step.nonfinite > 0).any() else step.total("global_norm")


def loss(step: Snapshot) -> float:
    """The loss."""
    return step.total("loss")


def loss_left(step: Snapshot) -> float:
    """The loss over the first one."""
    seen = step.history.loss.seen
    return loss(step) / seen[0] if seen and seen[0] else math.nan


def gradient_left(step: Snapshot) -> float:
    """The gradient over that of the beginning: of all, or of the usual kernel."""
    left = step.total("global_norm") / step.history.early_norm
    early, kernels = step.history.early_norms, step.parameters.kernels
    if early is not None and kernels.any():
        shares = (step["norm"] / early)[kernels]
        shares = shares[np.isfinite(shares)]
        if len(shares):
            left = min(left, median(shares))
    return left


def gradient_growth(step: Snapshot) -> float:
    """The gradient over that of the beginning, the median of three steps."""
    recent = step.history.newest("global_norm", 3)
    if len(recent) < 3 or not np.isfinite(recent).all():
        return math.nan
    return median(recent) / step.history.early_norm


def recent_norms(step: Snapshot) -> tuple[Numbers, float]:
    """Returns the finite norms of all gradients of the window, and a usual one."""
    norms = step.history.newest("global_norm")
    norms = norms[np.isfinite(norms)]
    early = step.history.early_norm
    return norms, max(median(norms), early) if len(norms) else math.nan


def norm_over_usual(step: Snapshot) -> float:
    """The norm of all gradients over what is usual in the steps before."""
    return step.total("global_norm") / (recent_norms(step)[1] or math.nan)


def weight_growth(step: Snapshot) -> float:
    """The norm of the weights over that of the beginning."""
    return step.total("weight_norm") / max(step.history.first_weight_norm, 1e-30)


def usual_update_ratio(step: Snapshot) -> float:
    """Update over weight, the median over kernels; NaN at steps without an update."""
    if not step.updates:
        return math.nan
    ratios = step.update_ratio[step.parameters.kernels]
    ratios = ratios[~np.isnan(ratios)]
    return median(ratios) if len(ratios) else math.nan


def left_by_clipping(step: Snapshot) -> float:
    """The share of the gradient's length that clipping leaves."""
    return step.total("applied_norm") / (step.total("global_norm") or math.nan)


def skipped_share(step: Snapshot) -> float:
    """The share of the newest steps that loss scaling skipped."""
    skipped = step.history.newest("skipped", SKIPS)
    return float(skipped.mean()) if len(skipped) else math.nan


def agreement(step: Snapshot) -> float:
    """Returns how far the mean gradient of recent steps stands out; 1 is chance.

    The mean over its elements is the gradient along one direction, the same at every
    step. Its mean over steps, squared, over what scatter alone would make of it is 1 if
    there is nothing but scatter, for whatever scale.
    """
    means = step.history.window("mean", WINDOW)[:, step.parameters.kernels]
    if len(means) < 8 or not means.shape[1]:
        return math.nan
    ratios = len(means) * means.mean(axis=0) ** 2 / means.var(axis=0, ddof=1)
    ratios = ratios[np.isfinite(ratios)]
    return float(np.mean(np.minimum(ratios, 100.0))) if len(ratios) else math.nan
