"""Testing: models of every kind, models with known gradients, and a trace detector."""

from ._case import Case as Case
from ._zoo import zoo as zoo
