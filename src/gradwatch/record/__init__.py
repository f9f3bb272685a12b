"""Rows become a run on disk, and a run on disk becomes series of numbers."""

from ._error import RunError as RunError
from ._follow import Counts as Counts
from ._follow import Follower as Follower
from ._follow import FoundStep as FoundStep
from ._follow import Listener as Listener
from ._images import ImageWriter as ImageWriter
from ._layout import KINDS as KINDS
from ._layout import TOTALS as TOTALS
from ._layout import Layout as Layout
from ._layout import Record as Record
from ._numbers import numbers as numbers
from ._run import Run as Run
from ._run import open_run as open_run
from ._series import Series as Series
from ._series import Totals as Totals
from ._sinks import MlflowSink as MlflowSink
from ._sinks import Sink as Sink
from ._sinks import Sinks as Sinks
from ._sinks import WandbSink as WandbSink
from ._writer import RunWriter as RunWriter
