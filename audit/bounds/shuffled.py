"""Batches of fixed size from a shuffled order: what ordinary loaders do. Certified from below only.

No upper bound is known that would be of use. Below, a concrete pair: every other record's gradient is the vector −C·e,
the record's own is +C·e, so that the batch with it stands out by 2C; without it ("zero-out") the batch stands out by C,
and with it replaced by one more of the others by nothing (Chua et al., arXiv:2403.17673). Under replace-one that is
random allocation with half the noise, in full; under zero-out a mixture of N(2e_t) against one of N(e_t). An audit or
an accountant that calls such a run Poisson can be held against this: it reveals at least so much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...foundation import InputError
from .bracketed import Bracketed, FromLaws, FromMechanism
from .group_statistic import statistic_law
from .parameters import noise, whole_number
from .random_allocation import RandomAllocation
from .ratio_law import RatioLaw


@dataclass(frozen=True)
class ShuffledBatches(Bracketed):
    """steps_per_epoch M batches of one size, epochs E (shuffled afresh), σ; adjacency "add_remove" (zero-out) or
    "replace_one"."""

    steps_per_epoch: int
    epochs: int
    noise_multiplier: float
    neighbours: str = "add_remove"
    name: ClassVar[str] = "shuffled_batches"
    certainty: ClassVar[str] = "lower end certified (a concrete pair); nothing is known from above"

    def __post_init__(self) -> None:
        for name in ("steps_per_epoch", "epochs"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name)))
        object.__setattr__(self, "noise_multiplier", noise(self.noise_multiplier))
        if self.neighbours not in ("add_remove", "replace_one"):
            raise InputError(f"neighbours must be add_remove or replace_one, got {self.neighbours!r}")

    def above(self) -> None:
        return None

    def below(self) -> list[FromMechanism | FromLaws]:
        if self.neighbours == "replace_one":
            half = self.noise_multiplier / 2
            return [FromMechanism(RandomAllocation(self.steps_per_epoch, self.epochs, half))]
        return [FromLaws(ShuffledStatistic(self.steps_per_epoch, self.epochs, self.noise_multiplier))]

    def record(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "steps_per_epoch": self.steps_per_epoch,
            "epochs": self.epochs,
            "noise_multiplier": self.noise_multiplier,
            "neighbours": self.neighbours,
        }


@dataclass(frozen=True)
class ShuffledStatistic:
    """One batch that stands out by 2C against one that stands out by C. Good for lower ends only."""

    steps: int
    epochs: int
    noise_multiplier: float

    def parts(
        self, resolution: float, tail: float, longest: int, extended: bool = False
    ) -> Sequence[tuple[RatioLaw, int]]:
        step = RandomAllocation(self.steps, 1, self.noise_multiplier).log_step(resolution)
        pair = ([(1.0, (2,))], [(1.0, (1,))])
        return [(statistic_law(self.steps, self.noise_multiplier, *pair, resolution, longest, step), self.epochs)]
