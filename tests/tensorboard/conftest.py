"""A real TensorBoard, and a real browser where there is one."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from .made_up import layout_of, plant_faults, write_run

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
    *("--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
NO_BROWSER = (
    "NO BROWSER: the Gradients tab and the report are NOT tested. Install Chromium "
    "(Debian: `apt-get install chromium`), or point CHROMIUM at one."
)

PATIENCE = 180
"""Seconds that nothing takes here, also where two cores do the work of ten."""

# The pages know nothing of backends: once is enough.
if os.environ.get("KERAS_BACKEND", "tensorflow") != "tensorflow":
    collect_ignore = ["test_tab.py", "test_report_page.py"]


def chromium():
    """Where the browser is; None if there is none."""
    named = os.environ.get("CHROMIUM")
    return named or next(filter(None, map(shutil.which, BROWSERS)), None)


def pytest_terminal_summary(terminalreporter):
    """Says it loudly, below everything else: a green run did not look at the pages."""
    skipped = terminalreporter.stats.get("skipped", [])
    if any(NO_BROWSER in str(report.longrepr) for report in skipped):
        terminalreporter.write_line(NO_BROWSER, red=True, bold=True)


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium. Without it tests are skipped, but never in CI."""
    path = chromium()
    if path is None:
        if os.environ.get("CI"):
            pytest.fail(NO_BROWSER)
        pytest.skip(NO_BROWSER)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=FLAGS, timeout=1000 * PATIENCE
        )
        yield browser
        browser.close()


class Watched:
    """What a page did that it should not: errors, dialogs, requests to elsewhere."""

    def __init__(self, page, home):
        self.faults = []
        self.requests = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("dialog", self._dialog)
        page.on("request", lambda request: self._request(request.url, home))

    def _console(self, message):
        # A browser asks for the icon of a page by itself.
        icon = message.location.get("url", "").endswith("/favicon.ico")
        if message.type == "error" and not icon:
            self.faults.append(f"console: {message.text}")

    def _dialog(self, dialog):
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, url, home):
        self.requests.append(url)
        if not url.startswith((home, "data:", "blob:")):
            self.faults.append(f"request: {url}")


@pytest.fixture
def open_page(browser):
    """Opens a page that is watched; whatever it did wrong fails the test at its end."""
    with contextlib.ExitStack() as stack:
        opened = []

        def open_page(url, home, *, wait=".labels button", **options):
            options = {"viewport": {"width": 1280, "height": 900}, **options}
            context = browser.new_context(**options)
            stack.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(1000 * PATIENCE)
            watched = Watched(page, home)
            opened.append(watched)
            page.goto(url)
            page.wait_for_selector(wait)
            return page, watched

        yield open_page
        assert [fault for watched in opened for fault in watched.faults] == []


# A TensorFlow that TensorBoard finds takes seconds to load, and is not needed.
START = """
import sys
sys.modules["tensorflow"] = None
from tensorboard.main import run_main
run_main()
"""


@contextlib.contextmanager
def tensorboard(*args):
    """A TensorBoard process, as a user starts it; gives its address."""
    command = [sys.executable, "-c", START, "--port", "0", "--host", "127.0.0.1"]
    command += ["--reload_interval", "1", *map(str, args)]
    with tempfile.TemporaryDirectory() as place:
        # Read by a name, not by what the process writes to: they would share a place.
        said = Path(place) / "said"
        with said.open("w") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file)
        try:
            address = None
            while address is None and process.poll() is None:
                time.sleep(0.05)
                address = re.search(r" at (http://\S+)\s", said.read_text())
            assert address, said.read_text()
            yield address[1]
        finally:
            process.terminate()
            process.wait(PATIENCE)


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """A directory of runs, and the records of each."""
    root = tmp_path_factory.mktemp("runs")
    deep = layout_of(6)
    written = {
        "sick": write_run(root / "sick", layout=deep, plant=plant_faults, vanish=4.0),
        "nested/well": write_run(
            root / "nested" / "well",
            layout=deep,
            plant=None,
            findings=False,
            seed=1,
            steps=240,
            every=3,
        ),
    }
    return root, written


@pytest.fixture(scope="session")
def board(runs):
    """TensorBoard with its fast loader."""
    with tensorboard("--logdir", runs[0], "--load_fast", "true") as address:
        yield address
