"""Randomisation: whether an explanation depends on what the model has learnt."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..._errors import renamed, require
from ...select import Tree, WeightNode, resolve, walk
from ...select import weights as weights_of
from .._checked import is_count, require_one_of
from .._progress import progress_bar
from .._result import Attribution
from ._question import flat_values, question_of
from ._randomisation_result import Randomisation
from ._reinitialise import put_back, randomise
from ._similarity import spearman, ssim

ORDERS = ("cascading", "independent")


def randomisation(
    a: Attribution,
    model: Any,
    x: Any = None,
    *,
    order: str = "cascading",
    layers: Any = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Randomisation:
    """Similarity of the explanation while the model's weights are drawn anew.

    Adebayo, Gilmer, Muelly, Goodfellow, Hardt and Kim, *Sanity Checks for Saliency
    Maps* (2018), section 3: layer by layer, from the output to the input, weights are
    initialised as before training; an explanation that stays alike does not explain
    the model. Guided backpropagation is known to fail. As many runs of the method that
    made `a` as there are layers, and one.

    The weights of the model itself are exchanged meanwhile, and are put back to the
    bit, also after an error or an interruption: nothing else may use the model at the
    same time. Each layer's own initialisers draw; weights without one are drawn from a
    normal distribution with their own mean and standard deviation. Moving averages stay
    as they are. Layers that the target does not depend on are left out.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> layers = [keras.layers.Dense(8, activation="relu", name="hidden")]
    >>> layers += [keras.layers.Dense(2, name="scores")]
    >>> model = keras.Sequential([keras.Input((6,)), *layers])
    >>> x = np.random.default_rng(0).normal(size=(5, 6)).astype("float32")
    >>> a = gw.input_x_gradient(model, x, gw.class_score(1))
    >>> result = gw.attribute.quality.randomisation(a, model)
    >>> result.layers, result.signed.shape
    (['scores', 'hidden'], (2, 5))

    Args:
        a: The attribution.
        model: The model it explains.
        x: Another batch, which is explained in the same way. None: that of `a`.
        order: `"cascading"`: a layer and all behind it; `"independent"`: each layer by
            itself.
        layers: Which ones, by address or pattern, or a list of these. None: all that
            have weights.
        seed: Of the draws.
        progress: As in `sensitivity_max`.

    Returns:
        The similarities, and a verdict.

    Raises:
        GradwatchError: If an argument cannot be used; the message says why.
    """
    require_one_of(order, "order", ORDERS)
    require(is_count(seed, 0), "`seed` must be a whole number from 0.", seed)
    a, again, x = question_of(a, model, x)
    first = again(model, x)
    tree = walk(model)
    chosen = _chosen(tree, layers)
    every = [node for nodes in chosen.values() for node in nodes]
    changed: dict[str, tuple[Any, Any, Any]] = {}
    idle: list[str] = []
    score = first.score
    bar = progress_bar("randomisation", len(chosen), progress)
    with put_back(every) as restore, bar as tick, warnings.catch_warnings():
        # Of steps="auto", which need not reach its tolerance here.
        warnings.simplefilter("ignore", UserWarning)
        for number, (address, nodes) in enumerate(chosen.items()):
            if order == "independent":
                restore()
            randomise(tree, nodes, seed * len(chosen) + number + 1)
            now = again(model, x)
            tick(1)
            name = address or str(model.name)
            # What the target does not depend on, no explanation of it need notice.
            if np.array_equal(now.score, score):
                idle.append(name)
                continue
            changed[name] = _compared(first, now)
            score = now.score if order == "cascading" else score
    rule = "`layers` must be some that the target depends on."
    way_out = f"They may be anything without a change of {a.target}."
    require(bool(changed), rule, idle, way_out)
    absolute, signed, pictures = map(np.array, zip(*changed.values(), strict=True))
    return Randomisation(
        *(a.method, a.target, order, [*changed], absolute, signed),
        ssim=None if pictures.dtype == object else pictures,
        signs=any(bool((place.values < 0).any()) for place in first.places),
        without_effect=tuple(idle),
    )


def _chosen(tree: Tree, layers: Any) -> dict[str, list[WeightNode]]:
    """Returns the weights of each layer to draw anew, the last layer first.

    Raises:
        GradwatchError: If there are none.
    """
    matches = tree.learnable
    if layers is not None:
        with renamed(wrt="layers", weights="layers"):
            matches = resolve(weights_of(layers), tree).weights
    wanted = {node.layer for node in matches.values()}
    weights: dict[str, list[WeightNode]] = {}
    for node in tree.learnable.values():
        weights.setdefault(node.layer, []).append(node)
    return {layer: weights[layer] for layer in [*weights][::-1] if layer in wanted}


def _compared(one: Attribution, two: Attribution) -> tuple[Any, Any, Any]:
    """Returns the similarities of two attributions of a batch, example by example."""
    absolute, signed = [], []
    for a, b in zip(flat_values(one), flat_values(two), strict=True):
        finite = bool(np.isfinite(b).all())  # random weights may overflow
        signed.append(spearman(a, b) if finite else np.nan)
        absolute.append(spearman(np.abs(a), np.abs(b)) if finite else np.nan)
    maps = [_pictures(each) for each in (one, two)]
    if maps[0] is None:
        return absolute, signed, None
    return absolute, signed, [ssim(a, b) for a, b in zip(*maps, strict=True)]


def _pictures(a: Attribution) -> Any:
    """Returns the sizes as pictures whose largest number is 1; None without any."""
    place = a.places[0]
    if len(a.places) != 1 or len(place.spatial) != 2:
        return None
    values = np.nan_to_num(np.abs(place.values.astype("float64")))
    if place.channels is not None:
        values = values.sum(axis=place.channels)
    largest = values.max(axis=(1, 2), keepdims=True)
    return values / np.where(largest == 0, 1.0, largest)
