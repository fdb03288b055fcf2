"""Poisson subsampling: each record joins each step with probability q, independently.

Pair of one step under add/remove: Q = N(0, σ²), P = (1 − q)N(0, σ²) + q N(1, σ²). This is what Opacus samples and most
accountants account for. It says nothing certain of random allocation, whose total variation was larger at the same q,
steps and σ in every cell that was tried.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from scipy.special import erf, log_ndtr

from ...foundation import InputError
from .closed_form import sharp_total_variation
from .composed import RepeatedMechanism
from .gaussian import Gaussian
from .interval import Interval
from .moment_bound import MomentBound, gaussian_moments, poisson_moments
from .names import POISSON
from .parameters import noise, whole_number, within
from .poisson_law import poisson_law, poisson_step
from .ratio_law import RatioLaw

if TYPE_CHECKING:
    from .calibration import Calibration


@dataclass(frozen=True)
class PoissonSampling(RepeatedMechanism):
    """sampling_rate q in (0, 1], steps T, noise_multiplier σ (on the sum, over the clipping norm)."""

    sampling_rate: float
    steps: int
    noise_multiplier: float
    name: ClassVar[str] = POISSON

    def __post_init__(self) -> None:
        rate = within("sampling_rate", self.sampling_rate, 0, 1, "it is expected batch size / records", ends=True)
        if rate == 0:
            raise InputError("sampling_rate is 0: no record is ever used; give expected batch size / records, above 0")
        object.__setattr__(self, "sampling_rate", rate)
        object.__setattr__(self, "steps", whole_number("steps", self.steps))
        object.__setattr__(self, "noise_multiplier", noise(self.noise_multiplier))

    @property
    def copies(self) -> int:
        return self.steps

    def repeated(self, copies: int) -> PoissonSampling:
        return replace(self, steps=copies)

    @property
    def log_one_plus_chi_square(self) -> float:
        """T ln(1 + q²v), v = e^{1/σ²} − 1 = T ln(1 − q² + q² e^{1/σ²})."""
        inverse_square = 1.0 / self.noise_multiplier / self.noise_multiplier
        growth = 2 * math.log(self.sampling_rate) + inverse_square
        if growth > 30:  # e^{1/σ²} may overflow; the constant 1 − q² adds less than e^{-30}
            return self.steps * (growth + math.exp(-30))
        return self.steps * math.log1p(self.sampling_rate**2 * math.expm1(inverse_square))

    @property
    def gaussian(self) -> Gaussian:
        return Gaussian(self.noise_multiplier, self.steps)

    @property
    def is_gaussian(self) -> bool:
        return self.sampling_rate == 1

    def log_step(self, resolution: float) -> float:
        return poisson_step(self.sampling_rate, self.noise_multiplier, resolution)

    def ratio_law(
        self, resolution: float, tail: float, longest: int, extended: bool = False, log_step: float | None = None
    ) -> RatioLaw:
        step = self.log_step(resolution) if log_step is None else log_step
        return poisson_law(self.sampling_rate, self.noise_multiplier, tail, longest, extended, step)

    def moments(self, direction: str) -> MomentBound:
        if self.is_gaussian:
            return gaussian_moments(self.gaussian.mu)
        return poisson_moments(self.sampling_rate, self.noise_multiplier).composed(self.steps)

    def accuracy_bound(self) -> float:
        """No closed form of its own: the upper end of `accuracy()`."""
        return float(self.accuracy().upper)

    def total_variation_in_closed_form(self) -> Interval:
        """Above: chi-square, 1 + c = (1 + q²v)^T, sharp branch; the Gaussian; T times one step. Below: one step."""
        log_c = self.log_one_plus_chi_square
        one_step = self.sampling_rate * float(erf(1 / (2 * math.sqrt(2) * self.noise_multiplier)))
        c = math.expm1(log_c) if log_c < 709 else math.inf
        upper = min(sharp_total_variation(c), 2 * float(self.gaussian.accuracy().upper) - 1, self.steps * one_step)
        return Interval(one_step * (1 - 1e-12), min(1.0, upper * (1 + 1e-12) + 1e-15))

    def epsilon_lower_in_closed_form(self, delta: float) -> float:
        """The test "some step exceeds a threshold", by a union bound over steps for Q, over the record's own for P."""
        shift = 1.0 / self.noise_multiplier
        best = 0.0
        for distance in (0.5, 1.0, 2.0, 3.0, 4.0, 6.0):
            threshold = shift - distance
            miss = self.sampling_rate * math.exp(float(log_ndtr(distance)))
            present = -math.expm1(self.steps * math.log1p(-miss)) if miss < 1 else 1.0
            if present > delta and threshold > 0:
                absent = min(0.0, math.log(self.steps) + float(log_ndtr(-threshold)))
                best = max(best, math.log(present - delta) - absent)
        return best * (1 - 1e-12)

    @classmethod
    def calibrate(
        cls,
        sampling_rate: float,
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
        return calibrate(lambda sigma: cls(sampling_rate, steps, sigma), target, tolerance)

    def record(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "sampling_rate": self.sampling_rate,
            "steps": self.steps,
            "noise_multiplier": self.noise_multiplier,
        }
