"""What TensorFlow finds in float64, written down for the other backends to find too.

One process has one backend, so the backends meet in a file. It is made anew by

    KERAS_BACKEND=tensorflow PYTHONPATH=src python -m tests.inspect.zoo.reference

and a diff of it is a change of names, numbers, reasons or messages: look at it.
"""

import json
from pathlib import Path

import numpy as np

import gradwatch as gw

from .addresses import drawn
from .cases import CASES, named
from .errors import MISTAKES, message
from .frameworks import BACKEND, array, double_precision
from .looks import look, look_at_waves, prepared

FILE = Path(__file__).with_name("reference.json")
KINDS = named("half", "large")
PROJECTIONS = (2, 3, 4)


def load():
    return json.loads(FILE.read_text(encoding="utf-8"))


def digest(name, gradient):
    """The norm and three projections: any other order of the numbers shows."""
    gradient = array(gradient)
    directions = [drawn(name, gradient.shape, seed) for seed in PROJECTIONS]
    return [np.linalg.norm(gradient), *(np.sum(gradient * d) for d in directions)]


def apart(found, expected, tolerance):
    """The names whose digests differ by more than rounding."""
    return [
        name
        for name, numbers in found.items()
        if not np.allclose(
            numbers,
            expected[name],
            rtol=0,
            # Projections of a gradient are of the size of its norm.
            atol=tolerance * (3 * expected[name][0] + 1e-3),
        )
    ]


def record(name):
    """All that must be the same on every backend for one kind of model.

    Backends draw different random numbers: kinds with dropout are looked at in
    inference mode.
    """
    random = "random" in CASES[name].tags
    gradients = (look_at_waves(name) if random else look(name)).gradients
    return {
        "value": float(array(gradients.value)),
        "gradients": {n: digest(n, g) for n, g in gradients.items()},
        "missing": {n: [r.cause, str(r)] for n, r in gradients.missing.items()},
    }


def main():
    assert BACKEND == "tensorflow", "The reference is made on TensorFlow."
    kinds = {name: record(name) for name in KINDS}
    with double_precision():
        model, x, y = prepared("mobilenet")
        found = gw.gradients(model, x, y, wrt=[gw.weights(), gw.inputs()])
        mobilenet = {name: digest(name, g) for name, g in found.items()}
    errors = {name: message(name) for name in MISTAKES}
    everything = {"kinds": kinds, "mobilenet": mobilenet, "errors": errors}
    FILE.write_text(in_lines(rounded(everything)) + "\n", encoding="utf-8")


def in_lines(item):
    """One line per name, so that a diff shows what changed."""
    text = json.dumps(item, ensure_ascii=False)
    for end, start in (("],", '"'), ("},", '"'), (":", '{"')):
        text = text.replace(f"{end} {start}", f"{end}\n{start}")
    return text


def rounded(item):
    if isinstance(item, float):
        return float(f"{item:.11e}")
    if isinstance(item, dict):
        return {key: rounded(value) for key, value in item.items()}
    return [rounded(value) for value in item] if isinstance(item, list) else item


if __name__ == "__main__":
    main()
