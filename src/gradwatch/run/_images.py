"""Pictures of a training, in TensorBoard's Images tab."""

from __future__ import annotations

from ._event_file import EventFile, event, protos, strings, value


class ImageWriter(EventFile):
    """Writes pictures into an event file of their own.

    Each is in the file when `write` returns. Unlike `RunWriter`, it raises what the
    disk raises: the caller has a few pictures, and can report it better.

    Example:
    >>> writer = ImageWriter("runs/a/pictures")
    >>> writer.write(0, "why", b"...a PNG...", (640, 480))
    >>> writer.close()
    >>> len(list(writer.directory.iterdir()))
    1

    Args:
        directory: The directory for the file, made with the first picture. It should
            hold no other run: TensorBoard follows one growing file of a directory at a
            time.
    """

    def write(self, step: int, tag: str, png: bytes, size: tuple[int, int]) -> None:
        """Appends a picture.

        Args:
            step: Step of the training.
            tag: The name of the picture; steps of one name are a row with a slider.
            png: The contents of a PNG file.
            size: Its width and height.

        Raises:
            OSError: When it cannot be written; nothing of it is then in the file.
        """
        # The layout of the images plugin: width and height as text, then the files.
        tensor = strings(*(str(length).encode() for length in size), png)
        data_class = protos().DATA_CLASS_BLOB_SEQUENCE
        image = value(tag, tensor, "images", data_class=data_class)
        self.prepare()
        self.append(event(step, summary={"value": [image]}))
