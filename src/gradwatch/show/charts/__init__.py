"""A run becomes the numbers of pictures: the tab and the report draw the same ones."""

from ._facts import facts_of as facts_of
from ._facts import plain as plain
from ._facts import vocabulary as vocabulary
from ._heat import CURVES as CURVES
from ._heat import IS_NAN as IS_NAN
from ._heat import IS_NEGINF as IS_NEGINF
from ._heat import IS_POSINF as IS_POSINF
from ._heat import MEASURED as MEASURED
from ._heat import NAN as NAN
from ._heat import NEGINF as NEGINF
from ._heat import NONFINITE as NONFINITE
from ._heat import NUMBER as NUMBER
from ._heat import POSINF as POSINF
from ._heat import STATES as STATES
from ._heat import UNMEASURED as UNMEASURED
from ._heat import ZERO as ZERO
from ._heat import Heat as Heat
from ._heat import curves as curves
from ._heat import heat as heat
from ._quantities import QUANTITIES as QUANTITIES
from ._quantities import Quantity as Quantity
from ._snapshot import OCTAVES as OCTAVES
from ._snapshot import histograms as histograms
from ._snapshot import snapshot as snapshot
from ._snapshot import worst_index as worst_index
from ._wire import packed as packed
