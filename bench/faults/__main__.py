"""Trains the fault suite and counts how often the rules are right.

`make faults` runs it. Seeds up to 5 served to find families and rules; those from 6 on
are for counting.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import keras

from gradwatch import GradientMonitor
from gradwatch.run import Run, open_run

from ._case import Fault
from ._score import OURS, score, table
from ._suite import FAULTS

HELD_OUT = (6, 7)


def main() -> None:
    """Runs the suite."""
    parser = argparse.ArgumentParser(prog="bench.faults", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(HELD_OUT))
    parser.add_argument("--only", default="", help="families whose name holds this")
    parser.add_argument("--part", default="1/1", help="1/2: the first half of the runs")
    parser.add_argument("--keep", help="a directory in which runs are kept and reused")
    parser.add_argument("--train-only", action="store_true", help="count nothing")
    parser.add_argument("--jobs", type=int, default=1, help="processes that train")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = [(f, seed) for seed in args.seeds for f in FAULTS if args.only in f.name]
    part, parts = (int(number) for number in args.part.split("/"))
    chosen = chosen[part - 1 :: parts]
    folder = Path(args.keep or tempfile.mkdtemp())
    try:
        if args.jobs > 1:
            _train_in_parallel(args, folder)
        runs = _runs(chosen, folder)
        if args.train_only:
            for _ in runs:
                pass
            return
        scores = score(runs)
    finally:
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{keras.backend.backend()}, seeds {args.seeds}, {len(chosen)} runs\n")
    print(table(scores))
    ours = scores[OURS]
    print(f"\nhealthy runs alarmed within 50 steps: {ours.alarmed_soon}")
    for miss in ours.misses:
        print(f"  {miss.run}: missed {list(miss.missed)}, wrong {list(miss.wrong)}")


def _train_in_parallel(args: argparse.Namespace, folder: Path) -> None:
    """Has the runs trained by processes of their own, which leave them in a folder."""
    seeds = [str(seed) for seed in args.seeds]
    command = [sys.executable, "-m", "bench.faults", "--train-only"]
    command += ["--keep", str(folder), "--only", args.only, "--seeds", *seeds]
    # One thread each: the networks are small, and threads would wait for each other.
    alone = {"OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1"} | os.environ
    workers = [
        subprocess.Popen([*command, "--part", f"{part + 1}/{args.jobs}"], env=alone)
        for part in range(args.jobs)
    ]
    codes = [worker.wait() for worker in workers]
    if any(codes):
        raise SystemExit(max(codes))


def _runs(
    chosen: list[tuple[Fault, int]], folder: Path
) -> Iterator[tuple[Fault, str, Run]]:
    began = time.monotonic()
    for number, (fault, seed) in enumerate(chosen):
        name = f"{fault.name}-{seed}"
        directory = folder / name
        if not (directory / "done").exists():
            shutil.rmtree(directory, ignore_errors=True)
            monitor = GradientMonitor(
                directory, every=1, histograms=False, activations=True
            )
            fault.train(seed, [monitor])
            (directory / "done").touch()
            keras.utils.clear_session()  # hundreds of graphs would slow the next
        _progress(number + 1, len(chosen), began, name)
        yield fault, name, open_run(directory)


def _progress(done: int, of: int, began: float, name: str) -> None:
    left = (time.monotonic() - began) / done * (of - done)
    end = "\n" if done == of else ""
    if sys.stderr.isatty():
        text = f"\r{done}/{of}  {left / 60:4.1f} min left  {name:60.60}"
        print(text, end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
