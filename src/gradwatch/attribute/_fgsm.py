"""The fast gradient sign method: an adversarial example in one step."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._attack import Attack
from ._checked import require_positive


def fgsm(  # noqa: PLR0913 - what is attacked, how far, within what
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    epsilon: float,
    goal: str | None = None,
    y: Any = None,
    bounds: tuple[float, float] | None = None,
) -> Any:
    """The batch, each number moved by `epsilon` against the target: an attack.

    Goodfellow, Shlens and Szegedy, *Explaining and Harnessing Adversarial Examples*
    (2015), section 4: x + ε · sign(∇J). One forward and one backward pass.

    Example:
    >>> from gradwatch import attribute, class_score
    >>> import keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> x = np.ones((5, 3), "float32")
    >>> moved = attribute.fgsm(model, x, class_score(1), epsilon=0.1)
    >>> bool(np.allclose(abs(moved - x), 0.1, atol=1e-6))
    True

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is attacked: a score as in `saliency`, or `loss()`, which needs
            `y`. None: the compiled loss.
        layer: The layer whose output is moved, such as the embedding of a text model
            (Miyato, Dai and Goodfellow, 2017); None: the inputs.
        epsilon: How far each number moves.
        goal: `"lower"` or `"raise"` the target. None: scores are lowered, losses
            raised.
        y: The labels, for a loss.
        bounds: The least and the largest number allowed, such as `(0, 1)`.

    Returns:
        NumPy arrays in the structure of `x`; with `layer=`, what the layer gives,
        moved: an array, or a dict by name where there are several.

    Raises:
        GradwatchError: When an argument cannot be used; the message says why.
    """
    require_positive(epsilon, "epsilon")
    attack = Attack(model, x, target, layer, y, goal, bounds)
    gradients = attack.gradients(attack.spots.values)
    steps = [epsilon * attack.sign * np.sign(g) for g in gradients]
    return attack.packed(
        [attack.bounded(v + s) for v, s in zip(attack.spots.values, steps, strict=True)]
    )
