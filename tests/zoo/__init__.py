"""The zoo: small models of every kind that people build, for tests and benchmarks."""

from .case import Case as Case
from .zoo import zoo as zoo
