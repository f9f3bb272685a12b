"""Path family: gradients along a straight line from a baseline to the input."""

from ._conductance import internal_influence as internal_influence
from ._conductance import layer_conductance as layer_conductance
from ._conductance import neuron_conductance as neuron_conductance
from ._expected_gradients import expected_gradients as expected_gradients
from ._integrated_gradients import integrated_gradients as integrated_gradients
