"""From one record to several: the certified powers of tests, chained.

Between two data sets that differ in k records lie k − 1 others, each a record away from the next. A test with type-I
error α on the first has power at most F(α) on the second, F(F(α)) on the third, and so on (Dong, Roth and Su 2022,
theorem 2.14, here with each direction's own F: one for a record that goes, one for a record that comes). Every
certified δ at an ε gives a line that F does not exceed, F(α) ≤ δ + e^ε α, and two of them in a row another:

    F₂(F₁(α)) ≤ δ₂ + e^{ε₂}(δ₁ + e^{ε₁} α) = (δ₂ + e^{ε₂} δ₁) + e^{ε₁ + ε₂} α.

So a chain's bound is a set of lines again, of which only the lower envelope matters. A convex combination of two valid
lines is valid, so between their slopes δ is bounded by interpolation, linear in e^ε.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

MARGIN = 1 + 2.0**-47  # more than the rounding of a few products, sums and an exponential
BUCKETS = 6000  # of slopes, in each of which one line is kept
FINEST = 1e-5  # of ln slope: below it buckets are even


@dataclass(frozen=True)
class PowerBound:
    """A test's power is at most intercepts[i] + slopes[i]·α for every i. Slopes rise from 0, intercepts fall from 1."""

    slopes: Array
    intercepts: Array

    def power(self, alpha: Array) -> Array:
        """Rounded up. alpha (n,) in [0, 1]."""
        with np.errstate(over="ignore", invalid="ignore"):
            lines = self.intercepts + np.where(alpha[:, None] > 0, self.slopes * alpha[:, None], 0.0)
        return np.minimum(1.0, np.min(lines, axis=1) * MARGIN)

    def delta(self, epsilon: float) -> float:
        """max over α of power − e^ε α, rounded up. Any real ε."""
        slope = math.exp(min(epsilon, 700.0))
        return min(1.0, float(np.interp(slope, self.slopes, self.intercepts)) * MARGIN)

    def deltas(self, epsilons: Array) -> Array:
        """`delta` at each of `epsilons` (n,)."""
        slopes = np.exp(np.minimum(epsilons, 700.0))
        return np.minimum(1.0, np.interp(slopes, self.slopes, self.intercepts) * MARGIN)

    def then(self, following: PowerBound) -> PowerBound:
        """First this link, then that one."""
        with np.errstate(over="ignore"):
            slopes = following.slopes[:, None] * self.slopes
            intercepts = following.intercepts[:, None] + following.slopes[:, None] * self.intercepts
        return _envelope(slopes.ravel(), intercepts.ravel() * MARGIN)

    def meet(self, other: PowerBound) -> PowerBound:
        """What two bounds of the same test's power say together."""
        return _envelope(
            np.concatenate((self.slopes, other.slopes)), np.concatenate((self.intercepts, other.intercepts))
        )


def power_bound(delta_upper: Callable[[float], float], epsilons: Array) -> PowerBound:
    """delta_upper: a certified upper end of δ(ε) for any real ε."""
    deltas = np.array([delta_upper(epsilon) for epsilon in epsilons.tolist()])
    return _envelope(np.exp(epsilons) * MARGIN, deltas)


def _envelope(slopes: Array, intercepts: Array) -> PowerBound:
    """The lower envelope of lines on α ≥ 0, with the line 1 among them. One of each bucket of slopes is kept."""
    usable = (intercepts < 1) & (slopes < 1e300) & (slopes > 0)
    slopes, intercepts = slopes[usable], intercepts[usable]
    if len(slopes) > BUCKETS:
        logs = np.log(slopes)
        logs = np.sign(logs) * np.log1p(np.abs(logs) / FINEST)  # as dense, relatively, near slope 1 as far from it
        bucket = ((logs - logs.min()) / max(float(np.ptp(logs)), 1e-300) * (BUCKETS - 1)).astype(int)
        order = np.lexsort((intercepts, bucket))
        first = np.unique(bucket[order], return_index=True)[1]
        slopes, intercepts = slopes[order][first], intercepts[order][first]
    order = np.lexsort((intercepts, slopes))
    hull: list[tuple[float, float]] = [(0.0, 1.0)]
    for slope, intercept in zip(slopes[order].tolist(), intercepts[order].tolist(), strict=True):
        if slope <= hull[-1][0] or intercept >= hull[-1][1]:
            continue  # nowhere below the one before
        while len(hull) >= 2:
            (s0, d0), (s1, d1) = hull[-2], hull[-1]
            if (d0 - intercept) * (s1 - s0) < (d0 - d1) * (slope - s0):
                break
            hull.pop()  # it lies above the line through its neighbours in (slope, intercept)
        hull.append((slope, intercept))
    found = np.array(hull)
    return PowerBound(found[:, 0], found[:, 1])
