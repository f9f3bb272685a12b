"""A run becomes the numbers of pictures: the tab and the report draw the same ones."""

from ._answers import curves_answer as curves_answer
from ._answers import facts_of as facts_of
from ._answers import heat_answer as heat_answer
from ._answers import histograms_answer as histograms_answer
from ._answers import moment_answer as moment_answer
from ._answers import plain as plain
from ._answers import vocabulary as vocabulary
from ._buckets import MEASURED as MEASURED
from ._buckets import NAN as NAN
from ._buckets import NEGINF as NEGINF
from ._buckets import POSINF as POSINF
from ._buckets import Heat as Heat
from ._buckets import heat as heat
from ._moments import Moment as Moment
from ._moments import histograms as histograms
from ._moments import moment as moment
from ._moments import worst_index as worst_index
from ._quantities import QUANTITIES as QUANTITIES
from ._quantities import Quantity as Quantity
from ._totals import CURVES as CURVES
from ._totals import Curves as Curves
from ._totals import curves as curves
from ._wire import packed as packed
from ._wire import unpacked as unpacked
