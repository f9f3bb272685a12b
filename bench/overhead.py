"""What watching costs a training step, side by side with an unwatched training.

Run `make bench`, or `python -m bench.overhead --models mlp cnn`. Every contestant
trains a model of its own with Adam, unwatched and watched by turns of some steps each;
and the contestants take turns, in one process. Ratios are of the clock.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != HERE]
sys.path.insert(0, str(HERE.parent))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import argparse  # noqa: E402
import json  # noqa: E402
import math  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402

import keras  # noqa: E402
import numpy as np  # noqa: E402

import gradwatch as gw  # noqa: E402
from bench import _models as models  # noqa: E402
from bench._rivals import RIVALS  # noqa: E402
from bench._timing import machine  # noqa: E402

NOBODY = "unwatched, against itself"
"""What noise alone makes of a ratio: no other line is known better than this one."""
NOT_DUE = "not due"
AUTOPSY = "autopsy on, not due"
WATCHED = {
    "scalars, every step": {"every": 1, "histograms": False},
    "histograms, every 10": {"every": 10},
    "histograms, every step": {"every": 1},
    "activations, every 10": {
        "every": 10,
        "histograms": False,
        "activations": True,
    },
    NOT_DUE: {"every": lambda step: False},
    AUTOPSY: {"every": lambda step: False, "on_nonfinite": "autopsy"},
}
LIMITS = {
    "scalars, every step": (1.06, 1.10),
    "histograms, every 10": (1.01, 1.03),
    "histograms, every step": (1.08, 1.14),
    "activations, every 10": (1.03, 1.06),
    NOT_DUE: (1.00, 1.01),
}
"""Goals: the mean and the worst of the models but the tiny one."""


class Clock(keras.callbacks.Callback):
    """Times the steps of a `fit`, without what comes before and after them."""

    def on_train_batch_begin(self, batch, logs=None):
        if batch == 0:
            self.began = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        # Reading a number of the logs waits for the step (JAX runs ahead).
        float(logs["loss"])
        self.seconds = time.perf_counter() - self.began


class Contestant:
    """One model, which is trained by turns without callbacks and with them.

    The same model, because where its weights lie in memory alone makes a tenth.
    """

    def __init__(self, build, jit, steps, callbacks, warm=None):
        self.model, x, y = build()
        self.model.compile("adam", self.model.loss, jit_compile=jit)
        self.x = np.concatenate([x] * steps)
        self.y = np.concatenate([y] * steps)
        self.batch = len(x)
        self.steps = steps
        self.callbacks = callbacks(self.model, x, y)
        self.plain, self.watched = [], []
        self.first_step([])
        self.first_step(self.callbacks)
        for some in ([], self.callbacks):
            self.fit(warm or steps, some)

    def first_step(self, callbacks):
        """Returns the seconds of a training of two steps with all that is compiled."""
        began = time.perf_counter()
        self.fit(2, callbacks)
        return time.perf_counter() - began

    def turn(self, callbacks):
        """Returns the seconds of a step."""
        clock = Clock()
        self.fit(self.steps, [*callbacks, clock])
        return clock.seconds / self.steps

    def fit(self, steps, callbacks):
        some = steps * self.batch
        self.model.fit(
            self.x[:some],
            self.y[:some],
            batch_size=self.batch,
            shuffle=False,
            verbose=0,
            callbacks=callbacks,
        )

    def play(self, turn):
        """One turn of each, whoever begins."""
        order = [(self.plain, []), (self.watched, self.callbacks)]
        for times, callbacks in order[:: 1 if turn % 2 else -1]:
            times.append(self.turn(callbacks))

    @property
    def numbers(self):
        """Ratios of the best, and of a turn to the other of its round, the median."""
        return {
            "ratio": min(self.watched) / min(self.plain),
            "paired": float(np.median(np.divide(self.watched, self.plain))),
            "ms": 1e3 * min(self.watched),
            "unwatched ms": 1e3 * min(self.plain),
        }


def contest(build, jit, args):
    """Returns the numbers of each contestant."""
    folder = tempfile.mkdtemp()
    makers = {NOBODY: lambda model, x, y: []}
    for name, words in WATCHED.items():
        makers[name] = lambda model, x, y, name=name, words=words: [
            gw.GradientMonitor(f"{folder}/{name}", **words)
        ]
    if args.rivals:
        makers |= {
            name: lambda model, x, y, rival=rival: rival(model, x, y, folder)
            for name, rival in RIVALS[keras.backend.backend()].items()
            if not (jit and name.startswith("limit"))
        }
    contestants = {
        name: Contestant(build, jit, args.steps, make)
        for name, make in makers.items()
        if args.only in name
    }
    for turn in range(args.turns):
        for contestant in contestants.values():
            contestant.play(turn)
    found = {name: contestant.numbers for name, contestant in contestants.items()}
    if args.first:
        for name, numbers in found.items():
            numbers["first step"] = first_steps(build, jit, makers[name])
    return found


class Idle(keras.callbacks.Callback):
    """Costs what Keras needs to call it."""

    def on_train_batch_begin(self, batch, logs=None):
        pass


def watching(**words):
    """Makes a monitor, for a whole training."""
    return [gw.GradientMonitor(tempfile.mkdtemp(), **words)]


WHOLE = {
    NOBODY: list,
    "limit: a callback that is idle": lambda: [Idle()],
    "histograms, every 10": watching,
    "budget(0.02)": lambda: watching(every=gw.budget(0.02)),
}
"""The callbacks of whole trainings."""


def whole(build, jit, args):
    """Returns the ratio of whole trainings, and the share that they report.

    The first steps are apart: each contestant trains a little before. Then watched and
    unwatched trainings of the same model take turns.
    """
    found = {}
    for name, make in WHOLE.items():
        callbacks = make()
        one = Contestant(build, jit, args.whole, lambda *_, c=callbacks: c, warm=40)
        ratios, shares = [], []
        for turn in range(args.turns):
            seconds = {}
            for kind in (True, False) if turn % 2 else (False, True):
                began = time.perf_counter()
                one.fit(one.steps, callbacks if kind else [])
                seconds[kind] = time.perf_counter() - began
            ratios.append(seconds[True] / seconds[False])
            shares += [
                monitor.overhead["share"]
                for monitor in callbacks
                if hasattr(monitor, "overhead")
            ]
        reported = float(np.median(shares)) if shares else math.nan
        found[name] = {"whole": float(np.median(ratios)), "reported": reported}
        print(
            f"  {name:32} {found[name]['whole']:6.3f} of a whole training of "
            f"{args.whole} steps; reports {reported:6.3f}  {np.round(ratios, 3)}",
            flush=True,
        )
    return found


def first_steps(build, jit, callbacks):
    """Returns how much longer two steps of a new model take with all compilation."""
    times = {True: [], False: []}
    for watched in (False, True, True, False, False, True):
        model, x, y = build()
        model.compile("adam", model.loss, jit_compile=jit)
        some = callbacks(model, x, y) if watched else []
        began = time.perf_counter()
        x, y = (np.concatenate([one] * 2) for one in (x, y))
        model.fit(x, y, batch_size=len(x) // 2, verbose=0, callbacks=some)
        times[watched].append(time.perf_counter() - began)
    return min(times[True]) / min(times[False])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=list(models.TRAINED))
    parser.add_argument("--jit", nargs="*", type=int, default=[0, 1])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--only", default="", help="contestants whose name holds this")
    parser.add_argument("--rivals", action="store_true")
    parser.add_argument("--first", action="store_true", help="time the first step too")
    parser.add_argument(
        "--whole", type=int, default=0, help="compare whole trainings of these steps"
    )
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    backend = keras.backend.backend()
    jits = {"torch": [0], "jax": [1]}.get(backend, args.jit)
    found = {}
    for name in args.models:
        for jit in jits:
            if args.whole:
                print(f"{name}, {backend}{', XLA' if jit else ''}", flush=True)
                whole(models.TRAINED[name], bool(jit), args)
                continue
            results = contest(models.TRAINED[name], bool(jit), args)
            found[f"{name}, {'XLA' if jit else 'no XLA'}"] = results
            if not args.json:
                print(f"{name}, {backend}{', XLA' if jit else ''}")
                for who, numbers in results.items():
                    print(
                        f"  {who:32} {numbers['ratio']:6.3f}  "
                        f"paired {numbers['paired']:6.3f}  {numbers['ms']:9.2f} ms  "
                        f"unwatched {numbers['unwatched ms']:9.2f} ms  "
                        f"first step {numbers.get('first step', math.nan):5.2f}",
                        flush=True,
                    )
    if args.json:
        print(json.dumps({"machine": machine(), "results": found}, indent=1))
        return
    if args.whole:
        print(machine())
        return
    print(f"\ngeometric mean and worst, {backend}; {machine()}")
    for who, (mean, worst) in LIMITS.items():
        usual = [r for name, r in found.items() if not name.startswith("tiny")]
        ratios = [r[who]["ratio"] for r in usual if who in r]
        if ratios:
            average = math.exp(np.mean(np.log(ratios)))
            print(
                f"  {who:32} mean {average:6.3f} (goal {mean})  "
                f"worst {max(ratios):6.3f} (goal {worst})"
            )


if __name__ == "__main__":
    main()
