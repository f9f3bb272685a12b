"""The names of the front door that need Keras.

`import gradwatch` does not load this file: it is loaded with the first of these names
that is used. So the report, TensorBoard's tab and the command line, which only read a
run, do not wait seconds for a framework.
"""

from .attribute import (
    Attribution,
    AttributionImages,
    grad_cam,
    input_x_gradient,
    integrated_gradients,
    saliency,
    smoothgrad,
)
from .diagnose import autopsy
from .engine import Reason
from .inspect import Gradients, Inspector, Layers, Tape, gradients, layers, why_none
from .monitor import Budget, GradientMonitor, UnhealthyTraining, Watch, budget, watch
from .select import activations, inputs, weights
from .targets import Target, class_score, loss, mean_output, neuron, output

__all__ = [
    "Attribution",
    "AttributionImages",
    "Budget",
    "GradientMonitor",
    "Gradients",
    "Inspector",
    "Layers",
    "Reason",
    "Tape",
    "Target",
    "UnhealthyTraining",
    "Watch",
    "activations",
    "autopsy",
    "budget",
    "class_score",
    "grad_cam",
    "gradients",
    "input_x_gradient",
    "inputs",
    "integrated_gradients",
    "layers",
    "loss",
    "mean_output",
    "neuron",
    "output",
    "saliency",
    "smoothgrad",
    "watch",
    "weights",
    "why_none",
]
