"""The numbers of a record once more, slowly and in float64."""

import math

import numpy as np


def columns(gradient):
    """The first eleven columns of an array of float32, one element at a time."""
    size = gradient.size
    everything = [float(number) for number in gradient.ravel()]
    finite = [number for number in everything if math.isfinite(number)]
    many = len(finite)
    mean = math.fsum(finite) / many if many else math.nan
    # A float32 squared is a float64 without overflow and without underflow.
    return {
        "norm": math.sqrt(math.fsum(n * n for n in finite)) if many else math.nan,
        "mean": mean,
        "std": math.sqrt(math.fsum((n - mean) ** 2 for n in finite) / many)
        if many
        else math.nan,
        "min": min(finite, default=math.nan),
        "max": max(finite, default=math.nan),
        "mean_abs": math.fsum(map(abs, finite)) / many if many else math.nan,
        "zeros": sum(n == 0 for n in finite) / size,
        "underflow": sum(n != 0 and abs(n) <= 2.0**-25 for n in finite) / size,
        "nan": sum(math.isnan(n) for n in everything),
        "posinf": everything.count(math.inf),
        "neginf": everything.count(-math.inf),
    }


def histogram(gradient, edges):
    """Counts by sign and octave, one element at a time."""
    counts = [0] * (len(edges) - 1)
    middle = len(counts) // 2
    for number in (float(n) for n in gradient.ravel()):
        if number == 0 or not math.isfinite(number):
            continue
        octave = math.frexp(abs(number))[1] - 1
        place = min(max(octave, -40), 23) + 40
        counts[middle + place if number > 0 else middle - 1 - place] += 1
    return counts


def norm(array):
    return math.sqrt(math.fsum(float(n) ** 2 for n in np.ravel(array)))


def clipped(gradients, clipnorm=None, global_clipnorm=None, clipvalue=None):
    """What the three kinds of clipping make of the gradients, which are by name."""
    if clipvalue is not None:
        return {n: np.clip(g, -clipvalue, clipvalue) for n, g in gradients.items()}
    together = math.sqrt(sum(norm(g) ** 2 for g in gradients.values()))
    found = {}
    for name, gradient in gradients.items():
        limit = clipnorm if clipnorm is not None else global_clipnorm
        length = norm(gradient) if clipnorm is not None else together
        found[name] = gradient * (limit / max(length, limit))
    return found
