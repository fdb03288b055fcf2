"""The f-DP recursion: against a plain transcription, against values of other curves, and what it promises."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from coalmine.audit.bounds.trade_off import epsilon_delta_curve, gaussian_curve, total_variation_curve
from coalmine.audit.estimators import (
    f_dp_epsilon,
    f_dp_p_value,
    f_dp_p_values,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_family_mu,
    one_run_epsilon,
)
from coalmine.audit.estimators.f_dp import epsilon_delta_inverse, is_certified
from coalmine.foundation import InputError


def plainly_certified(inverse, v, r, m, tau):
    """The recursion of the paper, one number at a time, without early exits or safe rounding."""
    x, h = tau * v / m, tau * (r - v) / m
    for i in range(v - 1, -1, -1):
        raised = max(h, inverse(x))
        x = min(1.0, x + i / (r - i) * (raised - h))
        h = raised
    return x + h > r / m


def plain_p_value(inverse, v, r, m):
    low, high = -80.0, 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if plainly_certified(inverse, v, r, m, math.exp(middle)) else (middle, high)
    return math.exp(high)


@pytest.mark.parametrize("v, r, m", [(60, 100, 100), (97, 100, 1000), (5, 6, 40), (300, 300, 900), (1, 1, 1)])
@pytest.mark.parametrize("curve", [gaussian_curve(0.7), epsilon_delta_curve(1.2, 1e-4), total_variation_curve(0.1)])
def test_the_vectorised_recursion_is_the_plain_one(curve, v, r, m):
    expected = plain_p_value(lambda y: float(curve.inverse_complement(y)), v, r, m)
    assert f_dp_p_value(curve, v, r, m) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "m, v, p_value, tolerance",
    [(1000, 600, 0.2749, 2e-4), (1000, 650, 0.0408, 2e-4), (1000, 700, 0.00293, 2e-5), (10000, 6000, 0.2713, 2e-4)],
)
def test_p_values_against_a_gaussian(m, v, p_value, tolerance):
    mu = 2 * float(ndtri(0.55))  # the accuracy bound 0.55, total variation 0.1
    assert f_dp_p_value(gaussian_curve(mu), v, m, m) == pytest.approx(p_value, abs=tolerance)


@pytest.mark.parametrize("tv", [0.02, 0.04, 0.06, 0.2, 0.5])
@pytest.mark.parametrize("m", [100, 1000, 10000])
def test_with_the_accuracy_bound_alone_all_correct_has_p_value_tv(tv, m):
    """So a claim of accuracy above 0.525 can never be rejected at 95 % by one run from its accuracy alone."""
    assert f_dp_p_value(total_variation_curve(tv), m, m, m) == pytest.approx(tv, abs=1e-6)


@pytest.mark.parametrize("mu, epsilon", [(0.5, 1.99309), (1, 4.37718), (2, 9.99726), (3, 16.67549), (4, 24.38161)])
def test_gaussian_mu_to_epsilon(mu, epsilon):
    assert gaussian_epsilon(mu, 1e-5) == pytest.approx(epsilon, abs=1e-5)
    assert gaussian_delta(mu, gaussian_epsilon(mu, 1e-5)) == pytest.approx(1e-5, rel=1e-6)


@pytest.mark.parametrize(
    "accuracy, mu, m, smallest",
    [
        (0.6, 0.507, 100, 0.80),
        (0.6, 0.507, 1000, 0.771),
        (0.6915, 1.0, 1000, 0.927),
        (0.6915, 1.0, 10000, 0.9268),
        (0.8413, 2.0, 1000, 0.998),
    ],
)
def test_smallest_accuracy_that_rejects_in_one_run(accuracy, mu, m, smallest):
    low, high = m // 2, m
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if f_dp_p_value(gaussian_curve(mu), middle, m, m) < 0.05 else (middle, high)
    assert high / m == pytest.approx(smallest, abs=0.6 / min(m, 1000))


def test_perfect_guesses_of_a_hundred_cannot_reject_mu_2():
    assert f_dp_p_value(gaussian_curve(2.0), 100, 100, 100) == pytest.approx(0.113, abs=5e-4)


def test_tiny_p_values_keep_their_digits():
    """The p-value of all correct under pure epsilon is q^r, also at 1e-30."""
    p = f_dp_p_value(epsilon_delta_curve(0.0), 100, 100, 100)
    assert p == pytest.approx(2.0**-100, rel=1e-4)
    assert f_dp_p_value(epsilon_delta_curve(0.0), 200, 200, 200) == pytest.approx(math.exp(-80), rel=1e-6)


def test_no_valid_bound_beats_randomised_response():
    """Randomised response is (epsilon, delta)-DP and reaches the binomial: the recursion never says more."""
    for v, r, m in [(80, 100, 100), (97, 100, 1000), (6, 6, 100)]:
        assert f_dp_epsilon(v, r, m) <= one_run_epsilon(v, r, m) + 1e-9


counts = st.integers(2, 400).flatmap(
    lambda m: st.integers(1, m).flatmap(lambda r: st.tuples(st.integers(0, r), st.just(r), st.just(m)))
)


@settings(max_examples=40, deadline=None)
@given(counts, st.sampled_from([0.0, 1e-6, 1e-3]), st.sampled_from([0.8, 0.95, 0.99]))
def test_epsilon_is_monotone(case, delta, confidence):
    """In right guesses (up), in confidence and in delta (down); never negative, never NaN."""
    v, r, m = case
    for bound in (f_dp_epsilon, one_run_epsilon):
        here = bound(v, r, m, delta, confidence)
        assert here >= 0
        if v < r:
            assert bound(v + 1, r, m, delta, confidence) >= here - 1e-8
        assert bound(v, r, m, delta, 1 - (1 - confidence) / 2) <= here + 1e-8
        assert bound(v, r, m, min(0.9, 2 * delta + 1e-7), confidence) <= here + 1e-8


@settings(max_examples=40, deadline=None)
@given(counts, st.floats(0.05, 3))
def test_p_value_and_bound_agree(case, mu):
    """mu is below the bound at confidence 1 - alpha exactly when its p-value is below alpha."""
    v, r, m = case
    bound, p_value = gaussian_family_mu(v, r, m), f_dp_p_value(gaussian_curve(mu), v, r, m)
    if abs(bound - mu) > 1e-6:
        assert (mu < bound) == (p_value < 0.05)
    assert 0 < p_value <= 1


def test_vectors_are_the_scalars():
    curve = gaussian_curve(0.5)
    v, r = np.array([10, 60, 90, 0]), np.array([10, 80, 200, 5])
    together = f_dp_p_values(curve, v, r, 500)
    assert together == pytest.approx(
        [f_dp_p_value(curve, int(a), int(b), 500) for a, b in zip(v, r, strict=True)], rel=1e-5
    )


def test_a_lower_curve_gives_a_larger_p_value():
    p = [f_dp_p_value(gaussian_curve(mu), 70, 80, 200) for mu in (0.2, 0.5, 1.0, 2.0)]
    assert p == sorted(p)


def test_certification_is_rounded_to_the_safe_side():
    """At the exact boundary of the binomial at epsilon = 0 nothing below the true probability is certified."""
    inverse = epsilon_delta_inverse(0.0)
    exact = 2.0**-20
    assert not is_certified(inverse, 1.0, 20, 20, 20, exact * (1 - 1e-9))[0]
    assert is_certified(inverse, 1.0, 20, 20, 20, exact * (1 + 1e-9))[0]


@pytest.mark.parametrize("epsilon, v, r", [(0.0, 15, 20), (1.0, 18, 20), (2.0, 48, 50)])
def test_the_p_value_covers_the_mechanism_itself(epsilon, v, r):
    """Under randomised response the true probability of v or more is binomial: the p-value is never below it."""
    from coalmine.audit.estimators.rates import binomial_tail

    q = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert f_dp_p_value(epsilon_delta_curve(epsilon), v, r, r) >= binomial_tail(v, r, q) * (1 - 1e-9)


def test_the_p_value_covers_a_mechanism_that_reveals_everything_sometimes():
    """With probability TV every coin is published, so v = r = m that often: the p-value must not undercut it."""
    assert f_dp_p_value(total_variation_curve(0.1), 50, 50, 50) >= 0.1 * (1 - 1e-12)


@pytest.mark.parametrize("bad", [(-1, 5, 10), (6, 5, 10), (5, 11, 10), (0, 0, 10), (2.5, 5, 10), (True, 5, 10)])
def test_impossible_counts_are_refused(bad):
    with pytest.raises(InputError, match=r"correct|guesses|whole number"):
        f_dp_epsilon(*bad)
    with pytest.raises(InputError, match=r"correct|guesses|whole number"):
        one_run_epsilon(*bad)


@pytest.mark.parametrize("delta", [-0.1, 1.0, math.nan])
def test_impossible_delta_is_refused(delta):
    with pytest.raises(InputError, match="delta"):
        f_dp_epsilon(5, 10, 10, delta)


@pytest.mark.parametrize("confidence", [0.5, 1.0, math.nan, 95])
def test_impossible_confidence_is_refused(confidence):
    with pytest.raises(InputError, match="confidence"):
        one_run_epsilon(5, 10, 10, 0.0, confidence)


def test_a_claim_without_a_curve_is_refused():
    with pytest.raises(InputError, match="trade-off curve"):
        f_dp_p_value(3.0, 5, 10, 10)
