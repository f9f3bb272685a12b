"""Why a gradient is missing: the analysis of hand-made graphs."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from gradwatch.backends import Cut, Verdict
from gradwatch.backends._flow import Flow, Operation, analyse

STOP = Cut("stop_gradient", "stop_gradient", "a")
ROUND = Cut("not_differentiable", "round", "b")
ARGMAX = Cut("integer", "argmax", "c")
CONNECTED = Verdict(connected=True)


def judge(steps, leaves, target="loss", outputs=None):
    """The verdicts on leaves that are called like their values."""
    flow = Flow(steps, {leaf: leaf for leaf in leaves}, target, outputs or {})
    return analyse(flow)


def test_a_path_of_differentiable_steps_connects():
    """From the target back to the leaf, through any number of operations."""
    steps = [
        Operation(["w", "x"], "h"),
        Operation(["h"], "y"),
        Operation(["y"], "loss"),
    ]
    assert judge(steps, ["w", "x", "h"]) == dict.fromkeys("wxh", CONNECTED)


def test_the_target_itself_is_connected():
    """A leaf that is the target has the gradient one."""
    assert judge([], ["loss"]) == {"loss": CONNECTED}


def test_a_cut_on_the_only_path_is_named():
    """Everything before the cut is cut off by it, everything after is connected."""
    steps = [
        Operation(["w"], "h"),
        Operation(["h"], "s", STOP),
        Operation(["s", "v"], "loss"),
    ]
    verdicts = judge(steps, ["w", "h", "s", "v"])
    cut = Verdict(connected=False, cuts=(STOP,))
    assert verdicts == {"w": cut, "h": cut, "s": CONNECTED, "v": CONNECTED}


def test_one_open_path_is_enough():
    """A cut beside an open path does not make a gradient missing."""
    steps = [
        Operation(["w"], "cut", STOP),
        Operation(["w"], "open"),
        Operation(["cut", "open"], "loss"),
    ]
    assert judge(steps, ["w"]) == {"w": CONNECTED}


def test_only_the_first_cut_on_each_path_is_named():
    """Removing a later cut would not help; the first one is what to look at."""
    steps = [
        Operation(["w"], "s", STOP),
        Operation(["s"], "r", ROUND),
        Operation(["r"], "loss"),
    ]
    assert judge(steps, ["w"])["w"].cuts == (STOP,)
    assert judge(steps, ["s"])["s"].cuts == (ROUND,)


def test_all_cuts_on_parallel_paths_are_named_in_the_order_of_execution():
    """Each of them would have to go."""
    steps = [
        Operation(["w"], "one", STOP),
        Operation(["w"], "two", ROUND),
        Operation(["w"], "three", ARGMAX),
        Operation(["three", "two", "one"], "loss"),
    ]
    assert judge(steps, ["w"])["w"].cuts == (STOP, ROUND, ARGMAX)


def test_a_cut_that_leads_nowhere_is_not_named():
    """A rounded copy that is only printed did not cut anything."""
    steps = [
        Operation(["w"], "printed", ROUND),
        Operation(["w"], "s", STOP),
        Operation(["s"], "loss"),
    ]
    assert judge(steps, ["w"])["w"].cuts == (STOP,)


def test_the_same_cut_is_named_once():
    """One operation in one layer that cuts two paths is one cause."""
    steps = [
        Operation(["w"], "one", STOP),
        Operation(["w"], "two", STOP),
        Operation(["one", "two"], "loss"),
    ]
    assert judge(steps, ["w"])["w"].cuts == (STOP,)


def test_a_value_that_only_another_output_uses_names_that_output():
    """The head of another output is connected to it, not to the target."""
    steps = [
        Operation(["trunk", "w"], "left"),
        Operation(["trunk", "v"], "right"),
        Operation(["left"], "loss"),
    ]
    verdicts = judge(
        steps, ["trunk", "w", "v"], outputs={"left": "left", "right": "right"}
    )
    assert verdicts["trunk"] == verdicts["w"] == CONNECTED
    assert verdicts["v"] == Verdict(connected=False, other_outputs=("right",))


def test_another_output_behind_a_cut_still_depends_on_it():
    """The output is named even if its own gradient would be cut."""
    steps = [Operation(["v"], "right", ROUND), Operation(["w"], "loss")]
    verdict = judge(steps, ["v"], outputs={"right": "right"})["v"]
    assert verdict.other_outputs == ("right",)
    assert verdict.cuts == ()


def test_a_value_that_nothing_uses_has_neither_cut_nor_output():
    """It is simply not on the path."""
    assert judge([Operation(["w"], "loss")], ["v"]) == {"v": Verdict(connected=False)}


def test_an_operation_may_have_several_outputs():
    """A cut may stand at one of them only, as with the indices of a top-k."""
    steps = [
        Operation(["w"], "values"),
        Operation(["w"], "indices", ARGMAX),
        Operation(["indices"], "by_index"),
        Operation(["values"], "by_value"),
    ]
    assert judge(steps, ["w"], target="by_value")["w"] == CONNECTED
    assert judge(steps, ["w"], target="by_index")["w"].cuts == (ARGMAX,)


def test_a_value_written_in_place_keeps_all_its_makers():
    """In torch an operation may write into its own input; both ways count."""
    steps = [
        Operation(["w"], "h"),
        Operation(["h", "v"], "h"),
        Operation(["h"], "loss"),
    ]
    assert judge(steps, ["w", "v"]) == dict.fromkeys("wv", CONNECTED)


def test_a_loop_in_the_graph_ends():
    """Values carried from step to step of a loop depend on one another."""
    steps = [
        Operation(["start"], "carry"),
        Operation(["carry", "w"], "next"),
        Operation(["next"], "carry"),
        Operation(["carry"], "loss"),
    ]
    assert judge(steps, ["start", "w"]) == dict.fromkeys(["start", "w"], CONNECTED)
    blocked = [*steps[:2], Operation(["next"], "carry", STOP), steps[3]]
    assert judge(blocked, ["w"])["w"].cuts == (STOP,)


def test_a_deep_graph_needs_no_deep_stack():
    """Ten thousand operations in a row are no trouble."""
    steps = [Operation([i], i + 1) for i in range(10_000)]
    assert judge(steps, [0], target=10_000) == {0: CONNECTED}


# against every path, one by one -------------------------------------------------------


def every_path(steps, start, end):
    """All ways from one value to another, as lists of steps; for small graphs."""
    if start == end:
        yield []
    for step in steps:
        if start in step.inputs:
            for rest in every_path(steps, step.output, end):
                yield [step, *rest]


def slow_verdict(steps, leaf, target, outputs):
    paths = list(every_path(steps, leaf, target))
    if any(all(step.cut is None for step in path) for path in paths):
        return True, set(), set()
    if paths:
        firsts = {next(s.cut for s in path if s.cut is not None) for path in paths}
        return False, firsts, set()
    reached = {n for n, v in outputs.items() if list(every_path(steps, leaf, v))}
    return False, set(), reached


@st.composite
def graphs(draw):
    """Values 0…n, each made of some earlier ones; some operations cut."""
    size = draw(st.integers(2, 7))
    steps = []
    for value in range(1, size):
        inputs = draw(st.lists(st.integers(0, value - 1), max_size=3, unique=True))
        cut = draw(st.sampled_from([None, None, STOP, ROUND, ARGMAX]))
        if inputs:
            steps.append(Operation(inputs, value, cut))
    return steps, size


@settings(max_examples=300)
@given(graphs())
def test_the_analysis_agrees_with_trying_every_path(graph):
    """For every leaf of random graphs: connected, cut where, or which output."""
    steps, size = graph
    outputs = {"last": size - 1, "middle": size // 2}
    target = size - 1
    verdicts = judge(steps, range(size), target, outputs)
    for leaf, verdict in verdicts.items():
        slow = slow_verdict(steps, leaf, target, outputs)
        fast = (verdict.connected, set(verdict.cuts), set(verdict.other_outputs))
        assert fast == slow


@settings(max_examples=100)
@given(graphs(), st.randoms())
def test_the_order_of_the_leaves_does_not_matter(graph, random):
    """A verdict depends on the graph alone."""
    steps, size = graph
    shuffled = list(range(size))
    random.shuffle(shuffled)
    outputs = {"last": size - 1}
    one = judge(steps, range(size), size - 1, outputs)
    assert judge(steps, shuffled, size - 1, outputs) == one


def test_the_slow_twin_can_tell_graphs_apart():
    """The brute force itself: three ways through a diamond with a shortcut."""
    steps = [Operation([0], 1), Operation([0], 2, STOP), Operation([1, 2, 0], 3)]
    paths = list(every_path(steps, 0, 3))
    assert len(paths) == 3
    assert all(a.output in b.inputs for path in paths for a, b in pairwise(path))
    assert slow_verdict(steps[1:], 0, 3, {}) == (True, set(), set())
    assert list(every_path(steps, 3, 0)) == []
