"""Trade-off curves: convex, symmetric, accurate near both ends, and lower curves of what they claim."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from coalmine.audit.bounds import (
    EpsilonDelta,
    Gaussian,
    RandomAllocation,
    chi_square_curve,
    epsilon_delta_curve,
    gaussian_curve,
    polygon_curve,
    total_variation_curve,
)
from coalmine.audit.bounds.closed_form import sharp_total_variation
from coalmine.foundation import InputError

GRID = np.linspace(0, 1, 4001)
CURVES = {
    "epsilon_delta": epsilon_delta_curve(1.0, 1e-3),
    "pure": epsilon_delta_curve(2.0),
    "perfect": epsilon_delta_curve(0.0),
    "gaussian": gaussian_curve(1.3),
    "total_variation": total_variation_curve(0.2),
    "chi_square": chi_square_curve(0.3),
    "chi_square_sharp": chi_square_curve(2.5),
    "chi_square_none": chi_square_curve(0.0),
    "polygon": polygon_curve([0, 0.3, 1, 2, 6], [0.3, 0.2, 0.05, 1e-3, 1e-9], "five guarantees"),
    "random_allocation": RandomAllocation(100, 10, 1.426215).trade_off_curve(),
}


@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)
def test_curves_are_convex_non_increasing_and_their_own_inverse(curve):
    f = curve(GRID)
    assert np.all(np.diff(f) <= 1e-15) and np.all(f <= 1 - GRID + 1e-15) and np.all(f >= 0)
    assert np.diff(f, 2).min() >= -1e-14
    inside = (f > 1e-9) & (GRID > 1e-9)
    assert np.abs(curve(f[inside]) - GRID[inside]).max(initial=0) <= 1e-9
    assert isinstance(curve.label, str) and curve.label


@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)
def test_inverse_complement_is_the_curve_from_the_other_end(curve):
    y = np.linspace(0, 1, 501)
    assert curve.inverse_complement(y) == pytest.approx(curve(1 - y), abs=2e-15)
    tiny = curve.inverse_complement(np.array([0.0, 1e-300, 1e-30, 1e-15]))
    assert np.all((tiny >= 0) & (tiny <= [0.0, 1e-300, 1e-30, 1e-15])) and np.all(np.diff(tiny) >= 0)


def test_tiny_arguments_keep_their_digits():
    y = np.array([1e-30, 1e-12])
    assert epsilon_delta_curve(1.0).inverse_complement(y) == pytest.approx(y / np.e, rel=1e-12)
    assert gaussian_curve(1.0).inverse_complement(1e-30) == pytest.approx(5.8649e-36, rel=1e-4)
    assert float(CURVES["random_allocation"].inverse_complement(1e-30)) > 0


def test_scalars_give_floats_and_bad_input_is_named():
    assert isinstance(gaussian_curve(1.0)(0.5), float)
    with pytest.raises(InputError, match="alpha"):
        gaussian_curve(1.0)(1.5)
    for bad in (lambda: epsilon_delta_curve(-1), lambda: total_variation_curve(2), lambda: chi_square_curve(-0.1)):
        with pytest.raises(InputError):
            bad()


@given(st.floats(0.0, 5.0))
def test_total_variation_of_the_chi_square_curve_is_the_sharp_branch(c):
    f = chi_square_curve(c)(GRID)
    assert np.max(1 - GRID - f) == pytest.approx(float(sharp_total_variation(c)), abs=1e-12)


@settings(max_examples=30)
@given(st.floats(0.001, 0.99))
def test_the_chi_square_curve_lies_below_both_orders(c):
    alpha = np.linspace(0, 1, 801)
    one_order = np.maximum(0, 1 - alpha - np.sqrt(c * alpha * (1 - alpha)))
    curve = chi_square_curve(c)
    assert np.all(curve(alpha) <= one_order + 1e-14)
    # the inverse, by tabulating the order's own graph
    assert np.all(curve(one_order) <= alpha + 1e-12)


def test_many_guarantees_of_a_gaussian_come_near_it_from_below():
    e = np.linspace(0, 12, 400)
    delta = ndtr(-e + 0.5) - np.exp(e) * ndtr(-e - 0.5)
    polygon, exact = polygon_curve(e, delta, "gaussian, in pieces"), gaussian_curve(1.0)
    lines = [np.maximum(1 - d - np.exp(x) * GRID, np.exp(-x) * (1 - d - GRID)) for x, d in zip(e, delta, strict=True)]
    brute = np.max(lines, axis=0)
    assert polygon(GRID) == pytest.approx(np.maximum(brute, 0), abs=2e-15)
    assert np.all(polygon(GRID) <= exact(GRID) + 2e-14)  # the exact curve is rounded down
    assert np.max(exact(GRID) - polygon(GRID)) < 1e-4


def test_random_allocation_is_not_a_gaussian_of_the_same_accuracy():
    mechanism = RandomAllocation(100, 10, 1.426215)
    curve = mechanism.trade_off_curve()
    assert "certified" in curve.label
    mu = 2 * 0.12566  # 2Φ(μ/2) − 1 = 0.1
    y = 1e-6
    assert curve.inverse_complement(y) < gaussian_curve(mu).inverse_complement(y)


def test_mechanisms_bring_their_curves():
    assert Gaussian(2.0, 4).trade_off_curve()(0.3) == pytest.approx(gaussian_curve(1.0)(0.3))
    assert EpsilonDelta(1.0, 1e-5).trade_off_curve()(0.1) == pytest.approx(1 - 1e-5 - np.e * 0.1)
