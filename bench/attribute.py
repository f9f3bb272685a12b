"""What explaining costs, side by side with the least it could, and with other tools.

Run `make bench`, or `python -m bench.attribute`. MobileNetV2, 224×224, 10 classes,
random weights, batch 8. Ratios are to bare compiled passes, measured in the same run,
taking turns.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import argparse
import json
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import gradwatch as gw
from bench._attribution_rivals import CLASS, EVERYBODY
from bench._timing import interleave, machine, ratios

LAYER = "out_relu"
LIMITS = {"ig": 1.10, "smoothgrad": 1.10, "cam": 1.15}
TITLES = {
    "ig": "Integrated gradients",
    "smoothgrad": "SmoothGrad",
    "cam": f"Grad-CAM at {LAYER}",
}
BARE, OURS = "bare compiled passes", "gradwatch"


def built(batch=8):
    """The model, and a batch for it."""
    keras.utils.set_random_seed(0)
    model = keras.applications.MobileNetV2(
        input_shape=(224, 224, 3), weights=None, classes=10, classifier_activation=None
    )
    random = np.random.default_rng(0)
    return model, random.normal(size=(batch, 224, 224, 3)).astype("float32")


def bare_inputs(model, x, steps):
    """The floor of a path: as many forward and backward passes as there are steps."""

    @tf.function(autograph=False)
    def step(images):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(images)
            score = tf.reduce_sum(model(images, training=False)[:, CLASS])
        return tape.gradient(score, images)

    images = tf.constant(x)
    return lambda: [step(images) for _ in range(steps)]


def bare_layer(model, x):
    """The floor of a map: forward, and backward down to the layer."""
    both = keras.Model(model.inputs, [model.get_layer(LAYER).output, *model.outputs])

    @tf.function(autograph=False)
    def step(images):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            # Watched where it comes out of the first half of the model.
            activation, scores = both(images, training=False)
            tape.watch(activation)
            head = model.get_layer("predictions")
            pool = tf.reduce_mean(activation, (1, 2))
            score = tf.reduce_sum(head(pool)[:, CLASS])
        return activation, tape.gradient(score, activation), scores

    images = tf.constant(x)
    return lambda: step(images)


def contestants(model, x, steps, rivals):
    """Everybody who takes part, by question."""
    target = gw.class_score(CLASS)
    questions = {
        "ig": {
            BARE: bare_inputs(model, x, steps),
            OURS: lambda: gw.integrated_gradients(model, x, target, steps=steps),
        },
        "smoothgrad": {
            BARE: bare_inputs(model, x, steps),
            OURS: lambda: gw.smoothgrad(model, x, target, samples=steps),
        },
        "cam": {
            BARE: bare_layer(model, x),
            OURS: lambda: gw.grad_cam(model, x, target, layer=LAYER),
        },
    }
    for name, build in rivals.items():
        try:
            for question, run in build(model, x, steps, LAYER).items():
                questions[question][name] = run
        except ImportError as error:
            # Installed without what it needs looks the same: the message tells which.
            left_out(name, f"does not import ({error})")
        except Exception as error:  # noqa: BLE001 - not ours to mend
            left_out(name, f"fails here ({type(error).__name__}: {error})")
    return questions


def warmed(everybody):
    """Runs each once, which compiles; whoever fails here is left out."""
    fit = {}
    for name, run in everybody.items():
        start = time.perf_counter()
        try:
            run()
        except Exception as error:
            if name in (BARE, OURS):
                raise
            left_out(name, f"fails here ({type(error).__name__}: {error})")
        else:
            fit[name] = run
            seconds = time.perf_counter() - start
            print(f"  {name}: warm after {seconds:.0f} s", file=sys.stderr, flush=True)
    return fit


def left_out(name, why):
    """Says so, where it does not disturb `--json`."""
    print(f"  {name}: {' '.join(why.split())[:120]}", file=sys.stderr, flush=True)


def peak(steps):
    """The most memory that a process of its own takes for so many steps, in MB."""
    code = f"from bench.attribute import peak_here; print(peak_here({steps}))"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return float(out.stdout.split()[-1])


def peak_here(steps):
    """The same, for this process."""
    model, x = built()
    gw.integrated_gradients(model, x, gw.class_score(CLASS), steps=steps)
    # Not `ru_maxrss`, where Linux has it otherwise: a child begins with what its parent
    # had when it was made, and two children of a large parent look alike.
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def report(question, table, times):
    """Prints one comparison."""
    rounds = len(next(iter(times.values())))
    print(f"\n{TITLES[question]}, {rounds} rounds")
    for name, row in table.items():
        verdict = f"   limit {LIMITS[question]}" if name == OURS else ""
        print(
            f"  {name:22s} {row['ms'] / 1e3:8.2f} s   {row['ratio']:6.3f} ×   "
            f"processor {row['cpu_ratio']:6.3f} ×{verdict}"
        )
    sys.stdout.flush()


def main():
    """Measures everything and prints it; `--json` for a script."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument(
        "--minutes",
        type=float,
        default=10,
        help="of a question, after which no further round begins",
    )
    parser.add_argument("--only", choices=[*TITLES, "memory"], nargs="+")
    parser.add_argument("--alone", action="store_true", help="without other tools")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    asked = options.only or [*TITLES, "memory"]
    results = {"machine": machine(), "tensorflow": tf.__version__}
    results |= {"keras": keras.__version__, "steps": options.steps}
    rivals = {} if options.alone else EVERYBODY
    raced = [question for question in TITLES if question in asked]
    questions = contestants(*built(), options.steps, rivals) if raced else {}
    for question in raced:
        everybody = questions[question]
        rounds = options.rounds * (10 if question == "cam" else 1)
        times = interleave(
            warmed(everybody), rounds=rounds, warmup=0, most=60 * options.minutes
        )
        results[question] = ratios(times, BARE)
        if not options.json:
            report(question, results[question], times)
    if "memory" in asked:
        few, many = peak(options.steps), peak(10 * options.steps)
        results["peak_mb"] = {"steps": few, "ten times the steps": many}
        if not options.json:
            print(
                f"\npeak memory: {few:.0f} MB for {options.steps} steps, {many:.0f} MB "
                f"for {10 * options.steps}: {many / few:.2f} ×   limit 1.2"
            )
    if options.json:
        print(json.dumps(results, indent=1))
        return
    versions = f"TensorFlow {tf.__version__}, Keras {keras.__version__}"
    print(f"\n{results['machine']}, {versions}")


if __name__ == "__main__":
    main()
