"""Schemes whose own pair is not known: an upper end from one that dominates, a lower end from one that occurs.

Each end is certified by itself. `certainty` says what stands behind them, and how far apart they are shows in every
interval. A scheme of which nothing is known from above answers accuracy 1, TPR 1 and ε = ∞ there.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike

from .interval import Interval
from .mechanism import RELATIVE_WIDTH, Mechanism
from .parameters import check_delta, check_direction, check_epsilon, check_rates
from .profile import Profile, bisect_epsilon
from .ratio_law import RatioLaw
from .refine import COARSEST, profile_of
from .trade_off import TradeOffCurve, polygon_curve

Array = Any


class Parts(Protocol):
    """Hashable; `parts` as in `refine.Composed`, of which perhaps only the upper or only the lower laws are good."""

    def parts(
        self, resolution: float, tail: float, longest: int, extended: bool = False
    ) -> Sequence[tuple[RatioLaw, int]]: ...


@dataclass(frozen=True)
class FromMechanism:
    """Ends of a mechanism with a pair of its own. `scale_side`: directions as they are."""

    mechanism: Mechanism

    def delta(self, epsilon: float, side: str, end: str) -> float:
        return float(getattr(self.mechanism.delta(epsilon, side), end))

    def epsilon(self, delta: float, side: str, end: str) -> float:
        return float(getattr(self.mechanism.epsilon(delta, side), end))

    def power(self, alpha: Array, side: str, end: str) -> Array:
        return np.asarray(getattr(self.mechanism.true_positive_rate(alpha, side), end))


@dataclass(frozen=True)
class FromLaws:
    """Ends of composed laws, in doubles on one grid."""

    source: Parts

    @property
    def profile(self) -> Profile:
        return profile_of(self.source, COARSEST / 4)

    def delta(self, epsilon: float, side: str, end: str) -> float:
        law = getattr(self.profile, side)
        return law.delta_upper(epsilon) if end == "upper" else law.delta_lower(epsilon)

    def epsilon(self, delta: float, side: str, end: str) -> float:
        found = bisect_epsilon(lambda e: self.delta(e, side, end), delta, 690.0)
        return found[1] if end == "upper" else found[0]

    def power(self, alpha: Array, side: str, end: str) -> Array:
        law = getattr(self.profile, side)
        if end == "upper":
            return np.array([law.true_positive_rate_upper(a) for a in alpha.tolist()])
        return np.interp(alpha, *law.attack())


class Bracketed(Mechanism):
    """above(): what dominates, None where nothing is known. below(): what occurs, at least one."""

    adjacency: ClassVar[str] = "add_remove"
    certainty: ClassVar[str]

    @abstractmethod
    def above(self) -> FromMechanism | FromLaws | None: ...

    @abstractmethod
    def below(self) -> list[FromMechanism | FromLaws]: ...

    def accuracy_bound(self) -> float:
        """The upper end of `accuracy()`."""
        return float(self.accuracy().upper)

    def accuracy(self, width: float = 1e-6) -> Interval:
        """The width is not a matter of choice here."""
        found = self.delta(0.0)
        return Interval(0.5 + found.lower / 2, 0.5 + found.upper / 2)

    def delta(self, epsilon: float, direction: str = "both", relative_width: float = RELATIVE_WIDTH) -> Interval:
        sides, epsilon = self._sides(direction), check_epsilon(epsilon)
        if epsilon == math.inf:
            return Interval(0.0, 1.0 if self.above() is None else 0.0)
        above = self.above()
        upper = 1.0 if above is None else max(above.delta(epsilon, side, "upper") for side in sides)
        lower = max(one.delta(epsilon, side, "lower") for one in self.below() for side in sides)
        return Interval(min(lower, upper), upper)

    def epsilon(self, delta: float, direction: str = "both", relative_width: float = RELATIVE_WIDTH) -> Interval:
        sides, delta = self._sides(direction), check_delta(delta)
        if delta == 0:
            return Interval(math.inf, math.inf)
        above = self.above()
        upper = math.inf if above is None else max(above.epsilon(delta, side, "upper") for side in sides)
        lower = max(one.epsilon(delta, side, "lower") for one in self.below() for side in sides)
        return Interval(min(lower, upper), upper)

    def true_positive_rate(
        self, false_positive_rate: ArrayLike, direction: str = "both", relative_width: float = RELATIVE_WIDTH
    ) -> Interval:
        sides, rates = self._sides(direction), check_rates(false_positive_rate)
        flat = np.atleast_1d(rates).ravel()
        above = self.above()
        upper = np.ones_like(flat)
        if above is not None:
            upper = np.maximum(flat, np.max([above.power(flat, side, "upper") for side in sides], axis=0))
        found = [one.power(flat, side, "lower") for one in self.below() for side in sides]
        lower = np.minimum(np.max([flat, *found], axis=0), upper)
        return Interval(lower.reshape(rates.shape)[()], upper.reshape(rates.shape)[()])

    def trade_off_curve(self) -> TradeOffCurve:
        """From above: of what dominates; the curve 0 where nothing does."""
        above = self.above()
        label = f"{self.name}, from what dominates it, certified"
        if above is None:
            return polygon_curve(np.zeros(1), np.ones(1), f"{self.name}: nothing is known from above")
        if isinstance(above, FromMechanism):
            curve = above.mechanism.trade_off_curve()
            return TradeOffCurve(label, curve.evaluate, curve.evaluate_complement)
        last = max(self.epsilon(1e-10).upper, 1e-3)
        epsilons = min(last, 600.0) * np.linspace(0, 1, 320) ** 1.5
        deltas = [max(above.delta(e, side, "upper") for side in ("remove", "add")) for e in epsilons.tolist()]
        return polygon_curve(epsilons, np.array(deltas), label)

    def _sides(self, direction: str) -> list[str]:
        check_direction(direction)
        return ["remove", "add"] if direction == "both" else [direction]
