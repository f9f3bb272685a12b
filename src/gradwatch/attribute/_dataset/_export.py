"""Copies of a store in other formats, written batch by batch."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Mapping
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from ._store import MissingLibraryError


def write_npz(
    file: IO[bytes], columns: Mapping[str, Any], batches: Iterable[slice], words: str
) -> None:
    """Writes an array per column."""
    # Not compressed, so that a reader can map the members.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        with _member(archive, "words") as member:
            npy.write_array(member, np.array(words))
        for name, column in columns.items():
            with _member(archive, name) as member:
                header = npy.header_data_from_array_1_0(np.empty(0, column.dtype))
                shape = tuple(column.shape)
                npy.write_array_header_1_0(member, {**header, "shape": shape})
                for rows in batches:
                    member.write(np.asarray(column[rows]).tobytes())


def _member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    # With a date of their own, two files of the same numbers would differ.
    info = zipfile.ZipInfo(name + ".npy", date_time=(1980, 1, 1, 0, 0, 0))
    return archive.open(info, "w", force_zip64=True)


def write_parquet(
    file: IO[bytes], columns: Mapping[str, Any], batches: Iterable[slice], words: str
) -> None:
    """Writes a row per example and a row group per batch.

    Arrays are lists of fixed size; their shape is in the metadata of the field.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise MissingLibraryError(
            "`path` must be of a format whose library is installed. Received: a "
            '.parquet file, which needs pyarrow. `pip install "gradwatch[pandas]"` '
            "brings it; a .npz file needs nothing."
        ) from None

    fields = []
    for name, column in columns.items():
        kind, shape = pa.from_numpy_dtype(np.dtype(column.dtype)), column.shape[1:]
        metadata = {"shape": json.dumps(shape)} if shape else None
        kind = pa.list_(kind, int(np.prod(shape))) if shape else kind
        fields.append(pa.field(name, kind, nullable=False, metadata=metadata))
    schema = pa.schema(fields, metadata={"gradwatch": words})
    with parquet.ParquetWriter(file, schema) as writer:
        for rows in batches:
            arrays = []
            for field, column in zip(fields, columns.values(), strict=True):
                flat = pa.array(np.asarray(column[rows]).reshape(-1))
                size = getattr(field.type, "list_size", None)
                lists = pa.FixedSizeListArray.from_arrays
                arrays.append(lists(flat, size) if size else flat)
            writer.write_table(pa.table(arrays, schema=schema))
