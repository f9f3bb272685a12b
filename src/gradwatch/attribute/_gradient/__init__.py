"""Gradient family: one forward and one backward pass, under one rule or another."""

from ._deep_lift import deep_lift as deep_lift
from ._plain import input_x_gradient as input_x_gradient
from ._plain import layer_gradient_x_activation as layer_gradient_x_activation
from ._plain import saliency as saliency
from ._rectified import deconvnet as deconvnet
from ._rectified import guided_backprop as guided_backprop
