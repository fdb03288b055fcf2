"""Numbers as a reader sees them: rounded in the direction that keeps what they promise.

A lower bound rounds down, an upper bound and a p-value round up, an estimate rounds to nearest. Rounding starts
from the shortest decimal that names the double (0.1 is one tenth), so a number that needs no rounding keeps its
digits.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

DOWN, NEAREST, UP = ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_CEILING
ABSENT = "–"
_NO_BREAK = "\u00a0"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_ORDINARY = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_PLAIN = str.maketrans({_NO_BREAK: " ", "−": "-", "–": "-"})


def number(value: float | None, digits: int = 4, direction: str = NEAREST) -> str:
    """`digits` significant digits; powers of ten outside 0.001 … 10⁶. Whole numbers below 10⁶ are shown in full."""
    if value is None:
        return ABSENT
    exact = Decimal(repr(float(value)))
    if exact == 0:
        return "0"
    if exact == exact.to_integral_value() and abs(exact) < 10**6:
        return _signed(f"{exact:.0f}")
    rounded = Context(prec=digits, rounding=direction).plus(exact)
    exponent = rounded.adjusted()
    if -4 < exponent < 6:
        return _signed(f"{rounded:f}")
    mantissa = rounded.scaleb(-exponent).normalize()
    power = power_of_ten(exponent)
    return power if mantissa == 1 else f"{_signed(f'{mantissa:f}')}{_NO_BREAK}×{_NO_BREAK}{power}"


def at_least(value: float | None, digits: int = 4) -> str:
    return number(value, digits, DOWN)


def at_most(value: float | None, digits: int = 4) -> str:
    return number(value, digits, UP)


def p_value(value: float | None) -> str:
    """Two digits, rounded up; a p-value that underflowed to zero says so."""
    return "< 10⁻³⁰⁰" if value == 0 else number(value, 2, UP)


def percent(value: float | None, direction: str = NEAREST) -> str:
    """A rate in percent with one decimal, rounded in the given direction."""
    if value is None:
        return ABSENT
    hundredfold = Decimal(repr(float(value))).scaleb(2)
    return f"{hundredfold.quantize(Decimal('0.1'), rounding=direction)}{_NO_BREAK}%"


def confidence(value: float | None) -> str:
    """A stated level in percent, with the digits that it has: 95 %, 99.9 %."""
    if value is None:
        return ABSENT
    return f"{Decimal(repr(float(value))).scaleb(2).normalize():f}{_NO_BREAK}%"


def interval(ends: tuple[float | None, float | None] | None, digits: int = 4) -> str:
    """The lower end rounds down and the upper end up; an absent end is open."""
    if ends is None:
        return ABSENT
    low, high = ends
    lower, upper = ("−∞" if low is None else at_least(low, digits)), ("∞" if high is None else at_most(high, digits))
    return f"{lower}{_NO_BREAK}… {upper}"


def percent_interval(ends: tuple[float | None, float | None] | None) -> str:
    if ends is None:
        return ABSENT
    low, high = ends
    lower, upper = percent(0.0 if low is None else low, DOWN), percent(1.0 if high is None else high, UP)
    return f"{lower.removesuffix(f'{_NO_BREAK}%')}{_NO_BREAK}…{_NO_BREAK}{upper}"


def plain(text: str) -> str:
    """The same number for a terminal, ready to be copied: ordinary spaces, 6.5e-9 for 6.5 × 10⁻⁹."""
    text = text.replace(f"{_NO_BREAK}×{_NO_BREAK}10", "e").translate(_PLAIN)
    text = re.sub("10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", r"1e\1", text)
    return text.translate(_ORDINARY)


def power_of_ten(exponent: int) -> str:
    return f"10{str(exponent).translate(_SUPERSCRIPTS)}"


def _signed(text: str) -> str:
    return text.replace("-", "−")
