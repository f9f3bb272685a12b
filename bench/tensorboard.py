"""How fast the Gradients tab is: 500 variables × 20,000 steps.

Run `python -m bench.tensorboard`. It writes such a run (600 MB), serves it with
TensorBoard, and opens the tab in headless Chromium if there is one. The goals are of
the issue: the first picture within a second, panning within 50 ms.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != HERE]
sys.path.insert(0, str(HERE.parent))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import argparse  # noqa: E402
import re  # noqa: E402
import shutil  # noqa: E402
import statistics  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
import urllib.request  # noqa: E402

import numpy as np  # noqa: E402

from bench._timing import machine  # noqa: E402
from gradwatch.run import Layout, Record, RunWriter  # noqa: E402
from gradwatch.summarise import COLUMNS  # noqa: E402

# TensorBoard starts faster without a TensorFlow, which this does not need.
START = (
    "import sys; sys.modules['tensorflow'] = None\n"
    "from tensorboard.main import run_main; run_main()"
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
]


def write(folder, variables, steps):
    """A run of this size; one NaN in it must be seen."""
    names = tuple(
        f"stage_{i // 50}/conv_{i // 2}/{('kernel', 'bias')[i % 2]}"
        for i in range(variables)
    )
    layout = Layout(names, ("weight",) * variables, (1024,) * variables)
    random = np.random.default_rng(0)
    many = np.exp(random.normal(size=(64, variables, len(COLUMNS))))
    for name in ("zeros", "underflow", "nan", "posinf", "neginf"):
        many[..., COLUMNS.index(name)] = 0
    with RunWriter(folder / "run") as writer:
        for step in range(steps):
            rows = many[step % 64] * (0.5 + random.random())
            rows[7, COLUMNS.index("nan")] = step == steps // 2
            totals = {"global_norm": 1.0 + random.random(), "clipped": step % 3 == 0}
            writer.write(Record(step, layout, rows, None, totals))


def start(folder, fast):
    """A TensorBoard process and its address."""
    said = (folder / "tensorboard.log").open("w+")
    command = [sys.executable, "-c", START, "--port", "0", "--host", "127.0.0.1"]
    command += ["--logdir", str(folder), "--load_fast", fast]
    process = subprocess.Popen(command, stdout=said, stderr=said)
    while process.poll() is None:
        time.sleep(0.05)
        said.seek(0)
        if found := re.search(r" at (http://\S+)", said.read()):
            return process, found[1] + "data/plugin/gradwatch/"
    raise SystemExit("TensorBoard did not start.")


def get(url):
    """The bytes of an answer, and its milliseconds."""
    began = time.perf_counter()
    with urllib.request.urlopen(url) as answer:
        data = answer.read()
    return data, 1e3 * (time.perf_counter() - began)


def on_the_server(base, steps):
    """What single answers take, once the run is in memory."""
    while b'"read": 1.0' not in get(f"{base}run?run=run")[0]:
        pass
    heat = f"{base}heat?run=run&quantity="
    for quantity in ("norm", "update_ratio", "noise"):
        # Each a step shorter: what was asked before would come from memory.
        ends = range(steps - 1, steps - 10, -1)
        urls = [f"{heat}{quantity}&from=0&to={end}&buckets=900" for end in ends]
        times = [get(url)[1] for url in urls]
        print(f"  all steps, {quantity}: {statistics.median(times):.0f} ms")
    times, sizes = [], []
    for at in range(0, steps - 2000, steps // 40):
        data, ms = get(f"{heat}norm&from={at}&to={at + 2000}&buckets=1200")
        times.append(ms)
        sizes.append(len(data))
    print(
        f"  2,000 steps anywhere: {statistics.median(times):.0f} ms "
        f"(worst {max(times):.0f}), {np.mean(sizes) / 1024:.0f} KB"
    )


def in_the_browser(base):
    """From opening the tab to its first picture; then from a key to the next frame."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if path is None:
        print("  no browser: set CHROMIUM")
        return
    from playwright.sync_api import sync_playwright

    entry = base.replace("plugin/gradwatch/", "plugin_entry.html?name=gradwatch")
    painted = """() => {
      const canvas = document.querySelector(".heat");
      if (!canvas || canvas.width < 50) return false;
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, 60);
      return new Set(new Uint32Array(data.buffer)).size > 20;
    }"""
    pan = """async () => {
      const canvas = document.querySelector(".heat");
      const press = (key) =>
        canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
      const frame = () => new Promise((done) => requestAnimationFrame(done));
      for (const key of ["Home", "+", "+", "+"]) { press(key); await frame(); }
      await new Promise((done) => setTimeout(done, 1500));
      const times = [];
      for (let i = 0; i < 30; i++) {
        const began = performance.now();
        press(i % 2 ? "PageDown" : "PageUp");
        await frame();
        canvas.getContext("2d").getImageData(0, 0, 1, 1);
        times.push(performance.now() - began);
        await new Promise((done) => setTimeout(done, 60));
      }
      return times;
    }"""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        for what in ("cold", "warm", "warm"):
            page = browser.new_page(viewport={"width": 1440, "height": 1000})
            began = time.perf_counter()
            page.goto(entry)
            page.wait_for_function(painted, polling=20)
            seconds = time.perf_counter() - began
            print(f"  first picture, {what}: {seconds:.2f} s")
            page.wait_for_selector(".status.live", timeout=60_000)
            if what == "warm":
                times = page.evaluate(pan)
                print(
                    f"  panning, to the next frame: {statistics.median(times):.0f} ms "
                    f"(worst {max(times):.0f})"
                )
            page.close()
        browser.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variables", type=int, default=500)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--load_fast", default="true", choices=("true", "false"))
    parser.add_argument("--keep", type=Path, help="where to keep the run for next time")
    asked = parser.parse_args()
    print(f"{asked.variables} variables × {asked.steps:,} steps; {machine()}")
    with tempfile.TemporaryDirectory() as made:
        folder = asked.keep or Path(made)
        if not (folder / "run").exists():
            write(folder, asked.variables, asked.steps)
        process, base = start(folder, asked.load_fast)
        try:
            while b'"run"' not in get(f"{base}runs")[0].partition(b"quantities")[0]:
                time.sleep(0.2)
            in_the_browser(base)
            on_the_server(base, asked.steps)
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
