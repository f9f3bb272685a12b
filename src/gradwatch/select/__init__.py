"""Addresses: model and pattern in, the very layers and weights out."""

from ._leaf import Leaf as Leaf
from ._leaf import path_text as path_text
from ._patterns import Pattern as Pattern
from ._patterns import matching as matching
from ._resolve import NOTHING as NOTHING
from ._resolve import Selection as Selection
from ._resolve import matching_inputs as matching_inputs
from ._resolve import resolve as resolve
from ._resolve import selectors as selectors
from ._resolve import split_suffix as split_suffix
from ._selectors import Activations as Activations
from ._selectors import Inputs as Inputs
from ._selectors import Selector as Selector
from ._selectors import Weights as Weights
from ._selectors import Wrt as Wrt
from ._selectors import activations as activations
from ._selectors import at_layer as at_layer
from ._selectors import inputs as inputs
from ._selectors import weights as weights
from ._tree import LayerNode as LayerNode
from ._tree import Tree as Tree
from ._tree import WeightNode as WeightNode
from ._tree import require_model as require_model
from ._tree import walk as walk
