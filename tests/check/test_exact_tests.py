"""The p-values behind the findings, against independent computations and by simulation."""

import itertools

import numpy as np
import pytest
from scipy import stats

from coalmine.audit.white_box.exact_tests import (
    binomial_two_sided,
    chi_square,
    correlation_tail,
    deviation_interval,
    holm,
    monte_carlo,
    monte_carlo_of_largest,
    ratio_interval,
    shifted_t,
    variance_ratio,
)
from coalmine.audit.white_box.sampler import log_even


@pytest.mark.parametrize(
    ("t", "degrees", "shift"), [(1.0, 5, 0.3), (12.0, 40, 10.0), (-2.0, 3, 0.0), (30.5, 1000, 30.0)]
)
def test_the_shifted_t_is_the_noncentral_one(t, degrees, shift):
    below, above = shifted_t(t, degrees, shift)
    assert below == pytest.approx(stats.nct.cdf(t, degrees, shift), rel=1e-6)
    assert above == pytest.approx(stats.nct.sf(t, degrees, shift), rel=1e-6)


def test_the_shifted_t_keeps_its_tails_for_many_degrees():
    """With 1e8 degrees it is a normal; no library's noncentral t goes so far."""
    assert shifted_t(205.0, 1e8, 200.0)[1] == pytest.approx(stats.norm.sf(5.0), rel=1e-2)


def test_variances_and_their_ratio():
    assert variance_ratio(2.0, 10, 1.0, 20)[1] == pytest.approx(stats.f.sf(2.0, 10, 20))
    assert variance_ratio(0.0, 10, 1.0, 20)[0] == 0.0
    assert chi_square(1.5, 30, 1.0)[1] == pytest.approx(stats.chi2.sf(45, 30))
    low, high = deviation_interval(1.0, 50, 0.9)
    assert (low**2, high**2) == pytest.approx((50 / stats.chi2.ppf(0.95, 50), 50 / stats.chi2.ppf(0.05, 50)))
    low, high = ratio_interval(1.0, 10, 20, 0.9)
    assert (low, high) == pytest.approx((1 / stats.f.ppf(0.95, 10, 20), 1 / stats.f.ppf(0.05, 10, 20)))


@pytest.mark.parametrize("dimension", [3, 10, 200])
def test_the_cosine_of_independent_directions(dimension):
    draws = np.random.default_rng(0).standard_normal((2, 20_000, dimension))
    draws /= np.linalg.norm(draws, axis=2, keepdims=True)
    p = correlation_tail(np.sum(draws[0] * draws[1], axis=1), dimension)
    assert stats.kstest(p, "uniform").pvalue > 1e-3


def test_exact_binomial_tails():
    assert binomial_two_sided(7, 20, 0.2) == pytest.approx((stats.binom.cdf(7, 20, 0.2), stats.binom.sf(6, 20, 0.2)))
    assert binomial_two_sided(0, 20, 0.2)[1] == binomial_two_sided(20, 20, 0.2)[0] == 1.0


def test_monte_carlo_p_values_are_valid_and_find_what_is_there():
    rng = np.random.default_rng(1)
    null = [monte_carlo([rng.normal()], lambda: [rng.normal()], 500)[0] for _ in range(600)]
    largest = [monte_carlo_of_largest(rng.normal(size=5), lambda: rng.normal(size=5), 500)[0] for _ in range(300)]
    for p in (null, largest):
        for level in (0.02, 0.1, 0.3):
            assert stats.binom.sf(np.sum(np.array(p) <= level) - 1, len(p), level) > 1e-4
    assert monte_carlo([9.0], lambda: [rng.normal()], 999)[0] == pytest.approx(2 / 1000)
    p, deviations = monte_carlo_of_largest([0.0, 9.0], lambda: rng.normal(size=2), 999)
    assert p == pytest.approx(1 / 1000) and np.argmax(deviations) == 1


def test_holm():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


@pytest.mark.parametrize("records, steps", [(4, 2), (5, 3), (7, 3), (6, 4)])
def test_the_probability_of_even_batches_is_that_of_counting(records, steps):
    sizes = [np.bincount(each, minlength=steps) for each in itertools.product(range(steps), repeat=records)]
    even = sum(int(of.max() - of.min() <= 1) for of in sizes)
    assert np.exp(log_even(records, steps)) == pytest.approx(even / steps**records)
