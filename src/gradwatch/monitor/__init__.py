"""Watch: the gradients of a training that runs, into a run on disk."""

from ._loop import Watch as Watch
from ._loop import watch as watch
from ._monitor import GradientMonitor as GradientMonitor
from ._recorder import UnhealthyTraining as UnhealthyTraining
from ._schedule import Budget as Budget
from ._schedule import budget as budget
