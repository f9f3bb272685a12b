"""TensorBoard's own readers find what we wrote, and understand it as we do."""

import math

import numpy as np
import pytest
from tensorboard.backend.event_processing import plugin_event_accumulator as plugins
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.util import tensor_util

from gradwatch.run import Record, RunWriter, open_run
from gradwatch.run._native import log10_bins
from gradwatch.summarise import BUCKETS, COLUMNS, blank, bucket_edges

from .records import LAYOUT, counts_of, layout_of, record, rows_of


def accumulate(path):
    """What TensorBoard's accumulator holds, every step of it."""
    found = plugins.EventAccumulator(str(path), size_guidance={"tensors": 0})
    return found.Reload()


def scalars(path):
    """{tag: {step: value}} as the Scalars tab has them."""
    found = accumulate(path)
    return {
        tag: {e.step: tensor_util.make_ndarray(e.tensor_proto).item() for e in events}
        for tag in found.PluginTagToContent("scalars")
        for events in [found.Tensors(tag)]
    }


def test_scalars_are_where_the_scalars_tab_looks(tmp_path):
    """By address, so that they are grouped by layer; headline numbers in a group."""
    with RunWriter(tmp_path, native_every_seconds=0) as writer:
        for step in range(3):
            writer.write(record(step))
    found = scalars(tmp_path)
    assert found.keys() == {
        "gradients/global_norm",
        "gradients/update_ratio",
        *("conv1/kernel/norm", "conv1/bias/norm", "head/kernel/norm"),
        "conv1/gradient_norm",
    }
    assert found["conv1/bias/norm"] == {
        s: float(np.float32(rows_of(s)[1, 0])) for s in range(3)
    }
    assert found["conv1/gradient_norm"] == {
        s: float(np.float32(rows_of(s)[2, 0])) for s in range(3)
    }
    assert found["gradients/global_norm"] == dict.fromkeys(range(3), 3.5)
    assert found["gradients/update_ratio"] == dict.fromkeys(range(3), 0.0625)


def test_the_first_reader_of_tensorboard_agrees(tmp_path):
    """The accumulator that notebooks use has `Scalars` and finds them."""
    with RunWriter(tmp_path, native_every_seconds=0) as writer:
        writer.write(record(4))
    found = EventAccumulator(str(tmp_path)).Reload()
    [event] = found.Scalars("head/kernel/norm")
    assert (event.step, event.value) == (4, float(np.float32(rows_of(4)[4, 0])))


def test_histograms_are_of_log10_in_equal_bins_and_keep_the_counts(tmp_path):
    """Both signs together, one bin per octave, no empty ends, never NaN."""
    with RunWriter(tmp_path, native_every_seconds=0) as writer:
        writer.write(record(0, histograms=True))
        writer.write(record(1))
        writer.write(record(2, histograms=True))
    found = accumulate(tmp_path)
    weights = [n for n, k in zip(LAYOUT.names, LAYOUT.kinds, strict=True) if "w" in k]
    tags = {f"{name}/log10_gradient" for name in weights}
    assert set(found.PluginTagToContent("histograms")) == tags
    for line in (0, 1, 4):
        events = found.Tensors(f"{LAYOUT.names[line]}/log10_gradient")
        assert [event.step for event in events] == [0, 2]
        for event in events:
            bins = tensor_util.make_ndarray(event.tensor_proto)
            assert bins.dtype == np.float64
            assert np.isfinite(bins).all()
            assert bins[:, 2].sum() == counts_of(event.step)[line].sum()
            assert bins[0, 2] > 0
            assert bins[-1, 2] > 0
            np.testing.assert_allclose(np.diff(bins[:, :2]), math.log10(2))
            np.testing.assert_allclose(bins[1:, 0], bins[:-1, 1])


def test_each_bucket_is_in_the_bin_of_its_size():
    """A slow twin: the middle of every bucket lies between the edges of its bin."""
    edges = bucket_edges()
    for bucket in range(BUCKETS):
        counts = np.zeros((1, BUCKETS), np.uint32)
        counts[0, bucket] = 2**32 - 1
        [bins] = log10_bins(counts)
        size = abs(edges[bucket] + edges[bucket + 1]) / 2
        if 0.0 in edges[[bucket, bucket + 1]]:
            size *= 1.5  # the innermost bucket begins at 0, its bin at 2 ** -40
        [[left, right, count]] = bins
        assert left < math.log10(size) < right
        assert count == 2**32 - 1


def test_a_line_without_counts_has_no_histogram(tmp_path):
    """A gradient of zeros only; beside one that is drawn."""
    counts = np.zeros((2, BUCKETS), int)
    counts[1, 80] = 5
    layout = layout_of("dead", "alive")
    with RunWriter(tmp_path) as writer:
        writer.write(Record(0, layout, rows_of(0, layout), counts, {}))
    tags = accumulate(tmp_path).PluginTagToContent("histograms")
    assert set(tags) == {"alive/log10_gradient"}


def test_numbers_that_are_none_do_not_break_the_tabs(tmp_path):
    """NaN and infinity are scalars; what was not measured, or over zero, is none."""
    rows = rows_of(0)
    rows[:, 0] = [np.nan, np.inf, 2.0**500, 2, blank(1)[0]]
    totals = {"global_norm": np.nan, "update_norm": 1.0, "weight_norm": 0.0}
    with RunWriter(tmp_path) as writer:
        writer.write(Record(0, LAYOUT, rows, counts_of(0), totals))
    found = scalars(tmp_path)
    assert math.isnan(found["conv1/kernel/norm"][0])
    assert found["conv1/bias/norm"][0] == math.inf
    assert found["conv1/gradient_norm"][0] == math.inf  # 2 ** 500 in a float32
    assert math.isnan(found["gradients/global_norm"][0])
    assert "head/kernel/norm" not in found
    assert "gradients/update_ratio" not in found


def test_a_restart_is_purged_by_tensorboard_too(tmp_path):
    """Its curves and ours show the same steps."""
    for steps in (range(7), [3, 4]):
        with RunWriter(tmp_path, native_every_seconds=0) as writer:
            for step in steps:
                writer.write(record(step))
    assert list(scalars(tmp_path)["head/kernel/norm"]) == [0, 1, 2, 3, 4]
    assert open_run(tmp_path).steps.tolist() == [0, 1, 2, 3, 4]


def test_one_writer_that_goes_back_is_purged_by_tensorboard_too(tmp_path):
    """A second `fit` from the beginning, with the same monitor."""
    with RunWriter(tmp_path, native_every_seconds=0) as writer:
        for step in (0, 1, 2, 3, 1):
            writer.write(record(step))
    assert list(scalars(tmp_path)["head/kernel/norm"]) == [0, 1]
    assert open_run(tmp_path).steps.tolist() == [0, 1]


def test_the_plugin_finds_layouts_by_tag_over_several_files(tmp_path):
    """TensorBoard keeps one content per tag: two layouts must not share one."""
    for layout in (layout_of("a"), layout_of("b", "c")):
        with RunWriter(tmp_path) as writer:
            writer.write(record(len(layout), layout))
    found = accumulate(tmp_path)
    contents = found.PluginTagToContent("gradwatch")
    rows = [tag for tag in contents if tag.startswith("gradwatch/rows/")]
    assert len(rows) == 2
    shapes = {
        tensor_util.make_ndarray(event.tensor_proto).shape
        for tag in rows
        for event in found.Tensors(tag)
    }
    assert shapes == {(1, len(COLUMNS)), (2, len(COLUMNS))}


def test_a_file_begins_as_tensorboard_expects(tmp_path):
    """Version first, then the start of a session at the first step."""
    with RunWriter(tmp_path) as writer:
        writer.note("model", {"name": "demo"})
        writer.write(record(40))
    [file] = tmp_path.iterdir()
    first, second, *rest = EventFileLoader(str(file)).Load()
    assert first.file_version == "brain.Event:2"
    assert (second.session_log.status, second.step) == (1, 40)
    assert {event.step for event in rest} == {40}
    metadata = [value.metadata for value in rest[0].summary.value]
    assert {each.plugin_data.plugin_name for each in metadata} == {"gradwatch"}


def test_metadata_are_written_once_per_file(tmp_path):
    """Names of 200 layers at every step would be more than the numbers."""
    with RunWriter(tmp_path, native_every_seconds=0) as writer:
        for step in range(3):
            writer.write(record(step, histograms=True))
    [file] = tmp_path.iterdir()
    data = file.read_bytes()
    assert data.count(b'"what":"rows"') == 1
    assert data.count(b'"what":"histograms"') == 1
    assert data.count(b'"what":"totals"') == 1
    assert data.count(b"Zeros are not in it") == 3  # once for each weight


@pytest.mark.parametrize(
    ("every", "expected"),
    [(0, [0, 1, 2, 3, 4, 5]), (1.0, [0, 2, 4, 5]), (100, [0, 5]), (None, [])],
)
def test_native_summaries_come_at_a_modest_rate(tmp_path, clock, every, expected):
    """The first and the last record always, those between at most so often."""
    with RunWriter(tmp_path, native_every_seconds=every) as writer:
        for step in range(6):
            writer.write(record(step))
            clock.now += 0.6
    found = scalars(tmp_path) if every is not None else {"head/kernel/norm": []}
    assert list(found["head/kernel/norm"]) == expected
    assert open_run(tmp_path).steps.tolist() == list(range(6))


def test_histograms_between_two_curves_are_shown_too(tmp_path, clock):
    """They are due at other steps than curves: the newest one waits for its turn."""
    with RunWriter(tmp_path) as writer:
        for step in range(300):
            writer.write(record(step, histograms=step % 7 == 3))
            clock.now += 0.1
    events = accumulate(tmp_path).Tensors("head/kernel/log10_gradient")
    steps = [event.step for event in events]
    # The first at once; ten and twenty seconds later the newest; the last at the end.
    assert steps == [3, 101, 199, 297]
    for event in events:
        bins = tensor_util.make_ndarray(event.tensor_proto)
        assert bins[:, 2].sum() == counts_of(event.step)[4].sum()


def test_a_histogram_that_is_superseded_is_not_shown(tmp_path, clock):
    """It waited for its turn, and then the run started again."""
    with RunWriter(tmp_path) as writer:
        for step in (0, 1, 2, 3, 1):
            writer.write(record(step, histograms=step != 1))
    events = accumulate(tmp_path).Tensors("head/kernel/log10_gradient")
    assert [event.step for event in events] == [0]


def test_flush_writes_the_last_record_once(tmp_path, clock):
    """So that TensorBoard shows where a pause stands."""
    writer = RunWriter(tmp_path)
    for step in range(3):
        writer.write(record(step))
    for _ in range(3):
        writer.flush()
    writer.close()
    assert list(scalars(tmp_path)["head/kernel/norm"]) == [0, 2]
