"""A run of several phases: each its own mechanism, with its own steps, noise and sampling, one after the other.

The dominating pair of the run is the product of the phases' pairs, also where a phase's training depends on what
earlier ones released (Zhu, Dong and Wang 2022, theorem 10). It is attained where each phase's pair is: one record
whose clipped gradient is the same vector of norm C throughout. So the exact value composes, and both ends with it:
every phase's laws stand on one log lattice, and their convolution powers are multiplied in one transform.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar

from ...foundation import InputError
from .closed_form import sharp_total_variation
from .composed import ComposedMechanism, RepeatedMechanism
from .fixed_bins import FixedBins
from .gaussian import Gaussian
from .interval import Interval
from .mechanism import Mechanism
from .moment_bound import MomentBound
from .parameters import positive, whole_number
from .poisson import PoissonSampling
from .random_allocation import RandomAllocation
from .ratio_law import RatioLaw
from .step_law import trimmed

if TYPE_CHECKING:
    from .calibration import Calibration


@dataclass(frozen=True)
class Composition(ComposedMechanism):
    """phases: mechanisms with noise, at least one; compositions among them are unrolled. Order does not matter."""

    phases: tuple[Mechanism, ...]
    name: ClassVar[str] = "composition"

    def __init__(self, phases: Sequence[Mechanism]) -> None:
        flat: list[Mechanism] = []
        for number, phase in enumerate(phases):
            if isinstance(phase, Composition):
                flat += phase.phases
            elif isinstance(phase, RepeatedMechanism | FixedBins | Gaussian):
                flat.append(phase)
            else:
                name = getattr(phase, "name", type(phase).__name__)
                raise InputError(
                    f"phase {number} is {name}: only mechanisms with noise compose exactly; state its scheme and noise"
                )
        if not flat:
            raise InputError("a composition needs at least one phase")
        object.__setattr__(self, "phases", tuple(flat))

    @classmethod
    def noise_schedule(cls, steps_per_epoch: int, noise_multipliers: Sequence[float]) -> Composition:
        """Random allocation with one noise multiplier an epoch."""
        return cls([RandomAllocation(steps_per_epoch, 1, sigma) for sigma in noise_multipliers])

    # ------------------------------------------------------------------------------------------------------------ parts

    @property
    def terms(self) -> dict[RepeatedMechanism, int]:
        """One epoch or step of each different kind, and how often it occurs; all full-batch steps together are one."""
        found: dict[RepeatedMechanism, int] = {}
        precision = 0.0  # 1/σ² of the full-batch steps
        for phase in self.phases:
            phase = phase.one_epoch if isinstance(phase, FixedBins) else phase
            if isinstance(phase, RepeatedMechanism) and not phase.is_gaussian:
                one = phase.repeated(1)
                found[one] = found.get(one, 0) + phase.copies
            else:
                full = phase if isinstance(phase, Gaussian) else phase.gaussian  # type: ignore[attr-defined]
                precision += full.steps / full.noise_multiplier**2
        if precision > 0:
            found[PoissonSampling(1.0, 1, 1 / math.sqrt(precision))] = 1
        return found

    def parts(
        self, resolution: float, tail: float, longest: int, extended: bool = False
    ) -> Sequence[tuple[RatioLaw, int]]:
        """On a lattice whose step is the root mean square of those that the parts would choose for themselves: moving
        a part by up to half a step adds as much variance to the whole as it did with each part's own."""
        terms = self.terms
        number = sum(terms.values())
        squares = sum(copies * term.log_step(resolution) ** 2 for term, copies in terms.items())
        step = trimmed(math.sqrt(squares / number))
        return [
            (term.ratio_law(resolution, tail / number, longest, extended, step), copies)
            for term, copies in terms.items()
        ]

    @property
    def gaussian(self) -> Gaussian:
        parts = [(term.repeated(n).gaussian) for term, n in self.terms.items()]
        return Gaussian(1 / math.sqrt(sum(g.steps / g.noise_multiplier**2 for g in parts)))

    @property
    def is_gaussian(self) -> bool:
        return all(term.is_gaussian for term in self.terms)

    # ------------------------------------------------------------------------------------------------------ closed form

    @property
    def chi_square(self) -> float:
        """1 + c is the product of the phases' 1 + c."""
        log_growth = sum(term.repeated(n).log_one_plus_chi_square for term, n in self.terms.items())
        return math.expm1(log_growth) if log_growth < 709 else math.inf

    def accuracy_bound(self) -> float:
        """1/2 + U(c)/2, or the full-batch mechanism's accuracy where that is smaller."""
        return min(0.5 + sharp_total_variation(self.chi_square) / 2, self.gaussian.accuracy_bound())

    def total_variation_in_closed_form(self) -> Interval:
        """Above: chi-square, the full-batch mechanism, the sum over parts. Below: the worst phase alone."""
        known = [(term.total_variation_in_closed_form(), copies) for term, copies in self.terms.items()]
        upper = min(
            sharp_total_variation(self.chi_square) * (1 + 1e-12) + 1e-15,
            2 * float(self.gaussian.accuracy().upper) - 1,
            sum(copies * float(one.upper) for one, copies in known) * (1 + 1e-12),
            1.0,
        )
        lower = max(float(term.repeated(n).total_variation_in_closed_form().lower) for term, n in self.terms.items())
        return Interval(min(lower, upper), upper)

    def epsilon_lower_in_closed_form(self, delta: float) -> float:
        return max(term.repeated(n).epsilon_lower_in_closed_form(delta) for term, n in self.terms.items())

    def moments(self, direction: str) -> MomentBound:
        found = [term.repeated(n).moments(direction) for term, n in self.terms.items()]
        return reduce(MomentBound.plus, found)

    # ------------------------------------------------------------------------------------------------------ calibration

    def scaled(self, factor: float, phase: int | None = None) -> Composition:
        """Every phase's noise multiplier times `factor`, or only that of phase number `phase` (from 0)."""
        factor = positive("factor", factor)
        return Composition(
            [
                replace(p, noise_multiplier=p.noise_multiplier * factor) if phase in (None, i) else p  # type: ignore
                for i, p in enumerate(self.phases)
            ]
        )

    def calibrate(
        self,
        *,
        phase: int | None = None,
        accuracy: float | None = None,
        true_positive_rate: float | None = None,
        false_positive_rate: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        tolerance: float | None = None,
    ) -> Calibration:
        """The smallest factor on all noise multipliers that meets the target, certified from both sides.

        With `phase` (from 0) the factor is on that phase's noise alone. `Calibration.noise_multiplier` is the factor.
        Errors: InputError, also where the other phases miss the target already.
        """
        from .calibration import calibrate, make_target

        if phase is not None and whole_number("phase", phase, at_least=0) >= len(self.phases):
            raise InputError(f"phase must be a number from 0 to {len(self.phases) - 1}, got {phase!r}")
        target = make_target(accuracy, true_positive_rate, false_positive_rate, epsilon, delta)
        return calibrate(lambda factor: self.scaled(factor, phase), target, tolerance)

    def record(self) -> dict[str, Any]:
        return {"name": self.name, "phases": [phase.record() for phase in self.phases]}
