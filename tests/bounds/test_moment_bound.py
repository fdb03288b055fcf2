"""Bounds from moments: against exact values, and below the numerical floor, where they are what is left."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from coalmine.audit.bounds import Gaussian, PoissonSampling, RandomAllocation
from coalmine.audit.bounds.gaussian import gaussian_delta
from coalmine.audit.bounds.moment_bound import allocation_add, allocation_remove, poisson_moments


def two_step_moment(order, t):
    """E S^order for S = (X + X')/2 under Q, by trapezoid in two dimensions."""
    low, high = -9 + min(0.0, order * t), 9 + max(0.0, order * t)
    z = np.linspace(low, high, 2401)
    weight = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    x = np.exp(t * z - t * t / 2)
    return float(weight @ ((x[:, None] + x) / 2) ** order @ weight)


@pytest.mark.parametrize("sigma", [0.7, 1.0, 3.0])
def test_moments_of_two_steps_against_quadrature(sigma):
    remove, add = allocation_remove(2, sigma), allocation_add(2, sigma)
    for i in (0, 1, 3):
        exact = math.log(two_step_moment(remove.orders[i], 1 / sigma))
        assert exact - 1e-9 <= remove.log_moments[i] <= exact + 1e-6 * (1 + exact)
    for i in (0, 10, 20, 25):
        exact = math.log(two_step_moment(1 - add.orders[i], 1 / sigma))
        assert exact - 1e-9 <= add.log_moments[i] <= exact * 1.1 + 1e-4


def test_one_step_is_the_gaussian():
    # E X^a = e^{a(a−1)/(2σ²)} in both directions
    for found in (allocation_remove(1, 2.0), allocation_add(1, 2.0)):
        exact = found.orders * (found.orders - 1) / 8
        assert np.all(found.log_moments >= exact - 1e-12)
        assert found.log_moments == pytest.approx(exact, rel=2e-2, abs=1e-4)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_what_moments_say_of_a_gaussian_is_true_of_it(epsilon):
    found = allocation_remove(1, 1.5).composed(3)
    mu = math.sqrt(3) / 1.5
    exact = gaussian_delta(mu, epsilon)
    assert exact.upper <= found.delta(epsilon) <= 100 * exact.upper + 1e-300
    assert found.epsilon(exact.lower) >= epsilon * (1 - 1e-9)
    alpha = 1e-6
    assert float(ndtr(-4.753424308822899 + mu)) <= found.true_positive_rate(alpha) <= 1


@pytest.mark.parametrize(
    "mechanism",
    [RandomAllocation(500, 10, 0.8344), RandomAllocation(20, 5, 0.7), PoissonSampling(0.01, 500, 1.0)],
    ids=str,
)
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_moments_never_lie_below_the_exact_value(mechanism, direction):
    moments = mechanism.moments(direction)
    for delta in (1e-3, 1e-5, 1e-8):
        assert moments.epsilon(delta) >= mechanism.epsilon(delta, direction).lower
    for epsilon in (0.1, 1.0, 3.0):
        assert moments.delta(epsilon) >= mechanism.delta(epsilon, direction).lower
    for alpha in (1e-6, 1e-2):
        assert moments.true_positive_rate(alpha) >= mechanism.true_positive_rate(alpha, direction).lower


def test_poisson_moments_are_the_binomial_sum():
    q, sigma = 0.3, 1.2
    found = poisson_moments(q, sigma)
    exact = sum(math.comb(4, k) * 0.7 ** (4 - k) * q**k * math.exp(k * (k - 1) / (2 * sigma**2)) for k in range(5))
    assert found.orders[2] == 4 and found.log_moments[2] == pytest.approx(math.log(exact), rel=1e-10)
    with_all = poisson_moments(1 - 1e-12, sigma)
    assert with_all.log_moments[2] == pytest.approx(12 / (2 * sigma**2), rel=1e-9)


@pytest.mark.parametrize("mechanism", [RandomAllocation(500, 10, 0.8344), RandomAllocation(1000, 10, 2.0)], ids=str)
def test_below_the_floor_the_moments_take_over_and_it_is_said(mechanism):
    found = mechanism.epsilon(1e-18)
    assert found.remark is not None and "wide" in found.remark and not found.width_met
    assert found.record()["remark"] == found.remark
    assert found.upper < 0.2 * Gaussian(mechanism.noise_multiplier, mechanism.epochs).epsilon(1e-18).upper
    assert mechanism.epsilon(1e-5).remark is None and "remark" not in mechanism.epsilon(1e-5).record()
