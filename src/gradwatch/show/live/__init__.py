"""A picture of a training in the terminal that keeps up with it."""

from ._follow import follow as follow
