"""The mechanisms that are answered by lattice composition: the questions, once for all of them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .gaussian import Gaussian
from .interval import Interval
from .mechanism import RELATIVE_WIDTH, Mechanism
from .moment_bound import MomentBound
from .parameters import check_delta, check_direction, check_epsilon, check_rates, positive
from .privacy_lines import PrivacyLines, privacy_lines
from .profile import Profile
from .ratio_law import RatioLaw
from .refine import refine
from .trade_off import TradeOffCurve

CURVE_WIDTH = 0.02  # relative, of TPR, at these rates
CURVE_RATES = np.geomspace(1e-6, 0.5, 40)
REFERENCE_DELTA = 1e-5  # the curve holds the mechanism's own (ε, δ) at this δ to the last digit


class ComposedMechanism(Mechanism):
    """Independent parts, each with a law on one log lattice; dominated by the Gaussian mechanism `gaussian`."""

    @abstractmethod
    def parts(
        self, resolution: float, tail: float, longest: int, extended: bool = False
    ) -> Sequence[tuple[RatioLaw, int]]:
        """Laws and how often each occurs; `tail`: about what may be cut from the whole run."""

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

    @abstractmethod
    def moments(self, direction: str) -> MomentBound:
        """Of the whole run, "remove" or "add": what is left to say below the lattice's numerical floor."""

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

    def delta(self, epsilon: float, direction: str = "both", relative_width: float = RELATIVE_WIDTH) -> Interval:
        """δ(ε), refined to a width of `relative_width` times its upper end where rounding permits."""
        check_direction(direction)
        epsilon = check_epsilon(epsilon)
        excess = _relative(relative_width, smallest=1e-11)
        if epsilon == math.inf or self.is_gaussian:
            return self.gaussian.delta(epsilon) if epsilon < math.inf else Interval(0.0, 0.0)
        return refine(
            self,
            lambda profile: profile.delta(epsilon, direction),
            Interval(0.0, self.gaussian.delta(epsilon).upper),
            excess,
            lambda: max(moments.delta(epsilon) for moments in self._moments(direction)),
        )

    def epsilon(self, delta: float, direction: str = "both", relative_width: float = RELATIVE_WIDTH) -> Interval:
        """ε(δ), refined to a width of `relative_width` times its upper end.

        Where δ lies below what rounding leaves of the lattice's tail (its numerical floor, about 1e-11 for up to 10⁵
        steps in all, 1e-13 times their number in doubles), the upper end is the least of what the moments of the
        likelihood ratio and the Gaussian mechanism with the same noise say: valid, wider, and said in the remark.
        """
        check_direction(direction)
        delta = check_delta(delta)
        excess = _relative(relative_width, smallest=1e-9)
        if delta == 0 or self.is_gaussian:
            return self.gaussian.epsilon(delta)
        least = 0.0 if direction == "add" else min(self.epsilon_lower_in_closed_form(delta), 1e300)
        return refine(
            self,
            lambda profile: profile.epsilon(delta, direction),
            Interval(least, self.gaussian.epsilon(delta).upper),
            excess,
            lambda: max(moments.epsilon(delta) for moments in self._moments(direction)),
        )

    def true_positive_rate(
        self, false_positive_rate: ArrayLike, direction: str = "both", relative_width: float = RELATIVE_WIDTH
    ) -> Interval:
        """The best attack's TPR at each FPR: arrays of the shape given (floats for a float).

        "remove": the attack tests "record absent" against "present", a false positive is a non-member called member.
        "add" exchanges the roles; "both" is the worse, what holds whichever way the attack is scored.
        """
        check_direction(direction)
        rates = check_rates(false_positive_rate)
        requested = positive("relative_width", relative_width)
        if self.is_gaussian:
            return self.gaussian.true_positive_rate(rates)
        flat = np.atleast_1d(rates).ravel()

        def excess(interval: Interval) -> float:
            upper = np.asarray(interval.upper)
            return float(np.max(interval.width / (requested * np.maximum(upper, 1e-9)), initial=0.0))

        def bound() -> Any:
            found = [[moments.true_positive_rate(rate) for rate in flat] for moments in self._moments(direction)]
            return np.maximum(flat, np.max(found, axis=0))

        found = refine(
            self,
            lambda profile: profile.true_positive_rate(flat, direction),
            Interval(flat, np.maximum(flat, self.gaussian.true_positive_rate(flat).upper)),
            excess,
            bound,
        )
        if rates.ndim == 0:
            return Interval(float(np.asarray(found.lower)[0]), float(np.asarray(found.upper)[0]), found.remark)
        lower, upper = (np.asarray(end).reshape(rates.shape) for end in (found.lower, found.upper))
        return Interval(lower, upper, found.remark)

    def trade_off_curve(self) -> TradeOffCurve:
        """The largest of the curves f_{ε, δ(ε)} over many ε, δ(ε) the certified upper end of both directions.

        Refined until each direction's TPR at FPR from 1e-6 to 1/2 is within 2 % of what an attack attains; where that
        is not reached, the label says so. Beyond the lattice's reach the moments and the Gaussian go on.
        """
        return self.gaussian.trade_off_curve() if self.is_gaussian else _curve(self)

    def _moments(self, direction: str) -> list[MomentBound]:
        return [self.moments(one) for one in ("remove", "add") if direction in (one, "both")]


class RepeatedMechanism(ComposedMechanism):
    """`copies` identical independent parts: epochs, or steps."""

    @property
    @abstractmethod
    def copies(self) -> int: ...

    @abstractmethod
    def repeated(self, copies: int) -> RepeatedMechanism:
        """The same part, `copies` times."""

    @property
    @abstractmethod
    def log_one_plus_chi_square(self) -> float:
        """ln(1 + χ²(with record ‖ without)), or a bound of it: additive over parts."""

    @abstractmethod
    def log_step(self, resolution: float) -> float:
        """The lattice step that suits one part, `resolution` of its own scale."""

    @abstractmethod
    def ratio_law(
        self, resolution: float, tail: float, longest: int, extended: bool = False, log_step: float | None = None
    ) -> RatioLaw:
        """One part's law, on the lattice of `log_step` where given: a composition's parts share one."""

    def parts(
        self, resolution: float, tail: float, longest: int, extended: bool = False
    ) -> Sequence[tuple[RatioLaw, int]]:
        return [(self.ratio_law(resolution, tail / self.copies, longest, extended), self.copies)]


@lru_cache(maxsize=16)
def _curve(mechanism: ComposedMechanism) -> TradeOffCurve:
    directions = ("remove", "add")
    moments = [mechanism.moments(direction) for direction in directions]
    found: list[PrivacyLines] = []

    def lines(profile: Profile | None) -> PrivacyLines:
        sides = [] if profile is None else [profile.remove.delta_upper, profile.add.delta_upper]

        def deltas(epsilon: float) -> tuple[float, float]:
            gaussian = float(mechanism.gaussian.delta(epsilon).upper)
            remove, add = (min(gaussian, bound.delta(epsilon)) for bound in moments)
            return (min(remove, sides[0](epsilon)), min(add, sides[1](epsilon))) if sides else (remove, add)

        return privacy_lines(deltas)

    def question(profile: Profile) -> Interval:
        attacks = [np.interp(CURVE_RATES, *side.attack()) for side in (profile.remove, profile.add)]
        found.append(lines(profile))
        upper = [found[-1].true_positive_rate(CURVE_RATES, direction) for direction in directions]
        return Interval(np.maximum(nothing, np.concatenate(attacks)), np.concatenate(upper))

    def excess(interval: Interval) -> float:
        return float(np.max(interval.width / np.asarray(interval.upper))) / CURVE_WIDTH

    nothing = np.concatenate((CURVE_RATES, CURVE_RATES))
    reached = refine(mechanism, question, Interval(nothing, np.ones(len(nothing))), excess)
    best = found[-1] if found else lines(None)
    own = float(mechanism.epsilon(REFERENCE_DELTA).upper)
    label = f"{mechanism.name}, lattice lower curve, certified"
    return best.curve(
        label if reached.remark is None else f"{label}, {reached.remark}",
        [(own, REFERENCE_DELTA)] if own < math.inf else [],
    )


def _relative(relative_width: float, smallest: float) -> Callable[[Interval], float]:
    requested = positive("relative_width", relative_width)

    def excess(interval: Interval) -> float:
        width = float(interval.width) if interval.lower < math.inf else 0.0
        return width / (requested * max(float(interval.upper), smallest)) if width > 0 else 0.0

    return excess
