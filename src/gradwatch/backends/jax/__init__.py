"""JAX: a pure function of variables and batch, with a zero added at each leaf."""

from . import watching as watching
from .passes import prepare as prepare
from .rules import positive_gradient as positive_gradient
from .state import chance as chance
from .state import dense as dense
from .state import is_eager as is_eager
from .state import protected as protected
from .state import raw_state as raw_state
from .state import restored as restored
from .state import set_chance as set_chance
from .state import synchronise as synchronise

ASSIGNMENTS_CUT = False
PROBES_RNN_CELLS = False
Tape = None
"""JAX differentiates functions; there is nothing a tape could record."""
