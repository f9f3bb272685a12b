"""The engine: model and selection in, gradients out; the model stays as it was."""

from ..select import Leaf as Leaf
from ._convert import array_of as array_of
from ._engine import Captured as Captured
from ._engine import Engine as Engine
from ._engine import engine_for as engine_for
from ._entries import Entry as Entry
from ._entries import absent as absent
from ._entries import dense as dense
from ._entries import entries as entries
from ._expected import fixed_batch as fixed_batch
from ._guard import seeds_of as seeds_of
from ._guard import specifications as specifications
from ._guard import untouched as untouched
from ._layer_notes import note_layer as note_layer
from ._program import PassOptions as PassOptions
from ._program import input_names as input_names
from ._reasons import Reason as Reason
from ._reasons import not_recorded as not_recorded
from ._session import Facts as Facts
from ._session import Session as Session
