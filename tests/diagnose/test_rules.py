"""Each rule sees its own symptom in records, at any scale of the loss, and no other."""

import dataclasses

import numpy as np
import pytest

from gradwatch.diagnose import SYMPTOMS, RuleEngine
from gradwatch.run import Layout, Record
from gradwatch.summarise import COLUMNS, blank

from .made_up import (
    BIASES,
    KERNELS,
    LAYERS,
    LAYOUT,
    NAMES,
    SIZES,
    facts,
    found,
    records,
)

LONG = 260
"""Steps after which it can be said that nothing comes of a training."""


def stuck(step, columns, totals):
    totals["loss"] = 1.0 + 0.02 * np.sin(37.0 * step)


def vanishing(step, columns, totals):
    columns["norm"] = columns["norm"] * 10.0 ** (np.arange(len(NAMES)) // 2 - 5)


def vanishing_in_biases(step, columns, totals):
    columns["norm"][BIASES] *= 10.0 ** (np.arange(LAYERS) - 5)


def exploding_to_the_input(step, columns, totals):
    columns["norm"] = columns["norm"] * 10.0 ** -(np.arange(len(NAMES)) // 2 - 5)


def exploding_in_time(step, columns, totals):
    columns["norm"] = columns["norm"] * 1.3 ** max(0, step - 10)
    totals["loss"] = 1.0 + 0.1 * step


def bursts(step, columns, totals):
    stuck(step, columns, totals)
    if step % 9 == 8:
        columns["norm"] = columns["norm"] * 1e3


def nan_in_the_middle(step, columns, totals):
    if step >= 20:
        columns["nan"][:6] = 4


def infinite_loss(step, columns, totals):
    if step >= 20:
        totals["loss"] = np.inf


def half_of_the_units(step, columns, totals):
    columns["zeros"][3] = 0.7


def dead(step, columns, totals):
    """Layer 2 gives zeros: nothing arrives before it, nor at the kernel after it."""
    for place in [*range(6), 6]:
        columns["norm"][place] = columns["mean"][place] = 0.0
        columns["zeros"][place] = 1.0


def cut(step, columns, totals):
    """A gradient is stopped after layer 2, whose values go on."""
    for place in range(6):
        columns["norm"][place] = columns["mean"][place] = 0.0
        columns["zeros"][place] = 1.0


def fading(step, columns, totals):
    stuck(step, columns, totals)
    columns["norm"] = columns["norm"] * 10.0 ** (-step / 10)


def clipped(step, columns, totals):
    totals["clipped"] = 1.0
    columns["applied_norm"] = columns["applied_norm"] * 0.01


def crawling(step, columns, totals):
    stuck(step, columns, totals)
    columns["update_norm"] = 1e-6 * columns["weight_norm"]


def leaping(step, columns, totals):
    stuck(step, columns, totals)
    columns["update_norm"] = 0.5 * columns["weight_norm"]


def blown_up(step, columns, totals):
    columns["weight_norm"] = columns["weight_norm"] * (1 + step)
    totals["loss"] = 1.0 + step


def alone(step, columns, totals):
    columns["norm"][4:6] *= 1e4


def noisy(step, columns, totals):
    stuck(step, columns, totals)
    random = np.random.default_rng(step)
    totals["loss"] = float(np.exp(0.3 * random.normal()))
    columns["norm"] = columns["norm"] * np.exp(1.2 * random.normal())
    columns["mean"] = random.normal(size=len(NAMES))


SICK = {
    "vanishing": ("vanishing", vanishing),
    "vanishing in biases only": ("vanishing", vanishing_in_biases),
    "exploding to the input": ("exploding", exploding_to_the_input),
    "exploding in time": ("exploding", exploding_in_time),
    "bursts": ("exploding", bursts),
    "NaN": ("nonfinite", nan_in_the_middle),
    "infinite loss": ("nonfinite", infinite_loss),
    "dead units": ("dead-units", half_of_the_units),
    "dead layer": ("dead-layer", dead),
    "cut": ("unreached", cut),
    "fading": ("fading", fading),
    "clipped": ("clipping", clipped),
    "crawling": ("small-updates", crawling),
    "leaping": ("large-updates", leaping),
    "blown up": ("large-updates", blown_up),
    "alone": ("dominating-layer", alone),
    "noisy": ("noise", noisy),
    "stuck": ("stuck-loss", stuck),
}


def length(case):
    return LONG if case in ("noisy", "stuck") else 60


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e3, 1e-9, 1e9])
@pytest.mark.parametrize("case", SICK)
def test_each_symptom_is_found_alone_at_any_scale(case, scale):
    """The one that was put in is found, however large the loss is, and nothing else."""
    symptom, change = SICK[case]
    assert set(found(change, scale=scale, steps=length(case))) == {symptom}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e9])
def test_nothing_is_found_in_a_healthy_training(scale, seed):
    """Scatter alone is no finding."""
    assert not found(scale=scale, seed=seed)


@pytest.mark.parametrize("case", SICK)
def test_a_finding_says_all_it_must(case):
    """Symptom, place, time, numbers, what healthy is, what to try; as text and back."""
    symptom, change = SICK[case]
    finding = found(change, steps=length(case))[symptom]
    assert finding.evidence
    assert finding.healthy
    assert finding.try_first.endswith((".", "?"))
    assert 0.5 < finding.confidence <= 1
    assert 0 <= finding.since <= finding.step < length(case)
    assert set(finding.addresses) <= {*NAMES, *(n.partition("/")[0] for n in NAMES)}
    assert SYMPTOMS[symptom] in finding.one_line()
    assert "\n" not in finding.one_line()
    assert max(map(len, str(finding).splitlines())) <= 88
    again = type(finding).from_dict(finding.to_dict())
    assert again.to_json() == finding.to_json()


def test_it_is_told_once_and_when_it_is_sure():
    """NaN at once, vanishing after five recorded steps; never twice."""
    engine = RuleEngine(facts())
    told = [engine.read(record) for record in records(vanishing)]
    assert [len(new) for new in told] == [0, 0, 0, 0, 1] + [0] * 55
    assert (told[4][0].since, told[4][0].step) == (0, 4)
    nan = found(nan_in_the_middle)["nonfinite"]
    assert (nan.since, nan.step) == (20, 20)


def test_the_first_nan_names_the_layer_where_the_way_back_broke():
    """Of layers 0 to 2 the last is the first to be reached on the way back."""
    nan = found(nan_in_the_middle)["nonfinite"]
    assert nan.addresses == ("dense_2",)
    assert nan.evidence["direction"] == "backward"


def test_after_a_nan_nothing_else_is_found():
    """What comes after is its consequence."""

    def change(step, columns, totals):
        nan_in_the_middle(step, columns, totals)
        if step >= 20:
            vanishing(step, columns, totals)

    assert set(found(change)) == {"nonfinite"}


def test_a_sign_that_comes_and_goes_is_no_finding():
    """Five steps in a row are needed."""

    def change(step, columns, totals):
        if step % 5:
            vanishing(step, columns, totals)

    assert not found(change)


def test_skipped_steps_are_not_broken_ones():
    """Loss scaling overflows now and then; if it always does, that is a finding."""

    def now_and_then(step, columns, totals):
        if step in {3, 30}:
            columns["nan"][:] = 1
            totals.update(skipped=1.0, update=0.0)

    def always(step, columns, totals):
        columns["nan"][:] = 1
        totals.update(skipped=1.0, update=0.0)

    assert not found(now_and_then)
    assert set(found(always)) == {"nonfinite"}


def test_what_is_learnt_is_not_fading():
    """Gradients that fall with the loss are those of a training that succeeded."""

    def change(step, columns, totals):
        fading(step, columns, totals)
        totals["loss"] = 10.0 ** (-step / 20)

    assert not found(change)


def test_with_no_gradient_at_all_what_was_learnt_before_is_no_excuse():
    """A third of the loss is left, and nothing moves any more: an output that died."""

    def change(step, columns, totals):
        totals["loss"] = max(3.0 - 0.1 * step, 1.0)
        if step > 20:
            columns["norm"] = columns["norm"] * 0.0
            totals["global_norm"] = 0.0

    assert "fading" in found(change)


def test_a_loss_that_may_be_negative_is_not_learnt_by_a_share_of_it():
    """It scatters about zero: that it was 1 and is now -1 says nothing yet."""
    random = np.random.default_rng(2)

    def change(step, columns, totals):
        noisy(step, columns, totals)
        totals["loss"] = float(random.normal(0.0, 3.0))

    assert set(found(change, steps=LONG)) == {"noise"}


def test_a_model_whose_biases_have_moved_was_trained_before():
    """Kernels that learnt little still look as if they were drawn at random."""
    known = facts()
    for name, fact in known["weights"].items():
        if name.endswith("bias"):
            fact |= {"constant": False, "moved": True}
    assert "stuck-loss" in found(stuck, steps=LONG)
    assert not found(stuck, known=known, steps=LONG)


RECURRENT = Layout(
    (*NAMES, "front", "memory/cell@1", "memory"),
    ("weight",) * len(NAMES) + ("activation",) * 3,
    (*SIZES, 0, 0, 0),
)


@pytest.mark.parametrize(
    ("before", "share", "symptoms"),
    [
        (1.0, 0.5, set()),
        (1.0, 0.01, {"vanishing-time"}),
        (1e4, 0.01, {"exploding"}),
        (1e4, 0.5, {"exploding"}),
    ],
)
def test_what_grows_along_time_is_told_from_what_vanishes(before, share, symptoms):
    """A few elements hold the gradient in both; only one is larger before than after.

    What runs inside the recurrent layer is passed over: it is no sibling.
    """
    known = facts()
    known["layers"]["front"] = {"class": "Dense", "feeds_recurrent": True}
    engine = RuleEngine(known)
    for record in records(steps=12):
        rows = blank((len(RECURRENT.names), len(COLUMNS)))
        rows[: len(NAMES)] = record.rows
        for line, size in zip((-3, -2, -1), (before, 1e9, 1.0), strict=True):
            numbers = {"norm": size, "mean": 0.0, "std": size}
            numbers["mean_abs"] = size * np.sqrt(share)
            for column, number in numbers.items():
                rows[line, COLUMNS.index(column)] = number
            for column in ("zeros", "nan", "posinf", "neginf"):
                rows[line, COLUMNS.index(column)] = 0.0
        engine.read(Record(record.step, RECURRENT, rows, None, record.totals))
    assert {finding.symptom for finding in engine.findings} == symptoms


@pytest.mark.parametrize(
    ("function", "mean", "std", "is_found"),
    [
        ("tanh", 0.0, 0.99, True),
        ("tanh", 0.98, 0.05, True),
        ("tanh", 0.0, 0.6, False),
        ("sigmoid", 0.5, 0.49, True),
        ("sigmoid", 0.01, 0.01, True),
        ("sigmoid", 0.5, 0.2, False),
        ("relu", 0.0, 0.99, False),
    ],
)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_saturated_is_where_the_function_is_flat(function, mean, std, is_found, scale):
    """At the ends of tanh and sigmoid, where only outputs of the model may lie."""
    engine = RuleEngine(facts(own_activation=function))
    names = ("dense_1", f"dense_{LAYERS - 1}")
    kinds = ("weight",) * len(NAMES) + ("value",) * 2
    layout = Layout((*NAMES, *names), kinds, (*SIZES, 0, 0))
    for record in records(steps=12, scale=scale):
        values = blank((2, len(COLUMNS)))
        for column, number in (("mean", mean), ("std", std), ("zeros", 0.0)):
            values[:, COLUMNS.index(column)] = number
        rows = np.concatenate([record.rows, values])
        engine.read(Record(record.step, layout, rows, None, record.totals))
    found_here = [(finding.symptom, finding.addresses) for finding in engine.findings]
    assert found_here == ([("saturated", ("dense_1",))] if is_found else [])


@pytest.mark.parametrize(("outputs", "is_found"), [(0.8, True), (0.6, False)])
def test_one_example_a_step_kills_no_units(outputs, is_found):
    """Then as many biases have no gradient as outputs are zero."""
    engine = RuleEngine(facts())
    layout = Layout(
        (*NAMES, "dense_1"), ("weight",) * len(NAMES) + ("value",), (*SIZES, 0)
    )

    def silent(step, columns, totals):
        columns["zeros"][3] = 0.6

    for record in records(silent, steps=12):
        rows = blank((len(layout.names), len(COLUMNS)))
        rows[: len(NAMES)] = record.rows
        for column in ("mean", "nan", "posinf", "neginf"):
            rows[-1, COLUMNS.index(column)] = 0.0
        for column in ("norm", "std", "mean_abs"):
            rows[-1, COLUMNS.index(column)] = 1.0
        rows[-1, COLUMNS.index("zeros")] = outputs
        engine.read(Record(record.step, layout, rows, None, record.totals))
    found_here = {finding.symptom for finding in engine.findings}
    assert found_here == ({"dead-units"} if is_found else set())


def test_a_layer_that_is_left_over_by_a_good_training_does_not_dominate():
    """Where the loss is gone, the last layer may be all that still has a gradient."""

    def change(step, columns, totals):
        totals["loss"] = 10.0 ** (-step / 10)
        if step > 30:
            alone(step, columns, totals)

    assert "dominating-layer" in found(alone)
    assert not found(change)


@pytest.mark.parametrize(
    ("pace", "mean", "symptom"),
    [
        (2e-4, lambda random: 1.0 + 0.1 * random, "small-updates"),
        (2e-4, lambda random: random, "stuck-loss"),
        (5e-5, lambda random: 0.7 + random, "small-updates"),
        (5e-5, lambda random: random, "stuck-loss"),
        (1e-5, lambda random: random, "small-updates"),
    ],
    ids=["alike", "apart", "alike in part", "apart and slow", "apart and still"],
)
def test_small_updates_are_told_from_steps_that_cancel(pace, mean, symptom):
    """Ten times the pace helps where gradients pull the same way; else it cancels."""

    def change(step, columns, totals):
        stuck(step, columns, totals)
        random = np.random.default_rng(step).normal(size=len(NAMES))
        columns["mean"] = mean(random)
        columns["update_norm"] = pace * columns["weight_norm"]

    assert set(found(change, steps=LONG)) == {symptom}


@pytest.mark.parametrize("arrives", [True, False])
def test_query_and_key_before_a_one_hot_softmax_are_not_cut_off(arrives):
    """Where the values of the same attention have a gradient, it is the scores."""
    names = {"dense_2": "block/attention/query", "dense_3": "block/attention/value"}

    def renamed(name):
        layer, _, own = name.partition("/")
        return f"{names.get(layer, layer)}/{own}"

    def change(step, columns, totals):
        for place in (4, 5) if arrives else (4, 5, 6, 7):
            columns["norm"][place] = columns["mean"][place] = 0.0
            columns["zeros"][place] = 1.0

    known = facts()
    known["weights"] = {
        renamed(name): {**fact, "layer": renamed(name).rpartition("/")[0]}
        for name, fact in known["weights"].items()
    }
    layout = Layout(tuple(map(renamed, NAMES)), LAYOUT.kinds, LAYOUT.sizes)
    engine = RuleEngine(known)
    for record in records(change):
        engine.read(dataclasses.replace(record, layout=layout))
    told = [finding.symptom for finding in engine.findings]
    assert told == ([] if arrives else ["unreached"])


@pytest.mark.parametrize("scatter", [0.02, 0.1, 0.4])
@pytest.mark.parametrize("seed", range(8))
def test_a_training_that_begins_slowly_is_not_stuck(scatter, seed):
    """Its loss falls by a fifth in a hundred steps, and scatters by up to twice that.

    Whether gradients agree is no help: here they do as little as they can.
    """
    random = np.random.default_rng(seed)

    def change(step, columns, totals):
        totals["loss"] = float(np.exp(-step / 450 + scatter * random.normal()))
        columns["mean"] = random.normal(size=len(NAMES))

    for steps in (60, 120, 500):
        assert not found(change, steps=steps)


@pytest.mark.parametrize(("pace", "is_found"), [(1e-5, True), (9e-5, False)])
def test_a_loss_that_got_worse_by_chance_does_not_hide_a_slow_pace(pace, is_found):
    """Weights that moved by a thousandth have not made it a third worse."""

    def change(step, columns, totals):
        crawling(step, columns, totals)
        columns["update_norm"] = pace * columns["weight_norm"]
        totals["loss"] = 1.0 + step / 100

    assert ("small-updates" in found(change)) is is_found


def test_a_warm_up_is_not_too_slow():
    """While the learning rate rises, small updates are meant."""

    def change(step, columns, totals):
        crawling(step, columns, totals)
        totals["learning_rate"] = 1e-6 * (step + 1)

    assert "small-updates" not in found(change)


def test_mild_clipping_is_no_finding():
    """Every update shortened by a third is a limit that was chosen well enough."""

    def change(step, columns, totals):
        clipped(step, columns, totals)
        columns["applied_norm"] = columns["norm"] * 0.7

    assert not found(change)


def test_a_trained_model_whose_loss_stays_is_not_stuck():
    """It may have nothing left to learn."""
    known = facts()
    for fact in known["weights"].values():
        fact["untrained"] = False
    assert not found(stuck, known=known, steps=LONG)


def test_float16_without_scaling_loses_gradients():
    """Zeros among tiny numbers, in float16 and without loss scaling only."""

    def change(step, columns, totals):
        columns["norm"] = columns["norm"] * 1e-5
        columns["zeros"][KERNELS] = 0.6

    half = facts(compute="float16")
    assert set(found(change, known=half)) == {"underflow"}
    assert not found(change)

    def scaled(step, columns, totals):
        change(step, columns, totals)
        totals["loss_scale"] = 2.0**15

    assert not found(scaled, known=half)


def test_updates_that_rounding_swallows():
    """A weight in bfloat16 that does not move though it has a gradient."""
    known = facts()
    for fact in known["weights"].values():
        fact["dtype"] = "bfloat16"

    def change(step, columns, totals):
        columns["update_norm"][KERNELS] = 0.0

    assert set(found(change, known=known)) == {"underflow"}


def test_weights_without_a_gradient_are_missed():
    """They are trainable, watched, and have no line."""
    known = facts()
    like = known["weights"]["dense_0/kernel"]
    known["weights"]["lost/kernel"] = {**like, "layer": "lost"}
    known["weights"]["still/kernel"] = {**like, "layer": "still", "trainable": False}
    known["weights"]["still/kernel"]["untrained"] = False
    finding = found(known=known)["unreached"]
    assert finding.addresses == ("lost",)


def test_frozen_at_random_is_told_from_frozen_when_trained():
    """A frozen layer is a finding only if it is as its initialiser made it."""
    known = facts()
    like = {**known["weights"]["dense_0/kernel"], "layer": "still", "trainable": False}
    known["weights"]["still/kernel"] = like
    assert found(known=known)["frozen"].addresses == ("still",)
    like["untrained"] = False
    assert not found(known=known)


def test_a_frozen_layer_that_moves_is_found():
    """Marked as frozen, and updated."""
    known = facts()
    for part in ("kernel", "bias"):
        known["weights"][f"dense_1/{part}"].update(trainable=False, untrained=False)
    assert found(known=known)["not-frozen"].addresses == ("dense_1",)


@pytest.mark.parametrize(
    ("gain", "is_found"), [(30.0, True), (1.0, False), (3e-3, True)]
)
def test_initial_weights_are_judged_by_their_inputs(gain, is_found):
    """Too large or too small for the number of inputs."""

    def change(step, columns, totals):
        columns["weight_norm"][KERNELS] = gain * np.sqrt(32.0)
        columns["update_norm"] = 1e-3 * columns["weight_norm"]

    assert set(found(change)) == ({"initialisation"} if is_found else set())


def test_kernels_that_are_all_alike_are_found():
    """Units that begin alike stay alike; a head of constants does not matter."""
    known = facts()
    known["weights"][f"dense_{LAYERS - 1}/kernel"]["constant"] = True
    assert not found(known=known)
    known["weights"]["dense_1/kernel"]["constant"] = True
    assert found(known=known)["initialisation"].addresses == ("dense_1/kernel",)


def test_heads_are_compared_with_each_other():
    """One output whose gradient is ten thousand times that of another."""

    def change(step, columns, totals):
        columns["norm"][8] *= 1e4

    known = facts()
    known["heads"] = ["dense_4", "dense_5"]
    assert found(change, known=known)["dominating-head"].addresses == ("dense_4",)
    assert "dominating-head" not in found(change)


def test_idle_rows_are_told_at_the_end():
    """More than half of the rows of a table never moved."""
    engine = RuleEngine()
    few = {"rows": {"embed/embeddings": {"rows": 1000, "moved": 40}}}
    many = {"rows": {"embed/embeddings": {"rows": 1000, "moved": 900}}}
    assert not engine.read_notes(many, 10)
    (finding,) = engine.read_notes(few, 10)
    assert finding.symptom == "idle-rows"
    assert not engine.read_notes(few, 10)  # once


def test_without_facts_names_are_enough_for_most():
    """A run of an older version has no facts: what needs none is still found."""
    for case in ("vanishing", "NaN", "clipped", "crawling", "alone"):
        symptom, change = SICK[case]
        assert set(found(change, known={})) == {symptom}
    assert not found(known={})


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_few_steps_give_no_error(steps):
    """Findings where they can be had."""
    for _, change in SICK.values():
        found(change, steps=steps)


def test_a_dead_layer_is_the_first_that_gives_zeros_where_values_tell():
    """Layers after it give zeros too; gradients alone know the last of them."""
    assert found(dead)["dead-layer"].addresses == ("dense_2",)
    layout = Layout(
        (*NAMES, "dense_1", "dense_2"),
        ("weight",) * len(NAMES) + ("value",) * 2,
        (*LAYOUT.sizes, 0, 0),
    )
    engine = RuleEngine(facts())
    for record in records(dead, steps=10):
        values = blank((2, len(COLUMNS)))
        values[:, COLUMNS.index("zeros")] = 1.0
        rows = np.concatenate([record.rows, values])
        engine.read(Record(record.step, layout, rows, None, record.totals))
    (finding,) = engine.findings
    assert finding.addresses == ("dense_1",)


def test_late_signs_are_confirmed_within_an_eighth_of_the_records():
    """Few of many records are judged; a NaN is seen wherever it is."""
    begins = 2_000

    def late(step, columns, totals):
        if step >= begins:
            columns["norm"] = columns["norm"] * 10.0 ** np.linspace(-9, 0, len(NAMES))

    engine = RuleEngine(facts())
    steps = [
        finding.step
        for record in records(late, steps=begins + begins // 4)
        for finding in engine.read(record)
        if finding.symptom == "vanishing"
    ]
    assert steps
    assert begins <= steps[0] <= begins + begins / 8

    def broken(step, columns, totals):
        columns["nan"] = columns["nan"] + (step == begins + 1)

    engine = RuleEngine(facts())
    told = [engine.read(record) for record in records(broken, steps=begins + 3)]
    assert [finding.symptom for finding in told[begins + 1]] == ["nonfinite"]
