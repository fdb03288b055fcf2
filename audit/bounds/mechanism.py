"""What every mechanism, and so every claim, can be asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from .interval import Interval
from .trade_off import TradeOffCurve

RELATIVE_WIDTH = 1e-3  # of an interval's upper end: what ε, δ and TPR are refined to unless told otherwise


class Mechanism(ABC):
    """A training algorithm's privacy as theory states it, under add/remove adjacency.

    Intervals contain the exact value of the mechanism's dominating pair. `direction`: "remove" compares the run with
    the record to the one without, "add" the reverse, "both" takes the worse. `relative_width` is what an interval is
    refined to, relative to its upper end; where that is missed, the interval's remark says so. Accuracy is that of the
    best membership guess at prior 1/2, 1/2 + TV/2.
    """

    name: ClassVar[str]

    @abstractmethod
    def accuracy_bound(self) -> float:
        """An upper bound of the attack accuracy in closed form; the upper end of `accuracy()` where there is none."""

    @abstractmethod
    def accuracy(self, width: float = 1e-6) -> Interval: ...

    @abstractmethod
    def delta(self, epsilon: float, direction: str = "both", relative_width: float = RELATIVE_WIDTH) -> Interval: ...

    @abstractmethod
    def epsilon(self, delta: float, direction: str = "both", relative_width: float = RELATIVE_WIDTH) -> Interval: ...

    @abstractmethod
    def true_positive_rate(
        self, false_positive_rate: ArrayLike, direction: str = "both", relative_width: float = RELATIVE_WIDTH
    ) -> Interval: ...

    @abstractmethod
    def trade_off_curve(self) -> TradeOffCurve: ...

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """The mechanism as it stands in run.json, claim.json and audit.json."""
