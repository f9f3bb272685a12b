"""The report of made-up runs: the same facts in three formats."""

import html.parser
import json
import re

import numpy as np
import pytest

from gradwatch import GradwatchError
from gradwatch.run import Layout, Record, RunError, RunWriter, open_run
from gradwatch.show._format import number, percent
from gradwatch.show.report import report, write_report
from gradwatch.summarise import BUCKETS, COLUMNS

AT = {name: index for index, name in enumerate(COLUMNS)}
EVIL = "<img src=x onerror=alert(1)>"
NASTY = "a`b|c*d_e\n</script><script>alert(2)</script>"
NAMES = ("in/kernel", f"{EVIL}/kernel", NASTY)


def rows_at(step, lines=3):
    """Numbers that all differ, from which each cell of a table can be had."""
    rows = np.full((lines, len(COLUMNS)), 1.0, np.float32)
    rows[:, AT["norm"]] = (step + 1) * 10.0 ** -np.arange(lines)
    rows[:, AT["zeros"]] = 0.25
    rows[:, AT["update_norm"]] = 0.001 * (step + 1)
    for name in ("nan", "posinf", "neginf"):
        rows[:, AT[name]] = 0
    return rows


@pytest.fixture
def run(tmp_path):
    """Ten records, a NaN at the fourth, one finding."""
    with RunWriter(tmp_path / "runs" / "sick") as writer:
        writer.note("run", {"model": EVIL, "optimizers": ["Adam"], "backend": "jax"})
        layout = Layout(NAMES, ("weight",) * 3, (6, 6, 6))
        for step in range(10):
            rows = rows_at(step)
            rows[1, AT["nan"]] = 2 * (step == 4)
            counts = np.full((3, BUCKETS), step) if step % 5 == 0 else None
            totals = {"global_norm": 1.0, "update": 1.0, "clipped": float(step < 3)}
            writer.write(Record(step, layout, rows, counts, totals))
        finding = {
            "symptom": "nonfinite",
            "addresses": [NAMES[1]],
            "since": 4,
            "step": 4,
            "evidence": {"elements": 2, "share": 0.33333},
            "try_first": "Call `gradwatch.autopsy(model, x, y)`.",
        }
        writer.finding(4, finding)
        overhead = {"steps": 10, "records": 10, "host_ms": 0.5, "share": 0.02}
        writer.note("overhead", {**overhead, "record_ms": None})
    return tmp_path / "runs" / "sick"


@pytest.fixture
def well(tmp_path):
    """A run in which nothing is wrong, and nothing is noted."""
    with RunWriter(tmp_path / "runs" / "well") as writer:
        layout = Layout(NAMES[:1], ("weight",), (6,))
        for step in range(6):
            writer.write(Record(step, layout, rows_at(step, 1), None, {}))
    return tmp_path / "runs" / "well"


@pytest.fixture
def short(tmp_path):
    """A run of one step."""
    with RunWriter(tmp_path / "runs" / "short") as writer:
        layout = Layout(NAMES[:1], ("weight",), (6,))
        writer.write(Record(7, layout, rows_at(0, 1), None, {}))
    return tmp_path / "runs" / "short"


def test_one_step_is_too_little_to_judge(short, well):
    """Nothing found in one step is not called healthy, in any format."""
    words = "1 recorded step is too little to judge"
    for format in ("md", "html"):
        text = report([short], format)
        assert words in text
        assert "Healthy." not in text
        assert "Nothing was found" not in text
        assert "1 step, number 7" in text
        assert words not in report([well], format)
    assert "<b>Too little to judge.</b>" in report([short, well], "html")
    enough = [r["enough_to_judge"] for r in json.loads(report([short, well], "json"))["runs"]]  # fmt: skip # noqa: E501
    assert enough == [False, True]


@pytest.mark.parametrize("format", ["html", "md", "json"])
def test_a_run_without_a_record_is_reported(tmp_path, well, format):
    """A training that ended before the first step that was due is no error."""
    with RunWriter(tmp_path / "runs" / "never") as writer:
        writer.note("run", {"model": "mlp"})
    for runs in ([tmp_path / "runs" / "never"], [well, tmp_path / "runs" / "never"]):
        text = report(runs, format)
        if format != "json":
            assert "0 recorded steps are too little to judge" in text


def test_a_bar_is_spelled_out_only_where_it_would_end_a_cell(tmp_path):
    """In a list, a backslash in code is shown: the address would be another one."""
    name = "a|b/kernel"
    with RunWriter(tmp_path / "run") as writer:
        layout = Layout((name,), ("weight",), (6,))
        writer.write(Record(0, layout, rows_at(0, 1), None, {}))
        result = {"symptom": "frozen", "addresses": [name], "since": 0, "step": 0}
        writer.finding(0, result)
    text = report([tmp_path / "run"], "md")
    assert "   - Where: `a|b/kernel`\n" in text
    assert "\n| `a\\|b/kernel` |" in text


def test_it_is_said_who_judged(run, well):
    """The monitor while it trained; or the report, where nothing was recorded."""
    assert "| judged | while it trained | now, for this report |" in report([run, well], "md")  # fmt: skip # noqa: E501


def test_json_is_what_a_script_wants(run, well):
    """Findings, layers and facts, each as it was recorded."""
    told = json.loads(report([run, well], "json"))
    assert told["healthy"] is False
    sick, other = told["runs"]
    assert [r["name"] for r in told["runs"]] == ["sick", "well"]
    assert sick["steps"] == {"records": 10, "first": 0, "last": 9}
    assert sick["findings"][0]["addresses"] == [NAMES[1]]
    assert sick["trained"]["model"] == EVIL
    assert other["findings"] == []
    layer = sick["layers"][1]
    assert layer["name"] == NAMES[1]
    assert layer["first"] == pytest.approx(0.1)
    assert layer["last"] == pytest.approx(1.0)
    assert layer["largest"] == pytest.approx(1.0)
    assert layer["ratio"] == pytest.approx(0.0055)  # the median of 0.001 … 0.01
    assert layer["bad"] == 1
    assert [each["bad"] for each in sick["layers"]] == [0, 1, 0]
    assert json.loads(report([well], "json"))["healthy"] is True


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (
            {},
            "7 of 7 steps were recorded, at 1.50 ms each: 2.0 % of the training time.",
        ),
        ({"so_far": True}, "2.0 % of the training time so far."),
        ({"share": None, "record_ms": None}, "7 of 7 steps were recorded."),
    ],
)
def test_a_cost_says_how_it_is_known(well, facts, words):
    """A training without other steps to compare with does not know its cost."""
    with RunWriter(well) as writer:
        layout = Layout(NAMES[:1], ("weight",), (6,))
        writer.write(Record(6, layout, rows_at(6, 1), None, {}))
        cost = {"steps": 7, "records": 7, "host_ms": 0.5, "record_ms": 1.5}
        writer.note("overhead", {**cost, "share": 0.02, **facts})
    assert words in report([well], "md")


def test_markdown_is_short_and_nothing_in_it_is_html(run, well):
    """What is wrong, what was trained, a line for each layer."""
    text = report([run, well], "md")
    assert "## `sick`: 1 finding\n" in text
    assert "1. **Gradients are not finite** (`nonfinite`), since step 4" in text
    assert "   - Evidence: elements 2, share 0.333\n" in text
    assert "   - Try first: Call `gradwatch.autopsy(model, x, y)`.\n" in text
    assert "Nothing was found to be wrong." in text
    assert "2.0 % of the training time" in text
    assert "| clipped | 30 % of the recorded updates | — |" in text
    row = f"| `{EVIL}/kernel` | 0.1000 | 1.000 | 1.000 | 0.005500 | 25.0 | 1 record |"
    assert row in text
    # Outside of code, no name of somebody else's may be markup.
    bare = re.sub(r"(`+) ?.*? ?\1", "", text)
    assert not re.findall(r"(?<!\\)<img", bare)
    assert r"\<img" in bare  # the name of the model, spelled out
    assert "</script>" not in bare
    cells = {line.count("|") - line.count("\\|") for line in text.splitlines() if line.startswith("| ")}  # fmt: skip # noqa: E501
    assert cells <= {4, 8}


class Page(html.parser.HTMLParser):
    """The tags of a page, and its words outside of scripts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.inside = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside.append(tag)

    def handle_endtag(self, tag):
        if tag in self.inside:
            del self.inside[len(self.inside) - self.inside[::-1].index(tag) - 1 :]

    def handle_data(self, data):
        if not {"script", "style"} & set(self.inside):
            self.words.append(data)


def test_the_page_is_whole_and_asks_nobody(run):
    """One file: no image, no link, no script but the two of its own."""
    text = report(run)
    page = Page(text)
    tags = [tag for tag, _ in page.tags]
    assert "img" not in tags
    assert "link" not in tags
    assert tags.count("script") == 2
    for _, attrs in page.tags:
        assert not {"src", "href", "onerror", "onclick"} & set(attrs)
    policy = next(a["content"] for t, a in page.tags if "http-equiv" in a)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    words = " ".join(page.words)
    assert EVIL in words
    assert r"a`b|c*d_e\n</script><script>alert(2)</script>" in words
    assert "alert(2)" not in "".join(
        re.findall(r"<script>.*?</script>", text, re.DOTALL)
    )
    assert words.index("1 finding") < words.index("What was trained")


def test_the_page_says_the_numbers_of_the_run(run):
    """In its table of all layers."""
    words = " ".join(Page(report([open_run(run)])).words)
    series = open_run(run)["in/kernel"]
    for value in (series.norm[0], series.norm[-1]):
        assert number(float(value)) in words
    assert percent(float(series.zeros[-1])) in words
    assert "10 of 10 steps were recorded: 2.0 % of the training time" in words


def test_a_long_run_stays_below_two_megabytes(tmp_path):
    """5,000 steps of 200 weights, with histograms and noise in every digit."""
    random = np.random.default_rng(0)
    names = tuple(f"b_{i // 8}/l_{i // 2}/{'kb'[i % 2]}" for i in range(200))
    layout = Layout(names, ("weight",) * 200, (1024,) * 200)
    shape = np.exp(-((np.arange(64) - 32.0) ** 2) / 30)
    shape = np.concatenate([shape[::-1], shape])
    many = np.exp(random.normal(size=(64, 200, len(COLUMNS)))).astype(np.float32)
    for name in ("zeros", "underflow"):
        many[..., AT[name]] = 0.5 * random.random((64, 200))
    for name in ("nan", "posinf", "neginf"):
        many[..., AT[name]] = 0
    with RunWriter(tmp_path / "long", None) as writer:
        for step in range(5000):
            rows = many[step % 64] * np.float32(0.5 + random.random())
            rows[7, AT["nan"]] = step % 50 == 0
            counts = None
            if step % 50 == 0:
                counts = random.poisson(200 * shape, (200, BUCKETS))
            totals = {"global_norm": 1.0 + step}
            writer.write(Record(step, layout, rows, counts, totals))
        writer.finding(0, {"symptom": "nonfinite", "since": 0, "step": 0})
    path = write_report([tmp_path / "long"], tmp_path / "report.html")
    assert path.stat().st_size < 2_000_000


def test_runs_are_named_by_as_little_as_tells_them_apart(tmp_path):
    """`x/a` and `y/a`, but `b` alone; the same run twice is numbered."""
    layout = Layout(("w",), ("weight",), (6,))
    places = [tmp_path / "x" / "a", tmp_path / "y" / "a"]
    for place in places:
        with RunWriter(place) as writer:
            writer.write(Record(0, layout, rows_at(0, 1), None, {}))
    told = json.loads(report(places, "json"))
    assert [run["name"] for run in told["runs"]] == ["x/a", "y/a"]
    told = json.loads(report([places[0], places[0]], "json"))
    assert [run["name"] for run in told["runs"]] == ["a (1)", "a (2)"]


@pytest.mark.parametrize(
    ("name", "start"),
    [("r.html", "<!doctype"), ("r.md", "# "), ("r.json", "{"), ("deep/r.HTM", "<!")],
)
def test_the_name_of_the_file_says_the_format(well, tmp_path, name, start):
    """Folders are made as needed."""
    path = write_report(well, tmp_path / "out" / name, title="Mine")
    text = path.read_text(encoding="utf-8")
    assert text.startswith(start)
    assert "Mine" in text


def test_what_cannot_be_reported_is_told(well, tmp_path):
    """No run, no such format, no such name."""
    with pytest.raises(GradwatchError, match="`format` must be one of 'html'.*'pdf'"):
        report([well], "pdf")
    with pytest.raises(GradwatchError, match="`runs` must name at least one run"):
        report([])
    with pytest.raises(GradwatchError, match=r"`path` must end in \.html.*'r.pdf'"):
        write_report([well], "r.pdf")
    with pytest.raises(RunError, match="`directory` must be the directory of a run"):
        report([tmp_path / "nowhere"])
