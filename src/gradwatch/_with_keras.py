"""The public names that need Keras.

`import gradwatch` does not load this file: the first use of one of these names does.
The report, TensorBoard's tab and the command line only read runs, and do not wait
seconds for a framework.
"""

from .attribute import Attribution as Attribution
from .attribute import AttributionImages as AttributionImages
from .attribute import grad_cam as grad_cam
from .attribute import input_x_gradient as input_x_gradient
from .attribute import integrated_gradients as integrated_gradients
from .attribute import saliency as saliency
from .attribute import smoothgrad as smoothgrad
from .diagnose import autopsy as autopsy
from .engine import Reason as Reason
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
from .select import activations as activations
from .select import inputs as inputs
from .select import weights as weights
from .targets import Target as Target
from .targets import class_score as class_score
from .targets import loss as loss
from .targets import mean_output as mean_output
from .targets import neuron as neuron
from .targets import output as output
