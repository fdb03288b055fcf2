"""What a composed ratio law says: δ(ε) in both directions, TPR at FPR, each from both sides.

With L = dP/dQ the ratio of the whole run (P with the record, Q without):

    δ_remove(ε) = E_P[(1 − e^ε/L)₊]      δ_add(ε) = E_Q[(1 − e^ε L)₊]      TV = δ_add(0) = δ_remove(0)
    TPR(α)      = min over real ε of δ(ε) + e^ε α

δ_add is δ_remove of the reflected lattice (ln L → −ln L) with P and Q exchanged, so one `Side` serves both: a law
`upper` of which the part above the threshold is weighed, and the statistic's laws, `gain` under the alternative and
`pay`, the null's law times the ratio, so that both are weighed by at most 1.

    upper end   Σ_{ηk > ε} (1 − e^{ε−ηk}) upper_k  +  all that is missing
    lower end   Σ_{k ≥ c} gain_k − Σ_{k ≥ c} e^{ε−ηk} pay_k  −  what may be missing of `pay`,    c = ⌊ε/η⌋ + 1

The lower end is the value of a threshold region {bin ≥ c}, never the pointwise sign of P − Q, which sums up noise. An
observation that was cut away belongs to no region: `gain` lacks it, which is safe, and `pay` need not have it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .interval import Interval
from .lattice import Measure, power
from .ratio_law import RatioLaw
from .rounding import UNIT, pairwise_sum_error

Array = NDArray[Any]


class ComposedMeasure:
    """`copies` of an epoch's measure, convolved, and what its errors cost a functional of its right tail."""

    def __init__(
        self, epoch: Measure, copies: int, step: float, tail: float, longest: int, extended: bool = False
    ) -> None:
        self.epoch, self.copies, self.step = epoch.rounded(), copies, step
        self.measure = power(epoch.widened() if extended else epoch, copies, tail, longest).rounded()
        # what the window of the composition lacks; a single copy is taken as it is
        self.missing = 3.01 * tail * max(1.0, epoch.total) ** copies if copies > 1 else 0.0

    @property
    def mass(self) -> Array:
        return self.measure.mass

    @cached_property
    def error(self) -> float:
        """Everything, in ‖·‖₁."""
        if self.copies == 1:
            return self.measure.error
        growth = (max(1.0, self.epoch.total) + self.epoch.error) ** (self.copies - 1)
        return self.measure.error + self.copies * self.epoch.error * growth

    def right_of(self, point: float) -> slice:
        """Lattice points ≥ point."""
        return slice(min(len(self.mass), max(0, math.ceil(point) - self.measure.start)), None)

    def points(self, tail: slice) -> Array:
        start, stop, _ = tail.indices(len(self.mass))
        return np.arange(self.measure.start + start, self.measure.start + stop, dtype=float)

    def doubt(self, weights: Array, value: float, threshold: int, sloped: bool) -> float:
        """Error of Σ_{k ≥ threshold} weights·mass = value. weights ≤ 1, and ≤ η(k − threshold + 1) where `sloped`."""
        own = self.measure
        found = own.spread(weights * weights, len(self.mass) - len(weights)) + own.rest + own.relative * value
        if self.copies == 1:
            return found
        epoch, copies = self.epoch, self.copies
        second_order = copies * epoch.error * (copies * epoch.error + self.error + self.missing)
        spread = self._shifted_spread(threshold, sloped) + epoch.rest
        return found + copies * (spread + 2 * epoch.relative * value) + second_order

    @cached_property
    def _tails(self) -> tuple[Array, Array]:
        """Σ_{i ≥ k} mass_i, and η times its sum over k: bounds for the weights 1 and min(1, η(i − k + 1))."""
        tail = np.cumsum(self.mass[::-1])[::-1] * (1 + 1e-6)
        return tail, np.minimum(tail, self.step * np.cumsum(tail[::-1])[::-1])

    @cached_property
    def _median(self) -> int:
        """A point that the epoch's law reaches with probability at least 0.49."""
        tail = np.cumsum(self.epoch.mass[::-1])[::-1]
        return self.epoch.start + int(np.flatnonzero(tail >= 0.495).max(initial=0))

    def _shifted_spread(self, threshold: int, sloped: bool) -> float:
        """The epoch's own error weighed by W(j), the functional with one epoch fixed at bin j and the other E − 1 free.

        The E-th epoch is at or above its median m with probability 0.49 or more, and then E epochs are above
        threshold − j + m whenever E − 1 are above threshold − j. So W(j) ≤ V(threshold − j + m)/0.49, V the functional
        of all E epochs at another threshold. Near j = m this is V itself.
        W(j) is at most the total as well. Errors of V are of second order: see `doubt`.
        """
        table = self._tails[1 if sloped else 0]
        thresholds = threshold - np.arange(self.epoch.start, self.epoch.end) + self._median - self.measure.start
        inside = np.clip(thresholds, 0, len(table))  # left of the whole law: all of it; right of it: nothing
        most = max(1.0, self.measure.total) + self.error + self.missing
        values = np.minimum(np.append(table, 0.0)[inside] / 0.49, most)
        return self.epoch.spread(values * values)


@dataclass(frozen=True)
class Slack:
    """Allowances of one side, for all epochs together: see `RatioLaw`."""

    missing: float  # weight ≤ 1
    zero: float
    base: float
    mean: float
    clip: float


class Side:
    """One direction's δ(ε) from both sides. Convolution powers are computed when first needed."""

    def __init__(
        self,
        step: float,
        laws: tuple[Measure, Measure, Measure],
        slack: Slack,
        copies: int,
        tail: float,
        longest: int,
        extended: bool,
    ) -> None:
        self.step, self.slack = step, slack
        self._laws, self._compose = laws, lambda epoch: ComposedMeasure(epoch, copies, step, tail, longest, extended)

    @cached_property
    def upper(self) -> ComposedMeasure:
        return self._compose(self._laws[0])

    @cached_property
    def gain(self) -> ComposedMeasure:
        return self._compose(self._laws[1])

    @cached_property
    def pay(self) -> ComposedMeasure:
        return self._compose(self._laws[2])

    def delta_upper(self, epsilon: float) -> float:
        """Any real ε."""
        law, tail = self.upper, self.upper.right_of(epsilon / self.step)
        loss = -np.expm1(np.minimum(epsilon - self.step * law.points(tail), 0.0))
        value = float((loss * law.mass[tail]).sum()) * (1 + pairwise_sum_error(len(loss)))
        value += float(law.mass[tail].sum()) * self._exponent_error(epsilon, law)
        doubt = law.doubt(loss, value, math.floor(min(epsilon / self.step, 2.0**50)), sloped=True)
        allowances = self.slack.missing + law.missing + self.slack.zero + self.slack.base + 2 * self.slack.mean
        return min(1.0, value + doubt + allowances + self.slack.clip)

    def delta_lower(self, epsilon: float) -> float:
        threshold = math.floor(min(epsilon / self.step, 2.0**50)) + 1
        gain, pay = self.gain, self.pay
        tail = gain.right_of(threshold)
        gained = float(gain.mass[tail].sum())
        doubt = gain.doubt(np.ones(len(gain.mass[tail])), gained, threshold, sloped=False)
        tail = pay.right_of(threshold)
        weights = np.exp(np.minimum(epsilon - self.step * pay.points(tail), 0.0))
        paid = float((weights * pay.mass[tail]).sum())
        doubt += pay.doubt(weights, paid, threshold, sloped=False)
        doubt += (gained + paid) * pairwise_sum_error(len(pay.mass)) + paid * self._exponent_error(epsilon, pay)
        doubt += self.slack.missing + pay.missing + self.slack.base
        return max(0.0, gained - paid - doubt)

    def _exponent_error(self, epsilon: float, law: ComposedMeasure) -> float:
        """Error of e^{ε − ηk} ≤ 1, relative, and of its complement, absolute: the exponent is rounded before."""
        reach = max(abs(law.measure.start), abs(law.measure.end)) * self.step
        return (8 + 2 * abs(epsilon) + 2 * reach) * UNIT

    def attack(self) -> tuple[Array, Array]:
        """The Neyman–Pearson polygon of the statistic: FPR rounded up, TPR rounded down, to be joined by lines.

        Corners are the regions {bin ≥ c}; a test between two corners chooses one of them at random.
        """
        pay, gain = self.pay, self.gain
        first = min(pay.measure.start, gain.measure.start)
        last = max(pay.measure.end, gain.measure.end)
        points = np.arange(first, last, dtype=float)
        null, alternative = np.zeros(len(points)), np.zeros(len(points))
        null[pay.measure.start - first : pay.measure.end - first] = pay.mass
        alternative[gain.measure.start - first : gain.measure.end - first] = gain.mass
        weight = np.exp(np.clip(-self.step * points, -745.0, 700.0))
        rounding = 1 + len(points) * UNIT + self._exponent_error(0.0, pay)
        doubt = (pay.error + pay.missing + self.slack.missing) * weight + self.slack.base
        false_rates = np.cumsum((null * weight)[::-1]) * rounding + doubt[::-1]
        true_rates = np.cumsum(alternative[::-1]) / rounding - gain.error - self.slack.base
        x = np.concatenate(([0.0], np.minimum(false_rates, 1.0), [1.0]))
        y = np.concatenate(([0.0], np.maximum(true_rates, 0.0), [1.0]))
        return np.maximum.accumulate(x), np.maximum.accumulate(y)

    def true_positive_rate_upper(self, alpha: float) -> float:
        """min over ε of δ(ε) + e^ε α: every ε gives a bound; golden section finds a good one (it is unimodal)."""
        if alpha >= 1:
            return 1.0
        reach = self.step * max(abs(self.upper.measure.start), abs(self.upper.measure.end))
        low, high = -min(reach, 40.0), min(reach, 700.0)

        def bound(epsilon: float) -> float:
            return self.delta_upper(epsilon) + math.exp(epsilon) * alpha * (1 + 4 * UNIT)

        golden = (math.sqrt(5) - 1) / 2
        left, right = high - golden * (high - low), low + golden * (high - low)
        value_left, value_right = bound(left), bound(right)
        best = min(1.0, value_left, value_right)
        for _ in range(50):
            if value_left <= value_right:
                high, right, value_right = right, left, value_left
                left = high - golden * (high - low)
                value_left = bound(left)
            else:
                low, left, value_left = left, right, value_right
                right = low + golden * (high - low)
                value_right = bound(right)
            best = min(best, value_left, value_right)
            if high - low < 1e-8 * (1 + abs(high)):
                break
        return best


class Profile:
    """`copies` independent epochs (or steps) of a `RatioLaw`."""

    def __init__(self, law: RatioLaw, copies: int, tail: float, longest: int) -> None:
        self.law = law

        def slack(zero: float) -> Slack:
            return Slack(
                missing=copies * law.missing,
                zero=zero,
                base=copies * law.base_error,
                mean=copies * law.mean_error,
                clip=copies * law.clip_error,
            )

        remove = (law.upper_present, law.lower_present, law.lower_absent_tilted)
        add = tuple(m.reflected() for m in (law.upper_absent, law.lower_absent, law.lower_present_tilted))
        zero = -math.expm1(copies * math.log1p(-min(law.zero, 0.5))) if law.zero < 0.5 else 1.0
        self.remove = Side(law.step, remove, slack(0.0), copies, tail, longest, law.extended)
        self.add = Side(law.step, (add[0], add[1], add[2]), slack(zero), copies, tail, longest, law.extended)

    def _sides(self, direction: str) -> list[Side]:
        return [side for name, side in (("remove", self.remove), ("add", self.add)) if direction in (name, "both")]

    def total_variation(self) -> Interval:
        return Interval(self.add.delta_lower(0.0), self.add.delta_upper(0.0))

    def delta(self, epsilon: float, direction: str) -> Interval:
        sides = self._sides(direction)
        return Interval(max(s.delta_lower(epsilon) for s in sides), max(s.delta_upper(epsilon) for s in sides))

    def epsilon(self, delta: float, direction: str) -> Interval:
        """The ε at which δ(ε) = delta, by bisection on each end; upper inf where the numerical floor exceeds delta."""
        sides = self._sides(direction)
        lower = max(bisect_epsilon(side.delta_lower, delta)[0] for side in sides)
        upper = max(bisect_epsilon(side.delta_upper, delta)[1] for side in sides)
        return Interval(lower, upper)

    def true_positive_rate(self, false_positive_rate: Array, direction: str) -> Interval:
        """false_positive_rate (k,). "remove": TPR = P(R), FPR = Q(R); "add": roles exchanged; "both": the larger."""
        alpha = false_positive_rate
        lower, upper = alpha.copy(), alpha.copy()
        for side in self._sides(direction):
            lower = np.maximum(lower, np.interp(alpha, *side.attack()))
            upper = np.maximum(upper, [side.true_positive_rate_upper(a) for a in alpha.tolist()])
        return Interval(lower, upper)


def bisect_epsilon(delta_of: Callable[[float], float], delta: float, largest: float = 2.0**60) -> tuple[float, float]:
    """(last ε seen with δ(ε) > delta, first seen with δ(ε) ≤ delta) for a non-increasing δ(·); (0, 0) if δ(0) ≤ delta.

    The second is inf where δ(ε) stays above delta up to `largest`.
    """
    if delta_of(0.0) <= delta:
        return 0.0, 0.0
    low, high = 0.0, 1.0
    while delta_of(high) > delta:
        low, high = high, 2 * high
        if high > largest:
            return low, math.inf
    for _ in range(80):
        middle = low + (high - low) / 2
        if delta_of(middle) > delta:
            low = middle
        else:
            high = middle
        if high - low <= 1e-7 * high:
            break
    return low, high
