"""A training with a planted fault and its repaired twin, to see what gradwatch does."""

from ._demo import NAMES as NAMES
from ._demo import run_demo as run_demo
from ._shapes import SHAPES as SHAPES
from ._shapes import draw_shapes as draw_shapes
