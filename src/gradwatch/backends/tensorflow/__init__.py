"""TensorFlow: a tape inside one `tf.function`."""

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
from .tape import Tape as Tape

ASSIGNMENTS_CUT = True
PROBES_RNN_CELLS = True
