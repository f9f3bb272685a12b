"""A run in a terminal: what it shows is what the run holds, whatever happens to it."""

import io
import re
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from rich.live import Live

from gradwatch import GradwatchError
from gradwatch.diagnose import Finding
from gradwatch.run import Layout, Reader, Record, Run, RunError, RunWriter
from gradwatch.show._format import number, percent
from gradwatch.show.charts import (
    IS_NAN,
    IS_NEGINF,
    IS_POSINF,
    NUMBER,
    UNMEASURED,
    ZERO,
)
from gradwatch.show.live import follow
from gradwatch.show.live._draw import Picture
from gradwatch.show.live._rows import KEPT, history
from gradwatch.show.live._spark import BARS, gathered, spark
from gradwatch.summarise import COLUMNS, blank

AT = {name: index for index, name in enumerate(COLUMNS)}
EVIL = "<img src=x onerror=alert(1)>"
MARKUP = "[bold red]x[/]"
ESCAPE = "a\x1b[2Jb\nc"


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """However busy the machine: what is there when somebody looks is read."""
    still = SimpleNamespace(monotonic=lambda: 0.0)
    monkeypatch.setattr("gradwatch.run._reader.time", still)


def layout_of(*names):
    return Layout(names, ("weight",) * len(names), (6,) * len(names))


def rows_at(step, lines):
    """Numbers that all differ: of which line, which column and which step."""
    rows = np.full((lines, len(COLUMNS)), 1.0, np.float32)
    rows[:, AT["norm"]] = (1 + np.arange(lines)) * 10.0 ** -(step / 10)
    rows[:, AT["zeros"]] = 0.1 + np.arange(lines) / 100
    rows[:, AT["weight_norm"]] = 2.0
    rows[:, AT["update_norm"]] = 0.002 * (1 + np.arange(lines))
    for name in ("nan", "posinf", "neginf"):
        rows[:, AT[name]] = 0
    return rows


def write(writer, layout, steps, plant=lambda step, rows: None):
    for step in steps:
        rows = rows_at(step, len(layout))
        plant(step, rows)
        totals = {"global_norm": 10.0 ** -(step / 10), "loss": 0.25}
        writer.write(Record(step, layout, rows, None, totals))


def finding(*addresses, symptom="vanishing", since=2):
    result = Finding(symptom, addresses=addresses, since=since, step=since)
    return result.to_dict()


def ended(writer, steps=20):
    writer.note("overhead", {"steps": steps, "seconds": 4.0, "share": 0.03})


@pytest.fixture
def run(tmp_path):
    """Twenty records of four weights: one sick, one NaN, one of zeros, one well."""
    layout = layout_of("in/kernel", "mid/kernel", "mid/bias", "out/kernel")

    def plant(step, rows):
        if step >= 18:
            rows[1, AT["nan"]] = 3
        rows[2, AT["norm"]] = 0

    with RunWriter(tmp_path / "run") as writer:
        write(writer, layout, range(20), plant)
        writer.finding(5, finding("in/kernel"))
        ended(writer)
    return tmp_path / "run"


def terminal(width=80, height=24, **options):
    options = {"force_terminal": True, "color_system": "truecolor", **options}
    return Console(file=io.StringIO(), width=width, height=height, **options)


def pipe():
    return Console(file=io.StringIO(), width=80, force_terminal=False)


def plain(text):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def shown(path, width=80, height=24):
    console = terminal(width, height)
    assert follow(path, console=console, once=True) == "once"
    return plain(console.file.getvalue())


class Stop(threading.Event):
    """Does something each time it is waited for, then is set; no time goes by."""

    def __init__(self, *events):
        super().__init__()
        self.events = list(events)

    def wait(self, timeout=None):
        if self.events:
            self.events.pop(0)()
        if not self.events:
            self.set()
        return self.is_set()


# numbers ------------------------------------------------------------------------------


def test_each_line_shows_the_numbers_of_the_newest_record(run):
    """Norm, update ratio and share of zeros, by name."""
    text = shown(run, 100, 30)
    rows = rows_at(19, 4)
    for line, name in enumerate(["in/kernel", "mid/kernel", "mid/bias", "out/kernel"]):
        [cells] = [row.split() for row in text.splitlines() if row.startswith(name)]
        norm = float(rows[line, AT["norm"]])
        norm = {"mid/kernel": float("nan"), "mid/bias": 0.0}.get(name, norm)
        assert cells[2] == number(norm, 3)
        assert cells[3] == number(0.001 * (1 + line), 3)
        assert cells[4] == percent(float(rows[line, AT["zeros"]]))
    assert "step 19" in text
    assert "20 records" in text
    assert "5.00 steps/s" in text  # 20 steps in 4 seconds
    assert "overhead 3.0 %" in text
    assert f"global norm {number(10**-1.9, 3)}" in text


def test_states_differ_by_sign_and_words(run):
    """Colour is not needed to tell them apart."""
    text = shown(run, 100, 30)
    for name, state in {
        "in/kernel": "▲ vanishing",
        "mid/kernel": "✖ 3 NaN",
        "mid/bias": "○ all zero",
        "out/kernel": "● ok",
    }.items():
        [row] = [row for row in text.splitlines() if row.startswith(name)]
        assert row.rstrip().endswith(state)
    assert "▲ vanishing since step 2: gradients vanish along depth" in text


def slow_gathered(norms, kinds, cells, before):
    """By loops: the width of a stretch, and then what each stretch holds."""
    width = 1
    while True:
        stretches = {}
        for at in range(len(norms)):
            stretches.setdefault((before + at) // width, []).append(at)
        if len(stretches) <= cells:
            break
        width *= 2
    levels, worst = [], []
    for records in stretches.values():
        levels.append([])
        worst.append([])
        for line in range(norms.shape[1]):
            own = [kinds[at, line] for at in records]
            logs = [np.log10(norms[at, line]) for at in records]
            logs = [log for log, k in zip(logs, own, strict=True) if k == NUMBER]
            levels[-1].append(sum(logs) / len(logs) if logs else 0.0)
            order = (IS_NAN, IS_POSINF, IS_NEGINF, NUMBER, ZERO, UNMEASURED)
            worst[-1].append(next(kind for kind in order if kind in own))
    return levels, worst


@pytest.mark.parametrize(("count", "cells"), [(1, 8), (8, 8), (9, 8), (100, 7)])
@pytest.mark.parametrize("before", [0, 3, 512])
def test_a_stretch_is_the_mean_of_logs_and_the_worst(count, cells, before):
    """As a loop has it; and never more stretches than there is room for."""
    random = np.random.default_rng(count + before)
    norms = 10 ** random.normal(size=(count, 3))
    kinds = random.choice(
        [UNMEASURED, ZERO, NUMBER, NUMBER, IS_NEGINF, IS_POSINF, IS_NAN], (count, 3)
    )
    result, marks = gathered(norms, kinds, cells, before)
    levels, worst = slow_gathered(norms, kinds, cells, before)
    np.testing.assert_allclose(result, levels)
    assert marks.tolist() == worst
    assert len(worst) <= cells


def test_bars_are_on_a_log_scale_of_at_least_a_decade():
    """A factor of ten from step to step is a straight ramp; noise is nearly flat."""
    ramp = spark([-7.0 + step for step in range(8)], [NUMBER] * 8)
    assert ramp.plain == BARS
    noise = spark([0.0, 0.05, 0.0, -0.05], [NUMBER] * 4)
    heights = [BARS.index(bar) for bar in noise.plain]
    assert max(heights) - min(heights) <= 1
    odd = spark([0.0] * 5, [IS_NAN, IS_POSINF, IS_NEGINF, ZERO, UNMEASURED])
    assert odd.plain == "N∞−_ "
    assert len({str(span.style) for span in odd.spans[:3]}) == 3


def test_only_the_newest_records_are_kept(tmp_path):
    """A terminal that shows a run of days does not run out of memory."""
    live = Run(Reader(tmp_path, window=KEPT))
    store, layout = live.store, layout_of("a")
    for step in range(3 * KEPT + 100):
        store.append(Record(step, layout, rows_at(0, 1), None, {}))
    assert KEPT <= len(store) < 2 * KEPT
    assert live.num_records == 3 * KEPT + 100
    assert len(history(live).first) == KEPT
    store.restart(KEPT)
    assert (len(store), live.num_records) == (0, KEPT)
    store.append(Record(KEPT, layout, rows_at(0, 1), None, {}))
    assert (store.last, live.num_records) == (KEPT, KEPT + 1)


def test_what_was_not_measured_is_no_zero(tmp_path):
    """A dash and a state of its own."""
    with RunWriter(tmp_path / "run") as writer:
        rows = blank((1, len(COLUMNS)))
        writer.write(Record(0, layout_of("a/kernel"), rows, None, {}))
    text = shown(tmp_path / "run")
    [row] = [row for row in text.splitlines() if row.startswith("a/kernel")]
    assert row.split()[1:] == ["—", "—", "—", "·", "no", "gradient"]


def test_a_nan_of_before_is_not_forgotten(tmp_path):
    """A layer that is finite again is not just well."""
    with RunWriter(tmp_path / "run") as writer:

        def plant(step, rows):
            rows[0, AT["neginf"]] = step == 3

        write(writer, layout_of("a/kernel", "b/kernel"), range(9), plant)
    rows = {row.split()[0]: row for row in shown(tmp_path / "run").splitlines() if row}
    assert "✖ had -∞" in rows["a/kernel"]
    assert rows["a/kernel"].split()[1][3] == "−"
    assert "● ok" in rows["b/kernel"]


def test_a_layer_that_joined_late_was_not_measured_before(tmp_path):
    """Its curve has a gap, and the others keep their places."""
    with RunWriter(tmp_path / "run") as writer:
        write(writer, layout_of("a/kernel"), range(4))
        write(writer, layout_of("new/kernel", "a/kernel"), range(4, 8))
    rows = {row.split()[0]: row for row in shown(tmp_path / "run").splitlines() if row}
    assert len(rows["a/kernel"].split()[1]) == 8
    assert len(rows["new/kernel"].split()[1]) == 4


# the room -----------------------------------------------------------------------------


@pytest.fixture
def large(tmp_path):
    names = [
        f"encoder/stage_{i // 9}/a_long_name_of_a_block_{i}/kernel" for i in range(90)
    ]

    def plant(step, rows):
        rows[70, AT["posinf"]] = step == 9

    with RunWriter(tmp_path / "large") as writer:
        write(writer, layout_of(*names), range(10), plant)
        for since in range(12):
            writer.finding(since, finding(names[50], since=since))
    return tmp_path / "large"


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (40, 12), (200, 60)])
def test_it_fits_width_and_height(large, size):
    """No line is too long, none is pushed out, and what is left out is counted."""
    width, height = size
    lines = shown(large, width, height).rstrip("\n").splitlines()
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    states = [line for line in lines if re.search(r"[●▲✖○] \S+( \S+)?\s*$", line)]
    states = [line for line in states if line.startswith("enc")]
    assert "✖" in states[0]  # the worst first
    assert height == 12 or "▲" in states[1]
    [more] = [line for line in lines if re.match(r"and [\d,]+ more, ", line)]
    assert int(more.split()[1]) == 90 - len(states)
    assert "12 findings" in "\n".join(lines)


def test_lines_are_in_the_order_of_the_model_where_all_fit(run):
    """Depth order: a curve down the table means something."""
    text = shown(run, 80, 24)
    places = [text.index(f"\n{n}") for n in ("in/k", "mid/k", "mid/b", "out/k")]
    assert places == sorted(places)


@pytest.mark.parametrize("name", [EVIL, MARKUP, ESCAPE])
def test_a_name_is_text_and_nothing_else(tmp_path, name):
    """Neither markup nor a code of the terminal gets through."""
    with RunWriter(tmp_path / "run") as writer:
        write(writer, layout_of(f"{name}/kernel"), range(3))
        writer.finding(1, finding(f"{name}/kernel"))
        ended(writer)
    told = name.replace("\x1b", "\\x1b").replace("\n", "\\n")
    text = shown(tmp_path / "run", 160, 40)
    assert f"{told}/kernel" in text.splitlines()[5]
    assert f"{told}/kernel" in text.splitlines()[-1].replace("\\\\", "\\")
    console = terminal(160, 40)
    follow(tmp_path / "run", console=console)
    assert "\x1b[2Jb" not in console.file.getvalue()
    console = pipe()
    follow(tmp_path / "run", console=console)
    assert len(console.file.getvalue().splitlines()) == 2
    assert "\x1b" not in console.file.getvalue()


@pytest.mark.parametrize("width", [60, 80])
def test_no_two_of_long_addresses_end_where_they_differ(tmp_path, width):
    """An address is folded in its middle, however much of it others share."""
    names = [
        f"encoder_stage_with_a_long_name_{a}/sub_{b}/projection_layer_name_{b}/{kind}"
        for a in range(3)
        for b in range(3)
        for kind in ("kernel", "bias")
    ]
    with RunWriter(tmp_path / "run") as writer:
        write(writer, layout_of(*names), range(3))
    text = shown(tmp_path / "run", width, 40)
    first = [line.split("  ")[0] for line in text.splitlines()[5:23]]
    assert [name.rpartition("/")[2] for name in first] == ["kernel", "bias"] * 9
    if width == 80:
        assert len(set(first)) == 18


def test_a_terminal_that_knows_ascii_only_is_served(run):
    """Bars and signs become letters, cell for cell."""
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    console = Console(file=file, width=80, height=24, force_terminal=True)
    follow(run, console=console)
    file.flush()
    text = plain(file.buffer.getvalue().decode("ascii"))
    assert "x 3 NaN" in text
    assert "! vanishing" in text


def test_letters_of_two_cells_keep_their_place_in_ascii(tmp_path):
    """What stands to their right is not moved."""
    with RunWriter(tmp_path / "run") as writer:
        write(writer, layout_of("層層/kernel", "abcd/kernel"), range(3))
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    console = Console(file=file, width=80, height=24, force_terminal=True)
    follow(tmp_path / "run", console=console, once=True)
    file.flush()
    text = plain(file.buffer.getvalue().decode("ascii"))
    wide, usual = (line for line in text.splitlines() if "/kernel" in line)
    assert wide.startswith("????/kernel")
    assert wide.index("o ok") == usual.index("o ok")


# what happens to a run ----------------------------------------------------------------


def test_the_end_of_a_training_ends_it(run):
    """The screen of before comes back, and the last picture stays."""
    console = terminal()
    assert follow(run, console=console) == "ended"
    said = console.file.getvalue()
    assert said.count("\x1b[?1049h") == said.count("\x1b[?1049l") == 1
    after = plain(said.split("\x1b[?1049l")[1])
    assert "✖ 3 NaN" in after
    after = " ".join(after.split())  # a path may be so long that a line is two
    assert after.endswith("the training ended after step 19; 1 finding.")


def test_without_a_terminal_each_finding_is_a_line(run):
    """Nothing else, but for how it ended."""
    console = pipe()
    assert follow(run, console=console) == "ended"
    told, over = console.file.getvalue().splitlines()
    assert told.startswith(
        "vanishing since step 2: gradients vanish along depth at 'in"
    )
    assert over == f"{run}: the training ended after step 19; 1 finding."


def test_a_run_that_is_not_there_is_waited_for(tmp_path):
    """A line says so; then it comes, finding by finding, and none is told twice."""
    place = tmp_path / "run"
    writer = RunWriter(place)
    layout = layout_of("a/kernel")

    def more():
        write(writer, layout, range(4))
        writer.finding(3, finding("a/kernel", since=3))

    def end():
        writer.finding(4, finding("a/kernel", since=4, symptom="exploding"))
        ended(writer)
        writer.close()

    console, other = terminal(), pipe()
    why = follow(place, console=console, stop=Stop(more, end, lambda: None))
    assert why == "ended"
    assert f"Waiting for the run '{place}'"[:60] in plain(console.file.getvalue())
    assert follow(place, console=other) == "ended"
    said = other.file.getvalue().splitlines()
    assert [line.split()[0] for line in said[:2]] == ["vanishing", "exploding"]
    assert len(said) == 3


def test_a_second_training_in_the_same_run_goes_on(tmp_path):
    """Only the last thing that is said counts as the end."""
    layout = layout_of("a/kernel")
    with RunWriter(tmp_path) as writer:
        write(writer, layout, range(4))
        ended(writer)
    with RunWriter(tmp_path) as writer:
        writer.note("run", {"model": "m"})
        write(writer, layout, range(4, 8))
    console = pipe()
    assert follow(tmp_path, console=console, stop=Stop()) == "stopped"
    assert "stopped looking at step 7" in console.file.getvalue()


def test_ctrl_c_ends_it_cleanly(run, tmp_path):
    """The last picture stays, one line says why, and nothing is raised."""

    def interrupt():
        raise KeyboardInterrupt

    with RunWriter(tmp_path / "b") as writer:
        write(writer, layout_of("a/kernel"), range(4))
    for console in (terminal(400), pipe()):  # wide enough for any path
        why = follow(tmp_path / "b", console=console, stop=Stop(interrupt))
        assert why == "interrupted"
        said = plain(console.file.getvalue())
        assert "b: interrupted at step 3; 0 findings." in said


def cut(path, keep):
    [file] = path.iterdir()
    file.write_bytes(file.read_bytes()[:keep])


def delete(path):
    for file in path.iterdir():
        file.unlink()
    path.rmdir()


@pytest.mark.parametrize("harm", [delete, lambda path: cut(path, 100)])
def test_a_run_that_is_taken_away_is_a_line(tmp_path, harm):
    """No traceback; what comes in its place is followed."""
    place = tmp_path / "run"
    with RunWriter(place) as writer:
        write(writer, layout_of("a/kernel"), range(4))

    def again():
        with RunWriter(place) as writer:
            write(writer, layout_of("b/kernel"), range(2))
            ended(writer)

    console = terminal(400)  # one line, also with the longest path of a test
    stop = Stop(lambda: harm(place), again, lambda: None)
    assert follow(place, console=console, stop=stop) == "ended"
    said = plain(console.file.getvalue())
    assert "was deleted or cut short. Waiting for it to be written." in said
    assert "the training ended after step 1" in said
    assert "a/kernel" not in said.rsplit("■ ended", 1)[1]


def test_a_damaged_record_is_a_line(tmp_path):
    """What is before it is shown."""
    place = tmp_path / "run"
    with RunWriter(place, native_every_seconds=None) as writer:
        write(writer, layout_of("a/kernel"), range(9))
    [file] = place.iterdir()
    data = bytearray(file.read_bytes())
    data[len(data) * 2 // 3] ^= 255
    file.write_bytes(data)
    console = terminal(400)  # one line, also with the longest path of a test
    assert follow(place, console=console, stop=Stop(lambda: None)) == "stopped"
    said = plain(console.file.getvalue())
    assert "is damaged, at byte" in said
    assert "of the file are left out" in said
    assert "a/kernel" in said


def test_a_finding_of_a_newer_version_is_shown_as_it_is(tmp_path):
    """Its name is all that is known of it."""
    with RunWriter(tmp_path / "run") as writer:
        write(writer, layout_of("a/kernel"), range(2))
        writer.finding(1, {"symptom": "hunger", "addresses": ["a"], "since": 1})
        ended(writer)
    console = pipe()
    follow(tmp_path / "run", console=console)
    assert console.file.getvalue().splitlines()[0] == "hunger since step 1"
    assert "▲ hunger" in shown(tmp_path / "run")


def test_no_more_than_two_redraws_a_second(tmp_path, monkeypatch):
    """By a clock of our own; also the pace of the training is measured by it."""
    now, drawn = [0.0], []
    layout, place = layout_of("a/kernel"), tmp_path / "run"
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    draw = Live.update

    def update(screen, *what, **how):
        drawn.append(now[0])
        draw(screen, *what, **how)

    monkeypatch.setattr(Live, "update", update)
    with RunWriter(place) as writer:

        class Clock(threading.Event):
            def wait(self, timeout=None):
                assert timeout > 0
                now[0] += timeout
                steps = range(int(now[0] * 8) - 3, int(now[0] * 8) + 1)
                write(writer, layout, steps)
                if now[0] >= 10:
                    self.set()

        console = terminal()
        assert follow(place, console=console, stop=Clock()) == "stopped"
    assert np.all(np.diff(drawn) >= 0.5)
    assert len(drawn) == 20
    assert "8.00 steps/s" in plain(console.file.getvalue())


def test_a_training_that_says_nothing_more_is_told(run, monkeypatch):
    """It may have been killed: a run says its end only where it ended well."""
    now = [5.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    picture = Picture(Run(Reader(run)))
    picture.refresh()
    picture.run.store.ended = False
    now[0] += 61
    console = terminal()
    console.print(picture)
    assert "○ no record for 61 s" in plain(console.file.getvalue())


def test_what_it_has_cost_so_far_is_shown_and_is_no_end(tmp_path):
    """Only what is said of the whole training says that it is over."""
    with RunWriter(tmp_path / "run") as writer:
        write(writer, layout_of("a/kernel"), range(3))
        writer.note("overhead", {"share": 0.03, "so_far": True})
    text = shown(tmp_path / "run", 100, 30)
    assert "overhead 3.0 %" in text
    assert "ended" not in text
    with RunWriter(tmp_path / "run") as writer:
        write(writer, layout_of("a/kernel"), range(3, 5))
        ended(writer)
    assert "ended" in shown(tmp_path / "run", 100, 30)


def test_a_training_without_a_record_is_not_waited_for(tmp_path):
    """It says what it was and that it is over at once, in one event."""
    with RunWriter(tmp_path / "run") as writer:
        writer.note("run", {"model": "mlp"})
        ended(writer)
    text = shown(tmp_path / "run", 300)
    assert "■ ended" in text
    assert "run' has no record." in text
    assert "Waiting" not in text
    console = pipe()
    stop = Stop(lambda: None)
    assert follow(tmp_path / "run", console=console, stop=stop) == "ended"
    assert "the training ended; no step was recorded." in console.file.getvalue()


# refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("refresh", [0, -1, 2.5, float("nan")])
def test_refresh_has_a_range(tmp_path, refresh):
    """A terminal that flickers is of no use."""
    with pytest.raises(GradwatchError, match="`refresh` must be above 0"):
        follow(tmp_path, refresh=refresh)


def test_what_is_no_run_is_refused_where_waiting_is_of_no_use(tmp_path):
    """A file never becomes a directory; once is now."""
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(RunError, match="`directory` must be .* which is a file"):
        follow(file)
    with pytest.raises(RunError, match="`directory` must be .* does not exist"):
        follow(tmp_path / "none", once=True)
