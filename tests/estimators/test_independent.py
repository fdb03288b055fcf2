"""Independent errors: Clopper-Pearson, exact tails, combined runs, over-dispersion; and where they fail."""

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import combine_pvalues

from coalmine.audit.estimators import (
    accuracy_epsilon,
    accuracy_lower_bound,
    accuracy_p_value,
    clopper_pearson_epsilon,
    exact_tail_p_value,
    gaussian_mu,
    joint_beta_epsilon,
    one_run_epsilon,
)
from coalmine.audit.estimators.independent_runs import combine_p_values, over_dispersion
from coalmine.audit.estimators.noise_bound import noise_multiplier_upper_bound
from coalmine.audit.estimators.rates import binomial_tail
from coalmine.foundation import InputError


def test_accuracy_against_its_bound_is_the_binomial_test():
    assert accuracy_p_value(700, 1000, 0.6) == pytest.approx(2e-11, rel=5)
    assert accuracy_p_value(0, 10, 0.6) == 1.0
    assert accuracy_p_value(10, 10, 1.0) == 1.0
    assert accuracy_lower_bound(100, 100) == pytest.approx(0.05 ** (1 / 100))


def test_accuracy_of_all_guesses_is_the_one_run_bound_without_delta():
    for v in (60, 80, 100):
        assert accuracy_epsilon(v, 100) == pytest.approx(one_run_epsilon(v, 100, 100), abs=1e-9)


def test_exact_tail_of_all_guesses_is_the_binomial():
    for mu in (0.5, 2.0):
        assert exact_tail_p_value(80, 100, 100, mu) == pytest.approx(binomial_tail(80, 100, ndtr(mu / 2)))


def test_exact_tail_is_the_probability_of_the_most_confident():
    """40,000 simulated audits of 50 canaries, the 10 most confident guessed, mu = 1."""
    stream = np.random.default_rng(0)
    signs = np.where(stream.random((40000, 50)) < 0.5, 1, -1)
    scores = stream.normal(size=(40000, 50)) + signs * 0.5
    confident = np.argsort(-np.abs(scores), axis=1)[:, :10]
    right = np.take_along_axis(np.sign(scores) == signs, confident, axis=1).sum(axis=1)
    for v in (8, 9, 10):
        assert exact_tail_p_value(v, 10, 50, 1.0) == pytest.approx(np.mean(right >= v), abs=0.01)


def test_fisher_is_the_library_s():
    p = [0.3, 0.02, 0.7, 0.11]
    assert combine_p_values(p) == pytest.approx(combine_pvalues(p, method="fisher").pvalue)
    assert combine_p_values([0.03]) == pytest.approx(0.03)
    assert combine_p_values([1.0, 1.0]) == 1.0


@pytest.mark.parametrize("bad", [[], [-0.1, 0.5], [0.5, 1.1], [math.nan]])
def test_impossible_p_values_are_refused(bad):
    with pytest.raises(InputError, match="p_values"):
        combine_p_values(bad)


def test_over_dispersion_has_its_size_under_independence():
    p = [over_dispersion(np.random.default_rng(k).binomial(100, 0.7, 5), 100, 499, k).p_value for k in range(600)]
    assert binomial_tail(sum(x <= 0.05 for x in p), 600, 0.05) > 1e-3


def test_over_dispersion_sees_a_shared_coin():
    """Half of the runs at 0.5, half at 0.8: canaries of one run are not independent."""
    found = over_dispersion([510, 795, 490, 805, 500, 800], 1000)
    assert found.p_value < 0.001 and found.ratio > 50


@pytest.mark.parametrize("correct, guesses", [([5], 10), ([5, 11], 10), ([5.5, 5], 10), ([-1, 5], 10)])
def test_impossible_runs_are_refused(correct, guesses):
    with pytest.raises(InputError):
        over_dispersion(correct, guesses)


def test_equal_or_trivial_runs_are_not_over_dispersed():
    assert over_dispersion([50, 50, 50], 100).p_value == 1.0
    assert over_dispersion([100, 100], 100).p_value == 1.0


def test_the_gaussian_family_is_wrong_on_randomised_response():
    """Randomised response with epsilon 3: rates 4.7 % say 11 and more."""
    from coalmine.audit.estimators import gaussian_epsilon

    mu = gaussian_mu(24, 500, 24, 500)
    assert gaussian_epsilon(mu, 1e-5) > 11 > 3
    assert clopper_pearson_epsilon(24, 500, 24, 500) < 3


def test_joint_beta_is_positive_without_any_signal():
    """One of the reasons why it is labelled Bayesian."""
    assert joint_beta_epsilon(250, 500, 250, 500) > 0


@pytest.mark.parametrize("start", [0.3, 1.0, 5.0])
def test_noise_bound_finds_the_root_from_above(start):
    calls = []

    def log_p_value(sigma):
        calls.append(sigma)
        return min(0.0, -3.0 * (sigma - 0.5))

    found = noise_multiplier_upper_bound(log_p_value, math.log(0.05), start)
    root = 0.5 + math.log(20) / 3
    assert root <= found <= root * 1.01
    assert len(calls) <= 14


def test_noise_bound_without_evidence_is_none():
    assert noise_multiplier_upper_bound(lambda sigma: 0.0, math.log(0.05), 1.0) is None
    assert noise_multiplier_upper_bound(lambda sigma: -99.0, math.log(0.05), 1.0) == pytest.approx(1 / 64)
