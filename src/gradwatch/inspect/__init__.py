"""Inspect: a model and a question in, gradients by name out."""

from ._gradients import Inspector as Inspector
from ._gradients import gradients as gradients
from ._layers import Layers as Layers
from ._layers import layers as layers
from ._result import Gradients as Gradients
from ._tape import Tape as Tape
from ._why import why_none as why_none
