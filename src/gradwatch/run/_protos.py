"""TensorBoard's messages, imported when the first one is made.

`import gradwatch` stays fast, and works without TensorBoard. Asking for them is one
look-up: an import statement costs microseconds each time, and a step makes hundreds.
"""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def protos() -> Any:
    """Returns a namespace of the messages and constants that an event is made of."""
    from types import SimpleNamespace

    from tensorboard.compat.proto import (
        event_pb2,
        summary_pb2,
        tensor_pb2,
        tensor_shape_pb2,
        types_pb2,
    )

    return SimpleNamespace(
        Event=event_pb2.Event,
        SessionLog=event_pb2.SessionLog,
        Value=summary_pb2.Summary.Value,
        SummaryMetadata=summary_pb2.SummaryMetadata,
        DATA_CLASS_BLOB_SEQUENCE=summary_pb2.DATA_CLASS_BLOB_SEQUENCE,
        DATA_CLASS_TENSOR=summary_pb2.DATA_CLASS_TENSOR,
        Tensor=tensor_pb2.TensorProto,
        Shape=tensor_shape_pb2.TensorShapeProto,
        DT_FLOAT=types_pb2.DT_FLOAT,
        DT_DOUBLE=types_pb2.DT_DOUBLE,
        DT_STRING=types_pb2.DT_STRING,
    )
