"""The words of attack risk, against riskcal and against the Gaussian's closed forms."""

import math

import pytest
from scipy.special import ndtr, ndtri

from coalmine.audit.bounds import Gaussian, PoissonSampling, RandomAllocation, advantage, bayes_error, beta
from coalmine.foundation import InputError


def test_gaussian_closed_forms():
    mu = 1 / 1.5
    one = Gaussian(1.5)
    assert advantage(one).midpoint == pytest.approx(2 * ndtr(mu / 2) - 1, rel=1e-12)
    assert beta(one, [0.01, 0.3]).midpoint == pytest.approx(ndtr(-ndtri([0.01, 0.3]) - mu), rel=1e-9)
    assert bayes_error(one).midpoint == pytest.approx(1 - ndtr(mu / 2), rel=1e-12)
    # at prior π the best guess is by the likelihood ratio (1 − π)/π
    for prior in (0.1, 0.8):
        cut = 0.5 * mu + math.log((1 - prior) / prior) / mu
        exact = (1 - prior) * ndtr(-cut) + prior * ndtr(cut - mu)
        assert bayes_error(one, prior).midpoint == pytest.approx(exact, rel=1e-9)
    with pytest.raises(InputError, match="prior"):
        bayes_error(one, 1.0)


def test_against_riskcal():
    # riskcal 1.5.1, get_advantage_for_dpsgd and get_beta_for_dpsgd(alpha=0.01), noise 1.0, rate 0.01, 1000 steps,
    # grid_step 1e-4: made by reports/experiments/riskcal_values.py
    run = PoissonSampling(0.01, 1000, 1.0)
    assert advantage(run).lower <= 0.16101842080506715 <= advantage(run).upper * 1.001
    assert beta(run, 0.01).lower * 0.999 <= 0.9709002789031983 <= beta(run, 0.01).upper * 1.001


def test_three_views_agree():
    run = RandomAllocation(100, 10, 1.4262)
    assert advantage(run).overlaps(run.delta(0.0))
    assert 1 - bayes_error(run).midpoint == pytest.approx(run.accuracy().midpoint, abs=1e-4)
    assert beta(run, 0.1).midpoint == pytest.approx(1 - run.true_positive_rate(0.1).midpoint)
