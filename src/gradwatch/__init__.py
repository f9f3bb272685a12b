"""gradwatch shows every gradient of a Keras model."""

from ._errors import AddressError as AddressError
from ._errors import GradwatchError as GradwatchError
from ._errors import TargetError as TargetError
from ._version import __version__ as __version__
from .capture import Reason as Reason
from .inspect import Gradients as Gradients
from .inspect import Inspector as Inspector
from .inspect import Layers as Layers
from .inspect import Tape as Tape
from .inspect import gradients as gradients
from .inspect import layers as layers
from .inspect import why_none as why_none
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
    "Gradients",
    "GradwatchError",
    "Inspector",
    "Layers",
    "Reason",
    "Row",
    "Tape",
    "Target",
    "TargetError",
    "activations",
    "class_score",
    "gradients",
    "inputs",
    "layers",
    "loss",
    "mean_output",
    "output",
    "weights",
    "why_none",
]

# Reprs and tracebacks show the door people came through.
for _name in __all__:
    globals()[_name].__module__ = __name__
del _name
