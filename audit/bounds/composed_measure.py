"""A part's measure, convolved with itself, and what its errors cost a functional of its right tail."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .lattice import Measure, power

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
