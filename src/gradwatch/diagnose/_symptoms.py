"""The symptoms by name: what each is, and where its page is."""

from __future__ import annotations

from collections.abc import Iterable

from .._errors import GradwatchError, closest, quoted

SYMPTOMS = {
    "vanishing": "gradients vanish along depth",
    "vanishing-time": "gradients vanish along the time steps of a sequence",
    "fading": "gradients have died down in the course of training",
    "exploding": "gradients explode",
    "nonfinite": "gradients are not finite",
    "dead-units": "units are dead",
    "dead-layer": "a layer is dead",
    "saturated": "activations are saturated",
    "unreached": "no gradient arrives",
    "underflow": "half precision loses gradients",
    "clipping": "clipping acts on nearly every step",
    "small-updates": "updates are too small for the weights",
    "large-updates": "updates are too large for the weights",
    "initialisation": "weights are poorly initialised",
    "dominating-layer": "one layer dominates",
    "dominating-head": "one output dominates",
    "noise": "gradients are so noisy that steps cancel",
    "idle-rows": "most rows of an embedding never move",
    "frozen": "a layer is frozen at its random beginning",
    "not-frozen": "a layer that is marked as frozen trains",
    "stuck-loss": "the loss is stuck, and it is not the gradients",
}
"""Each symptom in a few words; `docs/symptoms/<name>.md` tells the rest."""


def require_symptoms(names: Iterable[str], argument: str) -> None:
    """Raises an error for what is the name of no symptom.

    Example:
    >>> require_symptoms(["clipping"], "ignore")
    >>> require_symptoms(["hunger"], "ignore")
    Traceback (most recent call last):
        ...
    gradwatch.GradwatchError: `ignore` must be the name of a symptom. Received...
    """
    for name in names:
        if name not in SYMPTOMS:
            near = closest(str(name), sorted(SYMPTOMS)) or sorted(SYMPTOMS)
            raise GradwatchError(
                f"`{argument}` must be the name of a symptom. Received: {name!r}. "
                f"Closest: {quoted(near)}."
            )
