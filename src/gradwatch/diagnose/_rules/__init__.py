"""The rules: each reads a recorded step and yields the signs of one symptom."""

from . import _quantities as quantities
from ._broken import COUNTS as COUNTS
from ._broken import dead_layer, dead_units, unreached
from ._broken import nonfinite as nonfinite
from ._depth import dominating_head, dominating_layer, exploding, vanishing
from ._rule import PATIENCE as PATIENCE
from ._rule import Rule as Rule
from ._rule import Sign as Sign
from ._rule import confidence as confidence
from ._rule import excluded as excluded
from ._setup import frozen as frozen
from ._setup import initialisation, not_frozen, saturated
from ._snapshot import WINDOW as WINDOW
from ._snapshot import History as History
from ._snapshot import Snapshot as Snapshot
from ._snapshot import snapshots as snapshots
from ._time import (
    exploding_time,
    fading,
    growing,
    noise,
    softmax_twice,
    stuck_loss,
    vanishing_time,
)
from ._updates import clipping, large_updates, small_updates, underflow

RULES: tuple[Rule, ...] = (
    *(nonfinite, unreached, dead_layer, dead_units),
    *(vanishing, vanishing_time, fading, exploding, exploding_time, growing),
    *(saturated, underflow, clipping, small_updates, large_updates),
    *(initialisation, dominating_layer, dominating_head, noise, frozen, not_frozen),
    *(softmax_twice, stuck_loss),  # the last: only if nothing else was found
)
"""The rules in the order in which they are asked."""

__all__ = ["quantities"]
