"""The zoo: every kind of model that gradwatch promises to see through."""

from __future__ import annotations

from . import plain, sequences, training
from .case import Case

TAGS = {
    "random": ("cnn", "returns_its_input", "lstm_dropout", "attention"),
    "half": ("mixed_float16", "mixed_bfloat16"),
    "unbuilt": ("unbuilt_subclassed", "unbuilt_sequential"),
    "stateful": ("stateful_lstm",),
    "large": ("mobilenet",),
}


def zoo() -> dict[str, Case]:
    """Returns small models of every kind, by name.

    Whatever works on all of them works on the models people have: use it to test a
    tool that looks into Keras models.

    Example:
    >>> import gradwatch as gw
    >>> from tests.zoo import zoo
    >>> model, x, y = zoo()["siamese"].build()
    >>> g = gw.gradients(model, x, y, wrt=gw.activations("shared"))
    >>> list(g)
    ['shared@1', 'shared@2']

    Returns:
        A case for each kind. Nothing is built before `build()` is called.
    """
    kinds = (*plain.KINDS, *sequences.KINDS, *training.KINDS)
    cases = {}
    for build in kinds:
        name = build.__name__
        tags = frozenset(tag for tag, names in TAGS.items() if name in names)
        cases[name] = Case(name, build, str(build.__doc__), tags)
    return cases
