"""What a plan chooses between: settings of DP-SGD, and the grid of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from ...foundation import InputError
from ..bounds.parameters import positive, whole_number

# For data of some thousand rows and small networks; every one of them is an option. What the best of this grid is worth
# next to the planner's choice: reports/experiments/plan_against_grid.py.
STEPS_PER_EPOCH = (4, 8, 16)
EPOCHS = (10, 20, 40)
CLIPPING_NORMS = (0.25, 1.0, 4.0)
STEP_LENGTHS = (1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True)
class Setting:
    """The parameters that are free once the budget stands: the noise multiplier follows from M, E and the budget."""

    steps_per_epoch: int
    epochs: int
    clipping_norm: float
    learning_rate: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Setting:
        return cls(
            whole_number("steps_per_epoch", content["steps_per_epoch"]),
            whole_number("epochs", content["epochs"]),
            positive("clipping_norm", content["clipping_norm"]),
            positive("learning_rate", content["learning_rate"]),
        )

    @property
    def steps(self) -> int:
        return self.steps_per_epoch * self.epochs

    def epochs_at(self, turns: int, of: int) -> int:
        """Whole epochs after `turns` of `of` equal parts of the run, rounded up."""
        return -(-self.epochs * turns // of)


def grid(
    steps_per_epoch: Sequence[float] | None = None,
    epochs: Sequence[float] | None = None,
    clipping_norms: Sequence[float] | None = None,
    learning_rates: Sequence[float] | None = None,
) -> tuple[Setting, ...]:
    """Every combination. Without learning rates: such that learning_rate x clipping_norm, the longest step that one
    example's gradient can cause, runs over STEP_LENGTHS, since with most gradients clipped only the product matters."""
    settings = []
    norms = clipping_norms or CLIPPING_NORMS
    for m, e, c in product(steps_per_epoch or STEPS_PER_EPOCH, epochs or EPOCHS, norms):
        norm = positive("clipping_norm", c)
        rates = learning_rates or [length / norm for length in STEP_LENGTHS]
        settings += [
            Setting(
                whole_number("steps_per_epoch", m), whole_number("epochs", e), norm, positive("learning_rate", rate)
            )
            for rate in rates
        ]
    if len(set(settings)) < len(settings):
        raise InputError("the grid holds a setting twice: give each value of an option once")
    return tuple(settings)
