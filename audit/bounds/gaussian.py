"""Full-batch noisy gradient descent: the Gaussian mechanism, composed, in closed form (Balle and Wang 2018)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf, log_ndtr, ndtr, ndtri

from .interval import Interval
from .mechanism import RELATIVE_WIDTH, Mechanism
from .names import FULL_BATCH
from .parameters import check_delta, check_direction, check_epsilon, check_rates, noise, whole_number
from .profile import bisect_epsilon
from .rounding import UNIT
from .trade_off import TradeOffCurve, gaussian_curve

if TYPE_CHECKING:
    from .calibration import Calibration


@dataclass(frozen=True)
class Gaussian(Mechanism):
    """`steps` releases of a sum with noise N(0, (noise_multiplier·C)²), all records in each. N(0,1) against N(μ,1)."""

    noise_multiplier: float
    steps: int = 1
    name: ClassVar[str] = FULL_BATCH

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", noise(self.noise_multiplier))
        object.__setattr__(self, "steps", whole_number("steps", self.steps))

    @property
    def mu(self) -> float:
        return math.sqrt(self.steps) / self.noise_multiplier

    def accuracy_bound(self) -> float:
        """Φ(μ/2), exact."""
        return float(ndtr(self.mu / 2))

    def accuracy(self, width: float = 1e-6) -> Interval:
        half = float(erf(self.mu / (2 * math.sqrt(2)))) / 2
        slack = 32 * UNIT * half
        return Interval(max(0.5, 0.5 + half - slack - UNIT), min(1.0, 0.5 + half + slack + UNIT))

    def delta(self, epsilon: float, direction: str = "both", relative_width: float = RELATIVE_WIDTH) -> Interval:
        """Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), the same in both directions."""
        check_direction(direction)
        return gaussian_delta(self.mu, check_epsilon(epsilon))

    def epsilon(self, delta: float, direction: str = "both", relative_width: float = RELATIVE_WIDTH) -> Interval:
        check_direction(direction)
        return gaussian_epsilon(self.mu, check_delta(delta))

    def true_positive_rate(
        self, false_positive_rate: ArrayLike, direction: str = "both", relative_width: float = RELATIVE_WIDTH
    ) -> Interval:
        """Φ(Φ⁻¹(α) + μ), the same in both directions."""
        check_direction(direction)
        rates = check_rates(false_positive_rate)
        with np.errstate(invalid="ignore"):
            z = ndtri(rates)
            value = ndtr(z + self.mu)
            slack = value * (64 + 16 * np.where(np.isfinite(z), z * z, 0.0) + 8 * self.mu * self.mu) * UNIT
        lower, upper = np.maximum(rates, value - slack), np.minimum(1.0, np.maximum(rates, value + slack))
        return Interval(lower[()], upper[()]) if rates.ndim else Interval(float(lower), float(upper))

    def trade_off_curve(self) -> TradeOffCurve:
        return gaussian_curve(self.mu)

    @classmethod
    def calibrate(
        cls,
        steps: int,
        *,
        accuracy: float | None = None,
        true_positive_rate: float | None = None,
        false_positive_rate: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        tolerance: float | None = None,
    ) -> Calibration:
        """The smallest noise_multiplier for one target, certified from both sides; see `calibration`."""
        from .calibration import calibrate, make_target

        target = make_target(accuracy, true_positive_rate, false_positive_rate, epsilon, delta)
        return calibrate(lambda sigma: cls(sigma, steps), target, tolerance)

    def record(self) -> dict[str, Any]:
        return {"name": self.name, "noise_multiplier": self.noise_multiplier, "steps": self.steps}


def gaussian_delta(mu: float, epsilon: float) -> Interval:
    """δ(ε) of N(μ, 1) against N(0, 1), with the rounding of its two terms."""
    if mu == 0:
        return Interval(0.0, 0.0)
    a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    log_first, log_second = float(log_ndtr(a)), epsilon + float(log_ndtr(b))
    first = math.exp(log_first)
    value = -first * math.expm1(min(0.0, log_second - log_first))
    # relative error of either term: ndtr's own, and its argument's rounding 4u|a| magnified by |a| + 1
    relative = (64 + 16 * (a * a + b * b) + 4 * (abs(log_first) + abs(log_second) + epsilon)) * UNIT
    return Interval(max(0.0, value - 2 * first * relative), min(1.0, value + 2 * first * relative))


def gaussian_epsilon(mu: float, delta: float) -> Interval:
    """δ = 0 asks for ε = ∞."""
    if delta == 0:
        return Interval(0.0, 0.0) if mu == 0 else Interval(math.inf, math.inf)
    lower = bisect_epsilon(lambda e: float(gaussian_delta(mu, e).lower), delta)[0]
    upper = bisect_epsilon(lambda e: float(gaussian_delta(mu, e).upper), delta)[1]
    return Interval(min(lower, upper), upper)
