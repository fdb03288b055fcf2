"""What a composed ratio law says: δ(ε) in both directions, TPR at FPR, each from both sides.

With L = dP/dQ the ratio of the whole run (P with the record, Q without):

    δ_remove(ε) = E_P[(1 − e^ε/L)₊]      δ_add(ε) = E_Q[(1 − e^ε L)₊]      TV = δ_add(0) = δ_remove(0)
    TPR(α)      = min over real ε of δ(ε) + e^ε α

δ_add is δ_remove of the reflected lattice (ln L → −ln L) with P and Q exchanged, so one `Side` serves both: a law
`upper` of which the part above the threshold is weighed, and the statistic's laws, `gain` under the alternative and
`pay`, the null's law times the ratio, so that both are weighed by at most 1.

    upper end   Σ_{ηk > ε} (1 − e^{ε−ηk}) upper_k  +  all that is missing
    lower end   Σ_{k ≥ c} gain_k − Σ_{k ≥ c} e^{ε−ηk} pay_k  −  what may be missing of `pay`,    c = ⌊ε/η⌋ + 1

The lower end is the value of a threshold region {bin ≥ c}, never the pointwise sign of P − Q, which sums up noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .interval import Interval
from .lattice import Measure, convolution
from .ratio_law import RatioLaw
from .rounding import UNIT, pairwise_sum_error

Array = NDArray[Any]
Parts = Sequence[tuple[Measure, int]]


class ComposedMeasure:
    """The convolution of `parts`, each the measure of an epoch and how often it occurs; what its errors cost."""

    def __init__(
        self, parts: Sequence[tuple[Measure, int]], step: float, tail: float, longest: int, extended: bool = False
    ) -> None:
        self.parts, self.step = [(epoch.rounded(), copies) for epoch, copies in parts], step
        self.single = sum(copies for _, copies in parts) == 1  # is taken as it is
        given = [(epoch.widened(), copies) for epoch, copies in parts] if extended else parts
        self.measure = convolution(given, tail, longest).rounded()
        # what the window of the composition lacks
        growth = math.prod(max(1.0, epoch.total) ** copies for epoch, copies in parts)
        self.missing = 0.0 if self.single else 3.01 * tail * growth

    @property
    def mass(self) -> Array:
        return self.measure.mass

    @cached_property
    def error(self) -> float:
        """Everything, in ‖·‖₁."""
        if self.single:
            return self.measure.error
        growth = math.prod((max(1.0, epoch.total) + epoch.error) ** copies for epoch, copies in self.parts)
        return self.measure.error + self._carried * growth

    @cached_property
    def _carried(self) -> float:
        """The epochs' own errors in ‖·‖₁, all together."""
        return sum(copies * epoch.error for epoch, copies in self.parts)

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
        if self.single:
            return found
        for epoch, copies in self.parts:
            spread = self._shifted_spread(epoch, threshold, sloped) + epoch.rest
            found += copies * (spread + 2 * epoch.relative * value)
        return found + self._carried * (self._carried + self.error + self.missing)  # second order

    @cached_property
    def _tails(self) -> tuple[Array, Array]:
        """Σ_{i ≥ k} mass_i, and η times its sum over k: bounds for the weights 1 and min(1, η(i − k + 1))."""
        tail = np.cumsum(self.mass[::-1])[::-1] * (1 + 1e-6)
        return tail, np.minimum(tail, self.step * np.cumsum(tail[::-1])[::-1])

    def _shifted_spread(self, epoch: Measure, threshold: int, sloped: bool) -> float:
        """An epoch's own error weighed by W(j), the functional with that epoch fixed at bin j and the others free.

        It is at or above its median m with probability 0.49 or more, and then all epochs together are above
        threshold − j + m whenever the others are above threshold − j. So W(j) ≤ V(threshold − j + m)/0.49, V the
        functional of all of them at another threshold. Near j = m this is V itself.
        W(j) is at most the total as well. Errors of V are of second order: see `doubt`.
        """
        table = self._tails[1 if sloped else 0]
        thresholds = threshold - np.arange(epoch.start, epoch.end) + _median(epoch) - self.measure.start
        inside = np.clip(thresholds, 0, len(table))  # left of the whole law: all of it; right of it: nothing
        most = max(1.0, self.measure.total) + self.error + self.missing
        values = np.minimum(np.append(table, 0.0)[inside] / 0.49, most)
        return epoch.spread(values * values)


def _median(epoch: Measure) -> int:
    """A point that the epoch's law reaches with probability at least 0.49."""
    tail = np.cumsum(epoch.mass[::-1])[::-1]
    return epoch.start + int(np.flatnonzero(tail >= 0.495).max(initial=0))


@dataclass(frozen=True)
class Slack:
    """Allowances of one side, for all epochs together: see `RatioLaw`."""

    missing: float  # weight ≤ 1
    missing_plain: float  # of `pay`, weight e^ε
    zero: float
    base: float
    base_record: float  # the share of `base` that may be multiplied by e^ε
    mean: float
    clip: float
    clip_sloped: bool


class Side:
    """One direction's δ(ε) from both sides. Convolution powers are computed when first needed."""

    def __init__(
        self,
        step: float,
        laws: tuple[Parts, Parts, Parts],
        slack: Slack,
        tail: float,
        longest: int,
        extended: bool,
    ) -> None:
        self.step, self.slack = step, slack
        self._laws, self._compose = laws, lambda parts: ComposedMeasure(parts, step, tail, longest, extended)

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
        slope = math.exp(min(epsilon, 700.0)) if self.slack.clip_sloped else 1.0
        allowances = self.slack.missing + law.missing + self.slack.zero + self.slack.base + 2 * self.slack.mean
        return min(1.0, value + doubt + allowances + slope * self.slack.clip)

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
        factor = math.exp(min(epsilon, 700.0))
        doubt += self.slack.missing + pay.missing + factor * self.slack.missing_plain
        doubt += self.slack.base + factor * self.slack.base_record
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
        doubt = (pay.error + pay.missing + self.slack.missing) * weight
        doubt = doubt + self.slack.missing_plain + self.slack.base + self.slack.base_record
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
    """Independent epochs (or steps): `parts` of them, (law, copies), on log lattices of one step."""

    def __init__(self, parts: Sequence[tuple[RatioLaw, int]], tail: float, longest: int) -> None:
        step, extended = parts[0][0].step, parts[0][0].extended
        if any(law.step != step for law, _ in parts):
            raise ValueError("laws on lattices of different steps cannot be composed")

        def total(of: Callable[[RatioLaw], float]) -> float:
            return sum(copies * of(law) for law, copies in parts)

        def slack(plain: bool, zero: float) -> Slack:
            return Slack(
                missing=total(lambda law: law.missing),
                missing_plain=total(lambda law: law.missing) if plain else 0.0,
                zero=zero,
                base=total(lambda law: law.base_error),
                base_record=total(lambda law: law.base_error * law.record_share) if plain else 0.0,
                mean=total(lambda law: law.mean_error),
                clip=total(lambda law: law.clip_error),
                clip_sloped=plain,
            )

        def laws(of: Callable[[RatioLaw], Measure]) -> Parts:
            return [(of(law), copies) for law, copies in parts]

        remove = (
            laws(lambda law: law.upper_present),
            laws(lambda law: law.lower_present),
            laws(lambda law: law.lower_absent_tilted),
        )
        add = (
            laws(lambda law: law.upper_absent.reflected()),
            laws(lambda law: law.lower_absent.reflected()),
            laws(lambda law: law.lower_present_tilted.reflected()),
        )
        zero = -math.expm1(total(lambda law: math.log1p(-min(law.zero, 0.5))))
        zero = zero if all(law.zero < 0.5 for law, _ in parts) else 1.0
        self.remove = Side(step, remove, slack(False, 0.0), tail, longest, extended)
        self.add = Side(step, add, slack(True, zero), tail, longest, extended)

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
