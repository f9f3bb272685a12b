"""A run becomes the numbers of pictures: the tab and the report draw the same ones."""

from ._answers import curves_answer as curves_answer
from ._answers import facts_of as facts_of
from ._answers import heat_answer as heat_answer
from ._answers import histograms_answer as histograms_answer
from ._answers import plain as plain
from ._answers import snapshot_answer as snapshot_answer
from ._answers import vocabulary as vocabulary
from ._heat import CURVES as CURVES
from ._heat import MEASURED as MEASURED
from ._heat import NAN as NAN
from ._heat import NEGINF as NEGINF
from ._heat import NONFINITE as NONFINITE
from ._heat import POSINF as POSINF
from ._heat import Heat as Heat
from ._heat import curves as curves
from ._heat import heat as heat
from ._quantities import QUANTITIES as QUANTITIES
from ._quantities import Quantity as Quantity
from ._quantities import column as column
from ._snapshot import histograms as histograms
from ._snapshot import snapshot as snapshot
from ._snapshot import worst_index as worst_index
from ._wire import packed as packed
