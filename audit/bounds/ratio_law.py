"""The law of a likelihood ratio on the log lattice e^{kη}: one epoch or one step, for both sides of a bound.

`RatioLaw.upper_*` is a law that dominates the true one, `lower_*` a statistic of the observation. Both are measures on
the integers k; "absent" is the law under Q (record absent), "present" under P. The *tilted* measures carry the factor
of the ratio themselves, absent_tilted[k] = e^{kη}·absent[k] and present_tilted[k] = e^{−kη}·present[k]: a tail that is
needed with a factor e^ε is then never computed as the tiny difference of large things.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .lattice import Measure
from .rounding import UNIT, sum_error

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RatioLaw:
    """All that composition needs of one epoch.

    upper_absent, upper_present: a (part of a) law with upper_present[k] = e^{kη} upper_absent[k] in exact arithmetic.
    lower_absent, lower_present and their tilted forms: the statistic's laws.
    lower_absent_missing: bound of what lower_absent_tilted lacks of its ideal total (cut tails, rounding);
    lower_present_missing: bound of the probability under P that lower_present_tilted lacks.
    base_error: bound, per epoch, of what rounding of the cell masses can do to any functional of `profile`, each side;
    mean_error: bound, per epoch, of what rounding can take from E(x − ratio)₊ of the upper law, relative to min(x, 1):
    a functional of slope s counts only where s·x ≤ 1, so it costs at most this much;
    clip_error: the same for the clipped shares of the spread, absolute, so that it counts s times.
    """

    step: float
    upper_absent: Measure
    upper_present: Measure
    lower_absent: Measure
    lower_present: Measure
    lower_absent_tilted: Measure
    lower_present_tilted: Measure
    lower_absent_missing: float
    lower_present_missing: float
    base_error: float
    mean_error: float
    clip_error: float


@dataclass
class Collector:
    """Gathers weighted points into one array of bins, with the rounding of the sums."""

    low: int
    high: int

    def __post_init__(self) -> None:
        self.mass = np.zeros(self.high - self.low + 1)
        self.error = 0.0

    def add(self, bins: Array, mass: Array, error: float) -> None:
        index = bins.astype(np.int64) - self.low
        self.mass += np.bincount(index, mass, minlength=len(self.mass))
        most = int(np.bincount(index).max(initial=1))
        self.error += error + float(mass.sum()) * (sum_error(most) + 8 * UNIT)

    def measure(self) -> Measure:
        return Measure(self.low, self.mass, self.error)
