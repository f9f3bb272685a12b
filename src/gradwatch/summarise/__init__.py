"""An array becomes one fixed row of numbers."""

from ._array import summarise_array as summarise_array
from ._row import Row as Row
from ._sparse import summarise_rows as summarise_rows
