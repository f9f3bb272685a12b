"""JAX: a pure function of variables and batch, with a zero added at each leaf."""

from __future__ import annotations

from typing import Any

import jax

from ..._keras import jax_state_is_synced
from .._protocol import Backend, Tensor
from .graph import traced
from .passes import JaxRunner
from .step import JaxWatchedStep


class Jax(Backend):
    """The backend for `KERAS_BACKEND=jax`. A pure function has no state to protect."""

    ASSIGNMENTS_CUT = False
    PROBES_RNN_CELLS = False
    # Each primitive is compiled by itself anyway: all at once is four times faster.
    COMPILES_FIRST = True
    watching = JaxWatchedStep()
    prepare = JaxRunner
    traced = staticmethod(traced)

    def is_eager(self, tensor: Tensor) -> bool:
        """Returns whether the tensor has a value now."""
        return not isinstance(tensor, jax.core.Tracer)

    def synchronise(self, model: Any) -> None:
        """Fetches the values of variables, which hold none inside `fit`."""
        if hasattr(model, "jax_state_sync") and not jax_state_is_synced(model):
            model.jax_state_sync()


BACKEND = Jax()
