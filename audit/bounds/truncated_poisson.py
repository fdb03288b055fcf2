"""Poisson samples cut to at most `largest_batch` records, by leaving out some at random, as fixed-shape code does.

Above: let it be told whether the others alone fill the batch. If not, the step is Poisson sampling. If so, the batch
without the record is a uniformly random set of B others, however many there were; with it, the record takes the place
of one of them with probability q' = q·E[B/(others + 1)], whichever the set. That moves the sum by at most 2C: Poisson
sampling at rate q' with half the noise. (arXiv:2508.15089 and dp-accounting's TruncatedSubsampledGaussianDpEvent use a
replaced record's pair there, which reveals more.) Below: all others have no gradient, so that the record is simply in
with a smaller probability, Poisson sampling at that rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.stats import binom

from .bracketed import Bracketed, FromLaws, FromMechanism
from .lattice import Measure
from .parameters import noise, whole_number, within
from .poisson import PoissonSampling
from .ratio_law import RatioLaw


@dataclass(frozen=True)
class TruncatedPoisson(Bracketed):
    """records n (with the one in question), sampling_rate q, largest_batch B, steps, σ. Add/remove adjacency."""

    records: int
    sampling_rate: float
    largest_batch: int
    steps: int
    noise_multiplier: float
    name: ClassVar[str] = "truncated_poisson"
    certainty: ClassVar[str] = "upper end certified (truncation told), lower end certified (a concrete pair)"

    def __post_init__(self) -> None:
        for name in ("records", "largest_batch", "steps"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name)))
        rate = within("sampling_rate", self.sampling_rate, 0, 1, "expected batch size / records, below 1")
        object.__setattr__(self, "sampling_rate", rate)
        object.__setattr__(self, "noise_multiplier", noise(self.noise_multiplier))

    @property
    def truncation_probability(self) -> float:
        """That the other n − 1 records alone fill the batch."""
        return float(binom.sf(self.largest_batch - 1, self.records - 1, self.sampling_rate))

    @property
    def kept_rate(self) -> float:
        """The probability that the record is in, given that the others alone fill the batch: q·E[B/(others + 1)]."""
        n, q, b = self.records, self.sampling_rate, self.largest_batch
        filled = self.truncation_probability
        if filled == 0:
            return q
        return min(q, float(binom.sf(b, n, q)) * b / (n * filled))

    def above(self) -> FromMechanism | FromLaws:
        poisson = PoissonSampling(self.sampling_rate, self.steps, self.noise_multiplier)
        return FromMechanism(poisson) if self.truncation_probability == 0 else FromLaws(Told(self))

    def below(self) -> list[FromMechanism | FromLaws]:
        filled = self.truncation_probability
        rate = (1 - filled) * self.sampling_rate + filled * self.kept_rate
        return [FromMechanism(PoissonSampling(rate * (1 - 1e-9), self.steps, self.noise_multiplier))]

    def record(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "records": self.records,
            "sampling_rate": self.sampling_rate,
            "largest_batch": self.largest_batch,
            "steps": self.steps,
            "noise_multiplier": self.noise_multiplier,
        }


@dataclass(frozen=True)
class Told:
    """A step whose observer knows whether the batch was filled: a mixture of two pairs. Good for upper ends only."""

    mechanism: TruncatedPoisson

    def parts(
        self, resolution: float, tail: float, longest: int, extended: bool = False
    ) -> Sequence[tuple[RatioLaw, int]]:
        m = self.mechanism
        filled = m.truncation_probability * (1 + 1e-9)
        rate = min(1.0, m.kept_rate * (1 + 1e-9))
        free = PoissonSampling(m.sampling_rate, m.steps, m.noise_multiplier)
        full = PoissonSampling(rate, m.steps, m.noise_multiplier / 2)
        step = free.log_step(resolution)
        if filled > 1e-6:
            step = max(step, filled**0.5 * full.log_step(resolution))
        laws = [one.ratio_law(resolution, tail / m.steps, longest, False, step) for one in (free, full)]
        return [(_mixed(laws, (1 - filled, filled)), m.steps)]


def _mixed(laws: list[RatioLaw], weights: tuple[float, float]) -> RatioLaw:
    def measure(of: str) -> Measure:
        measures = [getattr(law, of) for law in laws]
        start, end = min(m.start for m in measures), max(m.end for m in measures)
        mass = np.zeros(end - start)
        for weight, m in zip(weights, measures, strict=True):
            mass[m.start - start : m.end - start] += weight * m.mass
        return Measure(start, mass, relative=max(m.relative for m in measures) + 1e-15)

    nothing = Measure(0, np.zeros(1))
    return replace(
        laws[0],
        upper_absent=measure("upper_absent"),
        upper_present=measure("upper_present"),
        lower_absent=nothing,
        lower_present=nothing,
        lower_absent_tilted=nothing,
        lower_present_tilted=nothing,
        **{
            name: max(getattr(law, name) for law in laws)
            for name in ("missing", "zero", "base_error", "mean_error", "clip_error")
        },
    )
