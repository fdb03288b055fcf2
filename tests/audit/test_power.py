"""What an audit could show, and the simulated worlds it is judged in."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from coalmine.audit.bounds import EpsilonDelta, FixedBins, Gaussian, PoissonSampling, RandomAllocation
from coalmine.audit.estimators import guess_rule
from coalmine.audit.estimators.rates import binomial_tail
from coalmine.audit.planning.power import (
    canaries_needed,
    detection_power,
    numbers_tried,
    reach,
    trainings_needed,
    violated,
)
from coalmine.audit.planning.simulated_scores import ScorePool, attack_scores, draw_scores
from coalmine.audit.verdict.claim import Claim
from coalmine.foundation import InputError


@pytest.mark.parametrize("canaries, largest", [(100, 3.49), (1000, 5.81), (10000, 8.11)])
def test_the_most_that_perfect_guesses_report(canaries, largest):
    assert reach(canaries, rule=guess_rule("all"), delta=0.0).largest_reportable_epsilon == pytest.approx(
        largest, abs=5e-3
    )


def test_the_grid_reports_less_and_a_claim_above_is_out_of_reach():
    found = reach(100, Claim(EpsilonDelta(8.0, 1e-5)))
    assert found.largest_reportable_epsilon < 3.49
    assert found.can_reject is False and found.smallest_reportable_p_value >= 0.05
    assert reach(10000, Claim(EpsilonDelta(3.0, 1e-5))).can_reject is True


@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_drawn_scores_have_the_curve_they_are_drawn_from(mu):
    """At every threshold the empirical rates lie on 1 - G_mu, within five standard errors."""
    stream = np.random.default_rng(0)
    members = np.arange(200_000) < 100_000
    scores = draw_scores(Gaussian(noise_multiplier=1 / mu), members, stream)
    for threshold in np.quantile(scores, [0.02, 0.2, 0.5, 0.8, 0.98]):
        fpr, tpr = (scores[~members] > threshold).mean(), (scores[members] > threshold).mean()
        assert tpr == pytest.approx(ndtr(ndtri(fpr) + mu), abs=0.01)


def test_a_kept_claim_is_rejected_no_more_often_than_alpha():
    found = detection_power(300, Claim(EpsilonDelta(1.0, 1e-6)), 1.0, repeats=400)
    assert binomial_tail(round(found.power * 400), 400, 0.05) > 1e-3


def test_power_grows_with_canaries_and_with_violation():
    claim = Claim(Gaussian(noise_multiplier=2.0))
    more = [detection_power(m, claim, 3.0, repeats=40).power for m in (50, 150, 450)]
    assert more[0] <= more[1] + 0.1 <= more[2] + 0.2 and more[2] > 0.8
    worse = [detection_power(200, claim, factor, repeats=40).power for factor in (1.0, 2.0, 4.0)]
    assert worse[0] < 0.2 and worse[2] > worse[1] - 0.1


def test_the_canaries_needed_have_the_power_asked_for():
    claim = Claim(EpsilonDelta(1.0, 1e-6))
    found = canaries_needed(claim, 3.0, power=0.8, repeats=100)
    assert found.power >= 0.8 and found == detection_power(found.canaries, claim, 3.0, repeats=100)
    assert detection_power(round(found.canaries * 0.8), claim, 3.0, repeats=100).power < 0.8


def test_the_search_tells_every_number_that_it_tries():
    tried = []
    canaries_needed(Claim(EpsilonDelta(1.0, 1e-6)), 3.0, repeats=5, most=400, advance=lambda: tried.append(1))
    assert 3 <= len(tried) <= numbers_tried(400)


def test_nothing_is_found_where_nothing_can_be():
    assert canaries_needed(Claim(EpsilonDelta(9.0, 1e-6)), 2.0, repeats=5, most=200) is None


@pytest.mark.parametrize(
    "rule", [guess_rule("calibrated"), guess_rule("split"), guess_rule("fixed", 20, 20), guess_rule("sign")]
)
def test_every_rule_has_a_power(rule):
    claim = Claim(EpsilonDelta(0.3, 1e-6))
    assert 0.3 < detection_power(200, claim, 8.0, rule, repeats=10).power <= 1
    assert reach(200, claim, rule).can_reject


def test_independent_trainings_are_counted_exactly():
    """Claimed accuracy 0.6915 (mu = 1), run with 0.8413 (mu = 2): the binomial test of 64 trainings has power 0.8."""
    from scipy.stats import binom

    claim = Claim(Gaussian(noise_multiplier=1.0))
    n = trainings_needed(claim, 2.0)
    critical = int(binom.ppf(0.95, n, ndtr(0.5))) + 1
    assert binom.sf(critical - 1, n, ndtr(1.0)) >= 0.8
    assert binom.sf(int(binom.ppf(0.95, n // 2, ndtr(0.5))), n // 2, ndtr(1.0)) < 0.8
    assert trainings_needed(claim, 1.0) is None


def test_the_accuracy_that_rejects_in_one_run():
    """Gaussian mu = 1, 1,000 canaries: 0.927 of all guesses, in one run of unknown dependence."""
    found = reach(1000, Claim(Gaussian(noise_multiplier=1.0)))
    assert found.smallest_rejecting_accuracy == pytest.approx(0.927, abs=1e-3)
    assert reach(100, Claim(Gaussian(noise_multiplier=0.5))).smallest_rejecting_accuracy is None


def test_a_violated_claim():
    assert violated(Claim(Gaussian(noise_multiplier=2.0, steps=3)), 2.0) == Gaussian(noise_multiplier=1.0, steps=3)
    assert violated(Claim(EpsilonDelta(1.0, 1e-6)), 2.0).record() == {"epsilon": 2.0, "delta": 1e-6}


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_violations_are_refused(factor):
    with pytest.raises(InputError, match="violation"):
        violated(Claim(EpsilonDelta(1.0, 0.0)), factor)


@pytest.mark.parametrize("canaries", [0, 1, 2.5, True])
def test_impossible_numbers_of_canaries_are_refused(canaries):
    with pytest.raises(InputError, match="canaries"):
        reach(canaries)


@pytest.mark.parametrize(
    "mechanism",
    [
        RandomAllocation(steps_per_epoch=10, epochs=2, noise_multiplier=0.8),
        FixedBins(steps_per_epoch=10, epochs=3, noise_multiplier=1.5),
        PoissonSampling(sampling_rate=0.1, steps=20, noise_multiplier=0.8),
        Gaussian(noise_multiplier=1.3, steps=4),
    ],
    ids=lambda mechanism: mechanism.record()["name"],
)
def test_simulated_scores_attack_as_well_as_theory_allows_and_no_better(mechanism):
    """Guessing by the sign of the log-likelihood ratio reaches the certified accuracy within five standard errors."""
    pool = attack_scores(mechanism, np.random.default_rng(0))
    assert isinstance(pool, ScorePool)
    accuracy = (np.mean(pool.members > 0) + np.mean(pool.non_members < 0)) / 2
    bound = mechanism.accuracy()
    error = 5 * 0.5 / np.sqrt(2 * pool.members.size)
    assert bound.lower - error <= accuracy <= bound.upper + error
    assert np.mean(np.exp(pool.non_members)) == pytest.approx(1, abs=0.2)  # a likelihood ratio has mean 1
