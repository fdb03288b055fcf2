"""What must hold of every cell: order, monotonicity, nesting, exact moments, quadrature, simulation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import logsumexp, ndtr

from coalmine.audit.bounds import FixedBins, Gaussian, PoissonSampling, RandomAllocation, closed_form
from coalmine.audit.bounds.refine import LONGEST, profile_of
from coalmine.foundation import numpy_stream

cells = st.tuples(st.integers(2, 3000), st.integers(1, 60), st.floats(0.35, 30))


@settings(max_examples=12, deadline=None)
@given(cells)
def test_bounds_stand_in_their_order(cell):
    m, e, sigma = cell
    mechanism = RandomAllocation(m, e, sigma)
    found = mechanism.accuracy(1e-4)
    assert 0.5 <= found.lower <= found.upper <= mechanism.accuracy_bound() * (1 + 1e-12)
    assert 0.5 + closed_form.sum_statistic_lower_bound(m, e, sigma) / 2 <= found.upper
    assert 0.5 + closed_form.one_epoch_lower_bound(m, sigma) / 2 <= found.upper
    remove, add = mechanism.epsilon(1e-5, "remove", 0.05), mechanism.epsilon(1e-5, "add", 0.05)
    both = mechanism.epsilon(1e-5, "both", 0.05)
    assert both.upper >= max(remove.lower, add.lower)
    assert both.lower <= max(remove.upper, add.upper)


@settings(max_examples=10, deadline=None)
@given(cells, st.floats(1.01, 2.0))
def test_more_noise_more_steps_or_fewer_epochs_reveal_less(cell, factor):
    m, e, sigma = cell
    here = RandomAllocation(m, e, sigma).accuracy(1e-4)
    assert RandomAllocation(m, e, sigma * factor).accuracy(1e-4).lower <= here.upper
    assert RandomAllocation(m + 1, e, sigma).accuracy(1e-4).lower <= here.upper
    assert RandomAllocation(m, e + 1, sigma).accuracy(1e-4).upper >= here.lower
    assert FixedBins(m, e, sigma).accuracy(1e-4).upper >= here.lower  # reuse reveals no less


@settings(max_examples=8, deadline=None)
@given(cells)
def test_intervals_of_all_grids_overlap_and_refinement_nests(cell):
    mechanism = RandomAllocation(*cell)
    grids = [profile_of(mechanism, r).total_variation() for r in (0.05, 0.03, 0.015)]
    assert max(g.lower for g in grids) <= min(g.upper for g in grids)
    wide, narrow = mechanism.accuracy(1e-2), mechanism.accuracy(1e-5)
    assert wide.lower <= narrow.lower <= narrow.upper <= wide.upper


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 2000), st.floats(0.3, 30), st.sampled_from([0.05, 0.02]))
def test_the_laws_are_probability_laws_with_mean_one(m, sigma, resolution):
    law = RandomAllocation(m, 1, sigma).ratio_law(resolution, 1e-13, LONGEST)
    slack = law.missing + law.base_error + law.mean_error + 1e-13
    # E_Q L = 1 for the spread law: its mass under P is 1
    assert abs(1 - law.upper_present.total) <= slack + law.upper_present.error
    assert abs(1 - law.upper_absent.total - law.zero) <= slack + law.upper_absent.error
    assert abs(1 - law.lower_present.total) <= slack + law.lower_present.error
    assert abs(1 - law.lower_absent.total) <= slack + law.lower_absent.error


@settings(max_examples=10, deadline=None)
@given(st.floats(1e-4, 0.9), st.integers(1, 3000), st.floats(0.4, 20))
def test_poisson_laws_and_order(rate, steps, sigma):
    mechanism = PoissonSampling(rate, steps, sigma)
    law = mechanism.ratio_law(0.03, 1e-13, LONGEST)
    for measure in (law.upper_absent, law.upper_present, law.lower_absent, law.lower_present):
        assert abs(1 - measure.total) <= 1e-11
    found = mechanism.accuracy(1e-4)
    assert found.lower <= found.upper <= Gaussian(sigma, steps).accuracy_bound() + 1e-12


@pytest.mark.parametrize(("m", "sigma"), [(3, 1.0), (50, 2.0), (400, 1.5)])
def test_moments_of_one_epoch(m, sigma):
    # E_Q S^a = a! M^{-a} [x^a] (Σ_k e^{k(k−1)/(2σ²)} x^k/k!)^M, exact for whole a
    law = RandomAllocation(m, 1, sigma).ratio_law(0.01, 1e-15, LONGEST)
    measure = law.lower_absent
    ratio = np.exp(law.step * np.arange(measure.start, measure.end))
    for order in (2, 3):
        series = np.array([math.exp(k * (k - 1) / (2 * sigma**2)) / math.factorial(k) for k in range(order + 1)])
        power = np.array([1.0] + [0.0] * order)
        for _ in range(m):
            power = np.convolve(power, series)[: order + 1]
        exact = math.factorial(order) * power[order] / m**order
        assert float((ratio**order * measure.mass).sum()) == pytest.approx(exact, rel=2e-4)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
def test_two_steps_one_epoch_against_quadrature(sigma):
    t = 1 / sigma

    def inner(z):  # E over the second step of (1 − (X_1 + X_2)/2)_+, X_1 at z
        x = math.exp(t * z - t * t / 2)
        room = 2 - x  # X_2 must stay below it
        if room <= 0:
            return 0.0
        limit = (math.log(room) + t * t / 2) / t
        return ((1 - x / 2) * ndtr(limit) - ndtr(limit - t) / 2) * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)

    edge = (math.log(2) + t * t / 2) / t
    exact = quad(inner, -12, edge, epsabs=1e-13, epsrel=1e-12, limit=400)[0]
    found = RandomAllocation(2, 1, sigma).accuracy(1e-6)
    assert found.lower - 1e-11 <= 0.5 + exact / 2 <= found.upper + 1e-11
    assert found.width <= 1e-6


@pytest.mark.parametrize(("m", "e", "sigma"), [(20, 1, 0.6), (50, 4, 1.0), (10, 12, 1.5)])
def test_simulation_of_the_likelihood_ratio(m, e, sigma):
    rng = numpy_stream(7, f"ratio/{m}/{e}")
    draws, t = 200_000, 1 / sigma
    logs = np.zeros(draws)
    for _ in range(e):
        z = rng.standard_normal((draws, m))
        logs += logsumexp(t * z - t * t / 2, axis=1) - math.log(m)
    ratio = np.exp(logs)
    mechanism = RandomAllocation(m, e, sigma)
    gain = np.maximum(0.0, 1 - ratio)
    error = 5 * gain.std() / math.sqrt(draws)
    found = mechanism.accuracy(1e-5)
    assert 2 * found.lower - 1 - error <= gain.mean() <= 2 * found.upper - 1 + error
    add = np.maximum(0.0, 1 - math.e**0.5 * ratio)
    found = mechanism.delta(0.5, "add")
    error = 5 * add.std() / math.sqrt(draws)
    assert found.lower - error <= add.mean() <= found.upper + error


def test_fixed_bins_is_one_epoch_at_less_noise():
    assert FixedBins(98, 16, 2.0).accuracy(1e-5) == RandomAllocation(98, 1, 0.5).accuracy(1e-5)
    assert FixedBins(98, 16, 2.0).accuracy_bound() == closed_form.accuracy_bound(98, 1, 0.5)
    assert FixedBins(98, 16, 2.0).record()["epochs"] == 16


def test_poisson_stays_below_random_allocation_where_it_was_measured():
    for m, sigma in ((100, 1.0), (1000, 0.7)):
        poisson = PoissonSampling(1 / m, m, sigma).accuracy(1e-6)
        allocation = RandomAllocation(m, 1, sigma).accuracy(1e-6)
        assert poisson.upper < allocation.lower


def test_true_positive_rate_is_consistent_with_the_profile_and_the_curve():
    mechanism = RandomAllocation(200, 5, 1.2)
    rates = np.array([1e-4, 1e-3, 0.01, 0.1, 0.5])
    both = mechanism.true_positive_rate(rates)
    curve = mechanism.trade_off_curve()
    assert np.all(1 - curve(rates) >= both.lower)  # the curve promises no more than is true
    assert np.all(both.upper <= 1 - curve(rates) + 5e-3)
    tv = mechanism.accuracy(1e-5)
    best = mechanism.true_positive_rate(np.linspace(0.2, 0.6, 41))
    assert np.max(np.asarray(best.upper) - np.linspace(0.2, 0.6, 41)) >= 2 * tv.lower - 1
    scalar = mechanism.true_positive_rate(0.01)
    assert isinstance(scalar.upper, float) and scalar.overlaps(mechanism.true_positive_rate([0.01]))
