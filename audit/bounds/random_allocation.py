"""Random allocation: in each epoch each record is used once, at a step drawn uniformly from the M of the epoch.

Pair of one epoch (arXiv:2610.09651, arXiv:2502.08202): Q = N(0, σ²I_M) against P = (1/M) Σ_i N(e_i, σ²I_M); E epochs
by the E-fold products. The pair dominates every run of that kind and one concrete run attains it, so nothing that knows
only M, E and σ can promise less than the exact values computed here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import log_ndtr, ndtr

from . import closed_form
from .allocation_law import allocation_law, allocation_step
from .composed import RepeatedMechanism
from .gaussian import Gaussian
from .interval import Interval
from .moment_bound import MomentBound, allocation_add, allocation_remove
from .names import RANDOM_ALLOCATION
from .parameters import noise, whole_number
from .ratio_law import RatioLaw

if TYPE_CHECKING:
    from .calibration import Calibration


@dataclass(frozen=True)
class RandomAllocation(RepeatedMechanism):
    """steps_per_epoch M, epochs E, noise_multiplier σ (on the sum, over the clipping norm; add/remove adjacency)."""

    steps_per_epoch: int
    epochs: int
    noise_multiplier: float
    name: ClassVar[str] = RANDOM_ALLOCATION

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps_per_epoch", whole_number("steps_per_epoch", self.steps_per_epoch))
        object.__setattr__(self, "epochs", whole_number("epochs", self.epochs))
        object.__setattr__(self, "noise_multiplier", noise(self.noise_multiplier))

    # ------------------------------------------------------------------------------------------------------ closed form

    @property
    def chi_square(self) -> float:
        return closed_form.chi_square(self.steps_per_epoch, self.epochs, self.noise_multiplier)

    @property
    def log_one_plus_chi_square(self) -> float:
        return closed_form.log_one_plus_chi_square(self.steps_per_epoch, self.epochs, self.noise_multiplier)

    def accuracy_bound(self) -> float:
        """1/2 + U(c)/2, the closed form with its sharp branch; Φ(√E/(2σ)) for M = 1, where that is exact."""
        if self.steps_per_epoch == 1:
            return self.gaussian.accuracy_bound()
        return closed_form.accuracy_bound(self.steps_per_epoch, self.epochs, self.noise_multiplier)

    def total_variation_in_closed_form(self) -> Interval:
        m, e, sigma = self.steps_per_epoch, self.epochs, self.noise_multiplier
        lower = max(
            closed_form.sum_statistic_lower_bound(m, e, sigma),
            closed_form.one_epoch_lower_bound(m, sigma),
            self._largest_coordinate_gain(),
        )
        upper = min(closed_form.sharp_total_variation(self.chi_square), 2 * float(self.gaussian.accuracy().upper) - 1)
        return Interval(max(0.0, lower * (1 - 1e-12)), min(1.0, upper * (1 + 1e-12) + 1e-15))

    def _largest_coordinate_gain(self) -> float:
        """TV of the test "some coordinate exceeds a threshold", by a union bound: near 1 for small σ."""
        shift = 1.0 / self.noise_multiplier
        thresholds = shift * np.linspace(0.3, 1.0, 36)
        return float(np.max(ndtr(shift - thresholds) - self.steps_per_epoch * ndtr(-thresholds)))

    def epsilon_lower_in_closed_form(self, delta: float) -> float:
        """The test "in every epoch some coordinate exceeds a threshold": ε ≥ ln((P − δ)/Q), Q by a union bound."""
        shift = 1.0 / self.noise_multiplier
        best = 0.0
        for threshold in (shift - np.linspace(0.5, 6.0, 23)).tolist():
            present = math.exp(self.epochs * float(log_ndtr(shift - threshold)))
            if present > delta and threshold > 0:
                absent = self.epochs * min(0.0, math.log(self.steps_per_epoch) + float(log_ndtr(-threshold)))
                best = max(best, math.log(present - delta) - absent)
        return best * (1 - 1e-12)

    # ---------------------------------------------------------------------------------------------------- the lattice

    @property
    def copies(self) -> int:
        return self.epochs

    def repeated(self, copies: int) -> RandomAllocation:
        return replace(self, epochs=copies)

    @property
    def gaussian(self) -> Gaussian:
        return Gaussian(self.noise_multiplier, self.epochs)

    @property
    def is_gaussian(self) -> bool:
        return self.steps_per_epoch == 1

    def log_step(self, resolution: float) -> float:
        return allocation_step(self.steps_per_epoch, self.noise_multiplier, resolution)

    def ratio_law(
        self, resolution: float, tail: float, longest: int, extended: bool = False, log_step: float | None = None
    ) -> RatioLaw:
        step = self.log_step(resolution) if log_step is None else log_step
        return allocation_law(self.steps_per_epoch, self.noise_multiplier, resolution, tail, longest, extended, step)

    def moments(self, direction: str) -> MomentBound:
        one_epoch = allocation_remove if direction == "remove" else allocation_add
        return one_epoch(self.steps_per_epoch, self.noise_multiplier).composed(self.epochs)

    @classmethod
    def calibrate(
        cls,
        steps_per_epoch: int,
        epochs: int,
        *,
        accuracy: float | None = None,
        true_positive_rate: float | None = None,
        false_positive_rate: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        tolerance: float | None = None,
    ) -> Calibration:
        """The smallest noise_multiplier for one target, certified from both sides; see `calibration`."""
        from .calibration import calibrate_random_allocation, make_target

        target = make_target(accuracy, true_positive_rate, false_positive_rate, epsilon, delta)
        return calibrate_random_allocation(steps_per_epoch, epochs, target, tolerance)

    def record(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "steps_per_epoch": self.steps_per_epoch,
            "epochs": self.epochs,
            "noise_multiplier": self.noise_multiplier,
        }
