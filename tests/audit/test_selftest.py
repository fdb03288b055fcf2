"""The self-test tells valid estimators from invalid ones, and the worlds behind it are what they say."""

import math

import numpy as np
import pytest

from coalmine.audit.estimators import clopper_pearson_lower, one_run_epsilon, order_guesses
from coalmine.audit.planning.scenarios import gaussian, no_signal, randomised_response, shared_coin, standard_scenarios
from coalmine.audit.planning.selftest import OURS, find_estimator, record, selftest
from coalmine.foundation import InputError


def failed(estimator, **settings):
    rows = selftest(estimator, **({"canaries": 100, "repeats": 60} | settings))
    return {row.scenario for row in rows if not row.passed}


@pytest.mark.parametrize("name", ["grid", "split", "all", "clopper_pearson"])
def test_valid_estimators_pass(name):
    assert failed(OURS[name]) == set()


def test_the_gaussian_family_fails_on_randomised_response():
    found = failed(OURS["gaussian_mu"])
    assert "randomised response 3" in found and "shared coin" in found and "Gaussian 2" not in found


def best_threshold(scores, members, delta, confidence):
    """The mistake of several peers: the best of all guess counts on the same labels, uncorrected."""
    guesses = np.arange(4, scores.size, 3)
    correct = order_guesses(scores, members).correct(guesses)
    limit = clopper_pearson_lower(correct, guesses, confidence)
    return max(0.0, float(np.log(limit.max()) - np.log1p(-limit.max())))


def test_a_threshold_chosen_on_the_labels_fails():
    assert "no signal" in failed(best_threshold, repeats=100)


def plug_in(scores, members, delta, confidence):
    """Two fitted Gaussians: an estimate, not a bound."""
    if not np.isfinite(scores).all():
        raise ValueError("scores must be finite")
    spread = math.sqrt((np.nanvar(scores[members]) + np.nanvar(scores[~members])) / 2) or 1.0
    mu = abs(np.nanmean(scores[members]) - np.nanmean(scores[~members])) / spread
    return mu * math.sqrt(2 * math.log(1 / delta)) + mu**2 / 2


def test_a_plug_in_fit_fails():
    assert {"no signal", "randomised response 3"} <= failed(plug_in)


def argsort_leak(scores, members, delta, confidence):
    """Ties broken by the order of the array: members last look like perfect guesses."""
    order = np.argsort(scores, kind="stable")
    half = scores.size // 2
    correct = int(members[order][half:].sum() + (~members[order][:half]).sum())
    return one_run_epsilon(correct, scores.size, scores.size, delta, confidence)


def test_ties_broken_by_the_array_fail():
    assert "all scores tied, members last" in failed(argsort_leak)


def test_an_estimator_that_refuses_spoiled_scores_passes_the_traps():
    def careful(scores, members, delta, confidence):
        if not np.isfinite(scores).all():
            raise ValueError("scores must be finite")
        return 0.0

    rows = selftest(careful, canaries=50, repeats=3)
    assert all(row.passed for row in rows)
    assert {row.scenario: row.refused for row in rows}["no signal, 5 % NaN"] >= 2


def test_nan_is_no_bound_and_refusing_everything_is_no_estimator():
    assert len(failed(lambda scores, members, delta, confidence: math.nan, repeats=3)) == 14

    def refuses(scores, members, delta, confidence):
        raise ValueError("no")

    assert "Gaussian 1" in failed(refuses, repeats=3)


def test_a_crash_is_told_with_its_scenario():
    with pytest.raises(InputError, match=r"'no signal'.*KeyError"):
        selftest(lambda scores, members, delta, confidence: {}["x"], canaries=50, repeats=1)


def test_the_truth_of_each_world():
    assert no_signal().epsilon(1e-5) == 0.0
    assert randomised_response(3.0).epsilon(1e-5) == pytest.approx(3.0, abs=1e-3)
    assert randomised_response(1.0).epsilon(0.0) == pytest.approx(1.0)
    assert gaussian(2.0).epsilon(1e-5) == pytest.approx(9.99726, abs=1e-4)
    assert shared_coin().epsilon(1e-5) == pytest.approx(math.log(4), abs=1e-3)


def test_the_shared_coin_keeps_the_gaussian_curve_it_is_judged_by():
    """Its exact trade-off curve, 0.45 of randomised response at ln 4 and 0.55 of nothing, lies above G_1."""
    y = np.linspace(1e-6, 1 - 1e-6, 2001)
    q, epsilon = 0.8, math.log(4)
    # f(1 - y) of the mixture: the shared coin is seen, so the best test splits its error between both halves.
    shallow = y / math.exp(epsilon)
    response = np.maximum(shallow, 1 - math.exp(epsilon) * (1 - y))
    best = np.full_like(y, np.inf)
    for level in np.linspace(0, 1, 401):  # type I error spent inside the response half
        rest = ((1 - y) - 0.45 * level) / 0.55
        inside = np.maximum(0.0, np.maximum(1 - math.exp(epsilon) * level, (1 - level) / math.exp(epsilon)))
        value = 0.45 * inside + 0.55 * (1 - rest)
        best = np.where((rest >= 0) & (rest <= 1), np.minimum(best, value), best)
    assert q / (1 - q) == pytest.approx(math.exp(epsilon))
    assert np.all(response <= y + 1e-12)
    assert np.all(best >= shared_coin().curve.inverse_complement(y) - 1e-3)


def test_scenarios_repeat_and_have_fair_coins():
    for scenario in standard_scenarios():
        scores, members = scenario.draw(2000, np.random.default_rng(3))
        again, _ = scenario.draw(2000, np.random.default_rng(3))
        assert np.array_equal(scores, again) and 850 < members.sum() < 1150


@pytest.mark.parametrize("name", ["nothing", "no_such_module:f", "math:no_such", "math:pi", ":f", "math:"])
def test_unknown_estimators_are_refused(name):
    with pytest.raises(InputError, match="estimator"):
        find_estimator(name)


def test_a_record_says_whether_all_passed():
    rows = selftest(OURS["grid"], canaries=50, repeats=2)
    assert record(rows, estimator="grid")["passed"] is True


@pytest.mark.parametrize("settings", [{"canaries": 5}, {"repeats": 0}])
def test_impossible_settings_are_refused(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        selftest(OURS["grid"], **settings)
