"""A training that runs becomes a picture in a terminal that keeps up with it."""

from ._follow import follow as follow
