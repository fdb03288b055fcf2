"""One direction of a composed ratio law: δ(ε) and TPR at FPR, each from both sides.

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
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .composed_measure import ComposedMeasure, Parts
from .rounding import UNIT, pairwise_sum_error

Array = NDArray[Any]


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
