"""An array becomes one fixed row of numbers."""

from typing import TYPE_CHECKING, Any

from ._array import summarise_array as summarise_array
from ._array import summarise_rows as summarise_rows
from ._columns import BUCKETS as BUCKETS
from ._columns import COLUMNS as COLUMNS
from ._columns import HIGHEST as HIGHEST
from ._columns import LOWEST as LOWEST
from ._columns import OCTAVES as OCTAVES
from ._columns import blank as blank
from ._columns import bucket_edges as bucket_edges
from ._columns import finished as finished
from ._columns import is_blank as is_blank
from ._row import Row as Row

# What runs inside a step needs Keras, and with it a framework. Readers of a run (the
# report, TensorBoard's tab) do not wait for one.
if TYPE_CHECKING:
    from ._lean import Lean as Lean
else:

    def __getattr__(name: str) -> Any:
        if name == "Lean":
            from . import _lean

            value = globals()[name] = _lean.Lean
            return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
