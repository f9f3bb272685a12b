"""Pictures of a training, in TensorBoard's Images tab."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any

from ._file import EventFile
from ._framing import frame
from ._protos import protos


class ImageWriter:
    """Writes pictures into an event file of their own.

    Each is in the file when `write` returns. Unlike `RunWriter`, it raises what the
    disk raises: who writes a few pictures can say it better.

    Example:
    >>> writer = ImageWriter("runs/a/pictures")
    >>> writer.write(0, "why", b"...a PNG...", (640, 480))
    >>> writer.close()
    >>> len(list(writer.directory.iterdir()))
    1

    Args:
        directory: Where the file goes; made with the first picture. It should hold no
            other run: TensorBoard follows one growing file of a directory at a time.

    Attributes:
        directory: Where the file goes.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        # Absolute, so that a training script may change its working directory.
        with contextlib.suppress(OSError):  # unless that was deleted
            self.directory = Path(os.path.abspath(directory))
        self._file = EventFile(self.directory)

    def write(self, step: int, tag: str, png: bytes, size: tuple[int, int]) -> None:
        """Appends a picture.

        Args:
            step: Of the training.
            tag: The name of the picture; steps of one name are a row with a slider.
            png: The file.
            size: Its width and height.

        Raises:
            OSError: When it cannot be written; nothing of it is then in the file.
        """
        head = b""
        if not self._file.is_current():
            self._file.open()
        if self._file.is_empty:
            head = _event(0, file_version="brain.Event:2")
        summary = {"value": [_image(tag, png, size)]}
        self._file.append(head + _event(step, summary=summary))

    def close(self) -> None:
        """Closes the file; a later `write` makes a new one."""
        self._file.close()


def _image(tag: str, png: bytes, size: tuple[int, int]) -> Any:
    p = protos()
    # The layout of the images plugin: width and height as text, then the files.
    words = [str(length).encode() for length in size]
    shape = p.Shape(dim=[p.Shape.Dim(size=3)])
    tensor = p.Tensor(dtype=p.DT_STRING, tensor_shape=shape, string_val=[*words, png])
    value = p.Value(tag=tag, tensor=tensor)
    value.metadata.plugin_data.plugin_name = "images"
    value.metadata.data_class = p.DATA_CLASS_BLOB_SEQUENCE
    return value


def _event(step: int, **what: Any) -> bytes:
    event = protos().Event(wall_time=time.time(), step=step, **what)
    data: bytes = event.SerializeToString()
    return frame(data)
