"""Parts' measures, convolved, and what their errors cost a functional of the right tail."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .lattice import Measure, convolution

Array = NDArray[Any]
Parts = Sequence[tuple[Measure, int]]


class ComposedMeasure:
    """The convolution of `parts`, each the measure of an epoch and how often it occurs; what its errors cost."""

    def __init__(self, parts: Parts, step: float, tail: float, longest: int, extended: bool = False) -> None:
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
