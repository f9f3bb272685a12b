"""The report in a real browser, from disk and without a network."""

import pytest

from gradwatch.show._format import number, percent
from gradwatch.show.report import write_report

from .made_up import AT, EVIL
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
