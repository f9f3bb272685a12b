"""Timing side by side: contestants take turns, so that noise hits all alike."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path


def interleave(
    contestants: Mapping[str, Callable[[], object]], *, rounds: int, warmup: int = 3
) -> dict[str, list[float]]:
    """Runs each contestant once per round, in rotating order; returns seconds."""
    for run in contestants.values():
        for _ in range(warmup):
            run()
    names = list(contestants)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            start = time.perf_counter()
            contestants[name]()
            seconds[name].append(time.perf_counter() - start)
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
        }
        for name, times in seconds.items()
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
