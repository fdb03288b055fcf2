"""Theory's side of the figures: what audit.bounds promises for the mechanism that an audit claims.

Nothing is derived here. The exact value is asked for at so many points that its line is smooth, over the whole range;
at fewer for very long epochs, where a point costs most of a second. Which points depends on the claim alone, never on a
clock, so that a report is reproducible.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..audit.bounds import EpsilonDelta, Mechanism, TradeOffCurve, with_noise_multiplier
from ..audit.verdict.allowed import Allowed

FORMULA = ("random_allocation", "fixed_bins")  # a closed form that is an upper bound
EXACT_FORMULA = ("gaussian", "full_batch")  # a closed form that is the value itself
FORMULA_POINTS = 161
EXACT_POINTS, FEW_EXACT_POINTS = 81, 21
EXACT_WIDTH = 1e-3  # of an accuracy: a third of a line's width in the figure
WIDEST = 1e-2  # an interval that came out wider than this is not drawn
LONG_EPOCH, MOST_STEPS = 5_000, 50_000  # few points, and none but the claim's own


@dataclass(frozen=True)
class AccuracyCurve:
    """Attack accuracy's upper bound along one parameter of the claim, the others held at the claim's values.

    A formula where there is one (`formula_is_exact`: nothing smaller is true), else empty; the exact value as an
    interval at many points where the formula is not it.
    """

    parameter: str  # noise_multiplier or epsilon
    claimed: float
    formula_is_exact: bool
    values: np.ndarray
    bound: np.ndarray
    exact_values: np.ndarray
    exact_lower: np.ndarray
    exact_upper: np.ndarray


def parameter_of(claim: Allowed | None) -> str | None:
    """The axis on which a claim's curve is drawn: noise_multiplier, or epsilon for a bare (ε, δ)."""
    if claim is None:
        return None
    names = ("noise_multiplier", "epsilon")
    return next((name for name in names if _positive(claim.record.get(name))), None)


def accuracy_curve(claim: Allowed, low: float, high: float) -> AccuracyCurve | None:
    """The bound over [low, high] of the claim's parameter, or None where theory has no mechanism of that name."""
    parameter = parameter_of(claim)
    if parameter is None or claim.mechanism is None:
        return None
    known = claim.accuracy
    at_claim = None if known is None or known.lower is None or known.upper is None else (known.lower, known.upper)
    return _accuracy_curve(claim.mechanism, parameter, low, high, at_claim)


@lru_cache(maxsize=64)
def _accuracy_curve(
    mechanism: Mechanism, parameter: str, low: float, high: float, at_claim: tuple[float, float] | None
) -> AccuracyCurve:
    name = mechanism.record().get("name")
    formula_is_exact = parameter == "epsilon" or name in EXACT_FORMULA
    claimed = float(mechanism.record()[parameter])

    def at(value: float) -> Mechanism:
        match mechanism:
            case EpsilonDelta():
                return EpsilonDelta(value, mechanism.delta_value)
            case _:
                return with_noise_multiplier(mechanism, value)

    values = np.geomspace(low, high, FORMULA_POINTS) if formula_is_exact or name in FORMULA else np.empty(0)
    bound = np.array([at(value).accuracy_bound() for value in values])
    steps = getattr(mechanism, "steps_per_epoch", 1)
    exact = [] if formula_is_exact or at_claim is None else [(claimed, *at_claim)]
    if not formula_is_exact and steps <= MOST_STEPS:
        for value in np.geomspace(low, high, EXACT_POINTS if steps <= LONG_EPOCH else FEW_EXACT_POINTS).tolist():
            room = at(value).accuracy_bound() - 0.5  # where the line is low, the width is finer
            interval = at(value).accuracy(width=min(EXACT_WIDTH, max(1e-6, 0.02 * room)))
            exact.append((value, float(interval.lower), float(interval.upper)))
    exact = sorted(one for one in exact if one[2] - one[1] <= WIDEST)
    return AccuracyCurve(
        parameter=parameter,
        claimed=claimed,
        formula_is_exact=formula_is_exact,
        values=values,
        bound=bound,
        exact_values=np.array([value for value, _, _ in exact]),
        exact_lower=np.array([lower for _, lower, _ in exact]),
        exact_upper=np.array([upper for _, _, upper in exact]),
    )


@dataclass(frozen=True)
class TradeOff:
    """The claimed curve: at each false-positive rate, the least false-negative rate that the claim allows."""

    false_positive_rate: np.ndarray
    false_negative_rate: np.ndarray
    label: str


def trade_off(claim: Allowed | None, least: float) -> TradeOff | None:
    """The claimed curve from false-positive rate `least` to 1, or None without a claim that theory knows."""
    if claim is None or claim.mechanism is None:
        return None
    curve = _curve(claim.mechanism)
    fine = np.geomspace(min(least, 1e-3), 1.0, 200)
    rates = np.unique(np.concatenate([fine, 1.0 - fine, np.linspace(0.0, 1.0, 101)]))
    rates = rates[rates >= 0.0]
    return TradeOff(rates, np.asarray(curve(rates), dtype=float), str(getattr(curve, "label", "")))


@lru_cache(maxsize=16)
def _curve(mechanism: Mechanism) -> TradeOffCurve:
    return mechanism.trade_off_curve()


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
