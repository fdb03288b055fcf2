"""Guess rules and the grid: what is counted, and that neither order nor labels decide."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coalmine.audit.bounds import EpsilonDelta, Gaussian
from coalmine.audit.estimators import (
    RULES,
    Fixed,
    class_a_epsilons,
    clopper_pearson_epsilon,
    f_dp_epsilon,
    grid_epsilon,
    grid_p_value,
    guess_by_sign,
    guess_grid,
    guess_rule,
    one_run_epsilon,
    order_guesses,
    tally_epsilon,
    tally_p_value,
)
from coalmine.audit.estimators.guesses import count_ties
from coalmine.audit.estimators.tallies import Tally, critical_counts
from coalmine.foundation import InputError


def gaussian_scores(m, mu, seed=0):
    stream = np.random.default_rng(seed)
    members = stream.random(m) < 0.5
    return stream.normal(size=m) + mu * members, members


def test_the_grid_is_fixed_by_canaries_and_alpha():
    assert guess_grid(100).tolist() == [6, 8, 10, 14, 19, 26, 36, 49, 66, 89, 100]
    assert [guess_grid(m).size for m in (100, 1000, 10000)] == [11, 19, 26]
    assert guess_grid(3).tolist() == [3]
    assert guess_grid(1000, 0.01)[0] == 8  # fewer guesses cannot reject epsilon = 0 at 1 %


def test_counts_are_those_of_a_direct_count():
    scores, members = gaussian_scores(501, 1.0)
    ordered = order_guesses(scores, members)
    by_score = np.argsort(-scores)
    for r in (1, 2, 7, 100, 501):
        high, low = by_score[: (r + 1) // 2], by_score[501 - r // 2 :]
        assert ordered.correct(r) == members[high].sum() + (~members[low]).sum()


def test_undefined_scores_are_guessed_last_and_wrong():
    """Abstentions: never counted right, never dropped from m."""
    scores = np.array([5.0, np.nan, -5.0, np.nan, 4.0, -4.0])
    members = np.array([True, True, False, False, True, False])
    ordered = order_guesses(scores, members)
    assert (ordered.canaries, ordered.defined) == (6, 4)
    assert ordered.correct([1, 2, 3, 4, 5, 6]).tolist() == [1, 2, 3, 4, 4, 4]
    counts = guess_rule("all").tally(scores, members)
    assert (counts.canaries, counts.guesses[0], counts.correct[0]) == (6, 6, 4)


def test_naming_undefined_members_after_the_coins_gains_nothing():
    """30 NaN members at zero signal: a peer reports 1.09."""
    scores, members = gaussian_scores(200, 0.0)
    scores[np.flatnonzero(members)[:30]] = np.nan
    assert grid_epsilon(scores, members) == 0.0


@pytest.mark.parametrize("rule", ["grid", "all", "split", "sign"])
@pytest.mark.parametrize("members_first", [True, False])
def test_all_tied_with_members_first_or_last_proves_nothing(rule, members_first):
    """A peer reports 2.37 here: argsort alone leaks the labels. 60 draws, bounds above 0 as rare as stated."""
    above = 0
    for seed in range(60):
        members = np.sort(np.random.default_rng(seed).random(300) < 0.5)
        members = members[::-1] if members_first else members
        above += tally_epsilon(guess_rule(rule).tally(np.zeros(300), members), 1e-6, 0.95).value > 0
    assert above <= 9  # P[Bin(60, 0.05) > 9] < 1e-3


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_distinct_scores_in_any_order_give_the_same_bound(seed):
    scores, members = gaussian_scores(120, 1.5, seed)
    shuffle = np.random.default_rng(seed).permutation(120)
    assert grid_epsilon(scores[shuffle], members[shuffle], 1e-5) == grid_epsilon(scores, members, 1e-5)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.1, 3.0]))
def test_only_the_order_of_scores_counts(seed, scale):
    scores, members = gaussian_scores(80, 1.0, seed)
    assert grid_epsilon(np.tanh(scores * scale), members) == pytest.approx(grid_epsilon(scores, members))


def test_guessing_by_the_sign():
    scores, members = np.array([2.0, -1.0, 0.5, np.nan]), np.array([True, False, False, True])
    assert guess_by_sign(scores, members) == (2, 4)


def test_ties_are_counted():
    assert count_ties([1, 1, 2, 3, 3, 3, np.nan, np.nan]) == 5


def test_the_grid_is_a_union_bound_over_its_counts():
    scores, members = gaussian_scores(300, 2.0)
    counts = guess_rule("grid").tally(scores, members)
    each = [
        f_dp_epsilon(int(v), int(r), 300, 1e-4, 1 - 0.05 / counts.guesses.size)
        for v, r in zip(counts.correct, counts.guesses, strict=True)
    ]
    assert grid_epsilon(scores, members, 1e-4) == pytest.approx(max(each), abs=1e-7)


def test_class_a_chooses_its_test_before_looking():
    """Steinke where 2 m delta is below the error, the recursion elsewhere; never the better of both."""
    assert class_a_epsilons([97], [100], 1000, 1e-5, 0.95)[0] == one_run_epsilon(97, 100, 1000, 1e-5)
    assert class_a_epsilons([97], [100], 1000, 1e-4, 0.95)[0] == pytest.approx(f_dp_epsilon(97, 100, 1000, 1e-4))


@pytest.mark.parametrize("rule", ["grid", "all", "split", "calibrated"])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_the_p_value_and_the_bound_say_the_same(rule, epsilon):
    scores, members = gaussian_scores(400, 1.7)
    counts = guess_rule(rule).tally(scores, members)
    bound = tally_epsilon(counts, 1e-6, 0.95).value
    p_value = tally_p_value(counts, EpsilonDelta(epsilon, 1e-6)).value
    if abs(bound - epsilon) > 0.01:
        assert (epsilon < bound) == (p_value < 0.05)


@pytest.mark.parametrize("claim", [Gaussian(noise_multiplier=1.0), EpsilonDelta(1.0, 1e-6), EpsilonDelta(1.0, 1e-3)])
def test_critical_counts_decide_like_p_values(claim):
    grid = guess_grid(200)
    counts = Tally(200, grid, grid)
    critical = critical_counts(claim, counts, 0.05)
    for seed in range(20):
        found = guess_rule("grid").tally(*gaussian_scores(200, 2.0, seed))
        assert bool(np.any(found.correct >= critical)) == (tally_p_value(found, claim).value < 0.05)


def test_grid_p_value_of_a_curve_is_class_b_and_corrected():
    scores, members = gaussian_scores(1000, 2.0)
    p = [grid_p_value(Gaussian(noise_multiplier=s), scores, members) for s in (0.4, 0.7, 1.0, 2.0)]
    assert p == sorted(p, reverse=True) and p[0] == 1.0 and p[-1] < 1e-4


def test_split_tests_only_the_canaries_it_did_not_look_at():
    scores, members = gaussian_scores(401, 2.0)
    counts = guess_rule("split").tally(scores, members)
    assert counts.canaries == 201 and counts.guesses.size == 1 and counts.guesses[0] <= 201


@pytest.mark.parametrize(
    "arguments", [("best",), ("fixed",), ("fixed", 3, -1), ("fixed", 0, 0), ("fixed", 2.5, 1), ("grid", 3, 3)]
)
def test_impossible_rules_are_refused(arguments):
    with pytest.raises(InputError, match="guess"):
        guess_rule(*arguments)


def test_more_fixed_guesses_than_canaries_are_refused():
    with pytest.raises(InputError, match="lower the numbers"):
        guess_rule("fixed", 60, 60).tally(*gaussian_scores(100, 1.0))


def test_zero_signal_proves_nothing_nineteen_times_in_twenty():
    """jax_privacy pull 270: null scores once gave epsilon 3.5 to 5.9."""
    bounds = [grid_epsilon(*gaussian_scores(200, 0.0, seed), 1e-5) for seed in range(200)]
    assert sum(bound > 0 for bound in bounds) <= 20 and min(bounds) == 0.0


def test_a_flipped_sign_is_zero_here_and_refused_by_the_audit():
    scores, members = gaussian_scores(500, 2.0)
    assert grid_epsilon(-scores, members) == 0.0


def test_no_evidence_gives_zero_not_the_end_of_a_noise_grid():
    """A peer returns 0.341 for 500 of 1000."""
    assert f_dp_epsilon(500, 1000, 1000, 1e-5) == 0.0


def test_a_perfect_attack_gives_the_most_that_canaries_can_report():
    """A peer reports 0.002 for it."""
    members = np.random.default_rng(0).random(1000) < 0.5
    counts = guess_rule("all").tally(members.astype(float), members)
    correct = int(counts.correct[0])
    assert correct >= 960  # halves by rank cannot follow an uneven coin count to the end
    assert tally_epsilon(counts, 0.0, 0.95).value == pytest.approx(one_run_epsilon(correct, 1000, 1000))


def test_no_bound_is_ever_negative_or_undefined():
    """jax_privacy d83e38d, opacus issue 585."""
    for v in range(0, 21, 4):
        for delta in (0.0, 0.3, 0.9):
            for bound in (one_run_epsilon(v, 20, 40, delta), f_dp_epsilon(v, 20, 40, delta)):
                assert bound >= 0 and math.isfinite(bound)
    assert clopper_pearson_epsilon(10, 10, 10, 10) == 0.0  # every rate bound is 1: commit 50a7d85 gave NaN
    assert clopper_pearson_epsilon(0, 10, 10, 10) == 0.0


EVERY_RULE = [Fixed(30, 20) if rule is Fixed else rule() for rule in RULES.values()]


@pytest.mark.parametrize("rule", EVERY_RULE, ids=lambda rule: rule.name)
def test_every_rule_fixes_its_counts_before_looking(rule):
    """A perfect tally has the counts of a real one, which split alone chooses on half of the canaries."""
    perfect = rule.perfect(200)
    for seed in range(3):
        found = rule.tally(*gaussian_scores(200, 1.0, seed))
        assert found.canaries == perfect.canaries and found.calibrated == perfect.calibrated
        assert rule.name == "split" or np.array_equal(found.guesses, perfect.guesses)
        assert np.all((found.correct >= 0) & (found.correct <= found.guesses))
    assert np.array_equal(perfect.correct, perfect.guesses)
    assert rule.all_guessed(*gaussian_scores(200, 1.0))[1] == 200


@pytest.mark.parametrize("rule", EVERY_RULE, ids=lambda rule: rule.name)
def test_every_rule_is_found_again_by_its_record(rule):
    assert guess_rule(**rule.record()) == rule
    assert guess_rule(rule.name, *rule.numbers) == rule
