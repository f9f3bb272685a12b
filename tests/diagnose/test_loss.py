"""Whether a loss was learnt, told from how much losses scatter."""

import numpy as np
import pytest

from gradwatch.diagnose._rules._loss import LossHistory

SEEDS = range(100)
SCATTER = {
    "a few examples": lambda rng, n: rng.exponential(1.0, n),
    "one example": lambda rng, n: rng.chisquare(1, n),
    "heavy tails": lambda rng, n: (1 + 8 * rng.standard_t(2.5, n)) ** 2,
    "many examples": lambda rng, n: rng.lognormal(0, 0.2, n),
}


def learnt(kind, factor, seed, steps):
    """Whether losses that fall by a factor over the training, and scatter, are."""
    losses = SCATTER[kind](np.random.default_rng(seed), steps)
    loss = LossHistory()
    for number in losses / factor ** np.linspace(0, 1, steps):
        loss = loss.after(float(number))
    return loss.learnt


@pytest.mark.parametrize("steps", [24, 60, 120])
@pytest.mark.parametrize("kind", SCATTER)
def test_chance_is_not_learning(kind, steps):
    """Losses without a trend are seldom taken for learnt, whatever they scatter by."""
    assert np.mean([learnt(kind, 1.0, seed, steps) for seed in SEEDS]) <= 0.08


@pytest.mark.parametrize("steps", [24, 60, 120])
@pytest.mark.parametrize("kind", ["a few examples", "many examples"])
def test_a_loss_that_falls_is_learnt(kind, steps):
    """To a twentieth, nearly always."""
    assert np.mean([learnt(kind, 20.0, seed, steps) for seed in SEEDS]) >= 0.9


def test_a_loss_that_is_gone_at_once_is_learnt():
    """Also to exact zeros, of which there is no logarithm."""
    loss = LossHistory()
    for number in [2.0, 1.5, 0.1, *[0.0] * 40]:
        loss = loss.after(number)
    assert loss.learnt
