"""What inspecting costs, side by side with the bare pass and the usual recipes.

Run `make bench`, or `python -m bench.inspect`. Ratios are to the bare compiled
value-and-gradient of all weights, measured in the same run, taking turns.
"""

import os
import sys
from pathlib import Path

# Started as a file, this folder would hide the standard library's `inspect`.
HERE = Path(__file__).resolve().parent
sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != HERE]
sys.path.insert(0, str(HERE.parent))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import argparse  # noqa: E402
import json  # noqa: E402
import subprocess  # noqa: E402
import time  # noqa: E402

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

import gradwatch as gw  # noqa: E402
from bench._models import mobilenet, transformer, two_layers  # noqa: E402
from bench._timing import interleave, machine, ratios  # noqa: E402

LIMITS = {
    "all weights and all activations": 1.25,
    "all weights and one layer": 1.08,
}
FIRST_LIMIT = 1.5


def bare(model, x, y, *, training):
    """The floor: loss and weight gradients in one `tf.function`, nothing else."""
    weights = [v.value for v in model.trainable_variables]

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = model.compute_loss(x, y, model(x, training=training))
        return loss, tape.gradient(loss, weights)

    x, y = tf.constant(x), tf.constant(y)
    return lambda: step(x, y)


def eager_tape(model, x, y, *, training):
    """The usual recipe, without `tf.function`."""
    weights = [v.value for v in model.trainable_variables]
    x, y = tf.constant(x), tf.constant(y)

    def step():
        with tf.GradientTape() as tape:
            loss = model.compute_loss(x, y, model(x, training=training))
        return loss, tape.gradient(loss, weights)

    return step


def probe_model(model, x, y, layer, *, training):
    """The recipe for activations: rebuild the model with one more output."""
    weights = [v.value for v in model.trainable_variables]
    x, y = tf.constant(x), tf.constant(y)

    def step():
        probe = keras.Model(
            model.inputs, [model.get_layer(layer).output, model.outputs[0]]
        )
        with tf.GradientTape() as tape:
            activation, output = probe(x, training=training)
            loss = model.compute_loss(x, y, output)
        return loss, tape.gradient(loss, [*weights, activation])

    return step


def contestants(model, x, y, layer, *, training):
    """Everybody who takes part, on tensors that are already on the device."""

    def ours(wrt):
        inspector = gw.Inspector(model, wrt=wrt, training=training)
        data = tf.constant(x), tf.constant(y)
        return lambda: inspector(*data)

    one, every = gw.activations(layer), gw.activations()
    return {
        "bare compiled pass": bare(model, x, y, training=training),
        "bare compiled pass, again": bare(model, x, y, training=training),
        "all weights": ours(gw.weights()),
        "all weights and one layer": ours([gw.weights(), one]),
        "all weights and all activations": ours([gw.weights(), every]),
        "hand-written eager tape": eager_tape(model, x, y, training=training),
        "rebuilt probe model, one layer": probe_model(
            model, x, y, layer, training=training
        ),
    }


def single_look(build, rounds):
    """Seconds of the first `gradients` of a new model, and of an eager tape on one.

    The best of each, by turns; one of both comes before, for what TensorFlow itself
    does once in a process.
    """
    looks = {
        "gradients": lambda model, x, y: gw.gradients(model, x, y, training=True),
        "tape": lambda model, x, y: eager_tape(model, x, y, training=True)(),
    }
    seconds = {name: [] for name in looks}
    for _ in range(1 + rounds):
        for name, look in looks.items():
            made = build()
            began = time.perf_counter()
            look(*made)
            seconds[name].append(time.perf_counter() - began)
    return {name: min(each[1:]) for name, each in seconds.items()}


def import_cost(rounds):
    """Seconds that `import gradwatch` adds to `import keras`, best of several."""
    code = (
        "import time; a = time.perf_counter(); import keras; b = time.perf_counter(); "
        "import gradwatch; print(b - a, time.perf_counter() - b)"
    )
    pairs = []
    for _ in range(rounds):
        out = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        pairs.append([float(part) for part in out.stdout.split()])
    return {"keras_s": min(p[0] for p in pairs), "added_s": min(p[1] for p in pairs)}


def report(title, table):
    """Prints one comparison."""
    print(f"\n{title}")
    for name, row in table.items():
        limit = LIMITS.get(name)
        verdict = "" if limit is None else f"   limit {limit}"
        print(
            f"  {name:34s} {row['ms']:9.2f} ms   {row['ratio']:6.3f} ×   "
            f"processor {row['cpu_ratio']:6.3f} ×{verdict}"
        )


def main():
    """Measures everything and prints it; `--json` for a script."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = {"machine": machine(), "tensorflow": tf.__version__}
    results["keras"] = keras.__version__
    cases = {
        "MobileNetV2 96×96, batch 8": (mobilenet, "block_6_expand_relu"),
        "transformer 4×128, batch 16": (transformer, "block_1_wide"),
    }
    for title, (build, layer) in cases.items():
        for training in (False, True):
            model, x, y = build()
            everybody = contestants(model, x, y, layer, training=training)
            times = interleave(everybody, rounds=options.rounds)
            name = f"{title}, training={training}"
            results[name] = ratios(times, "bare compiled pass")
            if not options.json:
                report(name, results[name])
        name = f"{title}, first call"
        look = results[name] = single_look(build, rounds=5)
        if not options.json:
            print(
                f"\n{name}\n  gradients {look['gradients']:.3f} s, eager tape "
                f"{look['tape']:.3f} s: {look['gradients'] / look['tape']:.3f} ×   "
                f"limit {FIRST_LIMIT}"
            )
    model, x, y = two_layers()
    everybody = contestants(model, x, y, "hidden", training=True)
    times = interleave(everybody, rounds=options.rounds * 10, warmup=20)
    table = ratios(times, "bare compiled pass")
    results["two-layer model"] = table
    added = table["all weights"]["ms"] - table["bare compiled pass"]["ms"]
    results["cached call adds ms"] = added
    results["import"] = import_cost(5)
    if options.json:
        print(json.dumps(results, indent=1))
        return
    report("two-layer model (Python overhead)", table)
    print(f"  a cached call adds {added:.3f} ms over the bare call   limit 2 ms")
    cost = results["import"]
    print(
        f"\nimport keras {cost['keras_s']:.2f} s, import gradwatch adds "
        f"{cost['added_s']:.3f} s   limit 0.15 s"
    )
    print(
        f"\n{results['machine']}, TensorFlow {tf.__version__}, "
        f"Keras {keras.__version__}"
    )


if __name__ == "__main__":
    main()
