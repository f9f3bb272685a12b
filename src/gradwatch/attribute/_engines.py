"""The engines of each model, kept as long as the model."""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from typing import Any

import keras

from ..engine import Engine, Manner

# A call in a loop must not trace anew. The engines hang on the model by a weak
# reference and go with it; they hold no reference back.
_engines: weakref.WeakKeyDictionary[keras.Layer, dict[Hashable, Engine]] = (
    weakref.WeakKeyDictionary()
)


def engine_for(model: Any, wrt: tuple[Any, ...], manner: Manner) -> Engine:
    """Returns the engine that this model is asked such questions of."""
    fresh = Engine(wrt, training=False, compiled=True, manner=manner)
    return _engines.setdefault(model, {}).setdefault((wrt, manner), fresh)
