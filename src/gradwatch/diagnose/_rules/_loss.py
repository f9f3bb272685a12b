"""The course of the loss: does it fall, stay or rise?"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
from numpy.typing import NDArray

Series = NDArray[np.float64]

_KEPT = 256
_ENOUGH, _PLENTY = 6, 16
_SIGNIFICANT, _PLAIN, _VISIBLE = 2.0, 4.0, 0.01
_REACHED, _NOTHING = 0.5, 1e-3
_LITTLE, _FLAT, _CLEAR = 0.3, 0.03, 3.0
_HALVED = math.log(2.0)


@dataclass(frozen=True)
class LossHistory:
    """The losses up to a step; when there are many, neighbours are averaged.

    Attributes:
        seen: The finite ones, or means of them.
        was_nonfinite: True if another one was NaN or infinite.
        is_whole: True until neighbours are averaged.
    """

    seen: tuple[float, ...] = ()
    was_nonfinite: bool = False
    is_whole: bool = True

    def after(self, loss: float | None) -> LossHistory:
        """Returns these with the loss of a step, or the mean since the record before.

        None where the step has no loss.
        """
        if loss is None:
            return self
        if not math.isfinite(loss):
            return replace(self, was_nonfinite=True)
        if len(self.seen) < _KEPT:
            return replace(self, seen=(*self.seen, float(loss)))
        means = np.array(self.seen).reshape(-1, 2).mean(axis=1).tolist()
        return replace(self, seen=(*means, float(loss)), is_whole=False)

    @property
    def known(self) -> bool:
        """True if there are enough of them to say anything."""
        return len(self.seen) >= _ENOUGH

    @property
    def first(self) -> float:
        """The loss at the beginning."""
        return self._ends[0]

    @property
    def recent(self) -> float:
        """The loss now."""
        return self._ends[1]

    @property
    def drop(self) -> float:
        """The share of itself by which it has fallen; negative if it has risen."""
        return (self.first - self.recent) / max(abs(self.first), 1e-30)

    @property
    def _falls(self) -> bool:
        """True if it fell by more than its scatter makes of nothing."""
        return self.first - self.recent > _SIGNIFICANT * self._ends[2]

    @functools.cached_property
    def stays(self) -> bool:
        """True if enough is known to say that it gets nowhere.

        It does not fall; or it fell a little at first, and no more.
        """
        if not self.known or self.learnt:
            return False
        falls = self._falls and self.drop > _VISIBLE
        return not falls or (self.drop < _LITTLE and self._is_flat())

    @functools.cached_property
    def idle(self) -> bool:
        """True if it is certain that the training comes to nothing.

        A loss that does not fall by more than its scatter may do so all the same, as at
        the slow beginning of many a good training: neither its ends nor its trend may
        hint at it, and had it halved, that would have been seen.
        """
        if len(self.seen) < _PLENTY or not self.stays:
            return False
        losses = self._comparable()
        length = self._length()
        fell, chance = _difference(losses[:length], losses[-length:])
        hint = fell > _SIGNIFICANT * chance or _trend(losses) < -_SIGNIFICANT
        return not hint and fell + _SIGNIFICANT * chance < _HALVED

    def _comparable(self) -> Series:
        """Logarithms; where there are none, losses over their size."""
        losses = np.array(self.seen)
        usual = median(np.abs(losses[: self._length()]).tolist())
        if self._is_signed():
            return np.asarray(losses / max(usual, float(losses.std()), 1e-30))
        return np.asarray(np.log(np.maximum(losses, max(_NOTHING * usual, 1e-30))))

    def _is_flat(self) -> bool:
        """Returns whether the last quarter is like the second one."""
        if len(self.seen) < _PLENTY:
            return False
        half, quarter = len(self.seen) // 2, len(self.seen) // 4
        before = np.array(self.seen[half - quarter : half])
        fell, chance = _difference(before, np.array(self.seen[-quarter:]))
        level = max(abs(float(before.mean())), 1e-30)
        return fell < _FLAT * level or fell < _CLEAR * chance

    @property
    def scatter(self) -> float:
        """The standard deviation of the second half over its mean."""
        half = np.array(self.seen[len(self.seen) // 2 :])
        return float(half.std()) / max(abs(float(half.mean())), 1e-30)

    @functools.cached_property
    def learnt(self) -> bool:
        """True if much of it is gone, and not by chance."""
        if not self.known:
            return False
        # Where it may be negative it has no logarithm, and a share of it says little.
        signed = self._is_signed()
        by_far = self._falls if signed else self._is_gone(self._length(), _SIGNIFICANT)
        gone = self.drop > _REACHED and by_far
        return gone or (self.is_whole and self._fell_at_once())

    def _is_signed(self) -> bool:
        return min(self.seen) < 0

    def _fell_at_once(self) -> bool:
        """Returns whether most of it was gone within the first few steps."""
        start = float(np.mean(self.seen[:2]))
        fell = start - self.recent
        plain = fell > _REACHED * abs(start) and fell > _PLAIN * self._ends[2]
        return plain and (self._is_signed() or self._is_gone(2, _CLEAR))

    def _is_gone(self, first: int, times: float) -> bool:
        """Returns whether the first losses stand out from the last beyond scatter.

        By their logarithms: a few examples a step make losses that scatter by factors,
        and of those two are often twice as large as the rest.
        """
        length = self._length()
        losses = self._comparable()
        begin, end = losses[:first], losses[-length:]
        mean = end.sum() / length  # the methods `mean` and `std` take twice as long
        fell = float(begin.sum() / len(begin) - mean)
        spread = math.sqrt(float(np.square(end - mean).sum()) / length)
        chance = spread * math.sqrt(1 / first + 1 / length)
        return fell > -math.log(_REACHED) and fell > times * chance

    @property
    def rises(self) -> bool:
        """True if it is no better than at the beginning, or not finite."""
        return self.was_nonfinite or (self.known and self.drop <= 0)

    def _length(self) -> int:
        """Returns the number of losses that make a beginning, and an end."""
        count = len(self.seen)
        return max(1, min(count // 2, max(3, count // 4)))

    @functools.cached_property
    def _ends(self) -> tuple[float, float, float]:
        """The loss at the beginning, now, and the chance between them."""
        if not self.seen:
            return math.nan, math.nan, math.nan
        length = self._length()
        ends = np.array([self.seen[:length], self.seen[-length:]])
        # Medians: of what has heavy tails the mean is that of the last outlier.
        first, recent = map(median, ends.tolist())
        away = ends - ends.sum(axis=1, keepdims=True) / length
        variances = np.square(away).sum(axis=1) / length
        return first, recent, math.sqrt(float(variances.sum()) / length)


def _difference(first: Series, last: Series) -> tuple[float, float]:
    """Returns by how much one sample is above another, and the chance of that."""
    chance = math.sqrt((float(first.var()) + float(last.var())) / len(first))
    return float(first.mean() - last.mean()), chance


def _trend(losses: Series) -> float:
    """Returns the slope of a line through the losses, over what chance makes of it."""
    if not losses.std():
        return 0.0
    # Of a straight line it is the same as for its correlation with time.
    correlation = float(np.corrcoef(np.arange(len(losses)), losses)[0, 1])
    left = max(1.0 - correlation**2, 1e-30) / (len(losses) - 2)
    return correlation / math.sqrt(left)
