"""The mechanisms that are answered by lattice composition: the questions, once for all of them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .gaussian import Gaussian
from .interval import Interval
from .lattice import MemoryLimit
from .mechanism import Mechanism
from .parameters import check_delta, check_direction, check_epsilon, check_rates, positive
from .ratio_law import RatioLaw
from .refine import COARSEST, profile_of, refine
from .trade_off import TradeOffCurve, polygon_curve

CURVE_POINTS = 320


class ComposedMechanism(Mechanism):
    """`copies` independent parts, each with a `ratio_law`; dominated by the Gaussian mechanism `gaussian`."""

    @property
    @abstractmethod
    def copies(self) -> int: ...

    @abstractmethod
    def ratio_law(self, resolution: float, tail: float, longest: int, extended: bool = False) -> RatioLaw: ...

    @property
    @abstractmethod
    def gaussian(self) -> Gaussian:
        """The same noise with the record in every step: never less revealing."""

    @property
    @abstractmethod
    def is_gaussian(self) -> bool:
        """Whether nothing is left to chance (one step an epoch, sampling rate 1): then `gaussian` is exact."""

    @abstractmethod
    def total_variation_in_closed_form(self) -> Interval: ...

    @abstractmethod
    def epsilon_lower_in_closed_form(self, delta: float) -> float:
        """What a simple attack proves of "remove"; matters only where the lattice is out of reach (tiny σ)."""

    # -------------------------------------------------------------------------------------------------------- questions

    def accuracy(self, width: float = 1e-6) -> Interval:
        """[lower, upper] around the exact accuracy of the best guess at prior 1/2, refined to `width` if possible."""
        requested = 2 * positive("width", width)
        if self.is_gaussian:
            return self.gaussian.accuracy()
        found = refine(
            self,
            lambda profile: profile.total_variation(),
            self.total_variation_in_closed_form(),
            lambda interval: interval.width / requested,
        )
        return Interval(0.5 + found.lower / 2, min(1.0, 0.5 + found.upper / 2), found.remark)

    def delta(self, epsilon: float, direction: str = "both", relative_width: float = 1e-3) -> Interval:
        """δ(ε), refined to a width of `relative_width` times its upper end where rounding permits."""
        check_direction(direction)
        epsilon = check_epsilon(epsilon)
        if epsilon == math.inf or self.is_gaussian:
            return self.gaussian.delta(epsilon) if epsilon < math.inf else Interval(0.0, 0.0)
        start = Interval(0.0, self.gaussian.delta(epsilon).upper)
        return refine(
            self, lambda profile: profile.delta(epsilon, direction), start, _relative(relative_width, smallest=1e-11)
        )

    def epsilon(self, delta: float, direction: str = "both", relative_width: float = 1e-3) -> Interval:
        """ε(δ), refined to a width of `relative_width` times its upper end.

        Where δ lies below what rounding leaves of the lattice's tail (its numerical floor, about 1e-11 for up to 10⁵
        steps in all, 1e-13 times their number in doubles), the upper end is that of the Gaussian mechanism with the
        same noise: valid, and wide.
        """
        check_direction(direction)
        delta = check_delta(delta)
        if delta == 0 or self.is_gaussian:
            return self.gaussian.epsilon(delta)
        least = 0.0 if direction == "add" else min(self.epsilon_lower_in_closed_form(delta), 1e300)
        start = Interval(least, self.gaussian.epsilon(delta).upper)
        return refine(
            self, lambda profile: profile.epsilon(delta, direction), start, _relative(relative_width, smallest=1e-9)
        )

    def true_positive_rate(
        self, false_positive_rate: ArrayLike, direction: str = "both", relative_width: float = 1e-3
    ) -> Interval:
        """The best attack's TPR at each FPR: arrays of the shape given (floats for a float).

        "remove": the attack tests "record absent" against "present", a false positive is a non-member called member.
        "add" exchanges the roles; "both" is the worse, what holds whichever way the attack is scored.
        """
        check_direction(direction)
        rates = check_rates(false_positive_rate)
        if self.is_gaussian:
            return self.gaussian.true_positive_rate(rates)
        flat = np.atleast_1d(rates).ravel()
        start = Interval(flat, np.ones_like(flat))

        def question(profile: Any) -> Interval:
            return profile.true_positive_rate(flat, direction)

        def excess(interval: Interval) -> float:
            upper = np.asarray(interval.upper)
            return float(np.max(interval.width / (relative_width * np.maximum(upper, 1e-9))))

        found = refine(self, question, start, excess)
        if rates.ndim == 0:
            return Interval(float(np.asarray(found.lower)[0]), float(np.asarray(found.upper)[0]), found.remark)
        lower, upper = (np.asarray(end).reshape(rates.shape) for end in (found.lower, found.upper))
        return Interval(lower, upper, found.remark)

    def trade_off_curve(self) -> TradeOffCurve:
        """The largest of the curves f_{ε, δ(ε)} over a grid of ε, δ(ε) the certified upper end, both directions.

        Where the lattice is out of reach, the dominating Gaussian's profile takes its place.
        """
        if self.is_gaussian:
            return self.gaussian.trade_off_curve()
        try:
            profile = profile_of(self, COARSEST / 4)
            sides = [profile.remove, profile.add]
            for side in sides:
                side.delta_upper(0.0)  # composes now, so that a memory limit shows here
        except MemoryLimit:
            sides = []

        def upper(epsilon: float) -> float:
            gaussian = float(self.gaussian.delta(epsilon).upper)
            return min(gaussian, max(side.delta_upper(epsilon) for side in sides)) if sides else gaussian

        near = _where_below(upper, 1e-12)
        far = max(_where_below(upper, 1e-300), 1.01 * near)
        grid = np.concatenate((near * np.linspace(0, 1, CURVE_POINTS), np.geomspace(near, far, CURVE_POINTS // 4)[1:]))
        deltas = np.array([upper(e) for e in grid.tolist()])
        return polygon_curve(grid, deltas, f"{self.name}, lattice lower curve, certified")


def _where_below(function: Callable[[float], float], level: float) -> float:
    """A point, to about a tenth of itself, from which on a non-increasing function lies below `level`."""
    high = 1e-3
    while function(high) > level and high < 2.0**60:
        high *= 1.5
    low = high / 1.5
    for _ in range(3):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if function(middle) > level else (low, middle)
    return high


def _relative(relative_width: float, smallest: float) -> Any:
    requested = positive("relative_width", relative_width)
    return lambda interval: interval.width / (requested * max(interval.upper, smallest)) if interval.width > 0 else 0.0
