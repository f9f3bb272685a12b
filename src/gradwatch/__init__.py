"""gradwatch shows every gradient of a Keras model."""

import typing as _typing

from ._errors import AddressError as AddressError
from ._errors import GradwatchError as GradwatchError
from ._errors import TargetError as TargetError
from ._version import __version__ as __version__
from .diagnose import Autopsy as Autopsy
from .diagnose import Finding as Finding
from .diagnose import UnhealthyError as UnhealthyError
from .diagnose import assert_healthy as assert_healthy
from .diagnose import diagnose as diagnose
from .run import MlflowSink as MlflowSink
from .run import Run as Run
from .run import RunError as RunError
from .run import Series as Series
from .run import Sink as Sink
from .run import WandbSink as WandbSink
from .run import open_run as open_run
from .summarise import Row as Row

if _typing.TYPE_CHECKING:
    from ._with_keras import *  # noqa: F403

__all__ = [  # noqa: F405
    "AddressError",
    "Attribution",
    "AttributionImages",
    "Autopsy",
    "Budget",
    "Finding",
    "GradientMonitor",
    "Gradients",
    "GradwatchError",
    "Inspector",
    "Layers",
    "MlflowSink",
    "Reason",
    "Row",
    "Run",
    "RunError",
    "Series",
    "Sink",
    "Tape",
    "Target",
    "TargetError",
    "UnhealthyError",
    "UnhealthyTraining",
    "WandbSink",
    "Watch",
    "activations",
    "assert_healthy",
    "autopsy",
    "budget",
    "class_score",
    "diagnose",
    "grad_cam",
    "gradients",
    "input_x_gradient",
    "inputs",
    "integrated_gradients",
    "layers",
    "loss",
    "mean_output",
    "neuron",
    "open_run",
    "output",
    "saliency",
    "smoothgrad",
    "watch",
    "weights",
    "why_none",
]


def __getattr__(name: str) -> _typing.Any:
    """Loads all names that need Keras, as soon as one of them is used."""
    if not name.startswith("_"):
        from . import _with_keras

        later = [key for key in __all__ if key not in globals()]
        _publish({key: getattr(_with_keras, key) for key in later})
    # `gradwatch.attribute` is a room: importing the others has loaded it.
    if name not in globals():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _publish(names: dict[str, _typing.Any]) -> None:
    """Makes names appear in reprs and tracebacks under their public path."""
    for value in names.values():
        value.__module__ = __name__
    globals().update(names)


_publish({key: globals()[key] for key in __all__ if key in globals()})
