"""Steps that release a sum in which a random number of records takes part: groups, and records that are replaced.

With the group there, i of its records are in the step with probability w_i; without it, j others with probability v_j.
The pair of one step is Q = Σ v_j N(−j, σ²), P = Σ w_i N(i, σ²), whatever the dimension and whatever the gradients of
norm at most C. Proof. Take a test φ and let a = E φ under N(0, σ²I), the sum without any of them. Among tests with this
a, E φ under N(u, σ²I) is at most Φ(Φ⁻¹(a) + |u|/σ) and at least Φ(Φ⁻¹(a) − |u|/σ) (Neyman and Pearson), so

    E_P φ − e^ε E_Q φ  ≤  Σ w_i Φ(Φ⁻¹(a) + i/σ) − e^ε Σ v_j Φ(Φ⁻¹(a) − j/σ),

and in one dimension the half-line with that a attains every term at once. The other direction is its mirror image.
For replaced records this is the pair that dp-accounting uses (k = 1); for added or removed ones it is the mixture
mechanism of arXiv:2310.15526. It is attained by gradients that all point the same way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ...foundation import InputError
from .composed import RepeatedMechanism
from .gaussian import Gaussian
from .interval import Interval
from .mixture_law import mixture_law, mixture_step
from .moment_bound import MomentBound, gaussian_moments
from .parameters import noise, whole_number
from .ratio_law import RatioLaw


@dataclass(frozen=True)
class GaussianMixture(RepeatedMechanism):
    """present_weights w_0, w_1, …; absent_weights v_0, v_1, …: each non-negative and summing to 1; steps; σ."""

    present_weights: tuple[float, ...]
    absent_weights: tuple[float, ...]
    steps: int
    noise_multiplier: float
    name: ClassVar[str] = "gaussian_mixture"

    def __post_init__(self) -> None:
        for name in ("present_weights", "absent_weights"):
            weights = tuple(float(w) for w in getattr(self, name))
            if not weights or min(weights) < 0 or abs(sum(weights) - 1) > 1e-9:
                raise InputError(f"{name} must be probabilities that sum to 1, got {getattr(self, name)!r}")
            object.__setattr__(self, name, weights)
        object.__setattr__(self, "steps", whole_number("steps", self.steps))
        object.__setattr__(self, "noise_multiplier", noise(self.noise_multiplier))

    @classmethod
    def of_poisson(
        cls, sampling_rate: float, steps: int, noise_multiplier: float, present: int, absent: int
    ) -> GaussianMixture:
        """`present` records against `absent` others, each in each step with probability sampling_rate."""
        q = sampling_rate
        weights = [tuple(math.comb(k, i) * q**i * (1 - q) ** (k - i) for i in range(k + 1)) for k in (present, absent)]
        return cls(weights[0], weights[1], steps, noise_multiplier)

    @property
    def copies(self) -> int:
        return self.steps

    def repeated(self, copies: int) -> GaussianMixture:
        return replace(self, steps=copies)

    @property
    def log_one_plus_chi_square(self) -> float:
        """Σ w_i w_j e^{ij/σ²} against N(0, σ²); no closed form, so ∞, where the other side is a mixture too."""
        if len(self.absent_weights) > 1:
            return math.inf
        logs = [
            math.log(a) + math.log(b) + i * j / self.noise_multiplier**2
            for i, a in enumerate(self.present_weights)
            for j, b in enumerate(self.present_weights)
            if a > 0 and b > 0
        ]
        return self.steps * float(np.logaddexp.reduce(logs)) * (1 + 1e-12)

    @property
    def gaussian(self) -> Gaussian:
        distance = len(self.present_weights) + len(self.absent_weights) - 2
        return Gaussian(self.noise_multiplier / max(distance, 1), self.steps)

    @property
    def is_gaussian(self) -> bool:
        return self.present_weights[-1] == 1 and self.absent_weights[-1] == 1

    def moments(self, direction: str) -> MomentBound:
        """Of the full-batch mechanism that dominates."""
        return gaussian_moments(self.gaussian.mu)

    def log_step(self, resolution: float) -> float:
        return mixture_step(self.present_weights, self.absent_weights, self.noise_multiplier, resolution)

    def ratio_law(
        self, resolution: float, tail: float, longest: int, extended: bool = False, log_step: float | None = None
    ) -> RatioLaw:
        step = self.log_step(resolution) if log_step is None else log_step
        return mixture_law(
            self.present_weights, self.absent_weights, self.noise_multiplier, tail, longest, extended, step
        )

    def accuracy_bound(self) -> float:
        """No closed form of its own: the upper end of `accuracy()`."""
        return float(self.accuracy().upper)

    def total_variation_in_closed_form(self) -> Interval:
        return Interval(0.0, 2 * float(self.gaussian.accuracy().upper) - 1)

    def epsilon_lower_in_closed_form(self, delta: float) -> float:
        return 0.0

    def record(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "present_weights": list(self.present_weights),
            "absent_weights": list(self.absent_weights),
            "steps": self.steps,
            "noise_multiplier": self.noise_multiplier,
        }
