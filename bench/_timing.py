"""Timing side by side: contestants take turns, so that noise hits all alike."""

from __future__ import annotations

import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

CPU = " (processor)"


def interleave(
    contestants: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    warmup: int = 3,
    most: float = math.inf,
) -> dict[str, list[float]]:
    """Runs each contestant once per round, in rotating order.

    After `most` seconds no further round begins; one is always run to its end, so that
    everybody has run as often.

    Returns the seconds of each run: on the clock, and under `name + CPU` of the
    processor, which other programs on the machine hardly change.
    """
    for run in contestants.values():
        for _ in range(warmup):
            run()
    names = list(contestants)
    seconds: dict[str, list[float]] = {}
    began = time.perf_counter()
    for number in range(rounds):
        if number and time.perf_counter() - began > most:
            break
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            start, cpu = time.perf_counter(), time.process_time()
            contestants[name]()
            cpu, start = time.process_time() - cpu, time.perf_counter() - start
            seconds.setdefault(name, []).append(start)
            seconds.setdefault(name + CPU, []).append(cpu)
    return seconds


def ratios(
    seconds: Mapping[str, list[float]], base: str
) -> dict[str, dict[str, float]]:
    """Returns for each contestant the best time and ratios to the base.

    `ratio` compares the best quarter of each, which on a noisy machine is steadier
    than a single best and not fooled by pauses.
    """
    quick = {name: _best_quarter(times) for name, times in seconds.items()}
    return {
        name: {
            "ms": quick[name] * 1e3,
            "best_ms": min(times) * 1e3,
            "ratio": quick[name] / quick[base],
            "cpu_ratio": quick[name + CPU] / quick[base + CPU],
        }
        for name, times in seconds.items()
        if not name.endswith(CPU)
    }


def _best_quarter(times: list[float]) -> float:
    ordered = sorted(times)
    return statistics.fmean(ordered[: max(1, len(ordered) // 4)])


def machine() -> str:
    """Describes the machine in a line, without names or paths."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}"
