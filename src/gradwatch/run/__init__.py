"""Runs: writing records to disk, and reading them back as series of numbers."""

from ._codec import FINDINGS as FINDINGS
from ._codec import Value as Value
from ._codec import meta_of as meta_of
from ._error import RunError as RunError
from ._native import ImageWriter as ImageWriter
from ._native import numbers as numbers
from ._reader import Reader as Reader
from ._run import Run as Run
from ._run import open_run as open_run
from ._schema import KINDS as KINDS
from ._schema import TOTALS as TOTALS
from ._schema import Layout as Layout
from ._schema import Record as Record
from ._schema import measured as measured
from ._schema import standard_error_of as standard_error_of
from ._series import Series as Series
from ._series import Totals as Totals
from ._sinks import MlflowSink as MlflowSink
from ._sinks import Sink as Sink
from ._sinks import Sinks as Sinks
from ._sinks import WandbSink as WandbSink
from ._store import Chunk as Chunk
from ._store import Store as Store
from ._writer import RunWriter as RunWriter
