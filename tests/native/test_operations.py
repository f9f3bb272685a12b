"""The operations for TensorFlow: numbers, gates, boxes, and what they leave alone."""

import ctypes
import gc
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import keras
import numpy as np
import pytest

from gradwatch._errors import GradwatchError
from gradwatch.native import _library, library

from . import twin

if keras.config.backend() != "tensorflow":
    pytest.skip("runs on TensorFlow only", allow_module_level=True)
if os.environ.get("GRADWATCH_NATIVE") == "0":
    pytest.skip("needs the native sweep", allow_module_level=True)

import tensorflow as tf

from gradwatch.backends.tensorflow import operations as module
from gradwatch.backends.tensorflow.operations import (
    Box,
    Operations,
    Sheet,
    _values,
    run,
)

SIZES = (0, 1, 3, 17, 1025, 70_001)
TYPES = ("float32", "float64", "float16", "bfloat16")


@pytest.fixture(scope="module", autouse=True)
def operations():
    """They must be usable: a silent fall back to the lean way is a failure.

    For all tests: TensorFlow knows the names only when they have been made once.
    """
    made = Operations.or_none()
    assert made is not None
    return made


def tensors(dtype):
    """One tensor of each size, with a zero, a NaN and infinities in the larger ones."""
    random = np.random.default_rng(5)
    arrays = [random.normal(size=size) for size in SIZES]
    arrays[3][:4] = [0.0, np.nan, np.inf, -np.inf]
    return [tf.constant(array, dtype) for array in arrays]


def wide(tensor):
    """The elements in float64."""
    return tf.cast(tensor, tf.float64).numpy()


def both_ways(function):
    """The function, at once and as a graph."""
    return function, tf.function(function, autograph=False)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("scale", [None, 8.0])
def test_measured_rows_are_those_of_the_twin(operations, dtype, scale):
    """All sizes together, eager and in a graph, large ones by themselves."""
    given = tensors(dtype)
    factor = None if scale is None else tf.constant(scale)
    expected = np.array([twin.row(wide(one), scale or 1.0) for one in given])
    for way in both_ways(lambda *some: operations.measure(some, 2, factor)[0]):
        parts = way(*given)
        # A mean is known to a share of the magnitudes, which are about 1.
        np.testing.assert_allclose(parts["rows"].numpy(), expected, 1e-6, 1e-9)
        counts = [twin.histogram(wide(one), scale or 1.0) for one in given]
        np.testing.assert_array_equal(parts["counts"].numpy(), counts)


def test_no_large_gradient_waits_for_another(operations):
    """The last layer is measured, and updated, while the first has no gradient yet."""

    @tf.function(autograph=False)
    def step(x):
        detail = run("GradwatchDetail", tf.constant(0), number=0)[0]
        first, last = x @ x, x + 1.0
        parts, passed = operations.measure([first, last], detail)
        return parts["rows"], [tensor * 2.0 for tensor in passed]

    graph = step.get_concrete_function(tf.ones((300, 300))).graph
    made = [op for op in graph.get_operations() if op.type == "GradwatchMeasure"]
    assert len(made) == 2
    assert not any(op.control_inputs for op in made)
    # And none is computed for nothing: TensorFlow may drop what no one reads.
    registered = [module.op_def_registry.get(name) for name in module._SIGNATURES]
    assert {
        op.name.removeprefix("Gradwatch") for op in registered if op.is_stateful
    } == {*("Detail", "Sample", "Send")}


def test_rows_are_in_the_order_of_the_tensors(operations):
    """Large ones are measured by themselves, wherever they stand."""
    sizes = (3, 70_000, 5, 80_000, 1)
    given = [tf.fill([size], float(size)) for size in sizes]
    graph = tf.function(lambda *some: operations.measure(some, 1)[0]["rows"])
    norms = graph(*given).numpy()[:, 0]
    np.testing.assert_allclose(norms, [size**1.5 for size in sizes], 1e-6)


def test_the_tensors_come_back_as_they_were(operations):
    """Bit for bit: the step goes on with them."""
    given = tensors("float32")
    graph = tf.function(lambda *some: operations.measure(some, 1)[1])
    for before, after in zip(given, graph(*given), strict=True):
        assert before.numpy().tobytes() == after.numpy().tobytes()
        assert before.shape == after.shape


@pytest.mark.parametrize("dtype", TYPES)
def test_moves_are_those_of_the_weights(operations, dtype):
    """The norm before, and how far the update went; of small tensors exactly."""
    random = np.random.default_rng(5)
    before = [tf.constant(random.normal(size=size), dtype) for size in (1, 17, 1025)]
    after = [value + tf.ones_like(value) for value in before]
    for way in both_ways(
        lambda *some: operations.moves(operations.sample(some[:3], 1), some[3:], 1)
    ):
        moves = way(*before, *after).numpy()
        for row, old, new in zip(moves, before, after, strict=True):
            norm, step = wide(old), wide(new) - wide(old)
            expected = [np.linalg.norm(norm), 0, np.linalg.norm(step), 0]
            np.testing.assert_allclose(row, expected, 1e-6, 1e-9)


def test_a_variable_is_sampled_before_it_is_written(operations):
    """What is sampled is the value before the update, step after step."""
    weights = [tf.Variable(tf.ones([300, 300])) for _ in range(4)]

    @tf.function(autograph=False)
    def step():
        sample = operations.sample(weights, 1)
        for weight in weights:
            weight.assign_add(tf.ones([300, 300]))
        return operations.moves(sample, weights, 1)

    for count in range(1, 4):
        rows = step().numpy()
        np.testing.assert_allclose(rows[:, 0], 300.0 * count, 1e-6)
        np.testing.assert_allclose(rows[:, 2], 300.0, 1e-6)


def test_variables_are_read_by_one_operation(operations):
    """In a graph; and what is read has the shape of the variable."""
    weights = [tf.Variable(tf.ones([2, 3])), tf.Variable(tf.ones([4]))]
    graph = tf.function(lambda: _values(weights), autograph=False)
    concrete = graph.get_concrete_function()
    kinds = [operation.type for operation in concrete.graph.get_operations()]
    assert kinds.count("_ReadVariablesOp") == 1
    assert "ReadVariableOp" not in kinds
    assert [value.shape for value in graph()] == [(2, 3), (4,)]


def test_norms_are_those_of_numpy(operations):
    """What is not finite shows in them."""
    given = [tf.constant([3.0, -4.0]), tf.constant([np.inf]), tf.constant([np.nan])]
    for way in both_ways(lambda *some: operations.norms(some, 1)):
        np.testing.assert_array_equal(way(*given).numpy(), [5.0, np.inf, np.nan])


# boxes --------------------------------------------------------------------------------


def sending(sheet, slot, detail, numbers):
    """Sends numbers under a detail, in a graph."""

    @tf.function(autograph=False)
    def step(numbers, detail, slot):
        run("GradwatchSend", detail, slot, [numbers], number=sheet.box.number)

    step(numbers, tf.constant(detail), tf.constant(slot))


def test_a_step_sends_into_its_slot():
    """And is seen once: the next look finds nothing new."""
    numbers = tf.constant([1.5, 2.5])
    sheet = Sheet(2, {"some": numbers})
    sending(sheet, 1, 1, numbers)
    assert sheet.new(0, histograms=False) is None
    np.testing.assert_array_equal(sheet.new(1, histograms=False)["some"], [1.5, 2.5])
    assert sheet.new(1, histograms=False) is None


@pytest.mark.parametrize(("slot", "detail"), [(0, 0), (1, 1), (-1, 1)])
def test_nothing_is_sent_where_nothing_is_due(slot, detail):
    """Detail 0, or a slot that is not there."""
    numbers = tf.constant([1.5, 2.5])
    sheet = Sheet(1, {"some": numbers})
    sending(sheet, slot, detail, numbers)
    assert sheet.new(0, histograms=False) is None
    assert not sheet.box.rows.any()


def test_what_does_not_fit_is_not_written():
    """The memory ends with the row."""
    sheet = Sheet(1, {"some": tf.constant([1.5, 2.5])})
    behind = bytes(sheet.box.rows.tobytes())
    sending(sheet, 0, 1, tf.ones([100]))
    assert sheet.box.rows.tobytes() == behind
    assert sheet.new(0, histograms=False) is None


def test_counts_are_copied_only_if_asked_for():
    """They are the last part of a row, wherever the step gave them."""
    parts = {"counts": tf.constant([7, 8], tf.uint32), "rows": tf.constant([0.5])}
    sheet = Sheet(1, parts)
    for asked in (False, True):
        ordered = [parts[name] for name in sheet.layout]
        number = sheet.box.number
        run("GradwatchSend", tf.constant(2), tf.constant(0), ordered, number=number)
        sent = sheet.new(0, histograms=asked)
        assert sent["rows"] == 0.5
        assert ("counts" in sent) is asked
    np.testing.assert_array_equal(sent["counts"], [7, 8])


def test_a_graph_may_outlive_its_box():
    """Its operations then do nothing, also when other boxes have come."""
    box = Box(1, 8)
    number, details = box.number, box.rows.view(np.int32)

    @tf.function(autograph=False)
    def detail():
        return run("GradwatchDetail", tf.constant(0), number=number)[0]

    details[0, 0] = 2
    assert int(detail()) == 2
    del box, details
    gc.collect()
    for _ in range(2000):  # more than there are entries
        other = Box(1, 8)
        other.rows[:] = 1
        assert other.number != number
    others = [Box(1, 8) for _ in range(500)]
    for other in others:
        other.rows[:] = 1
    assert int(detail()) == 0


def test_too_many_boxes_are_refused():
    """With the way out; a box that was closed makes room."""
    boxes = []
    with pytest.raises(GradwatchError, match="GRADWATCH_NATIVE=0"):
        while len(boxes) < 2000:
            boxes.append(Box(1, 8))
    del boxes
    gc.collect()
    assert Box(1, 8).number >= 0


@pytest.fixture
def copy(tmp_path):
    """The library of a second installation in this process."""
    own = library()
    directory = tmp_path / "lib"
    shutil.copytree(_library.DIRECTORY, directory)
    return _library._open(directory, _library._builds(directory), own.name)


def test_another_number_of_functions_is_refused(copy):
    """A library of another version would call the wrong ones."""
    table = (ctypes.c_void_p * 3)()
    assert copy.functions.gw_tensorflow_register(table, 3) == -1


def test_two_copies_in_one_process_do_not_meet(operations, copy, monkeypatch):
    """TensorFlow would end the process; the second copy goes the lean way."""
    assert module.registered.__wrapped__()  # again, by the same library
    monkeypatch.setattr(module, "library", lambda: copy)
    assert not module.registered.__wrapped__()


SAME = """
#include "tensorflow/c/tf_datatype.h"
_Static_assert(TF_FLOAT == 1 && TF_DOUBLE == 2 && TF_INT32 == 3 && TF_UINT8 == 4, "");
_Static_assert(TF_BFLOAT16 == 14 && TF_HALF == 19 && TF_UINT32 == 22, "");
"""


def test_the_numbers_of_element_types_are_those_of_tensorflow(tmp_path):
    """Compared by a C compiler with the header that TensorFlow ships."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    include = Path(importlib.util.find_spec("tensorflow").origin).parent / "include"
    if compiler is None or not include.exists():
        pytest.skip("needs a C compiler and the headers of TensorFlow")
    source = tmp_path / "same.c"
    source.write_text(SAME)
    line = [compiler, "-fsyntax-only", f"-I{include}", str(source)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
