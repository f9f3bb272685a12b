"""Rows become a run on disk, and a run on disk becomes series of numbers."""

from ._codec import FINDINGS as FINDINGS
from ._codec import Counts as Counts
from ._codec import Decoded as Decoded
from ._codec import meta_of as meta_of
from ._error import RunError as RunError
from ._images import ImageWriter as ImageWriter
from ._layout import KINDS as KINDS
from ._layout import TOTALS as TOTALS
from ._layout import Layout as Layout
from ._layout import Record as Record
from ._numbers import numbers as numbers
from ._reader import Reader as Reader
from ._run import Run as Run
from ._run import Source as Source
from ._run import open_run as open_run
from ._series import Series as Series
from ._series import Totals as Totals
from ._sinks import MlflowSink as MlflowSink
from ._sinks import Sink as Sink
from ._sinks import Sinks as Sinks
from ._sinks import WandbSink as WandbSink
from ._store import Chunk as Chunk
from ._store import Store as Store
from ._writer import RunWriter as RunWriter
