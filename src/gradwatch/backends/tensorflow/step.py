"""A watched training step in TensorFlow.

What happens in which order, all in the thread that trains unless said otherwise:

1. `rebuild` makes a new train function of Keras. Its first call *traces* the step: our
   Python runs once, inside `model.train_step` and `optimizer.apply`, and puts its
   operations into the graph. Later calls run the graph, and no Python of ours.
2. Before each execution the host arms the stream: how much of each step is recorded.
3. The step runs. Its numbers leave it in one of three ways:

   * eager steps (`EagerStream`) just keep them;
   * compiled steps (`GraphStream`) write into variables. Without XLA the graph branches
     on whether the step is due; with XLA a branch would keep the weights from being
     updated in place, so the native sweep gets the detail;
   * with XLA but without the native sweep (`XLAStream`) there is one graph per detail,
     and numbers are further results of the step.
4. After the execution the host takes what was sent.

A custom loop (`TFLoopStream`) does not announce its steps: see there.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.python.framework import ops as tf_ops
from tensorflow.python.framework.auto_control_deps_utils import (
    get_read_only_resource_input_indices_graph,
)
from tensorflow.python.ops.gen_resource_variable_ops import (
    assign_variable_op,
    read_variable_op,
)
from tensorflow.python.ops.resource_variable_ops import ResourceVariable

from ..._keras import logits_of
from .._common import fresh_train_function
from .._probe import BaseProbe
from .._protocol import Leaf, LoopHost, Parts, Sweep, Taken, Tensor, WatchedStep
from .._streams import LoopStream, Stream, Tie
from .kernels import TFKernels, TFSweep, in_xla
from .operations import Box, Operations, Sheet, layout_of, run, shaped

Keep = Callable[[Any], None]


class TFWatchedStep(WatchedStep):
    """Streams numbers out of a training step of TensorFlow."""

    KEEPS_TRACES = True
    # The step itself fetches the batch: the end of the data is TensorFlow's own error.
    END_OF_DATA = (StopIteration, tf.errors.OutOfRangeError)

    def stream(self, model: Any) -> Stream:
        """Returns the stream that fits how the model was compiled."""
        slots = int(model.steps_per_execution)
        operations = Operations.or_none()
        if model.run_eagerly or tf.config.functions_run_eagerly():
            return EagerStream(TFKernels(), operations)
        if model.jit_compile:
            native = TFSweep.or_none()
            return GraphStream(native, slots) if native else XLAStream(slots)
        return BoxStream(operations, slots) if operations else GraphStream(None, slots)

    def loop_stream(self, host: LoopHost) -> TFLoopStream:
        """Returns a stream for eager, compiled and XLA steps of a custom loop."""
        return TFLoopStream(host)

    def probe(self) -> TFProbe:
        """Returns a recorder of activations and their gradients."""
        return TFProbe()

    def is_tensor(self, value: object) -> bool:
        """Returns whether this is a dense tensor of known shape."""
        return isinstance(value, tf.Tensor) and value.shape.is_fully_defined()

    def rebuild(
        self,
        model: Any,
        stream: Stream,
        before: Callable[[int], Any],
        after: Callable[..., Any],
        keep: Keep | None = None,
    ) -> Any:
        """Returns a new train function that reports each execution."""
        if isinstance(stream, XLAStream):
            run = _one_of_several(model, stream, keep)
        else:
            inner = fresh_train_function(model)

            def run(iterator: Any) -> Any:
                return inner(_seen(iterator, model.steps_per_execution, keep))

        def train_function(iterator: Any) -> Any:
            before(model.steps_per_execution)
            return after(run(iterator))

        return train_function

    def one_step(self, model: Any, train_function: Any, batch: Any) -> Any:
        """Runs one training step on a batch, and returns its logs."""
        del model
        return train_function(iter([batch]))

    def tracing(self) -> bool:
        """Returns whether the code that runs now is being traced."""
        return not tf.executing_eagerly()

    def written(
        self, train_function: Any, variables: Sequence[Any]
    ) -> list[bool] | None:
        """Returns which variables a train function writes; None before it has run.

        What a `tf.function` was traced with stays in it: layers that were frozen since
        are still trained. TensorFlow itself notes which resources a function only
        reads.
        """
        cells = [cell.cell_contents for cell in train_function.__closure__ or ()]
        traced = [c for c in cells if hasattr(c, "experimental_get_tracing_count")]
        if len(traced) != 1 or not traced[0].experimental_get_tracing_count():
            return None
        handles: set[int] = set()
        for concrete in traced[0]._list_all_concrete_functions():
            graph = concrete.graph
            read_only = set(get_read_only_resource_input_indices_graph(graph))
            indices = {id(tensor): index for index, tensor in enumerate(graph.inputs)}
            handles |= {
                id(outside)
                for outside, inside in graph.captures
                if indices.get(id(inside)) not in read_only
            }
        return [id(variable.value.handle) in handles for variable in variables]

    def as_written(self, function: Callable[..., Any]) -> Any:
        """Keeps AutoGraph, which rewrites the loops of users, out of our code."""
        return tf.autograph.experimental.do_not_convert(function)


# the train function of `fit` ----------------------------------------------------------


def _seen(iterator: Any, steps: int, keep: Keep | None) -> Any:
    """Fetches the next batches on the host, if they are to be kept.

    Keras itself fetches them inside the compiled function; it takes those of a Python
    iterator as well.
    """
    return iterator if keep is None else iter(_batches(iterator, steps, keep))


def _batches(iterator: Any, steps: int, keep: Keep | None) -> list[Any]:
    batches = list(itertools.islice(iterator, steps))
    if not batches:
        raise StopIteration
    for batch in batches if keep is not None else ():
        keep(batch)  # type: ignore[misc]
    return batches


def _one_of_several(model: Any, stream: XLAStream, keep: Keep | None) -> Any:
    """Returns a train function that compiles a step per detail with XLA.

    An execution without a recorded step runs the train function that an unwatched
    training would. One with a recorded step runs step by step: each with the function
    that was traced for its detail.
    """
    functions: dict[int, Any] = {}

    def run(detail: int, iterator: Any) -> Any:
        if detail not in functions:
            functions[detail] = fresh_train_function(model)
        stream.traced = detail
        try:
            logs, sent = functions[detail](iterator)
        finally:
            stream.traced = 0
        stream.finish(sent)
        return logs

    def execute(iterator: Any) -> Any:
        steps = model.steps_per_execution
        if steps == 1 or not stream.is_armed:
            return run(stream.detail, _seen(iterator, steps, keep))
        for batch in _batches(iterator, steps, keep):
            logs = run(stream.detail, iter([batch]))
        return logs

    return execute


class EagerStream(Stream):
    """Keeps what eager steps send until it is taken."""

    def array(self, tensor: Tensor) -> NDArray[Any]:
        """Returns the value of a tensor."""
        return _array(tensor)


class XLAStream(EagerStream):
    """Returns what a step sends as further results of it.

    Args:
        slots: Maximum number of steps in one execution.
    """

    def __init__(self, slots: int) -> None:
        super().__init__(TFKernels(xla=True), None)
        self.traced = 0
        """Detail of the function that runs, and is traced if it is new."""
        # An execution of several steps ends early at the end of the data.
        self._count = variable(np.zeros((), np.int32)) if slots > 1 else None

    @property
    def wanted(self) -> int:
        """Detail of the step; known while it is traced."""
        return self.traced

    def step(self, train_step: Callable[..., Any], *args: Any) -> Any:
        """Traces one training step, which returns what it sends beside its logs."""
        self._sent = {}
        result = train_step(*args)
        sent, self._sent = self._sent, {}
        if self._count is not None:
            self._count.assign_add(1)
        return result, sent

    def finish(self, sent: dict[str, Parts]) -> None:
        """Keeps what the last step of an execution sent; those before sent nothing."""
        ran = 1
        if self._count is not None:
            ran = int(self._count)
            self._count.assign(0)
        self._finished += [{}] * (ran - 1)
        super().finish(sent)

    @property
    def is_armed(self) -> bool:
        """True if any of the next steps is recorded."""
        return any(self._armed)


class _Branching(EagerStream):
    """Steps of a graph, of which only those that are due are recorded."""

    def branch(self, due: Any, make: Callable[[], Any]) -> Any:
        """Branches on a tensor; a bool is True."""
        if isinstance(due, bool):
            return make()
        shapes: list[Any] = []

        def now() -> Any:
            made = make()
            shapes.append(made)
            return made

        def nothing() -> Any:
            # Traced second. Zeros, not empty: both branches must have one shape.
            return tf.nest.map_structure(
                lambda part: tf.zeros(part.shape, part.dtype), shapes[0]
            )

        return tf.cond(due, now, nothing)

    @contextlib.contextmanager
    def ordered(self, sample: Any) -> Iterator[Tie | None]:
        """Lets the update wait for the sample, where XLA compiles the step.

        Without XLA, TensorFlow itself has a variable written after it was read. XLA
        knows no order but that of data: there, scalars are made to depend on the
        seal of the sample, which is always 0. XLA cannot know that.
        """
        if not isinstance(self.native, TFSweep):
            yield None
            return
        always = tf.bitcast(sample[-4:], tf.int32) == 0
        yield lambda scalar: tf.where(always, scalar, tf.zeros_like(scalar))


class GraphStream(_Branching):
    """Carries numbers out of the steps of an execution in variables.

    Assignments work through loops and branches, so that several steps in one execution
    are no different from one. The variables belong to neither model nor optimizer:
    nothing of them is saved, counted or reset.

    Args:
        native: The native way to measure inside the step; None where it cannot go.
        slots: Maximum number of steps in one execution.
    """

    def __init__(self, native: TFSweep | None, slots: int) -> None:
        super().__init__(TFKernels(xla=native is not None), native)
        self.slots = slots
        self._details = variable(np.zeros(slots, np.int32))
        self._slot = variable(np.zeros((), np.int32))
        self._boxes = Boxes(slots)
        self._tensors: dict[tuple[int, ...], Any] = {}

    # inside the step ------------------------------------------------------------------

    @property
    def wanted(self) -> Tensor:
        """Detail of the step, as a tensor."""
        return tf.gather(tf.convert_to_tensor(self._details), self._index)

    @property
    def _index(self) -> Any:
        return 0 if self.slots == 1 else tf.convert_to_tensor(self._slot)

    def emit(self, key: str, due: Any, measure: Callable[[], Parts]) -> None:
        """Writes what `measure` gives, if the step is due."""
        if self.native is not None:
            self._boxes.write(key, self._index, measure(), due)
        else:
            _if(due, lambda: self._boxes.write(key, self._index, measure()))

    def step(self, train_step: Callable[..., Any], *args: Any) -> Any:
        """Traces one training step; the next one writes to the next slot."""
        result = train_step(*args)
        if self.slots > 1:
            self._slot.assign_add(1)
        return result

    # on the host ----------------------------------------------------------------------

    def arm(self, details: Sequence[int]) -> None:
        """Sets how much of each of the next steps is recorded."""
        armed = [*details, *[0] * (self.slots - len(details))]
        if armed != self._armed:
            # The bare operation on a tensor that is there: a fifth of `assign(list)`.
            if tuple(armed) not in self._tensors:
                self._tensors[tuple(armed)] = tf.constant(armed, tf.int32)
            assign_variable_op(self._details.handle, self._tensors[tuple(armed)])
            self._armed = armed
        if self.slots > 1:
            self._slot.assign(0)
        self.is_quiet = armed == [0]

    def take(self) -> Taken:
        """Returns the number of steps since `arm`, and what they sent."""
        ran = 1 if self.slots == 1 else int(self._slot)
        if not any(self._armed):
            return ran, {}
        rows = self._boxes.read(large=max(self._armed) > 1)
        sent = {slot: self._boxes.new(rows, slot) for slot in range(self.slots)}
        return ran, {slot: parts for slot, parts in sent.items() if parts}


class BoxStream(_Branching):
    """Carries numbers out of the steps of an execution through memory of our own.

    Nothing of it is TensorFlow's: to arm a step is to write a number, and to take what
    it sent is to copy some memory.

    Args:
        native: The operations that measure inside the step.
        slots: Maximum number of steps in one execution.
    """

    def __init__(self, native: Operations, slots: int) -> None:
        super().__init__(TFKernels(), native)
        self.slots = slots
        self._armed = [0] * slots
        self._box = Box(slots, 8)
        self._details = self._box.rows.view(np.int32)[:, 0]
        self._slot = variable(np.zeros((), np.int32)) if slots > 1 else None
        self._sheets: dict[str, Sheet] = {}
        self._traced: tuple[Tensor, Tensor] | None = None
        """Slot and detail of the step that is being traced, as tensors."""

    # inside the step ------------------------------------------------------------------

    @property
    def wanted(self) -> Tensor:
        """Detail of the step, as a tensor."""
        return self._asked()[1]

    def _asked(self) -> tuple[Tensor, Tensor]:
        if self._traced is None:
            slot = tf.constant(0)
            if self._slot is not None:
                slot = tf.convert_to_tensor(self._slot)
            [detail] = run("GradwatchDetail", slot, number=self._box.number)
            self._traced = slot, shaped(detail)
        return self._traced

    def emit(self, key: str, due: Any, measure: Callable[[], Parts]) -> None:
        """Sends what is measured; in a step that is not due, that does nothing."""
        del due
        parts = measure()
        if key not in self._sheets or self._sheets[key].layout != layout_of(parts):
            self._sheets[key] = Sheet(self.slots, parts)
        sheet, (slot, detail) = self._sheets[key], self._asked()
        tensors = [parts[name] for name in sheet.layout]
        run("GradwatchSend", detail, slot, tensors, number=sheet.box.number)

    def step(self, train_step: Callable[..., Any], *args: Any) -> Any:
        """Traces one training step; the next one writes to the next slot."""
        self._traced = None
        try:
            result = train_step(*args)
        finally:
            self._traced = None
        if self._slot is not None:
            self._slot.assign_add(1)
        return result

    # on the host ----------------------------------------------------------------------

    def arm(self, details: Sequence[int]) -> None:
        """Sets how much of each of the next steps is recorded."""
        armed = [*details, *[0] * (self.slots - len(details))]
        if armed != self._armed:
            self._details[:] = self._armed = armed
        if self._slot is not None:
            self._slot.assign(0)
        self.is_quiet = armed == [0]

    def take(self) -> Taken:
        """Returns the number of steps since `arm`, and what they sent."""
        ran = 1 if self._slot is None else int(self._slot)
        sent: dict[int, dict[str, Parts]] = {}
        for slot, detail in enumerate(self._armed):
            for key, sheet in self._sheets.items() if detail else ():
                if (parts := sheet.new(slot, histograms=detail > 1)) is not None:
                    sent.setdefault(slot, {})[key] = parts
        return ran, sent


class Boxes:
    """Holds what steps send, in one variable per key: a row for each slot.

    One variable per key, because every read of one by the host takes as long as a
    hundred numbers; but histograms, which are long and seldom due, have their own. The
    first number of a row counts how often it was written.
    """

    LARGE = "counts"

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._shapes: dict[str, dict[str, tuple[int, ...]]] = {}
        self._parts: dict[str, list[tuple[str, slice, tuple[int, ...]]]] = {}
        self._rows: dict[str, Any] = {}
        self._seen: dict[str, NDArray[np.float64]] = {}

    def write(self, key: str, slot: Any, parts: Parts, due: Any = True) -> None:
        """Writes a row, inside the step; the variables are made when it is traced.

        Args:
            key: The key that sends.
            slot: The row.
            parts: What is sent.
            due: Whether it counts, as a bool or a tensor; else it is never read.
        """
        large = {self.LARGE: parts[self.LARGE]} if self.LARGE in parts else {}
        small = {name: part for name, part in parts.items() if name not in large}
        for name, some in ((key, small), (f"{key}/{self.LARGE}", large)):
            if some:
                self._write(name, slot, some, due)

    def _write(self, key: str, slot: Any, parts: Parts, due: Any) -> None:
        shapes = {name: tuple(part.shape) for name, part in parts.items()}
        if self._shapes.get(key) != shapes:
            width = 1 + sum(map(math.prod, shapes.values()))
            self._rows[key] = variable(np.zeros((self._slots, width)))
            self._shapes[key] = shapes
            ends = np.cumsum([1, *map(math.prod, shapes.values())]).tolist()
            slices = itertools.starmap(slice, itertools.pairwise(ends))
            self._parts[key] = list(zip(shapes, slices, shapes.values(), strict=True))
            self._seen[key] = np.zeros(self._slots)
        rows = self._rows[key]
        count = tf.gather(rows, slot)[0] + tf.cast(due, tf.float64)
        flat = [tf.cast(tf.reshape(parts[name], (-1,)), tf.float64) for name in shapes]
        row = tf.concat([tf.reshape(count, (1,)), *flat], 0)
        if self._slots == 1:
            rows.assign(row[None])
        else:
            rows.scatter_update(tf.IndexedSlices(row[None], tf.reshape(slot, (1,))))

    def read(self, *, large: bool = True) -> dict[str, NDArray[np.float64]]:
        """Returns all rows as they are now, on the host."""
        # Not `.numpy()`, which tells tapes and distribution strategies of it.
        return {
            key: _array(read_variable_op(rows.handle, tf.float64))
            for key, rows in list(self._rows.items())
            if large or not key.endswith(f"/{self.LARGE}")
        }

    def new(self, rows: dict[str, NDArray[np.float64]], slot: int) -> dict[str, Parts]:
        """Returns what was written to a slot since the last call, by key."""
        sent: dict[str, Parts] = {}
        for key, box in rows.items():
            row, seen = box[slot], self._seen[key]
            if seen[slot] != row[0]:
                seen[slot] = row[0]
                parts = sent.setdefault(key.removesuffix(f"/{self.LARGE}"), {})
                for name, part, shape in self._parts[key]:
                    parts[name] = row[part].reshape(shape)
        return sent


class TFLoopStream(LoopStream, _Branching):
    """Carries numbers out of a custom loop, eager or compiled.

    Eager steps ask and hand over themselves. Of a compiled step our Python runs only
    when it is traced: its numbers go through a `_Ring`.
    """

    def __init__(self, host: LoopHost) -> None:
        super().__init__(TFKernels(), None, host)
        self._ring = _Ring(host)
        self._sweeps = {True: TFSweep.or_none(), False: Operations.or_none()}

    @property
    def kernels(self) -> TFKernels:
        """The operations for the step that runs, or is traced now."""
        return TFKernels(xla=in_xla())

    @property
    def native(self) -> Sweep | None:
        """The native way to measure in the step that runs, or is traced now."""
        return self._sweeps[in_xla()]

    @property
    def ran(self) -> int:
        """Number of steps so far, eager and compiled."""
        return int(self._ring.count)

    def _advance(self) -> None:
        self._ring.count.assign_add(1)

    @property
    def wanted(self) -> Any:
        """Detail of the step: a number if it is eager, else a tensor."""
        return super().wanted if tf.executing_eagerly() else self._ring.wanted()

    def emit(self, key: str, due: Any, measure: Callable[[], Parts]) -> None:
        """Sends what `measure` gives, if the step is due."""
        if tf.executing_eagerly():
            super().emit(key, due, measure)
        elif isinstance(self.native, TFSweep):
            self._ring.write(key, measure(), due)
        else:
            _if(due, lambda: self._ring.write(key, measure()))

    def applied(self) -> None:
        """Ends the step."""
        if tf.executing_eagerly():
            super().applied()
        else:
            self._ring.advance()

    def close(self) -> None:
        """Reads what is left; then nothing is due any more."""
        super().close()
        self._ring.close()


class _Ring:
    """Memory that compiled steps share with a thread of ours.

    The steps count themselves, look up in a table whether they are due, and write into
    a ring of slots, with a stamp that is the number of the step. The thread is started
    by the first trace and wakes up every `PAUSE` seconds: it fills the table for the
    steps ahead, and hands over what is new in the ring. It takes no lock: a slot whose
    stamp has changed while it was read is dropped.

    Without `foreseen`, the host is asked now and then, and after a yes the whole table
    says yes until the next step has been recorded, which clears it.
    """

    TABLE, SLOTS, PAUSE = 1024, 128, 0.01

    def __init__(self, host: LoopHost) -> None:
        self.count = variable(np.zeros((), np.int64))
        self._host = host
        self._table = variable(np.zeros(self.TABLE, np.int32))
        self._stamps = variable(np.zeros(self.SLOTS, np.int64))
        self._slot = variable(np.zeros((), np.int32))
        self._boxes = Boxes(self.SLOTS)
        self._details: list[int] = []
        self._newest = 0
        self._promised = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    # inside the step ------------------------------------------------------------------

    def wanted(self) -> Tensor:
        """Returns the detail of the step, as a tensor."""
        if self._thread is None:
            with tf.init_scope():  # out of what is being traced
                self._refill()
            self._thread = threading.Thread(target=self._follow, daemon=True)
            self._thread.start()
        index = tf.convert_to_tensor(self.count) % self.TABLE
        return tf.gather(tf.convert_to_tensor(self._table), index)

    def write(self, key: str, parts: Parts, due: Any = True) -> None:
        """Writes what the step sends into its slot."""
        self._boxes.write(key, self._slot, parts, due)

    def advance(self) -> None:
        """Ends a step: stamps its slot, if it was due."""

        def stamp() -> None:
            index = tf.reshape(self._slot, (1,))
            number = tf.reshape(self.count + 1, (1,))
            self._stamps.scatter_update(tf.IndexedSlices(number, index))
            self._slot.assign((self._slot + 1) % self.SLOTS)
            if not self._host.foreseen:
                self._table.assign(tf.zeros_like(self._table))

        _if(self.wanted() > 0, stamp)
        self.count.assign_add(1)

    # in the thread --------------------------------------------------------------------

    def _follow(self) -> None:
        while not self._stop.wait(self.PAUSE):
            with contextlib.suppress(Exception):  # The interpreter may be ending.
                self._refill()
                self._drain()

    def _refill(self) -> None:
        """Asks about the steps ahead; those behind make room."""
        count = int(self.count)
        if not self._host.foreseen:
            if not self._promised:
                self._promised = self._host.ask(self._host.start + count)
                if self._promised:
                    self._table.assign(np.full(self.TABLE, self._promised, np.int32))
            return
        ahead = count + self.TABLE
        if len(self._details) >= ahead:
            return
        while len(self._details) < ahead:
            number = self._host.start + len(self._details)
            self._details.append(self._host.ask(number, False))
        table = np.zeros(self.TABLE, np.int32)
        for step in range(count, ahead):
            table[step % self.TABLE] = self._details[step]
        self._table.assign(table)

    def _drain(self) -> None:
        """Hands over what was written since the last time, in the order of steps."""
        stamps = self._stamps.numpy()
        fresh = sorted(int(stamp) for stamp in stamps if stamp > self._newest)
        if not fresh:
            return
        rows = self._boxes.read()
        after_reading = self._stamps.numpy()
        for stamp in fresh:
            slot = int(np.flatnonzero(stamps == stamp)[0])
            if after_reading[slot] != stamp:
                continue  # overtaken while it was read
            sent = self._boxes.new(rows, slot)
            step = stamp - 1
            detail = self._details[step] if self._host.foreseen else self._promised
            self._host.receive(self._host.start + step, sent, detail)
        self._newest, self._promised = fresh[-1], 0

    def close(self) -> None:
        """Stops the thread and hands over what is left; no step is due any more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._drain()
        self._table.assign(np.zeros(self.TABLE, np.int32))


class TFProbe(BaseProbe):
    """Notes activations and their gradients while a step is traced, or runs."""

    def mark(self, leaf: Leaf, tensor: Tensor, *, keep: bool) -> Tensor:
        """Returns an identity whose derivative notes what passes."""
        del keep
        self.note_value(leaf, tensor)
        if _has_logits(tensor):
            return tensor

        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def probe(x: Tensor) -> Any:
            def backward(dy: Tensor) -> Tensor:
                self.note_gradient(leaf, tf.convert_to_tensor(dy))
                return dy

            return tf.identity(x), backward

        return probe(tensor)

    def is_dense(self, tensor: object) -> bool:
        """Returns whether it is no composite, as ragged and sparse tensors are."""
        return isinstance(tensor, tf.Tensor)

    def scope(self) -> Any:
        """Returns the graph being traced, in which tensors live."""
        return None if tf.executing_eagerly() else tf_ops.get_default_graph()


def _has_logits(tensor: Tensor) -> bool:
    """Returns whether a loss would look behind the tensor, at the logits.

    The cross-entropies of Keras do, and compute another thing where they cannot. So the
    gradient at such a tensor is never computed in training: only its value is noted.
    """
    if logits_of(tensor) is not None:
        return True
    return not tf.executing_eagerly() and tensor.op.type in ("Sigmoid", "Softmax")


def _if(due: Any, act: Callable[[], None]) -> None:
    """Acts inside the graph, if the step is due."""

    def acted() -> Tensor:
        act()
        return tf.constant(0)

    tf.cond(due, acted, lambda: tf.constant(0))


def variable(initial: NDArray[Any]) -> Any:
    """Makes a variable that the function being traced does not learn of.

    A function that makes variables is traced a second time, and must not make any then.
    `tf.Variable(…)` calls the creators that trace new variables; `type.__call__` makes
    one without calling them.
    """
    with tf.init_scope():
        return type.__call__(ResourceVariable, initial_value=initial, trainable=False)


def _array(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.numpy()
    return array
