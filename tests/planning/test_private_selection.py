"""What selection costs: the bound lies above the truth where that can be computed, and is exact for one run."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from coalmine.audit.bounds import Gaussian
from coalmine.audit.planning.private_selection import SelectionPrice, geometric_selection_epsilon, selection_price
from coalmine.foundation import InputError


def true_delta(epsilon, mu, mean_runs):
    """The best of a geometric number of draws of N(0 or μ, 1), by its density f'(F)·φ, f the generating function."""
    x = np.linspace(-14, 14 + mu, 400_001)
    gamma = 1 / mean_runs

    def selected(shift):
        return gamma / (1 - (1 - gamma) * norm.cdf(x - shift)) ** 2 * norm.pdf(x - shift)

    p, q = selected(mu), selected(0.0)
    return max(np.trapezoid(np.maximum(a - math.exp(epsilon) * b, 0), x) for a, b in ((p, q), (q, p)))


@pytest.mark.parametrize("mean_runs", [2, 10, 100])
@pytest.mark.parametrize("sigma", [1.0, 3.0])
def test_the_bound_holds_for_the_best_of_gaussian_scores(mean_runs, sigma):
    delta = 1e-5
    epsilon = geometric_selection_epsilon([Gaussian(sigma, 1)], mean_runs, delta)
    assert true_delta(epsilon, 1 / sigma, mean_runs) <= delta
    one = float(Gaussian(sigma, 1).epsilon(delta).upper)
    assert one < epsilon < 3.5 * one
    assert true_delta(0.6 * one, 1 / sigma, mean_runs) > delta  # choosing is no free lunch: the truth is not tiny


def test_one_run_costs_itself_and_more_runs_cost_more():
    mechanisms = [Gaussian(2.0, 1), Gaussian(1.0, 1)]
    prices = [geometric_selection_epsilon(mechanisms, n, 1e-5) for n in (1, 2, 10, 100)]
    assert prices[0] == float(Gaussian(1.0, 1).epsilon(1e-5).upper)
    assert prices == sorted(prices)


def test_composition_of_many_trainings_and_the_file():
    price = selection_price([Gaussian(2.0, 1)], 50, 10, 1.5, 1e-3)
    assert (price.composed_epsilon, price.composed_delta) == (75.0, pytest.approx(0.05))
    assert selection_price([Gaussian(2.0, 1)], 50, 10, 1.5, 0.1).composed_delta is None  # above 1: nothing is promised
    assert SelectionPrice.from_json(price.to_json()) == price
    with pytest.raises(InputError, match="trainings"):
        SelectionPrice.from_json({key: value for key, value in price.to_json().items() if key != "trainings"})
