"""The cost of writing, reading and judging a run: 200 variables, no model.

Run `make bench`, or `python -m bench.run`. Goals: 0.2 ms and 40 KB to write and judge a
recorded step with histograms, a second to read a million numbers.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != HERE]
sys.path.insert(0, str(HERE.parent))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tempfile  # noqa: E402
import time  # noqa: E402

import numpy as np  # noqa: E402

from bench._timing import machine  # noqa: E402
from gradwatch.diagnose import RuleEngine  # noqa: E402
from gradwatch.run import Layout, Record, RunWriter, open_run  # noqa: E402
from gradwatch.summarise import BUCKETS, COLUMNS  # noqa: E402

VARIABLES = 200
BATCH = 32
"""Number of records that the worker writes at once."""
NAMES = tuple(f"block_{i}/{part}" for i in range(100) for part in ("kernel", "bias"))
LAYOUT = Layout(NAMES, ("weight",) * VARIABLES, (1024, 32) * 100)
FACTS = {
    "weights": {
        name: {"layer": name.partition("/")[0], "shape": [32, 32][: 1 + (size > 32)]}
        for name, size in zip(NAMES, LAYOUT.sizes, strict=True)
    }
}


def records(steps, *, histograms):
    """Numbers as a training has them: other ones at each step."""
    random = np.random.default_rng(0)
    octaves = np.exp(-((np.arange(BUCKETS // 2) - 32.0) ** 2) / 30)
    shape = np.concatenate([octaves[::-1], octaves])
    for step in range(steps):
        rows = np.exp(random.normal(size=(VARIABLES, len(COLUMNS))))
        for name in ("zeros", "underflow", "nan", "posinf", "neginf"):
            rows[:, COLUMNS.index(name)] = 0
        counts = None
        if histograms:
            counts = random.poisson(200 * shape, (VARIABLES, BUCKETS)).astype(np.uint32)
        totals = {
            "global_norm": 1.0,
            "weight_norm": 1.0,
            "update_norm": 1e-3,
            "update": 1.0,
            "loss": 1.0 / (step + 1),
        }
        yield Record(step, LAYOUT, rows, counts, totals)


def best(seconds):
    """The lower quartile, in milliseconds."""
    return 1e3 * float(np.quantile(seconds, 0.25))


def write(steps, folder, *, histograms, native):
    """Milliseconds to write a step, and its kilobytes."""
    every = 1.0 if native else None
    seconds = []
    waiting = list(records(steps, histograms=histograms))
    with RunWriter(folder, every) as writer:
        while waiting:
            batch, waiting = waiting[:BATCH], waiting[BATCH:]
            began = time.process_time()
            writer.write(*batch)
            seconds.append((time.process_time() - began) / len(batch))
    size = sum(file.stat().st_size for file in Path(folder).iterdir())
    return best(seconds), 1e3 * float(np.mean(seconds)), size / steps / 1024


def main():
    print(f"200 variables; {machine()}")
    for histograms in (False, True):
        for native in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                usual, mean, size = write(
                    300, folder, histograms=histograms, native=native
                )
            print(
                f"  write, {'with' if histograms else 'without'} histograms, "
                f"{'with' if native else 'without'} curves for TensorBoard: "
                f"{usual:.3f} ms (mean {mean:.3f}), {size:.1f} KB a step"
            )
    with tempfile.TemporaryDirectory() as folder:
        steps = 1_000_000 // (VARIABLES * len(COLUMNS))
        write(steps, folder, histograms=False, native=True)
        began = time.perf_counter()
        run = open_run(folder)
        norms = [run[name].norm for name in run.names]
        seconds = time.perf_counter() - began
        assert len(norms) == VARIABLES
        numbers = steps * VARIABLES * len(COLUMNS)
        print(f"  read {numbers:,} numbers and every series: {seconds:.2f} s")
    engine, seconds = RuleEngine(FACTS), []
    for record in records(2_000, histograms=False):
        began = time.process_time()
        engine.read(record)
        seconds.append(time.process_time() - began)
    for first, last in ((0, 256), (256, 1_000), (1_000, 2_000)):
        mean = 1e3 * float(np.mean(seconds[first:last]))
        print(f"  rules, records {first:,} to {last:,}: mean {mean:.3f} ms a record")


if __name__ == "__main__":
    main()
