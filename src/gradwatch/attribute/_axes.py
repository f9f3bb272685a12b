"""The axis of a tensor that holds the channels."""

from __future__ import annotations

from typing import Any

import keras

from ..select import Tree
from ._checked import require_one_of

FORMATS = ("channels_last", "channels_first")

_LAST = (
    *(keras.layers.Embedding, keras.layers.Dense, keras.layers.EinsumDense),
    *(keras.layers.RNN, keras.layers.Bidirectional),
    *(keras.layers.MultiHeadAttention, keras.layers.Attention),
)
"""Layers whose channels are last, whatever the convolutions do."""


def channel_axis(
    tree: Tree, address: str | None, ndim: int, data_format: str | None = None
) -> int | None:
    """Returns the channel axis of a layer's output, or of an input of the model.

    The layer itself knows it, if it is a convolution, a pooling or a normalisation.
    For the rest, the other layers of the model do: a model has one format.

    Args:
        tree: Of the model.
        address: Of the layer; None for an input.
        ndim: Of the tensor, with the batch axis.
        data_format: What the caller said.

    Raises:
        GradwatchError: If what the caller said is no data format.
    """
    require_one_of(data_format, "data_format", (None, *FORMATS))
    if ndim < 3 or (address is None and _grey(tree, ndim)):
        return None
    if data_format is None and address is not None:
        data_format = _format_of(tree.layers[address].layer, ndim)
    if data_format is None:
        formats = _formats(tree, ndim)
        # Sequences and embeddings keep their last axis, whatever images do.
        fallback = keras.config.image_data_format() if ndim > 3 else None
        data_format = formats.pop() if len(formats) == 1 else fallback
    return 1 if data_format == "channels_first" else ndim - 1


def _formats(tree: Tree, ndim: int) -> set[str]:
    """Returns the formats of the layers that take `ndim` axes, or else of all.

    A sequence beside images is no image: where no layer of sequences says anything,
    its channels are last.
    """
    alike, others = set[str](), set[str]()
    for layer in [node.layer for node in tree.layers.values()]:
        if known := _format_of(layer, None):
            spec = getattr(layer, "input_spec", None)
            axes = getattr(spec, "ndim", None) or getattr(spec, "min_ndim", None)
            (alike if axes in (ndim, None) else others).add(known)
    return alike or (others if ndim > 3 else set())


def _grey(tree: Tree, ndim: int) -> bool:
    """Returns whether an input is an image to which a layer adds the channels."""
    every = [getattr(node.layer, "rank", None) for node in tree.layers.values()]
    ranks = [rank for rank in every if isinstance(rank, int)]
    # A series beside images is none: the convolutions have an input of their own.
    given = getattr(tree.model, "inputs", None) or ()
    whole = any(len(tensor.shape) == ndim + 1 for tensor in given)
    return bool(ranks) and min(ranks) == ndim - 1 and not whole


def _format_of(layer: Any, ndim: int | None) -> str | None:
    """Returns the data format of a layer that has one."""
    known = getattr(layer, "data_format", None)
    # That of a Flatten is a default: after it there are no axes of space.
    if known in FORMATS and not isinstance(layer, keras.layers.Flatten):
        return str(known)
    if ndim is not None and isinstance(layer, _LAST):
        return "channels_last"
    if ndim is not None and isinstance(layer, keras.layers.BatchNormalization):
        return "channels_first" if layer.axis == 1 else "channels_last"
    return None
