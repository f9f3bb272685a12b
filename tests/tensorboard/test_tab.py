"""The Gradients tab in a real browser, served by a real TensorBoard process."""

import numpy as np
import pytest

from gradwatch.run import RunWriter
from gradwatch.show._format import number, percent

from .conftest import tensorboard
from .made_up import AT, EVIL, layout_of, record_of, write_run

# One worker, one TensorBoard, one browser for all of them.
pytestmark = pytest.mark.xdist_group("browser")

ENTRY = "data/plugin_entry.html?name=gradwatch"


def entry(board):
    """The tab without the page around it."""
    return board + ENTRY


def wait_for(page, script, *args):
    """Waits until the page answers truly."""
    page.wait_for_function(script, arg=list(args) if args else None)


def step_of(page):
    return int(page.inner_text(".steptext").removeprefix("step ").replace(",", ""))


def wait_for_step(page, step):
    wait_for(
        page,
        "([s]) => document.querySelector('.steptext').textContent === `step ${s}` &&"
        " document.querySelector('.numbers thead').textContent.endsWith(`step ${s}`)",
        f"{step:,}",
    )


def shown(page, quantity):
    return page.inner_text(f".numbers td[data-quantity='{quantity}']")


# How many colours a canvas has: a picture has many, an empty one has one.
COLOURS = """
(selector) => {
  const canvas = document.querySelector(selector);
  if (!canvas || !canvas.width) return 0;
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  return new Set(new Uint32Array(data.buffer)).size;
}
"""


def wait_for_picture(page, selector=".heat"):
    """Waits until a canvas is drawn: its numbers come by themselves."""
    page.wait_for_function(f"(selector) => ({COLOURS})(selector) > 8", arg=selector)


def wait_for_tooltip(page, text):
    """Waits until the box at the pointer says it."""
    wait_for(
        page,
        "([text]) => { const box = document.querySelector('.tooltip');"
        " return !box.hidden && box.textContent.includes(text); }",
        text,
    )


def wait_for_labels(page, count):
    wait_for(
        page,
        "([count]) => document.querySelectorAll('.labels button').length === count",
        count,
    )


# How many pixels of a canvas have exactly this colour.
PIXELS = """
([selector, [r, g, b]]) => {
  const canvas = document.querySelector(selector);
  if (!canvas || !canvas.width) return 0;
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  let found = 0;
  for (let i = 0; i < data.length; i += 4)
    found += data[i] === r && data[i + 1] === g && data[i + 2] === b;
  return found;
}
"""


def wait_for_colour(page, colour, selector=".heat"):
    """Waits until a canvas shows it: a busy machine draws a moment later."""
    rgb = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    wait_for(page, f"(asked) => ({PIXELS})(asked) >= 8", selector, rgb)


def test_the_tab_is_in_tensorboard_and_draws(board, open_page):
    """Installing is enough: the tab is there, and all its pictures appear in it."""
    page, _ = open_page(board, board, wait="text=Gradients")
    page.click("text=Gradients")
    frame = page.frame_locator("iframe[id='gradwatch'], iframe")
    frame.locator(".labels button").first.wait_for()
    [inner] = [f for f in page.frames if "plugin_entry" in f.url]
    for selector in (".heat", ".flow canvas", ".histogram canvas", ".plot canvas"):
        wait_for_picture(inner, selector)


def test_numbers_on_screen_are_numbers_of_the_run(board, runs, open_page):
    """Walking through records and lines, each cell of the table is what was written."""
    records = runs[1]["sick"]
    page, _ = open_page(entry(board), board)
    wait_for_step(page, records[-1].step)
    for index, line in ((99, 0), (30, 1), (7, 3)):
        page.click(f".label[data-row='{line}']")
        page.evaluate(
            """(index) => {
              const slider = document.querySelector(".slider");
              slider.value = index;
              slider.dispatchEvent(new Event("input", { bubbles: true }));
            }""",
            index,
        )
        wait_for_step(page, records[index].step)
        row = records[index].rows[line]
        assert page.inner_text("[data-address]") == records[0].layout.names[line]
        for name in ("norm", "mean_abs", "std", "weight_norm", "update_norm"):
            assert shown(page, name) == number(float(row[AT[name]])), name
        assert shown(page, "zeros") == percent(float(row[AT["zeros"]]))
    wait_for(
        page,
        "([norm]) => document.querySelector('.readout b').textContent === norm",
        number(records[7].totals["global_norm"]),
    )


def test_what_is_not_finite_is_seen_in_its_own_colour(board, open_page):
    """NaN, plus and minus infinity, also where many steps share a column."""
    page, _ = open_page(entry(board), board, viewport={"width": 1100, "height": 800})
    for colour in ("#C1121F", "#E69F00", "#CC79A7"):  # of show/palette.py
        wait_for_colour(page, colour)
    page.select_option("#gw-quantity", "zeros")
    wait_for(
        page, "() => document.querySelector('.legend .name').textContent==='% zero'"
    )
    wait_for_colour(page, "#C1121F")


def test_a_click_on_a_finding_goes_to_its_layer_and_step(board, runs, open_page):
    """The table, the slider and the stretch of steps all move there."""
    records = runs[1]["sick"]
    page, _ = open_page(entry(board), board)
    page.fill("#gw-filter", "head")
    wait_for_labels(page, 2)
    page.click("[data-symptom='nonfinite']")
    wait_for_step(page, 130)
    assert page.inner_text("[data-address]") == records[0].layout.names[2]
    assert shown(page, "nonfinite") == "3 NaN"
    assert page.input_value("#gw-filter") == ""
    thumb = page.evaluate("() => document.querySelector('.thumb').style.width")
    assert float(thumb.rstrip("%")) < 60
    assert "Try first" in page.inner_text(".findings .more >> visible=true")
    page.click("text=All")
    wait_for(page, "() => document.querySelector('.thumb').style.width === '100%'")


def test_a_finding_opens_also_after_news(board, open_page):
    """The tab looks for news every two seconds; the list is then of new objects."""
    page, _ = open_page(entry(board), board)
    for _ in range(2):
        with page.expect_response(lambda answer: "/run?" in answer.url):
            pass
    page.wait_for_timeout(200)
    page.click("[data-symptom='vanishing']")
    page.wait_for_selector("[data-symptom='vanishing'][aria-pressed='true']")
    assert "Try first" in page.inner_text(".findings .more >> visible=true")


def test_a_click_on_a_cell_goes_to_the_record_it_shows(board, open_page):
    """The cell of a NaN leads to the step of the NaN."""
    page, _ = open_page(entry(board), board)
    wait_for_colour(page, "#C1121F")
    box = page.locator(".heat").bounding_box()
    rows = page.locator(".labels button").count()
    row_height = (box["height"] - 22) / rows
    at = {"x": box["width"] * 130.5 / 199, "y": 2.5 * row_height}
    page.locator(".heat").hover(position=at)
    wait_for_tooltip(page, "holds NaN")
    page.locator(".heat").click(position=at)
    wait_for_step(page, 130)
    assert shown(page, "nonfinite") == "3 NaN"


def test_a_name_that_looks_like_html_is_text_everywhere(board, open_page):
    """It is read on the screen, and nothing of it is an element."""
    page, _ = open_page(entry(board), board)
    page.fill("#gw-filter", "onerror")
    wait_for_labels(page, 2)
    label = page.locator(".labels button").first
    assert label.get_attribute("title") == f"{EVIL}/kernel"
    label.click()
    wait_for(
        page,
        "([name]) => document.querySelector('[data-address]').textContent === name",
        f"{EVIL}/kernel",
    )
    page.locator(".heat").hover(position={"x": 40, "y": 8})
    wait_for_tooltip(page, EVIL)
    assert page.locator("img").count() == 0


def test_filter_and_blocks_choose_the_rows(board, open_page):
    """Words must all be in an address; blocks gather neighbours."""
    page, _ = open_page(entry(board), board)
    everything = page.locator(".labels button").count()
    page.fill("#gw-filter", "conv_* kernel")
    wait_for_labels(page, 6)
    page.fill("#gw-filter", "")
    wait_for_labels(page, everything)
    page.check("#gw-grouped")
    wait_for(
        page,
        "([all]) => document.querySelectorAll('.labels button').length < all",
        everything,
    )
    labels = page.locator(".labels button").all_inner_texts()
    assert labels[:2] == ["stage_0/conv (4)", "stage_1/conv (2)"]
    wait_for_picture(page)


def test_it_is_reachable_by_keyboard(board, runs, open_page):
    """Arrows walk over rows and records, plus zooms, tab reaches every control."""
    records = runs[1]["sick"]
    page, _ = open_page(entry(board), board)
    wait_for_step(page, records[-1].step)
    page.focus(".heat")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    wait_for_step(page, records[-2].step)
    assert page.inner_text("[data-address]") == records[0].layout.names[1]
    page.keyboard.press("Home")
    wait_for_step(page, 0)
    page.keyboard.press("+")
    wait_for(page, "() => document.querySelector('.thumb').style.width === '50%'")
    page.keyboard.press("0")
    wait_for(page, "() => document.querySelector('.thumb').style.width === '100%'")
    reached = set()
    page.focus("#gw-run")
    for _ in range(45):
        reached.add(
            page.evaluate(
                "() => document.activeElement.id ||"
                " document.activeElement.getAttribute('aria-label') ||"
                " document.activeElement.className"
            )
        )
        page.keyboard.press("Tab")
    expected = {"gw-quantity", "gw-filter", "gw-grouped", "finding", "Play", "Zoom in"}
    assert expected <= reached, reached


def test_play_goes_through_the_records_until_paused(board, open_page):
    """From the last record it begins anew; the pictures follow."""
    page, _ = open_page(entry(board), board)
    wait_for_step(page, 198)
    page.click("[aria-label='Play']")
    # Paused by the page itself: whoever looks from outside may come when all is over.
    wait_for(
        page,
        "() => { const step = Number(document.querySelector('.steptext').textContent"
        ".replace('step ', '')); if (step <= 4 || step >= 190) return false;"
        " document.querySelector(\"[aria-label='Pause']\").click(); return true; }",
    )
    wait_for(  # an answer may be on its way
        page,
        "() => { const at = 2 * Number(document.querySelector('.slider').value);"
        " return document.querySelector('.steptext').textContent === `step ${at}` &&"
        " document.querySelector('.flow canvas').getAttribute('aria-label') ==="
        " `gradient flow along depth at step ${at}`; }",
    )
    step = step_of(page)
    page.wait_for_timeout(500)
    assert step_of(page) == step
    assert page.locator("[aria-label='Play']").count() == 1


def test_two_runs_side_by_side_and_their_difference(board, runs, open_page):
    """Both maps and both columns of numbers; then one map of ratios."""
    page, _ = open_page(entry(board), board)
    wait_for_step(page, runs[1]["sick"][-1].step)
    page.select_option("#gw-other", "nested/well")
    wait_for(page, "() => document.querySelectorAll('.heat').length === 2")
    wait_for(page, "() => document.querySelectorAll('.numbers thead th').length === 3")
    page.wait_for_function(
        "() => document.querySelectorAll(\"[data-quantity='norm']\")[1]"
        ".textContent !== '—'"
    )
    cells = page.locator("[data-quantity='norm']").all_inner_texts()
    sick, well = runs[1]["sick"], runs[1]["nested/well"]
    same = max(r.step for r in well if r.step <= sick[-1].step)
    twin = next(r for r in well if r.step == same)
    assert cells[0] == number(float(sick[-1].rows[0, AT["norm"]]))
    assert cells[1] == number(float(twin.rows[0, AT["norm"]]))
    page.select_option("#gw-view", "difference")
    wait_for(page, "() => document.querySelectorAll('.heat').length === 1")
    page.wait_for_selector(".legend:has-text('second ÷ first')")
    wait_for_picture(page)


def test_light_and_dark(board, open_page):
    """As the system is, and as the button says."""
    for scheme, ink in (("light", "rgb(31, 35, 40)"), ("dark", "rgb(230, 234, 238)")):
        page, _ = open_page(entry(board), board, color_scheme=scheme)
        colour = "() => getComputedStyle(document.body).color"
        assert page.evaluate(colour) == ink
        page.click("[aria-label='Light or dark']")
        wait_for(page, "([ink]) => getComputedStyle(document.body).color !== ink", ink)


def test_other_kinds_of_lines(board, runs, open_page):
    """Activations have their gradients and their values; ratios only weights have."""
    page, _ = open_page(entry(board), board)
    page.select_option("#gw-quantity", "update_ratio")
    page.select_option("#gw-kind", "activation")
    page.wait_for_selector(".details .quiet:has-text('its gradient')")
    layout = runs[1]["sick"][0].layout
    names = [n for n, k in zip(layout.names, layout.kinds, strict=True) if k == "value"]
    assert page.inner_text("[data-address]") == names[0]
    options = page.locator("#gw-quantity option").all_inner_texts()
    assert "norm" in options
    assert "update ratio" not in options


def test_slow_loader_prefix_and_several_directories(runs, open_page, tmp_path):
    """The Python loader, below a path, with two named directories."""
    root, written = runs
    write_run(tmp_path / "more", steps=6, every=1)
    args = ("--load_fast", "false", "--path_prefix", "/below/here")
    spec = f"first:{root / 'sick'},second:{tmp_path}"
    with tensorboard("--logdir_spec", spec, *args) as address:
        page, watched = open_page(entry(address), address)
        # This loader tells of a run when it has read it.
        wait_for(page, "() => document.querySelectorAll('#gw-run option').length > 1")
        runs_shown = page.locator("#gw-run option").all_inner_texts()
        assert runs_shown == ["first/.", "second/more"]  # as TensorBoard names them
        page.select_option("#gw-run", "first/.")
        wait_for_step(page, written["sick"][-1].step)
        norm = written["sick"][-1].rows[0, AT["norm"]]
        assert shown(page, "norm") == number(float(norm))
        assert all(url.startswith(address) for url in watched.requests)
        page.close()  # before there is nobody who answers it


def test_it_follows_a_training_and_says_how_to_begin(open_page, tmp_path):
    """First nothing, then a run appears, then it grows: no reload is needed."""
    with tensorboard("--logdir", tmp_path) as address:
        page, _ = open_page(entry(address), address, wait=".empty pre")
        assert "GradientMonitor" in page.inner_text(".empty")
        layout = layout_of(3)
        random = np.random.default_rng(0)
        with RunWriter(tmp_path / "live") as writer:
            for step in range(3):
                writer.write(record_of(step, layout, random))
            wait_for(
                page,
                "() => document.querySelector('.status').textContent === '3 records'",
            )
            for step in range(3, 9):
                writer.write(record_of(step, layout, random))
            wait_for_step(page, 8)
            writer.finding(8, {"symptom": "clipping", "since": 2, "step": 8})
            page.wait_for_selector("[data-symptom='clipping']")
            for step in range(9, 12):  # which brings the finding once more
                writer.write(record_of(step, layout, random))
            records = "document.querySelector('.status').textContent"
            wait_for(page, f"() => {records} === '12 records'")
            page.click("[data-symptom='clipping']")
            page.wait_for_selector("[data-symptom='clipping'][aria-pressed='true']")
        page.close()  # before there is nobody who answers it


def test_a_finding_says_until_when_it_held(open_page, tmp_path):
    """A run that recovered says so; without `until`, or with null, it still holds."""
    layout, random = layout_of(3), np.random.default_rng(0)
    with RunWriter(tmp_path / "run") as writer:
        for step in range(9):
            writer.write(record_of(step, layout, random))
        for symptom, own in (
            ("clipping", {}),
            ("noise", {"until": None}),
            ("vanishing", {"until": 6}),
            ("exploding", {"until": 0}),
        ):
            writer.finding(8, {"symptom": symptom, "since": 0, "step": 8, **own})
    with tensorboard("--logdir", tmp_path) as address:
        page, _ = open_page(entry(address), address, wait="[data-symptom='exploding']")
        assert page.locator(".finding .meta").all_inner_texts() == [
            "clipping · since step 0",
            "noise · since step 0",
            "vanishing · since step 0 until step 6",
            "exploding · since step 0 until step 0",
        ]
        page.close()  # before there is nobody who answers it


def test_it_says_so_when_tensorboard_does_not_answer(board, open_page):
    """As long as that lasts, and not only for a moment."""
    page, watched = open_page(entry(board), board)
    page.context.set_offline(True)
    gone = "() => document.querySelector('.status.bad')?.textContent ?? ''"
    wait_for(page, f"() => ({gone})().startsWith('TensorBoard does not answer')")
    page.select_option("#gw-quantity", "zeros")
    page.wait_for_timeout(500)
    assert page.evaluate(gone)
    page.context.set_offline(False)
    wait_for(
        page, "() => document.querySelector('.status').textContent === '100 records'"
    )
    assert all("ERR_INTERNET_DISCONNECTED" in fault for fault in watched.faults)
    watched.faults.clear()


def test_a_filter_that_nothing_matches_says_so(board, open_page):
    """Instead of empty cards, which look broken."""
    page, _ = open_page(entry(board), board)
    page.fill("#gw-filter", f"nobody {EVIL}")
    page.wait_for_selector(".none:has-text('No address has')")
    assert EVIL in page.inner_text(".none >> visible=true >> nth=0")
    page.fill("#gw-filter", "")
    wait_for(page, "() => document.querySelectorAll('.labels button').length > 2")
    assert page.locator(".none:has-text('No address has')").is_hidden()


def test_the_mark_of_a_finding_leaves_its_cell_to_be_seen(board, open_page):
    """The frame is around the NaN: the layer above it is clear in the middle."""
    page, _ = open_page(entry(board), board)
    wait_for_colour(page, "#C1121F")
    wait_for_picture(page, ".over")
    covered = page.evaluate(
        """([step]) => {
          const { width, height } = document.querySelector(".heat");
          const over = document.querySelector(".over").getContext("2d");
          const rows = document.querySelectorAll(".labels button").length;
          const tall = (height - 22) / rows;
          const y = Math.round(2.5 * tall);
          const cell = [step, step + 2].map((s) => Math.round((s / 199) * width));
          const { data } = over.getImageData(cell[0], y, cell[1] - cell[0], 1);
          return data.filter((value, i) => i % 4 === 3 && value > 0).length;
        }""",
        [130],
    )
    assert covered <= 1  # where a line begins within a pixel


def test_a_block_is_told_as_it_is_drawn(board, runs, open_page):
    """Below the pointer is the largest of its lines, not the first of them."""
    record = runs[1]["sick"][-1]
    page, _ = open_page(entry(board), board)
    wait_for_step(page, record.step)
    page.check("#gw-grouped")
    wait_for(
        page,
        "() => document.querySelector('.labels button').textContent.endsWith('(4)')",
    )
    page.hover(".flow canvas", position={"x": 50, "y": 100})
    page.wait_for_selector(".tooltip >> text=mean |g|")
    largest = float(record.rows[:4, AT["mean_abs"]].max())
    assert largest > record.rows[0, AT["mean_abs"]]
    wait_for_tooltip(page, f"mean |g| {number(largest)},")
