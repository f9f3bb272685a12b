"""gradwatch shows every gradient of a Keras model."""

from ._errors import AddressError as AddressError
from ._errors import GradwatchError as GradwatchError
from ._errors import TargetError as TargetError
from ._version import __version__ as __version__
from .capture import Reason as Reason
from .diagnose import Autopsy as Autopsy
from .diagnose import Finding as Finding
from .diagnose import UnhealthyError as UnhealthyError
from .diagnose import assert_healthy as assert_healthy
from .diagnose import autopsy as autopsy
from .diagnose import diagnose as diagnose
from .inspect import Gradients as Gradients
from .inspect import Inspector as Inspector
from .inspect import Layers as Layers
from .inspect import Tape as Tape
from .inspect import gradients as gradients
from .inspect import layers as layers
from .inspect import why_none as why_none
from .monitor import Budget as Budget
from .monitor import GradientMonitor as GradientMonitor
from .monitor import UnhealthyTraining as UnhealthyTraining
from .monitor import Watch as Watch
from .monitor import budget as budget
from .monitor import watch as watch
from .record import MlflowSink as MlflowSink
from .record import Run as Run
from .record import RunError as RunError
from .record import Series as Series
from .record import Sink as Sink
from .record import WandbSink as WandbSink
from .record import open_run as open_run
from .select import activations as activations
from .select import inputs as inputs
from .select import weights as weights
from .summarise import Row as Row
from .targets import Target as Target
from .targets import class_score as class_score
from .targets import loss as loss
from .targets import mean_output as mean_output
from .targets import output as output

__all__ = [
    "AddressError",
    "Autopsy",
    "Budget",
    "Finding",
    "GradientMonitor",
    "Gradients",
    "GradwatchError",
    "Inspector",
    "Layers",
    "MlflowSink",
    "Reason",
    "Row",
    "Run",
    "RunError",
    "Series",
    "Sink",
    "Tape",
    "Target",
    "TargetError",
    "UnhealthyError",
    "UnhealthyTraining",
    "WandbSink",
    "Watch",
    "activations",
    "assert_healthy",
    "autopsy",
    "budget",
    "class_score",
    "diagnose",
    "gradients",
    "inputs",
    "layers",
    "loss",
    "mean_output",
    "open_run",
    "output",
    "watch",
    "weights",
    "why_none",
]

# Reprs and tracebacks show the door people came through.
for _name in __all__:
    globals()[_name].__module__ = __name__
del _name
