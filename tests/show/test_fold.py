import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gradwatch.show._fold import ELLIPSIS, cut, fold

PART = st.sampled_from(["encoder", "block_1", "block_12", "conv", "kernel", "層", "a"])
ADDRESS = st.lists(PART, min_size=1, max_size=8).map("/".join)


@given(
    st.lists(ADDRESS | st.text("ab/…", max_size=30), max_size=12), st.integers(1, 30)
)
def test_two_names_never_look_the_same(names, width):
    """Whatever the names and the width, each name keeps a text of its own."""
    shown = fold(names, width)
    assert list(shown) == list(dict.fromkeys(names))
    assert len(set(shown.values())) == len(shown)


@given(st.lists(ADDRESS.filter(str.isascii), max_size=12), st.integers(1, 30))
def test_what_is_left_of_a_name_fits_no_other(names, width):
    """A reader who knows all names can tell which one a folded text stands for."""
    shown = fold(names, width)
    for name, text in shown.items():
        if text != name:
            gap = ".*" if text.count(ELLIPSIS) == 1 else "[^/]*"
            left = gap.join(map(re.escape, text.split(ELLIPSIS)))
            fits = [
                other
                for other in shown
                if re.fullmatch(left, other) and cell_len(other) > width
            ]
            assert fits == [name]
            assert cell_len(text) <= width


def test_a_name_that_fits_is_not_touched():
    """Only names that are too long are folded."""
    shown = fold(["conv/kernel", "encoder/block_1/conv/kernel"], 16)
    assert shown["conv/kernel"] == "conv/kernel"
    assert shown["encoder/block_1/conv/kernel"] == "encode…nv/kernel"


def test_names_are_cut_where_they_differ():
    """The cut moves away from the middle if that keeps all names apart."""
    names = [f"encoder/stage/block_{i}/conv/kernel" for i in range(10)]
    shown = fold(names, 24)
    assert {cell_len(text) for text in shown.values()} == {24}
    assert all(str(i) in shown[name] for i, name in enumerate(names))


def test_names_that_differ_in_several_places_are_cut_in_each_part():
    """Blocks in blocks: one gap would swallow a number that tells two of them apart."""
    names = [
        f"encoder_stage_with_a_long_name_{a}/sub_{b}/projection_layer_name_{c}/{kind}"
        for a in range(12)
        for b in range(2)
        for c in range(4)
        for kind in ("kernel", "bias")
    ]
    shown = fold(names, 25)
    assert len(set(shown.values())) == len(names)
    assert max(map(cell_len, shown.values())) <= 25
    assert shown[names[-2]] == "e…_11/sub_1/p…e_3/kernel"
    assert shown[names[-1]] == "en…_11/sub_1/pr…e_3/bias"


def test_names_that_cannot_be_told_apart_stay_whole():
    """Names that differ only beyond both ends are shown in full, to be wrapped."""
    names = [f"{'a' * 20}{i}{'b' * 20}" for i in range(3)]
    assert fold(names, 10) == {name: name for name in names}


def test_one_pair_that_clashes_does_not_unfold_the_others():
    """Where no common cut exists, all names but the clashing ones are still folded."""
    clashing = [f"{'a' * 20}{i}{'b' * 20}" for i in range(2)]
    shown = fold([*clashing, "encoder/block_1/conv/kernel"], 12)
    assert shown["encoder/block_1/conv/kernel"] == "enco…/kernel"
    assert [shown[name] for name in clashing] == clashing


@pytest.mark.parametrize("head", range(12))
def test_wide_characters_count_as_two_cells(head):
    """A cut name has at most the width in cells, also where letters take two."""
    for name in ("層" * 20, "ab層" * 10, "a" * 40):
        text = cut(name, head, 12)
        assert 11 <= cell_len(text) <= 12
        assert text.count(ELLIPSIS) == 1
