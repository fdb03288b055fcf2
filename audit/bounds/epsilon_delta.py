"""A bare (ε, δ) guarantee: what it says, and nothing of the mechanism behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ...foundation import InputError
from .closed_form import epsilon_delta_accuracy_bound
from .interval import Interval
from .mechanism import RELATIVE_WIDTH, Mechanism
from .names import EPSILON_DELTA
from .parameters import check_delta, check_direction, check_epsilon, check_rates
from .trade_off import TradeOffCurve, epsilon_delta_curve


@dataclass(frozen=True)
class EpsilonDelta(Mechanism):
    """Some (ε, δ)-DP mechanism. Intervals run from "it may reveal nothing" to what the worst such mechanism reveals."""

    epsilon_value: float
    delta_value: float = 0.0
    name: ClassVar[str] = EPSILON_DELTA

    def __init__(self, epsilon: float, delta: float = 0.0) -> None:
        if not math.isfinite(check_epsilon(epsilon)):
            raise InputError(f"epsilon must be finite, got {epsilon!r}: an infinite one claims nothing")
        object.__setattr__(self, "epsilon_value", check_epsilon(epsilon))
        object.__setattr__(self, "delta_value", check_delta(delta))

    def accuracy_bound(self) -> float:
        """(e^ε + δ)/(1 + e^ε): attained by the worst (ε, δ)-DP mechanism."""
        return epsilon_delta_accuracy_bound(self.epsilon_value, self.delta_value)

    def accuracy(self, width: float = 1e-6) -> Interval:
        return Interval(0.5, self.accuracy_bound())

    def delta(self, epsilon: float, direction: str = "both", relative_width: float = RELATIVE_WIDTH) -> Interval:
        """The smallest δ' for which (ε', δ') follows: δ from ε on, the worst mechanism's profile below."""
        check_direction(direction)
        other = check_epsilon(epsilon)
        if other >= self.epsilon_value:
            return Interval(0.0, self.delta_value)
        # worst pair: δ escapes, the rest is randomised response at ε
        if self.epsilon_value == math.inf:
            return Interval(0.0, 1.0)
        respond = -math.expm1(other - self.epsilon_value) / (1 + math.exp(-self.epsilon_value))
        return Interval(0.0, min(1.0, self.delta_value + (1 - self.delta_value) * respond))

    def epsilon(self, delta: float, direction: str = "both", relative_width: float = RELATIVE_WIDTH) -> Interval:
        """The smallest ε' for which (ε', δ') follows: ε at the stated δ; more δ buys less ε, less δ none at all."""
        check_direction(direction)
        other = check_delta(delta)
        if other < self.delta_value:
            return Interval(0.0, math.inf)
        if self.epsilon_value == math.inf:
            return Interval(0.0, math.inf)
        spare = (other - self.delta_value) / (1 - self.delta_value) * (1 + math.exp(-self.epsilon_value))
        return Interval(0.0, max(0.0, self.epsilon_value + math.log1p(-spare)) if spare < 1 else 0.0)

    def true_positive_rate(
        self, false_positive_rate: ArrayLike, direction: str = "both", relative_width: float = RELATIVE_WIDTH
    ) -> Interval:
        check_direction(direction)
        rates = check_rates(false_positive_rate)
        upper = 1.0 - np.asarray(self.trade_off_curve()(rates))
        return Interval(rates[()], np.maximum(rates, upper)[()])

    def trade_off_curve(self) -> TradeOffCurve:
        return epsilon_delta_curve(self.epsilon_value, self.delta_value)

    def record(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon_value, "delta": self.delta_value}
