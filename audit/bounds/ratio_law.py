"""The law of a likelihood ratio on the log lattice e^{kη}: one epoch or one step, for both sides of a bound.

`RatioLaw.upper_*` is a law that dominates the true one, `lower_*` a statistic of the observation. Both are measures on
the integers k; "absent" is the law under Q (record absent), "present" under P. The *tilted* measures carry the factor
of the ratio themselves, absent_tilted[k] = e^{kη}·absent[k] and present_tilted[k] = e^{−kη}·present[k]: a tail that is
needed with a factor e^ε is then never computed as the tiny difference of large things.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .lattice import Measure
from .rounding import sum_error

Array = NDArray[Any]


@dataclass(frozen=True)
class RatioLaw:
    """All that composition needs of one epoch (or step).

    upper_absent, upper_present: a part of a law with upper_present[k] = e^{kη} upper_absent[k] in exact arithmetic;
    lower_absent, lower_present and their tilted forms: the statistic's laws.
    missing: bound of what any of these lacks of its ideal total, tails that were cut away; what lower_present_tilted
    lacks is lacking in lower_absent too: the same observations, which belong to no region of the test;
    zero: mass that upper_absent has at ratio 0.
    base_error: bound of what rounding of the cell masses can do to any functional of `profile`, each side; what it does
    to lower_present_tilted is that measure's own error;
    mean_error: bound of what rounding can take from E(x − ratio)₊ of the upper law, relative to min(x, 1): a functional
    of slope s counts only where s·x ≤ 1, so it costs at most this much;
    clip_error: the same for the clipped shares of the spread, whatever the slope (`step_law.clip_cost`);
    extended: whether it was computed in extended precision, and is to be composed in it.
    """

    step: float
    upper_absent: Measure
    upper_present: Measure
    lower_absent: Measure
    lower_present: Measure
    lower_absent_tilted: Measure
    lower_present_tilted: Measure
    missing: float
    zero: float
    base_error: float
    mean_error: float
    clip_error: float
    extended: bool = False


@dataclass
class Collector:
    """Gathers weighted points into one array of bins. `two` is the points' error in ‖·‖₂.

    For weights w on the bins, points p of one part, n_b of them in bin b: Σ_p w_{b(p)} e_p ≤ two·√(Σ_b n_b w_b²). Parts
    with errors t_1, t_2, … add up to at most √(Σ_b w_b² V_b), V_b = (Σ_i t_i)·Σ_i t_i n_{i,b} (Cauchy–Schwarz): V is
    the measure's `variance`. Sums of m points round by m·u relative.
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        size = self.high - self.low + 1
        self.mass, self._shares = np.zeros(size), np.zeros(size)
        self._two = self.rest = self.relative = 0.0

    def add(self, bins: Array, mass: Array, two: float, rest: float, relative: float) -> None:
        index = bins.astype(np.int64) - self.low
        self.mass += np.bincount(index, mass, minlength=len(self.mass))
        counts = np.bincount(index, minlength=len(self.mass))
        self._two += two
        self._shares += two * counts
        self.rest += rest
        self.relative = max(self.relative, relative + sum_error(int(counts.max()) + 4))

    def measure(self) -> Measure:
        return Measure(self.low, self.mass, self._two * self._shares, self.rest, self.relative)
