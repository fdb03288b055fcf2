"""Fixed-size samples without replacement, drawn afresh in every step; neighbours that differ by one replaced record.

One step, q = batch_size/records. With probability 1 − q the sample leaves the slot out and tells nothing; with it in,
another record of the sample left. So each sum with the slot lies within 2C of one without it, and within 2C of the same
sum after the replacement: δ(ε) ≤ q·δ₂(ln(1 + (e^ε − 1)/q)) for ε ≥ 0, δ₂ that of N(2, σ²) against N(0, σ²) (Balle,
Barthe and Gaboardi 2018, theorem 9), in both directions. For ε ≥ 0 that is the profile of Poisson sampling with half
the noise, direction "remove". The pair that has it on both sides dominates, and compositions are of that pair: each
direction's own would not do (Lebeda et al., arXiv:2405.20769). Below: all others' gradients are −C·e, the record's is
+C·e and its replacement's −C·e, which is Poisson sampling with half the noise, in one direction or the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ...foundation import InputError
from .bracketed import Bracketed, FromLaws, FromMechanism
from .lattice import Measure
from .parameters import noise, whole_number
from .poisson import PoissonSampling
from .ratio_law import RatioLaw


@dataclass(frozen=True)
class FixedSizeSampling(Bracketed):
    """batch_size of records, without replacement, in each of steps steps; σ relative to C. Replace-one adjacency."""

    batch_size: int
    records: int
    steps: int
    noise_multiplier: float
    name: ClassVar[str] = "fixed_size_sampling"
    adjacency: ClassVar[str] = "replace_one"
    certainty: ClassVar[str] = "upper end certified (theorem for replace-one), lower end certified (a concrete pair)"

    def __post_init__(self) -> None:
        for name in ("batch_size", "records", "steps"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name)))
        object.__setattr__(self, "noise_multiplier", noise(self.noise_multiplier))
        if self.batch_size > self.records:
            raise InputError(f"batch_size must be at most records {self.records}, got {self.batch_size}")

    @property
    def _poisson(self) -> PoissonSampling:
        return PoissonSampling(self.batch_size / self.records, self.steps, self.noise_multiplier / 2)

    def above(self) -> FromMechanism | FromLaws:
        poisson = self._poisson
        return FromMechanism(poisson) if poisson.is_gaussian else FromLaws(BothSides(poisson))

    def below(self) -> list[FromMechanism | FromLaws]:
        return [FromMechanism(self._poisson)]

    def _sides(self, direction: str) -> list[str]:
        return super()._sides("both" if direction in ("remove", "add") else direction)  # replacing has no direction

    def record(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "batch_size": self.batch_size,
            "records": self.records,
            "steps": self.steps,
            "noise_multiplier": self.noise_multiplier,
        }


@dataclass(frozen=True)
class BothSides:
    """The symmetric pair whose profile for ε ≥ 0 is a mechanism's "remove". Good for upper ends only.

    On the lattice: its law above ratio 1 as it is, below 1 its mirror image with the roles exchanged, the rest at 1.
    """

    one_sided: PoissonSampling

    def parts(
        self, resolution: float, tail: float, longest: int, extended: bool = False
    ) -> Sequence[tuple[RatioLaw, int]]:
        return [(_mirrored(law), copies) for law, copies in self.one_sided.parts(resolution, tail, longest, False)]


def _mirrored(law: RatioLaw) -> RatioLaw:
    absent, present = law.upper_absent, law.upper_present
    above = max(0, 1 - absent.start)  # index of bin 1
    high_q, high_p = absent.mass[above:], present.mass[above:]
    start = max(1, absent.start)
    gap = np.zeros(start - 1)
    rest = max(0.0, 1.0 - float(high_q.sum()) - float(high_p.sum()))
    q = np.concatenate((high_p[::-1], gap, [rest], gap, high_q))
    p = np.concatenate((high_q[::-1], gap, [rest], gap, high_p))
    first = -(start + len(high_q) - 1)
    relative = present.relative + 1e-15
    nothing = Measure(0, np.zeros(1))
    return replace(
        law,
        upper_absent=Measure(first, q, relative=relative),
        upper_present=Measure(first, p, relative=relative),
        lower_absent=nothing,
        lower_present=nothing,
        lower_absent_tilted=nothing,
        lower_present_tilted=nothing,
        base_error=2 * law.base_error,
        clip_error=2 * law.clip_error,
        mean_error=2 * law.mean_error,
        missing=2 * law.missing,
    )
