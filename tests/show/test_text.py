import os
import re
import sys
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len

from gradwatch.show import plain_table, table_text
from gradwatch.summarise import Row, summarise_array

GOLDEN = Path(__file__).parent / "golden"
NUMBERS = ("norm", "mean", "std", "min", "max")
TITLE = "gradients of the loss of 'demo' (batch of 8)"


def assert_golden(name, text):
    """Compares with the file; GRADWATCH_UPDATE_GOLDEN=1 writes it instead."""
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("GRADWATCH_UPDATE_GOLDEN") == "1":
        path.write_text(text + "\n", encoding="utf-8")
    assert text + "\n" == path.read_text(encoding="utf-8")


def cells_of(text):
    """Returns {name: cells} of every line that has all nine columns."""
    lines = (re.split(r"\s{2,}", line.strip()) for line in text.splitlines())
    return {line[0]: line[1:] for line in lines if len(line) == 9 and line[0] != "name"}


@pytest.mark.parametrize("width", [120, 100, 80, 60])
def test_the_table_of_a_network_is_as_recorded(network, width):
    """The table, reasons and footer look as in the golden file, at four widths."""
    footer = ["8 of 11 have a gradient"]
    text = table_text(network, title=TITLE, footer=footer, width=width)
    assert_golden(f"network_{width}", text)


def test_the_table_of_a_mobilenet_is_as_recorded(mobilenet):
    """Long addresses are folded, the same way all along the table."""
    assert_golden("mobilenet", table_text(mobilenet, title="mobilenet", width=100))


def test_an_empty_table_says_so():
    """No rows give a head, and words instead of lines."""
    assert_golden("empty", table_text([], title="gradients", width=100))


def test_every_number_in_the_table_is_that_of_its_row(network):
    """The columns, read back and compared one by one, hold what the rows hold."""
    text = table_text(network, title=TITLE, width=120)
    cells = cells_of(text)
    assert list(cells) == [row.name for row in network]
    for row in network:
        shape, *numbers, zeros, nonfinite = cells[row.name]
        assert tuple(map(int, shape.split("×"))) == row.shape
        if row.missing:
            assert {*numbers, zeros, nonfinite} == {"—"}
            continue
        for name, shown in zip(NUMBERS, numbers, strict=True):
            value = pytest.approx(getattr(row, name), rel=6e-4, abs=0)
            assert float(shown) == value, name
        assert float(zeros) == pytest.approx(100 * row.zeros, abs=0.051)
        counts = [int(count) for count in re.findall(r"\d+", nonfinite)]
        assert sum(counts) == row.nonfinite


def test_counts_in_the_headings_add_up(network):
    """The sections together have all rows; the reasons name all missing ones."""
    text = table_text(network, title=TITLE, width=100)
    sections = dict(re.findall(r"^(\w+) \((\d+)\)$", text, re.MULTILINE))
    assert sections == {"weights": "6", "activations": "3", "inputs": "2"}
    assert sum(map(int, sections.values())) == len(network)
    table, _, reasons = text.partition("no gradient (3)\n")
    missing = [row for row in network if row.missing]
    assert len(missing) == 3
    for row in missing:
        assert row.name in table
        assert row.missing in reasons
        assert row.name in reasons
    assert "conv2/kernel, conv2/bias" in reasons


def test_missing_rows_stand_in_their_place(network):
    """A missing gradient keeps its place among its neighbours."""
    text = table_text(network, title=TITLE, width=100)
    places = [text.index(f"\n{row.name} ") for row in network]
    assert places == sorted(places)


@pytest.mark.parametrize("width", [40, 41, 55, 70, 79, 80, 100, 133, 300])
def test_no_line_is_wider_than_asked(network, mobilenet, width):
    """Every line fits, no number is cut, and no two addresses look the same."""
    rows = network + mobilenet
    text = table_text(rows, title="a title " * 30, footer=["foot " * 40], width=width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    # Folded to 16 cells and no less, every address is still on one line.
    body = text.partition("weights (")[2].partition("\nno gradient")[0]
    lines = [line for line in body.splitlines() if "  " in line]
    names = [line.split()[0] for line in lines]
    assert len(names) == len(rows)
    kinds_apart = len({row.name for row in rows})
    assert len(set(names)) == kinds_apart
    assert "\x1b" not in text


def test_columns_that_do_not_fit_are_named(network):
    """What is left out for want of room is said, and norm and non-finite never are."""
    text = table_text(network, title="t", width=60)
    line = text.splitlines()[-1]
    assert line.startswith("not shown at this width: ")
    hidden = set(line.partition(": ")[2].split(", "))
    head = text.splitlines()[1]
    for name in ("shape", "norm", "mean", "std", "min", "max", "% zero", "non-finite"):
        assert (name in head) != (name in hidden), name
    assert not {"norm", "non-finite"} & hidden
    assert "not shown" not in table_text(network, title="t", width=120)


def test_names_are_text_and_never_markup():
    """Names like markup, emoji codes and escape codes are shown as they are."""
    names = ["[bold]x[/bold]", ":smile:", "\x1b[31mred", "a\nb", "[/]"]
    rows = [summarise_array(name, "weight", np.ones(2)) for name in names]
    text = table_text(rows, title="[red]t[/red]", footer=["[b]f"], width=100)
    assert "[red]t[/red]" in text
    assert "[b]f" in text
    for name in ("[bold]x[/bold]", ":smile:", r"\x1b[31mred", r"a\nb", "[/]"):
        assert f"\n{name} " in text
    assert "\x1b" not in text


def test_an_unknown_kind_gets_a_section_of_its_own():
    """Kinds that later work adds are headed by their own name."""
    text = table_text([summarise_array("a", "update", np.ones(2))], title="t")
    assert "\nupdate (1)\n" in text


def test_numbers_that_are_not_finite_have_their_marks():
    """No finite element is NaN in each number; an overflowing norm is +∞."""
    rows = [
        summarise_array("nan", "weight", np.full(4, np.nan)),
        summarise_array("huge", "weight", np.full(9, 1.5e308)),
        summarise_array("mixed", "weight", np.array([1, np.nan, np.inf, -np.inf])),
    ]
    cells = cells_of(table_text(rows, title="t", width=120))
    assert cells["nan"] == ["4", *["NaN"] * 5, "0", "4 NaN"]
    assert cells["huge"][1] == "+∞"
    assert cells["mixed"][-1] == "1 NaN, 1 +∞, 1 -∞"


class Screen(StringIO):
    """A standard output that says what it is."""

    def __init__(self, tty, encoding="utf-8"):
        super().__init__()
        self.tty, self.name_of_encoding = tty, encoding

    def isatty(self):
        return self.tty

    @property
    def encoding(self):
        return self.name_of_encoding


def width_of(text):
    return max(cell_len(line) for line in text.splitlines())


def test_the_default_width_is_that_of_the_terminal(network, monkeypatch):
    """On a terminal its width, elsewhere 100, and `width` beats both."""
    monkeypatch.setenv("COLUMNS", "64")
    monkeypatch.setattr(sys, "stdout", Screen(tty=True))
    assert table_text(network, title="t") == table_text(network, title="t", width=64)
    monkeypatch.setattr(sys, "stdout", Screen(tty=False))
    assert table_text(network, title="t") == table_text(network, title="t", width=100)
    assert width_of(table_text(network, title="t", width=50)) <= 50


def test_there_may_be_no_standard_output(network, monkeypatch):
    """Under pythonw `sys.stdout` is None; the table is still made."""
    expected = table_text(network, title="t", width=100)
    monkeypatch.setattr(sys, "stdout", None)
    assert table_text(network, title="t") == expected


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_printing_never_fails_for_want_of_a_character(network, monkeypatch, encoding):
    """A terminal that has no ∞ gets "inf"; one that has it gets ∞."""
    monkeypatch.setattr(sys, "stdout", Screen(tty=False, encoding=encoding))
    rows = [*network, summarise_array("層", "weight", np.ones(2))]
    text = table_text(rows, title="t", width=100)
    assert text.encode(encoding).decode(encoding) == text
    assert ("∞" in text) == (encoding == "utf-8")
    assert ("3 NaN, 1 +inf" in text) == (encoding != "utf-8")


def test_nothing_around_can_change_the_text(network, monkeypatch):
    """Variables that tell rich to use colour or a width of its own are not obeyed."""
    expected = table_text(network, title="t", width=100)
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS", "JUPYTER_COLUMNS"):
        monkeypatch.setenv(name, "1")
    assert table_text(network, title="t", width=100) == expected


def test_the_same_rows_give_the_same_text(network):
    """Rendering keeps no state: the second time is as the first."""
    first = table_text(network, title="t", width=77)
    assert table_text(network, title="t", width=77) == first


def test_a_plain_table_is_as_recorded():
    """Words lean left, numbers right, and the first column is folded."""
    records = [
        ["conv1", "Conv2D", "(None, 26, 26, 32)", "320"],
        ["backbone/block_1/attention/query_dense", "Dense", "(None, 8)", "1,024"],
        ["backbone/block_2/attention/query_dense", "Dense", "(None, 8)", ""],
    ]
    columns = ["layer", "class", "output", "weights"]
    text = plain_table(
        columns, records, title="layers of 'demo'", footer=["3 layers"], width=66
    )
    assert_golden("plain", text)
    assert width_of(text) <= 66


def test_a_plain_table_wraps_what_is_too_wide():
    """Words that do not fit go to the next line; nothing is cut off."""
    words = " ".join(f"word{i}" for i in range(30))
    text = plain_table(["a", "b", "c"], [["x", words, words]], title="t", width=60)
    assert width_of(text) <= 60
    assert all(text.count(f"word{i}") >= 2 for i in range(30))


def test_a_plain_table_without_records_says_so():
    """As with gradients: the head, and words instead of lines."""
    assert "nothing to show" in plain_table(["a", "b"], [], title="t")


def test_a_record_of_the_wrong_length_is_refused():
    """The message names the argument, the record and the way out."""
    with pytest.raises(ValueError, match=r"shorter"):
        plain_table(["a", "b"], [["x"]], title="t")


def test_a_long_reason_is_wrapped_and_kept():
    """Reasons are sentences: they wrap at the width and lose no word."""
    reason = " ".join(f"because{i}" for i in range(40))
    row = Row.absent("a" * 90 + "/kernel", "weight", (2,), "float32", reason)
    text = table_text([row], title="t", width=60)
    assert width_of(text) <= 60
    assert all(f"because{i}" in text for i in range(40))
    assert "a" * 90 + "/kernel" in re.sub(r"\s", "", text)
