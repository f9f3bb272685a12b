import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from gradwatch.show import table_html, table_text
from gradwatch.summarise import Row, summarise_array

EVIL = "<img src=x onerror=alert(1)>"


class Page(HTMLParser):
    """Reads HTML, and refuses a tag that is not closed where it should be."""

    def __init__(self, source):
        super().__init__()
        self.open, self.tags, self.words, self.rows = [], [], [], []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" in self.open:
            return
        self.words.append(data)
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def test_the_cells_are_those_of_the_text(network):
    """HTML and text come from the same cells: same words, same order."""
    page = Page(table_html(network, title="t", footer=["the foot"]))
    records = [cells for cells in page.rows if len(cells) == 9]
    lines = [
        re.split(r"\s{2,}", line)
        for line in table_text(network, title="t", width=150).splitlines()
    ]
    assert records == [line for line in lines if len(line) == 9]
    assert len(records) == 1 + len(network)
    words = "".join(page.words)
    assert "the foot" in words
    assert "an integer has no gradient" in words
    assert "no gradient (3)" in words


@pytest.mark.parametrize("evil", [EVIL, "a&b", '"><script>', "</style>", "x' y=\""])
def test_every_word_is_escaped(evil):
    """A name, kind, title, reason or footer of tags is shown, never obeyed."""
    rows = [
        summarise_array(evil, "weight", np.ones(2)),
        summarise_array("b", evil, np.ones(2)),
        Row.absent(evil, "input", (2,), evil, evil),
    ]
    source = table_html(rows, title=evil, footer=[evil])
    page = Page(source)
    assert {tag for tag, _ in page.tags} <= {
        *("div", "style", "table", "caption", "thead", "tbody", "tr", "th", "td"),
        *("span", "strong", "p", "ul", "li", "code"),
    }
    assert {name for _, attributes in page.tags for name in attributes} <= {
        *("class", "style", "scope", "colspan", "title"),
    }
    assert "".join(page.words).count(evil) == 7
    assert source.count("</style>") == 1


def test_nothing_is_loaded_and_nothing_runs(network):
    """The piece is self-contained: no script, no link, no address."""
    source = table_html(network, title="t")
    for word in ("<script", "<link", "http", "url(", "@import", " on", "src="):
        assert word not in source.replace(" on ", " ")


def bars(page):
    widths = [tag["style"] for tag in page.all("span") if tag.get("class") == "bar"]
    return [float(re.fullmatch(r"width:([\d.]+)em", width)[1]) for width in widths]


def test_bars_are_norms_on_a_log_scale():
    """Equal ratios of norms are equal steps of bars; the largest is full."""
    rows = [
        summarise_array(f"w{i}", "weight", np.array([10.0**-i]))
        for i in (0, 1, 2, 3, 4)
    ]
    lengths = bars(Page(table_html(rows, title="t")))
    assert lengths[0] == 4
    steps = -np.diff(lengths)
    assert steps == pytest.approx([steps[0]] * 4, abs=0.011)
    assert lengths[-1] == pytest.approx(0.2)


def test_similar_norms_have_similar_bars():
    """The scale has three decades at least: 0.9 is almost 1.0."""
    rows = [summarise_array(f"w{x}", "weight", np.array([x])) for x in (1.0, 0.9)]
    full, almost = bars(Page(table_html(rows, title="t")))
    assert almost / full > 0.95
    assert almost < full


def test_kinds_have_scales_of_their_own():
    """The largest activation has a full bar, however large the weights are."""
    rows = [
        summarise_array("a", "weight", np.array([1e9])),
        summarise_array("b", "activation", np.array([1e-9])),
        summarise_array("c", "weight", np.array([1e3])),
        summarise_array("d", "activation", np.array([1e-6])),
    ]
    weights, activations = [4, 0.2], [0.2, 4]
    assert bars(Page(table_html(rows, title="t"))) == weights + activations


def test_only_a_positive_finite_norm_has_a_bar():
    """Zero, NaN, ∞ and missing have no place on a log scale, and no bar."""
    rows = [
        summarise_array("zero", "weight", np.zeros(3)),
        summarise_array("nan", "weight", np.full(3, np.nan)),
        summarise_array("huge", "weight", np.full(9, 1.5e308)),
        Row.absent("gone", "weight", (3,), "float32", "why"),
        summarise_array("one", "weight", np.ones(1)),
    ]
    assert bars(Page(table_html(rows, title="t"))) == [4]
    assert bars(Page(table_html(rows[:4], title="t"))) == []


def test_the_number_in_full_is_at_hand():
    """Resting on a number shows all its digits, on a shape the type."""
    row = summarise_array("a", "weight", np.array([1.0, 2.0], np.float32))
    tips = [tag.get("title") for tag in Page(table_html([row], title="t")).all("td")]
    assert repr(math.sqrt(5)) in tips
    assert "(2,) float32" in tips


def test_tones_are_classes_and_alarms_are_strong(network):
    """NaN is red and bold, also where the style sheet is stripped."""
    source = table_html(network, title="t")
    assert "<strong>3 NaN, 1 +∞</strong>" in source
    assert "<strong>image</strong>" in source
    page = Page(source)
    classes = " ".join(tag.get("class", "") for tag in page.all("td")).split()
    assert {"alarm", "dim", "warn", "plain"} <= set(classes)


def test_an_empty_table_is_whole():
    """No rows give a well-formed table that says so."""
    page = Page(table_html([], title="t"))
    assert "nothing to show" in page.words
