"""Lists of tensors as C takes them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import GradwatchError
from ._library import TYPES, Library, require

ROW = 11
"""Number of columns that the sweep measures: the first of `summarise.COLUMNS`."""

BUCKETS = 128
"""Number of counts in a histogram: `summarise.BUCKETS`."""

MOVES = 4
"""Columns of `moves`: weight norm, its standard error, update norm, its own."""

Rows = NDArray[np.float64]


class TensorLayout:
    """Sizes and types of a list of tensors, ready for C.

    Build it once per list. A call then needs the addresses only: some microseconds
    plus the sweep itself. Each call returns fresh arrays and changes nothing here, so
    threads may share a layout.

    Example:
    >>> import numpy as np
    >>> import gradwatch.native as native
    >>> weight = np.full(4, 2.0)
    >>> if native.library() is not None:
    ...     layout = native.TensorLayout([(weight.size, "float64")])
    ...     assert layout.norms([weight.ctypes.data])[0] == 4.0

    Args:
        tensors: Number of elements and name of the element type, for each tensor. The
            elements must lie in memory one after the other.
        library: The library to call; by default the one of `gradwatch.native.library`.

    Raises:
        GradwatchError: If a type is not in `TYPES`, or there is no library.

    Attributes:
        sample_bytes: Number of bytes of all samples.
        sealed_bytes: The same with the seal that a sample has in steps of XLA: eight
            bytes that are 0.
    """

    def __init__(
        self, tensors: Sequence[tuple[int, str]], library: Library | None = None
    ) -> None:
        unknown = [dtype for _, dtype in tensors if dtype not in TYPES]
        if unknown:
            raise GradwatchError(
                f"`tensors` must be of the types {', '.join(TYPES)}. Received: "
                f"{unknown[0]!r}. Measure such a tensor without the native sweep."
            )
        self._functions = (library or require()).functions
        self._count = len(tensors)
        # These arrays are kept: C reads them by address.
        self._sizes = array("q", [size for size, _ in tensors])
        self._types = array("i", [TYPES[dtype] for _, dtype in tensors])
        self._table = (
            self._count,
            self._sizes.buffer_info()[0],
            self._types.buffer_info()[0],
        )
        self.sample_bytes: int = self._functions.gw_sample_bytes(*self._table)
        self.sealed_bytes = self.sample_bytes + 8

    def measure(
        self, pointers: Sequence[int], scale: float = 1.0, histograms: bool = False
    ) -> tuple[Rows, Rows | None]:
        """Returns one row of 11 columns per tensor and, if asked for, 128 counts each.

        Args:
            pointers: Address of the first element of each tensor.
            scale: Factor of the loss; the columns are of the tensors divided by it.
            histograms: Whether to count, too.
        """
        addresses = self._addresses(pointers)
        rows = np.empty((self._count, ROW))
        counts = np.empty((self._count, BUCKETS)) if histograms else None
        self._functions.gw_measure(
            *self._table,
            addresses.buffer_info()[0],
            scale,
            histograms,
            rows.ctypes.data,
            None if counts is None else counts.ctypes.data,
        )
        return rows, counts

    def sample(
        self, pointers: Sequence[int], out: NDArray[np.uint8] | None = None
    ) -> NDArray[np.uint8]:
        """Returns the sample of each tensor, `sample_bytes` bytes in all.

        Args:
            pointers: Address of the first element of each tensor.
            out: Array to fill instead of a fresh one, from an earlier call.
        """
        addresses = self._addresses(pointers)
        result = np.empty(self.sample_bytes, np.uint8) if out is None else out
        self._require_sample(result)
        self._functions.gw_sample(
            *self._table, addresses.buffer_info()[0], result.ctypes.data
        )
        return result

    def moves(self, sample: NDArray[np.uint8], pointers: Sequence[int]) -> Rows:
        """Returns norms of weights and of their updates, with standard errors.

        Args:
            sample: What `sample` returned before the update.
            pointers: Address of the first element of each tensor, after the update.

        Returns:
            `[tensors, 4]`: the norm before the update, its standard error, the norm of
            the update, its standard error.
        """
        addresses = self._addresses(pointers)
        self._require_sample(sample)
        rows = np.empty((self._count, MOVES))
        self._functions.gw_moves(
            *self._table,
            sample.ctypes.data,
            addresses.buffer_info()[0],
            rows.ctypes.data,
        )
        return rows

    def norms(self, pointers: Sequence[int]) -> Rows:
        """Returns the norm of each tensor; NaN and infinite elements propagate."""
        addresses = self._addresses(pointers)
        norms = np.empty(self._count)
        self._functions.gw_norms(
            *self._table, addresses.buffer_info()[0], norms.ctypes.data
        )
        return norms

    def _addresses(self, pointers: Sequence[int]) -> array[int]:
        if len(pointers) != self._count:
            raise GradwatchError(
                f"`pointers` must hold one address per tensor. Received: "
                f"{len(pointers)} for {self._count} tensors. Build a new "
                "`TensorLayout` when the list of tensors changes."
            )
        return array("Q", pointers)

    def _require_sample(self, sample: NDArray[Any]) -> None:
        fits = sample.dtype == np.uint8 and sample.size == self.sample_bytes
        if not (fits and sample.flags.c_contiguous):
            raise GradwatchError(
                f"`sample` must hold {self.sample_bytes} bytes in one piece. Received: "
                f"{sample.size} elements of {sample.dtype}. Pass what "
                "`TensorLayout.sample` of the same tensors returned."
            )
