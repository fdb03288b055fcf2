"""What a composed ratio law says: δ(ε) in both directions, TPR at FPR, each from both sides.

With L = dP/dQ the ratio of the whole run (P with the record, Q without):

    δ_remove(ε) = E_P[(1 − e^ε/L)₊] = 1 − E_P min(1, e^ε/L)        (P against Q, any real ε)
    δ_add(ε)    = E_Q[(1 − e^ε L)₊] = 1 − E_Q min(1, e^ε L)        TV = δ_add(0) = δ_remove(0)
    TPR(α)      = min over ε of δ_remove(ε) + e^ε α

Upper ends take the right-hand forms: a part of the law that was cut away then counts in full. Lower ends take a
threshold region {ratio bin ≥ c} or {≤ c}, never the pointwise sign of P − Q, which would sum up noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .interval import Interval
from .lattice import Measure, power
from .ratio_law import RatioLaw
from .rounding import UNIT, pairwise_sum_error

Array = NDArray[np.float64]


class Profile:
    """E independent epochs of a `RatioLaw`. Convolution powers are computed when first needed and kept."""

    def __init__(self, law: RatioLaw, epochs: int, tail: float, longest: int) -> None:
        self.law, self.epochs, self.tail, self.longest = law, epochs, tail, longest
        self._base = epochs * law.base_error
        self._mean = epochs * law.mean_error
        self._clip = epochs * law.clip_error

    # ------------------------------------------------------------------------------------------ composed measures

    @cached_property
    def upper_absent(self) -> Measure:
        return self._power(self.law.upper_absent)

    @cached_property
    def upper_present(self) -> Measure:
        return self._power(self.law.upper_present)

    @cached_property
    def lower_absent(self) -> Measure:
        return self._power(self.law.lower_absent)

    @cached_property
    def lower_present(self) -> Measure:
        return self._power(self.law.lower_present)

    @cached_property
    def lower_absent_tilted(self) -> Measure:
        return self._power(self.law.lower_absent_tilted)

    @cached_property
    def lower_present_tilted(self) -> Measure:
        return self._power(self.law.lower_present_tilted)

    def _power(self, base: Measure) -> Measure:
        return power(base, self.epochs, self.tail, self.longest)

    @cached_property
    def _escaped_absent(self) -> float:
        return _shortfall(self.upper_absent)

    @cached_property
    def _escaped_present(self) -> float:
        return _shortfall(self.upper_present)

    @cached_property
    def _cut_absent_tilted(self) -> float:
        return self._cut(self.law.lower_absent_tilted, self.law.lower_absent_missing, self.lower_absent_tilted)

    @cached_property
    def _cut_present_tilted(self) -> float:
        return self._cut(self.law.lower_present_tilted, 0.0, self.lower_present_tilted)

    def _cut(self, epoch: Measure, missing: float, composed: Measure) -> float:
        """What the composed measure may lack of the E-th power of the epoch's ideal total."""
        excess = math.fsum([math.fsum(epoch.mass), -1.0]) + missing
        ideal = math.expm1(self.epochs * math.log1p(excess))
        kept = math.fsum([math.fsum(composed.mass), -1.0])
        return max(0.0, ideal - kept) + (abs(ideal) + abs(kept) + self.epochs) * 4 * UNIT

    # ------------------------------------------------------------------------------------------------ δ(ε), one end each

    def delta_remove_upper(self, epsilon: float) -> float:
        law, tail = self.upper_present, _from(self.upper_present, epsilon / self.law.step)
        loss = -np.expm1(epsilon - self.law.step * _points(law, tail))
        value = float((loss * law.mass[tail]).sum()) * (1 + pairwise_sum_error(len(loss)) + 16 * UNIT)
        return min(1.0, value + self._escaped_present + law.error + self._base + 2 * self._mean + self._clip)

    def delta_add_upper(self, epsilon: float) -> float:
        law, tail = self.upper_absent, _below(self.upper_absent, -epsilon / self.law.step)
        loss = -np.expm1(epsilon + self.law.step * _points(law, tail))
        value = float((loss * law.mass[tail]).sum()) * (1 + pairwise_sum_error(len(loss)) + 16 * UNIT)
        slope = math.exp(min(epsilon, 700.0))
        return min(1.0, value + self._escaped_absent + law.error + self._base + 2 * self._mean + slope * self._clip)

    def delta_remove_lower(self, epsilon: float) -> float:
        threshold = math.floor(epsilon / self.law.step) + 1
        present, absent = self.lower_present, self.lower_absent_tilted
        gained = float(present.mass[_from(present, threshold)].sum())
        tail = _from(absent, threshold)
        weights = np.exp(epsilon - self.law.step * _points(absent, tail))
        paid = float((weights * absent.mass[tail]).sum())
        doubt = present.error + absent.error + self._cut_absent_tilted + self._base
        doubt += (gained + paid) * (pairwise_sum_error(len(absent.mass)) + self._exponent_error)
        return max(0.0, gained - paid - doubt)

    def delta_add_lower(self, epsilon: float) -> float:
        threshold = math.ceil(-epsilon / self.law.step) - 1
        absent, present = self.lower_absent, self.lower_present_tilted
        gained = float(absent.mass[_below(absent, threshold + 1)].sum())
        tail = _below(present, threshold + 1)
        weights = np.exp(epsilon + self.law.step * _points(present, tail))
        paid = float((weights * present.mass[tail]).sum())
        factor = math.exp(min(epsilon, 700.0))
        doubt = absent.error + present.error + self._cut_present_tilted
        doubt += factor * self.epochs * self.law.lower_present_missing + (1 + factor) * self._base
        doubt += (gained + paid) * (pairwise_sum_error(len(absent.mass)) + self._exponent_error)
        return max(0.0, gained - paid - doubt)

    @cached_property
    def _exponent_error(self) -> float:
        """Relative error of e^{ε − ηk}: the exponent's rounding."""
        laws = (self.lower_absent_tilted, self.lower_present_tilted)
        reach = max(max(abs(m.start), abs(m.start + len(m.mass))) for m in laws)
        return (8 + 8 * self.law.step * reach) * UNIT

    # ------------------------------------------------------------------------------------------------------- intervals

    def total_variation(self) -> Interval:
        lower, upper = self.delta_add_lower(0.0), self.delta_add_upper(0.0)
        return Interval(lower, upper)

    def delta(self, epsilon: float, direction: str) -> Interval:
        ends = []
        if direction in ("remove", "both"):
            ends.append((self.delta_remove_lower(epsilon), self.delta_remove_upper(epsilon)))
        if direction in ("add", "both"):
            ends.append((self.delta_add_lower(epsilon), self.delta_add_upper(epsilon)))
        return Interval(max(e[0] for e in ends), max(e[1] for e in ends))

    def epsilon(self, delta: float, direction: str) -> Interval:
        """The ε at which δ(ε) = delta, by bisection on each end; upper inf where the numerical floor exceeds delta."""
        sides = [d for d in ("remove", "add") if direction in (d, "both")]
        uppers = [getattr(self, f"delta_{side}_upper") for side in sides]
        lowers = [getattr(self, f"delta_{side}_lower") for side in sides]
        lower = max(bisect_epsilon(f, delta)[0] for f in lowers)
        upper = max(bisect_epsilon(f, delta)[1] for f in uppers)
        return Interval(min(lower, upper), upper)

    def true_positive_rate(self, false_positive_rate: Array, direction: str) -> Interval:
        """false_positive_rate (k,). "remove": TPR = P(R), FPR = Q(R); "add": the roles exchanged; "both": the larger."""
        ends = []
        if direction in ("remove", "both"):
            rising = self._attack(self.lower_absent_tilted, self.lower_present, self._cut_absent_tilted, -1)
            ends.append((rising, self.delta_remove_upper))
        if direction in ("add", "both"):
            lost = self._cut_present_tilted
            ends.append((self._attack(self.lower_present_tilted, self.lower_absent, lost, 1), self.delta_add_upper))
        alpha = false_positive_rate
        lower, upper = alpha.copy(), alpha.copy()
        for (x, y), delta_upper in ends:
            lower = np.maximum(lower, np.interp(alpha, x, y))
            upper = np.maximum(upper, [self._no_attack(a, delta_upper) for a in alpha.tolist()])
        return Interval(np.minimum(lower, upper), upper)

    def _attack(self, tilted: Measure, tested: Measure, cut: float, sign: int) -> tuple[Array, Array]:
        """The Neyman–Pearson polygon of the statistic, FPR rounded up, TPR rounded down, randomised between corners.

        Regions {bin ≥ c} for sign −1 (absent is the null), {bin ≤ c} for sign +1 (present is the null).
        """
        first, last = min(tilted.start, tested.start), max(tilted.end, tested.end)
        points = np.arange(first, last, dtype=float)
        null, alternative = np.zeros(len(points)), np.zeros(len(points))
        null[tilted.start - first : tilted.end - first] = tilted.mass
        alternative[tested.start - first : tested.end - first] = tested.mass
        if sign < 0:
            null, alternative, points = null[::-1], alternative[::-1], points[::-1]
        with np.errstate(over="ignore", invalid="ignore"):
            weight = np.exp(np.clip(sign * self.law.step * points, -745.0, 700.0))  # from tilted to plain
        rounding = 1 + len(points) * UNIT + self._exponent_error
        doubt = (tilted.error + cut) * weight + self._base
        if sign > 0:
            doubt = doubt + self.epochs * self.law.lower_present_missing
        false_rates = np.cumsum(null * weight) * rounding + doubt
        true_rates = np.cumsum(alternative) / rounding - tested.error - self._base
        x = np.concatenate(([0.0], np.minimum(false_rates, 1.0), [1.0]))
        y = np.concatenate(([0.0], np.maximum(true_rates, 0.0), [1.0]))
        return np.maximum.accumulate(x), np.maximum.accumulate(y)

    def _no_attack(self, alpha: float, delta_upper: Callable[[float], float]) -> float:
        """min over ε of δ(ε) + e^ε α: every ε gives a bound; golden section finds a good one, as the sum is unimodal."""
        if alpha >= 1:
            return 1.0
        reach = self.law.step * max(abs(self.upper_present.start), abs(self.upper_present.end))
        low, high = -min(reach, 40.0), min(reach, 700.0)

        def bound(epsilon: float) -> float:
            return delta_upper(epsilon) + math.exp(epsilon) * alpha * (1 + 4 * UNIT)

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


def bisect_epsilon(delta_of: Callable[[float], float], delta: float, largest: float = 2.0**20) -> tuple[float, float]:
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
        if high - low <= 1e-12 * high:
            break
    return low, high


def _from(measure: Measure, point: float) -> slice:
    """Lattice points ≥ point."""
    return slice(min(len(measure.mass), max(0, math.ceil(point) - measure.start)), None)


def _below(measure: Measure, point: float) -> slice:
    """Lattice points < point."""
    return slice(0, min(len(measure.mass), max(0, math.ceil(point) - measure.start)))


def _points(measure: Measure, tail: slice) -> Array:
    start, stop, _ = tail.indices(len(measure.mass))
    return np.arange(measure.start + start, measure.start + stop, dtype=float)


def _shortfall(measure: Measure) -> float:
    """1 − total, exactly rounded; never negative."""
    return max(0.0, math.fsum([1.0, -math.fsum(measure.mass)])) + UNIT
