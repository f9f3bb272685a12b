"""The report in a real browser, from disk and without a network."""

import numpy as np
import pytest

from gradwatch.run import Layout, RunWriter
from gradwatch.show._format import number, percent
from gradwatch.show.report import write_report

from .made_up import AT, EVIL, layout_of, write_run
from .test_tab import (
    shown,
    wait_for,
    wait_for_colour,
    wait_for_labels,
    wait_for_picture,
)

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def report(runs, tmp_path_factory):
    """A report of two runs, on disk."""
    root = runs[0]
    path = tmp_path_factory.mktemp("out") / "report.html"
    return write_report([root / "sick", root / "nested" / "well"], path)


@pytest.fixture
def page(report, open_page):
    """The report in a browser that has no network."""
    url = report.as_uri()
    page, watched = open_page(url, url)
    page.context.set_offline(True)
    yield page
    assert watched.requests == [url]


def test_findings_come_first_and_charts_appear(page):
    """From disk, with the pictures of the tab."""
    text = page.inner_text("body")
    assert text.index("2 findings") < text.index("Gradients vanish along depth")
    assert text.index("Gradients are not finite") < text.index("What was trained")
    assert "1.1 % of the training time" in text
    wait_for(page, "() => document.querySelectorAll('.heat').length === 2")
    for selector in (".heat", ".flow canvas", ".histogram canvas", ".plot canvas"):
        wait_for_picture(page, selector)
    wait_for_colour(page, "#C1121F")


def test_numbers_are_those_of_the_run(page, runs):
    """Both runs at the step of the first; the table below has the last of each."""
    records = runs[1]["sick"]
    wait_for(
        page,
        "() => { const two = document.querySelectorAll(\"[data-quantity='norm']\");"
        " return two.length === 2 && [...two].every((it) => it.textContent !== '—'); }",
    )
    row = records[-1].rows[0]
    assert page.locator("[data-quantity='norm']").first.inner_text() == number(
        float(row[AT["norm"]])
    )
    zeros = page.locator("[data-quantity='zeros']").first.inner_text()
    assert zeros == percent(float(row[AT["zeros"]]))
    page.click("summary >> nth=0")
    cells = page.locator(".layers >> nth=0").locator("tbody tr >> nth=0 >> td")
    assert cells.nth(0).inner_text() == number(float(records[0].rows[0, AT["norm"]]))
    assert cells.nth(1).inner_text() == number(float(row[AT["norm"]]))


def test_a_click_on_a_finding_moves_the_charts(page, runs):
    """To the layer and the step, with how many elements were what."""
    page.click("[data-finding='1']")
    wait_for(
        page, "() => document.querySelector('.steptext').textContent === 'step 130'"
    )
    name = runs[1]["sick"][0].layout.names[2]
    assert page.inner_text("[data-address]") == name
    wait_for(
        page,
        "() => document.querySelector(\"[data-quantity='nonfinite']\").textContent"
        " === '3 NaN'",
    )
    assert shown(page, "norm") == number(float(runs[1]["sick"][65].rows[2, AT["norm"]]))


def test_a_name_that_looks_like_html_is_text(page):
    """In the table, in the labels and in the charts."""
    assert page.locator("img").count() == 0
    page.click("summary >> nth=0")
    assert f"{EVIL}/kernel" in page.inner_text(".layers >> nth=0")
    page.fill("#gw-filter", "onerror")
    wait_for_labels(page, 2)
    title = page.locator(".labels button").first.get_attribute("title")
    assert title == f"{EVIL}/kernel"


def test_it_prints(page, tmp_path):
    """Light, in one column, charts and all, on a few pages."""
    wait_for_picture(page)
    page.emulate_media(color_scheme="dark")
    page.evaluate(
        """() => window.addEventListener("beforeprint", () => {
          const root = document.querySelector(".gradwatch-app");
          document.title = [root.dataset.theme, root.className].join();
        })"""
    )
    made = page.pdf(prefer_css_page_size=True, print_background=True)
    assert made.startswith(b"%PDF")
    assert len(made) > 50_000  # with pictures
    theme, classes = page.title().split(",")
    assert theme == "light"
    assert "printing" in classes
    wait_for(page, "() => !document.querySelector('.printing')")


def test_on_paper_the_colours_still_have_their_meaning(page):
    """A browser leaves backgrounds out: the scale, its swatches and dots stay."""
    wait_for_picture(page)
    page.emulate_media(media="print")
    for selector in (".ramp", ".swatch i", ".clipkey", ".dot"):
        kept = page.eval_on_selector(
            selector, "(it) => getComputedStyle(it).printColorAdjust"
        )
        assert kept == "exact", selector
    heading = "() => getComputedStyle(document.querySelector('.report h2')).breakAfter"
    assert page.evaluate(heading) == "avoid"


# What is written on canvases, by their class or the class of what holds them.
WRITTEN = """
() => {
  window.written = { plot: new Set(), flow: new Set() };
  const draw = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
    for (const [name, texts] of Object.entries(window.written))
      if (this.canvas.closest("." + name)) texts.add(text);
    return draw.call(this, text, ...rest);
  };
  document.querySelector(".toolbar button").click();  // the other theme
}
"""


def explode(step, rows):
    rows[:, AT["norm"]] = 10.0 ** (step / 2.2)


DENSE = Layout(
    tuple(f"dense_{n}/{own}" for n in range(5) for own in ("kernel", "bias")),
    ("weight",) * 10,
    (64, 8) * 5,
)


@pytest.fixture
def odd(tmp_path, open_page):
    """A report of a run that is well, one that explodes, and one without a record."""
    paths = [tmp_path / name for name in ("well", "sick", "never")]
    head = Layout(("head/kernel", "out/kernel"), ("weight",) * 2, (8, 8))
    write_run(paths[0], steps=20, layout=head, plant=None, findings=False)
    write_run(paths[1], steps=20, layout=DENSE, plant=explode)
    with RunWriter(paths[2]) as writer:
        writer.note("run", {"model": "made up"})
    report = write_report(paths, tmp_path / "report.html")
    page, _ = open_page(report.as_uri(), report.as_uri())
    return page


def test_the_sick_run_is_beside_another_one(odd):
    """It is what the charts begin with, wherever it stands; never beside itself."""
    wait_for_picture(odd)
    assert odd.locator("select").first.input_value() == "sick"
    assert odd.inner_text(".maptitles").split() == ["sick", "well"]
    # What is chosen is a row of it: a histogram without an address would be blank.
    assert odd.inner_text(".address").startswith("dense_0/kernel")
    odd.click(".labels button >> text=head/kernel")
    wait_for(
        odd,
        "() => document.querySelector('.none:not([hidden])')?.textContent ==="
        " 'sick does not have it.'",
    )


def test_an_axis_of_many_powers_of_ten_has_numbers(tmp_path, open_page):
    """And what stands below the flow can be told apart."""
    write_run(tmp_path / "run", steps=20, layout=DENSE, plant=explode)
    report = write_report([tmp_path / "run"], tmp_path / "report.html")
    page, _ = open_page(report.as_uri(), report.as_uri())
    wait_for_picture(page, ".plot canvas")
    page.evaluate(WRITTEN)
    wait_for(page, "() => window.written.plot.size > 4 && window.written.flow.size > 9")
    assert {"10⁴", "10⁶"} <= set(page.evaluate("() => [...written.plot]"))
    below = set(page.evaluate("() => [...written.flow]"))
    assert {f"de…{n}/kernel" for n in range(5)} <= below


def test_large_numbers_are_those_of_the_run(tmp_path, open_page):
    """Five digits are shown of them, on the axis and in the numbers."""

    def plant(step, rows):
        rows[:, AT["norm"]] = np.linspace(0.775, 2.42, 20)[step // 10]
        rows[:, AT["max"]] = 45_129.0
        rows[:, AT["min"]] = 0.0

    write_run(tmp_path / "run", steps=200, every=10, layout=DENSE, plant=plant)
    report = write_report([tmp_path / "run"], tmp_path / "report.html")
    page, _ = open_page(report.as_uri(), report.as_uri())
    wait_for_picture(page, ".plot canvas")
    wait_for(
        page,
        "() => document.querySelector(\"[data-quantity='largest']\").textContent ==="
        " '45129'",
    )
    page.evaluate(WRITTEN)
    wait_for(page, "() => window.written.plot.size > 4")
    assert {"4", "6", "8"} <= set(page.evaluate("() => [...written.plot]"))


def test_a_run_without_a_record_says_so(odd):
    """It is in the report: that nothing was recorded is worth knowing."""
    wait_for_picture(odd)
    odd.select_option("select >> nth=0", "never")
    wait_for(
        odd,
        "() => document.querySelector('.empty:not([hidden])')?.textContent ==="
        " 'Nothing was recorded'",
    )


def test_the_steps_of_a_tall_map_stay_in_sight(tmp_path, open_page):
    """Of hundreds of rows some are shown; below them stands when it was."""
    write_run(tmp_path / "run", steps=20, layout=layout_of(200), findings=False)
    report = write_report([tmp_path / "run"], tmp_path / "report.html")
    page, _ = open_page(report.as_uri(), report.as_uri())
    wait_for_picture(page)
    inside = """() => {
      const box = document.querySelector(".scroller").getBoundingClientRect();
      const steps = document.querySelector(".steps").getBoundingClientRect();
      const map = document.querySelector(".heat").getBoundingClientRect();
      return map.bottom > box.bottom + 50 && Math.abs(steps.bottom - box.bottom) < 2;
    }"""
    wait_for(page, inside)
