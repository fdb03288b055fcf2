"""Checks of what a user gives: each names the argument, the value and the remedy, and returns a plain number."""

from __future__ import annotations

import math
import numbers
from typing import Any, cast

import numpy as np

from ...foundation import InputError

SMALLEST_NOISE, LARGEST_NOISE = 1e-6, 1e9
LARGEST_WHOLE = 2**53  # beyond it doubles skip whole numbers


def _as_float(name: str, value: Any) -> float:
    try:
        return float(cast(float, value))
    except OverflowError:
        raise InputError(f"{name} is beyond the range of double arithmetic (1.8e308): give a smaller one") from None


def whole_number(name: str, value: Any, at_least: int = 1) -> int:
    """An int from `at_least` to 2⁵³. A float without a fraction (10.0) is accepted, 10.5 is not."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real | np.number):
        raise InputError(f"{name} must be a whole number of at least {at_least}, got {value!r}")
    number = _as_float(name, value)
    if not math.isfinite(number) or number != math.floor(number) or number < at_least:
        raise InputError(f"{name} must be a whole number of at least {at_least}, got {value!r}")
    if number > LARGEST_WHOLE:
        raise InputError(f"{name} must be at most 2**53, got {number:g}: that many cannot have been meant")
    return int(cast(float, value))


def real_number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real | np.number):
        raise InputError(f"{name} must be a number, got {value!r}")
    number = _as_float(name, value)
    if math.isnan(number):
        raise InputError(f"{name} must be a number, got NaN")
    return number


def positive(name: str, value: Any) -> float:
    number = real_number(name, value)
    if not 0 < number < math.inf:
        raise InputError(f"{name} must be positive and finite, got {value!r}")
    return number


def noise(value: Any) -> float:
    """The noise multiplier: standard deviation on the sum of clipped gradients, divided by the clipping norm."""
    number = real_number("noise_multiplier", value)
    if number == 0:
        raise InputError(
            "noise_multiplier is 0: without noise there is no privacy (accuracy 1, epsilon infinite); give one above 0"
        )
    if not SMALLEST_NOISE <= number <= LARGEST_NOISE:
        raise InputError(
            f"noise_multiplier must lie between {SMALLEST_NOISE:g} and {LARGEST_NOISE:g}, got {value!r}: outside, "
            "everything or nothing is told"
        )
    return number


def within(name: str, value: Any, low: float, high: float, remedy: str, *, ends: bool = False) -> float:
    """A number in (low, high), or in [low, high] where `ends`."""
    number = real_number(name, value)
    inside = low <= number <= high if ends else low < number < high
    if not inside:
        bracket = f"[{low:g}, {high:g}]" if ends else f"({low:g}, {high:g})"
        raise InputError(f"{name} must lie in {bracket}, got {value!r}: {remedy}")
    return number


def check_delta(value: Any) -> float:
    number = real_number("delta", value)
    if not 0 <= number < 1:
        raise InputError(f"delta must lie in [0, 1), got {value!r}: it is a probability, commonly below 1/records")
    return number


def check_epsilon(value: Any) -> float:
    number = real_number("epsilon", value)
    if number < 0:
        raise InputError(f"epsilon must be at least 0, got {value!r}")
    return number


def check_direction(value: str) -> str:
    if value not in ("remove", "add", "both"):
        raise InputError(f"direction must be 'remove', 'add' or 'both' (the worse of the two), got {value!r}")
    return value


def check_rates(value: Any) -> np.ndarray:
    """False-positive rates in [0, 1] as a float array, any shape."""
    try:
        rates = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"false_positive_rate must be a number or numbers in [0, 1], got {value!r}") from None
    if not np.all((rates >= 0) & (rates <= 1)):
        raise InputError(f"false_positive_rate must lie in [0, 1], got {value!r}")
    return rates
