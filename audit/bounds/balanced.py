"""k out of t: every record is used in exactly k of the t steps of an epoch, drawn at random ("balanced" sampling).

Above: k-out-of-t reveals no more than k rounds of 1-out-of-⌊t/k⌋ (Feldman and Shenfeld, arXiv:2502.08202, lemma 3.2).
Below: the pair itself, through the sum of the steps' likelihood ratios.
"""

from __future__ import annotations

import math
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
class BalancedAllocation(Bracketed):
    """steps_per_epoch t, selected k ≤ t, epochs E (a fresh draw in each), noise_multiplier σ. Add/remove adjacency."""

    steps_per_epoch: int
    selected: int
    epochs: int
    noise_multiplier: float
    name: ClassVar[str] = "balanced_allocation"
    certainty: ClassVar[str] = "upper end certified (k rounds of 1 out of ⌊t/k⌋), lower end certified (its own pair)"

    def __post_init__(self) -> None:
        for name in ("steps_per_epoch", "selected", "epochs"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name)))
        object.__setattr__(self, "noise_multiplier", noise(self.noise_multiplier))
        if self.selected > self.steps_per_epoch:
            raise InputError(
                f"selected must be at most steps_per_epoch {self.steps_per_epoch}, got {self.selected}: "
                "a record is used at most once in a step"
            )

    def above(self) -> FromMechanism:
        bins = self.steps_per_epoch // self.selected
        return FromMechanism(RandomAllocation(bins, self.selected * self.epochs, self.noise_multiplier))

    def below(self) -> list[FromMechanism | FromLaws]:
        return [FromLaws(SelectedStatistic(self.steps_per_epoch, self.selected, self.epochs, self.noise_multiplier))]

    def record(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "steps_per_epoch": self.steps_per_epoch,
            "selected": self.selected,
            "epochs": self.epochs,
            "noise_multiplier": self.noise_multiplier,
        }


@dataclass(frozen=True)
class SelectedStatistic:
    """k different steps hold the record. Good for lower ends only."""

    steps: int
    selected: int
    epochs: int
    noise_multiplier: float

    def parts(
        self, resolution: float, tail: float, longest: int, extended: bool = False
    ) -> Sequence[tuple[RatioLaw, int]]:
        one = RandomAllocation(self.steps, 1, self.noise_multiplier)
        step = one.log_step(resolution) * math.sqrt(self.selected)
        present = [(1.0, (1,) * self.selected)]
        law = statistic_law(self.steps, self.noise_multiplier, present, [(1.0, ())], resolution, longest, step)
        return [(law, self.epochs)]
