"""An array becomes one fixed row of numbers."""

from typing import TYPE_CHECKING, Any

from ._array import summarise_array as summarise_array
from ._columns import BUCKETS as BUCKETS
from ._columns import COLUMNS as COLUMNS
from ._columns import HIGHEST as HIGHEST
from ._columns import LOWEST as LOWEST
from ._columns import OCTAVES as OCTAVES
from ._columns import blank as blank
from ._columns import bucket_edges as bucket_edges
from ._columns import is_blank as is_blank
from ._row import Row as Row
from ._sparse import summarise_rows as summarise_rows

# What runs inside a step needs Keras, and with it a framework. Readers of a run (the
# report, TensorBoard's tab) do not wait for one.
if TYPE_CHECKING:
    from ._exact import Reading as Reading
    from ._exact import read as read
    from ._finish import finish as finish
    from ._finish import norms as norms
    from ._measure import SUMS as SUMS
    from ._measure import measure as measure
    from ._pack import SAMPLE as SAMPLE
    from ._squares import Move as Move
    from ._squares import changes as changes
    from ._squares import read_move as read_move
    from ._squares import squares as squares
else:

    def __getattr__(name: str) -> Any:
        # `from . import` looks here first for a file that is not loaded yet.
        if not name.startswith("_"):
            from . import _in_step

            if name in _in_step.__all__:
                value = globals()[name] = getattr(_in_step, name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
