"""A shown bound is never stronger than the number behind it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coalmine.reports import rounding

_ORDINARY = st.floats(-1e12, 1e12).filter(lambda value: value == 0 or abs(value) > 1e-12)


def read(text: str) -> float:
    """What a reader takes a shown number to be."""
    text = text.replace("−", "-").replace("\u00a0", " ")
    powers = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    found = re.fullmatch(r"(?:(-?[\d.]+) × )?10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", text)
    if found:
        return float(f"{found.group(1) or 1}e{found.group(2).translate(powers)}")
    return float(text)


@given(_ORDINARY, st.integers(2, 8))
def test_lower_bounds_round_down_and_upper_bounds_up(value, digits):
    assert read(rounding.at_least(value, digits)) <= value <= read(rounding.at_most(value, digits))


@given(_ORDINARY)
def test_an_estimate_is_off_by_at_most_half_a_digit(value):
    assert read(rounding.number(value, 4)) == pytest.approx(value, rel=5.1e-4)


@given(st.floats(1e-300, 1))
def test_a_shown_p_value_is_never_smaller_than_the_p_value(value):
    assert read(rounding.p_value(value)) >= value


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_shown_interval_contains_the_interval(a, b):
    low, high = min(a, b), max(a, b)
    shown_low, shown_high = (read(part) for part in re.split(r"[ \u00a0]…[ \u00a0]", rounding.interval((low, high))))
    assert shown_low <= low <= high <= shown_high


@given(_ORDINARY)
def test_a_number_for_the_terminal_is_the_same_number(value):
    shown = rounding.number(value)
    assert float(rounding.plain(shown)) == pytest.approx(read(shown), rel=1e-12)


@pytest.mark.parametrize(
    "shown, expected",
    [
        (rounding.plain(rounding.percent(0.6392214, rounding.UP)), "64.0 %"),
        (rounding.plain(rounding.p_value(3.41e-7)), "3.5e-7"),
        (rounding.plain(rounding.number(-1e-5)), "-1e-5"),
        (rounding.number(0.1), "0.1"),
        (rounding.at_most(0.1), "0.1"),
        (rounding.at_most(0.50741), "0.5075"),
        (rounding.at_least(1.53129), "1.531"),
        (rounding.number(500), "500"),
        (rounding.number(1e-5), "10⁻⁵"),
        (rounding.p_value(3.41e-7), "3.5\u00a0×\u00a010⁻⁷"),
        (rounding.p_value(0), "< 10⁻³⁰⁰"),
        (rounding.number(None), "–"),
        (rounding.percent(0.5918, rounding.UP), "59.2\u00a0%"),
        (rounding.confidence(0.999), "99.9\u00a0%"),
        (rounding.confidence(0.95), "95\u00a0%"),
        (rounding.confidence(0.9), "90\u00a0%"),
        (rounding.interval((None, 0.25)), "−∞\u00a0… 0.25"),
        (rounding.percent_interval((0.491, 0.5804)), "49.1\u00a0…\u00a058.1\u00a0%"),
    ],
)
def test_numbers_as_a_reader_sees_them(shown, expected):
    assert shown == expected
