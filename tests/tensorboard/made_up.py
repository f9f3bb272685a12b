"""Runs that never ran: numbers as a training has them, and a few planted ones."""

import numpy as np

from gradwatch.diagnose import Finding
from gradwatch.run import Layout, Record, RunWriter
from gradwatch.summarise import BUCKETS, COLUMNS, OCTAVES, blank

EVIL = "<img src=x onerror=alert(1)>"
STAGES = 4
AT = {name: index for index, name in enumerate(COLUMNS)}


def layout_of(layers=6, activations=True, evil=True):
    """Weights along the depth of a network, and activations."""
    weights = []
    for layer in range(layers):
        stage = layer * STAGES // layers
        weights += [f"stage_{stage}/conv_{layer}/{w}" for w in ("kernel", "bias")]
    weights += [f"{EVIL}/kernel", f"{EVIL}/bias"] if evil else []
    weights += ["head/kernel", "head/bias"]
    names, kinds = list(weights), ["weight"] * len(weights)
    if activations:
        for name in [w.rpartition("/")[0] for w in weights if w.endswith("/kernel")]:
            names += [name, name]
            kinds += ["activation", "value"]
    sizes = [1152 if name.endswith("kernel") else 32 for name in names]
    sizes = [s if k == "weight" else 0 for s, k in zip(sizes, kinds, strict=True)]
    return Layout(tuple(names), tuple(kinds), tuple(sizes))


def rows_of(layout, step, random, *, vanish=0.0, decay=300.0):
    """The numbers of a step: gradients that vanish towards the input, if asked to."""
    lines = len(layout)
    weights = sum(kind == "weight" for kind in layout.kinds)
    depth = np.minimum(np.arange(lines), weights) / max(1, weights - 1)
    level = 0.6 * np.exp(-step / decay) + 0.05
    norm = (
        level * 10 ** (vanish * (depth - 1)) * np.exp(0.25 * random.normal(size=lines))
    )
    size = np.maximum(np.array(layout.sizes), 64)
    rows = blank((lines, len(COLUMNS)))

    def put(name, numbers, of=slice(None)):
        rows[of, AT[name]] = np.broadcast_to(numbers, lines)[of]

    put("norm", norm)
    put("mean_abs", 0.7 * norm / np.sqrt(size))
    put("std", norm / np.sqrt(size))
    put("mean", 0.02 * norm / np.sqrt(size) * random.normal(size=lines))
    put("max", 3.5 * norm / np.sqrt(size))
    put("min", -3.1 * norm / np.sqrt(size))
    put("zeros", np.clip(0.1 + 0.3 * depth + 0.02 * random.normal(size=lines), 0, 1))
    put("underflow", 0.001)
    for name in ("nan", "posinf", "neginf"):
        put(name, 0)
    own = slice(0, weights)
    put("weight_norm", np.sqrt(size) * 0.1 * (1 + step / 4000), own)
    put("update_norm", 1e-3 * np.sqrt(size) * 0.1 * np.exp(-step / 900), own)
    put("applied_norm", np.minimum(norm, 0.5), own)
    return rows


def counts_of(rows, layout, random):
    """Histograms whose octaves lie about the mean of |g|."""
    octaves = np.arange(OCTAVES) - 40.0
    middle = np.log2(np.maximum(rows[:, AT["mean_abs"]], 1e-12))[:, None]
    shape = np.exp(-((octaves - middle) ** 2) / 8)
    shape *= np.maximum(np.array(layout.sizes), 1)[:, None] / 10
    counts = random.poisson(np.concatenate([shape[:, ::-1], shape], axis=1))
    assert counts.shape[1] == BUCKETS
    return counts


def totals_of(rows, layout, step, *, clip=0.5):
    """Of the step as a whole."""
    own = np.array([kind == "weight" for kind in layout.kinds])
    norms = rows[own, AT["norm"]].astype(float)
    bad = rows[own][:, [AT["nan"], AT["posinf"], AT["neginf"]]].sum(axis=0)
    whole = float(np.sqrt(np.sum(norms**2)))
    if bad[0]:
        whole = float("nan")
    elif bad[1:].any():
        whole = float("inf")
    clipped = bool(np.sqrt(np.sum(norms**2)) > clip)
    return {
        "global_norm": whole,
        "applied_norm": min(float(np.sqrt(np.sum(norms**2))), clip),
        "weight_norm": float(np.linalg.norm(rows[own, AT["weight_norm"]])),
        "update_norm": float(np.linalg.norm(rows[own, AT["update_norm"]])),
        "clipped": float(clipped),
        "skipped": 0.0,
        "update": 1.0,
        "learning_rate": 0.001,
        "loss": 2.0 * np.exp(-step / 200) + 0.1,
    }


def record_of(step, layout, random, *, plant=None, histograms=False, **options):
    """A record; `plant(step, rows)` may change its numbers."""
    rows = rows_of(layout, step, random, **options)
    if plant is not None:
        plant(step, rows)
    counts = counts_of(rows, layout, random) if histograms else None
    return Record(step, layout, rows, counts, totals_of(rows, layout, step))


def plant_faults(step, rows):
    """One NaN, one infinity of each sign, one layer of zeros."""
    if step == 130:
        rows[2, AT["nan"]] = 3
    if step == 60:
        rows[5, AT["posinf"]] = 2
    if step == 90:
        rows[8, AT["neginf"]] = 1
    if 150 <= step < 170:
        rows[4, [AT["norm"], AT["mean_abs"], AT["std"], AT["min"], AT["max"]]] = 0


def findings_of(layout):
    """Two findings, as a monitor writes them."""
    return [
        Finding(
            "vanishing",
            addresses=layout.names[:3],
            since=0,
            step=40,
            evidence={"gradient times weight of kernels, input over output": 0.00017},
            healthy="less than a factor of 1,000 between the ends of a network",
            confidence=0.85,
            excluded=("frozen (the weights move)",),
            try_first="Replace sigmoid or tanh by ReLU or GELU.",
        ),
        Finding(
            "nonfinite",
            addresses=(layout.names[2],),
            since=130,
            step=130,
            evidence={"elements that are not finite": 3},
            healthy="none",
            try_first="Call `gradwatch.autopsy(model, x, y)`.",
        ),
    ]


def write_run(
    directory,
    *,
    steps=200,
    every=2,
    layout=None,
    seed=0,
    plant=plant_faults,
    findings=True,
    **options,
):
    """Writes a run and returns its records."""
    layout = layout or layout_of()
    random = np.random.default_rng(seed)
    records = []
    with RunWriter(directory) as writer:
        facts = {
            "model": "made up",
            "parameters": int(sum(layout.sizes)),
            "optimizers": ["Adam"],
            "backend": "tensorflow",
            "keras": "3.15.1",
        }
        writer.note("run", facts)
        for step in range(0, steps, every):
            made = record_of(
                step,
                layout,
                random,
                plant=plant,
                histograms=step % (10 * every) == 0,
                **options,
            )
            writer.write(made)
            records.append(made)
        if findings:
            for finding in findings_of(layout):
                writer.finding(finding.step, finding.to_dict())
        cost = {
            "steps": steps,
            "records": len(records),
            "seconds": 12.5,
            "step_ms": 20.0,
            "record_ms": 1.5,
            "host_ms": 0.7,
            "share": 0.011,
        }
        writer.note("overhead", cost)
    return records
