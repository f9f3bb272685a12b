"""The sweep in C: a tensor's memory becomes a row of numbers, in one read.

The library is compiled when the package is built (hatch_build.py) and needs no
framework. `library()` is `None` where it cannot be used, and `why_not()` then gives the
reason; the caller measures in another way.

Example:
>>> import numpy as np
>>> import gradwatch.native as native
>>> if native.library() is not None:
...     gradient = np.array([3.0, -4.0, 0.0], np.float32)
...     layout = native.TensorLayout([(gradient.size, "float32")])
...     rows, _ = layout.measure([gradient.ctypes.data])
...     assert rows[0, 0] == 5.0  # the norm
"""

from ._layout import TensorLayout
from ._library import TYPES, Library, address, library, why_not

__all__ = [
    "TYPES",
    "Library",
    "TensorLayout",
    "address",
    "library",
    "why_not",
]
