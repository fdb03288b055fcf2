"""Theory's side of the figures: what audit.bounds promises for the mechanism that an audit claims.

Nothing is derived here. The exact value costs more than the closed form by orders of magnitude, so it is asked for
at few points; the number of points depends on the claim alone, never on a clock, so that a report is reproducible.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..audit.bounds import EpsilonDelta, mechanism_from_record
from ..foundation import InputError
from .audit_file import Claim

CLOSED_FORM_POINTS = 161
EXACT_POINTS = 13
EXACT_WIDTH = 1e-3  # of an accuracy: a third of a line's width in the figure


@dataclass(frozen=True)
class AccuracyCurve:
    """Attack accuracy's upper bound along one parameter of the claim, the others held at the claim's values."""

    parameter: str  # noise_multiplier or epsilon
    claimed: float
    values: np.ndarray
    bound: np.ndarray
    exact_values: np.ndarray  # where the exact value was asked for; empty if the bound is exact itself
    exact_lower: np.ndarray
    exact_upper: np.ndarray


def mechanism_of(claim: Claim) -> Any | None:
    """The claim's mechanism, or None where this version knows none of that name."""
    try:
        return mechanism_from_record(dict(claim.mechanism))
    except (InputError, KeyError, TypeError):
        return None


def parameter_of(claim: Claim | None) -> str | None:
    """The axis on which a claim's curve is drawn: noise_multiplier, or epsilon for a bare (ε, δ)."""
    if claim is None:
        return None
    return next(
        (name for name in ("noise_multiplier", "epsilon") if _positive(claim.mechanism.get(name))),
        None,
    )


def accuracy_curve(claim: Claim, low: float, high: float) -> AccuracyCurve | None:
    """The bound over [low, high] of the claim's parameter, or None where theory has no mechanism of that name."""
    parameter = parameter_of(claim)
    if parameter is None or mechanism_of(claim) is None:
        return None
    return _accuracy_curve(_frozen(claim.mechanism), parameter, low, high)


@lru_cache(maxsize=64)
def _accuracy_curve(record: tuple[tuple[str, Any], ...], parameter: str, low: float, high: float) -> AccuracyCurve:
    mechanism: Any = mechanism_from_record(dict(record))
    values = np.geomspace(low, high, CLOSED_FORM_POINTS)
    bound = np.array([replace(mechanism, **{parameter: float(v)}).accuracy_bound() for v in values])
    exact = np.empty(0) if isinstance(mechanism, EpsilonDelta) else np.geomspace(low, high, EXACT_POINTS)
    intervals = [replace(mechanism, **{parameter: float(v)}).accuracy(width=EXACT_WIDTH) for v in exact]
    return AccuracyCurve(
        parameter=parameter,
        claimed=float(dict(record)[parameter]),
        values=values,
        bound=bound,
        exact_values=exact,
        exact_lower=np.array([i.lower for i in intervals]),
        exact_upper=np.array([i.upper for i in intervals]),
    )


@dataclass(frozen=True)
class TradeOff:
    """The claimed curve: at each false-positive rate, the least false-negative rate that the claim allows."""

    false_positive_rate: np.ndarray
    false_negative_rate: np.ndarray
    label: str


def trade_off(claim: Claim | None, least: float) -> TradeOff | None:
    """The claimed curve from false-positive rate `least` to 1, or None without a claim that theory knows."""
    if claim is None or mechanism_of(claim) is None:
        return None
    curve = _curve(_frozen(claim.mechanism))
    fine = np.geomspace(min(least, 1e-3), 1.0, 200)
    rates = np.unique(np.concatenate([fine, 1.0 - fine, np.linspace(0.0, 1.0, 101)]))
    rates = rates[rates >= 0.0]
    return TradeOff(rates, np.asarray(curve(rates), dtype=float), str(getattr(curve, "label", "")))


@lru_cache(maxsize=16)
def _curve(record: tuple[tuple[str, Any], ...]) -> Any:
    return mechanism_from_record(dict(record)).trade_off_curve()


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def _frozen(mechanism: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((str(name), value) for name, value in mechanism.items() if not isinstance(value, dict | list)))
