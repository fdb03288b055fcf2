"""What a composed ratio law says in both directions: total variation, δ(ε), ε(δ), TPR at FPR, as intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .composed_measure import Parts
from .interval import Interval
from .lattice import Measure
from .ratio_law import RatioLaw
from .side import Side, Slack

Array = NDArray[Any]


class Profile:
    """Independent epochs (or steps): `parts` of them, (law, copies), on log lattices of one step."""

    def __init__(self, parts: Sequence[tuple[RatioLaw, int]], tail: float, longest: int) -> None:
        step, extended = parts[0][0].step, parts[0][0].extended
        if any(law.step != step for law, _ in parts):
            raise ValueError("laws on lattices of different steps cannot be composed")

        def total(of: Callable[[RatioLaw], float]) -> float:
            return sum(copies * of(law) for law, copies in parts)

        def slack(zero: float) -> Slack:
            return Slack(
                missing=total(lambda law: law.missing),
                zero=zero,
                base=total(lambda law: law.base_error),
                mean=total(lambda law: law.mean_error),
                clip=total(lambda law: law.clip_error),
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
        self.remove = Side(step, remove, slack(0.0), tail, longest, extended)
        self.add = Side(step, add, slack(zero), tail, longest, extended)

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
