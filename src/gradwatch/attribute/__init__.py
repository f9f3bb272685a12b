"""Attribute: which inputs, feature maps, tokens and neurons drive a prediction."""

from . import quality as quality
from ._baselines import blurred as blurred
from ._baselines import sampled as sampled
from ._callback import AttributionImages as AttributionImages
from ._dataset import AttributedDataset as AttributedDataset
from ._dataset import attribute_dataset as attribute_dataset
from ._deconvnet import deconvnet as deconvnet
from ._deep_lift import deep_lift as deep_lift
from ._expected_gradients import expected_gradients as expected_gradients
from ._fgsm import fgsm as fgsm
from ._grad_cam import grad_cam as grad_cam
from ._grad_cam_plus_plus import grad_cam_plus_plus as grad_cam_plus_plus
from ._guided_backprop import guided_backprop as guided_backprop
from ._guided_grad_cam import guided_grad_cam as guided_grad_cam
from ._input_x_gradient import input_x_gradient as input_x_gradient
from ._integrated_gradients import integrated_gradients as integrated_gradients
from ._internal_influence import internal_influence as internal_influence
from ._layer_cam import layer_cam as layer_cam
from ._layer_conductance import layer_conductance as layer_conductance
from ._layer_gradient_x_activation import (
    layer_gradient_x_activation as layer_gradient_x_activation,
)
from ._neuron_conductance import neuron_conductance as neuron_conductance
from ._noise import smoothgrad as smoothgrad
from ._noise import squaregrad as squaregrad
from ._noise import vargrad as vargrad
from ._occlusion import occlusion as occlusion
from ._pgd import pgd as pgd
from ._place import Place as Place
from ._result import Attribution as Attribution
from ._saliency import saliency as saliency
from ._score_cam import score_cam as score_cam
