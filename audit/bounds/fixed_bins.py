"""Fixed bins ("balls and bins"): one allocation, drawn once and reused in every epoch.

The E epochs see the record at the same step each time, so their average is a sufficient statistic: the pair is that of
one epoch of random allocation at noise σ/√E, in every respect. It is another mechanism than random allocation, which
draws afresh in every epoch, and a more revealing one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import ArrayLike

from .interval import Interval
from .mechanism import RELATIVE_WIDTH, Mechanism
from .names import FIXED_BINS
from .parameters import noise, whole_number
from .random_allocation import RandomAllocation
from .trade_off import TradeOffCurve

if TYPE_CHECKING:
    from .calibration import Calibration


@dataclass(frozen=True)
class FixedBins(Mechanism):
    """steps_per_epoch M, epochs E, noise_multiplier σ (on the sum, over the clipping norm; add/remove adjacency)."""

    steps_per_epoch: int
    epochs: int
    noise_multiplier: float
    name: ClassVar[str] = FIXED_BINS

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps_per_epoch", whole_number("steps_per_epoch", self.steps_per_epoch))
        object.__setattr__(self, "epochs", whole_number("epochs", self.epochs))
        object.__setattr__(self, "noise_multiplier", noise(self.noise_multiplier))

    @property
    def one_epoch(self) -> RandomAllocation:
        return RandomAllocation(self.steps_per_epoch, 1, self.noise_multiplier / math.sqrt(self.epochs))

    @property
    def chi_square(self) -> float:
        return self.one_epoch.chi_square

    def accuracy_bound(self) -> float:
        return self.one_epoch.accuracy_bound()

    def accuracy(self, width: float = 1e-6) -> Interval:
        return self.one_epoch.accuracy(width)

    def delta(self, epsilon: float, direction: str = "both", relative_width: float = RELATIVE_WIDTH) -> Interval:
        return self.one_epoch.delta(epsilon, direction, relative_width)

    def epsilon(self, delta: float, direction: str = "both", relative_width: float = RELATIVE_WIDTH) -> Interval:
        return self.one_epoch.epsilon(delta, direction, relative_width)

    def true_positive_rate(
        self, false_positive_rate: ArrayLike, direction: str = "both", relative_width: float = RELATIVE_WIDTH
    ) -> Interval:
        return self.one_epoch.true_positive_rate(false_positive_rate, direction, relative_width)

    def trade_off_curve(self) -> TradeOffCurve:
        curve = self.one_epoch.trade_off_curve()
        return TradeOffCurve(f"{self.name}, {curve.label}", curve.evaluate, curve.evaluate_complement)

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
        from .calibration import calibrate, make_target

        target = make_target(accuracy, true_positive_rate, false_positive_rate, epsilon, delta)
        return calibrate(lambda sigma: cls(steps_per_epoch, epochs, sigma), target, tolerance)

    def record(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "steps_per_epoch": self.steps_per_epoch,
            "epochs": self.epochs,
            "noise_multiplier": self.noise_multiplier,
        }
