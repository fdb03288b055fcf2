"""The test over independent runs: valid against every law inside a run, and strong enough to be worth training for."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog

from coalmine.audit.bounds import EpsilonDelta, Gaussian, RandomAllocation
from coalmine.audit.estimators import (
    accuracy_bet,
    clopper_pearson,
    combine_p_values,
    curve_bet,
    mean_interval,
    runs_accuracy,
    runs_needed,
    runs_p_value,
    runs_power,
    runs_reject,
)
from coalmine.audit.estimators.rates import binomial_tail
from coalmine.audit.estimators.run_bets import right_guess_tails
from coalmine.foundation import InputError

ALLOCATION = RandomAllocation(steps_per_epoch=100, epochs=10, noise_multiplier=1.43)
CLAIMS = {
    "random allocation": ALLOCATION,
    "full batch": Gaussian(noise_multiplier=4.0),
    "epsilon 0.3": EpsilonDelta(0.3, 1e-5),
    "epsilon 1, delta 0": EpsilonDelta(1.0, 0.0),
}


def upper_accuracy(claim):
    return float(claim.accuracy().upper)


def worst_law(payoff, accuracy, tail=None):
    """The law of right guesses in one run that pays a bet most: mean at most m A, tails of both sides below `tail`."""
    m = payoff.size - 1
    v = np.arange(m + 1)
    rows, limits = [v / m], [accuracy]
    if tail is not None:
        for k in range(m // 2 + 1, m + 1):
            if tail[k] < 1e-9 and tail[k - 1] < 1e-9:
                continue  # below what the solver can tell: implied by the larger tails, all but a billionth
            rows += [v >= k, v <= m - k]
            limits += [tail[k], tail[k]]
    # Each column is paid about 1 and each limit is 1, so that the solver's tolerance is a relative one.
    scale = np.maximum(payoff, 1)
    rows = np.array(rows, float) / scale / np.array(limits)[:, None]
    whole = (1 / scale)[None]
    found = linprog(-payoff / scale, A_ub=rows, b_ub=np.ones(len(rows)), A_eq=whole, b_eq=[1.0], method="highs")
    law = np.maximum(found.x, 0) / scale
    return law / law.sum(), -found.fun


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
@pytest.mark.parametrize("m, runs", [(1, 16), (9, 4), (60, 16), (60, 64), (301, 8)])
def test_no_law_inside_a_run_makes_the_bet_pay_more_than_one(claim, m, runs):
    """By linear programming over every law of right guesses that the claim allows, whatever the dependence."""
    accuracy = upper_accuracy(claim)
    assert worst_law(accuracy_bet(m, accuracy, runs).payoff, accuracy)[1] <= 1
    bet = curve_bet(claim, m, accuracy, runs)
    assert worst_law(bet.payoff, accuracy, right_guess_tails(claim, m))[1] <= 1 + 1e-6  # the solver's tolerance
    assert np.all(np.diff(bet.payoff) >= 0) and bet.payoff[0] >= 0


def test_the_tails_are_the_one_run_p_values():
    from coalmine.audit.estimators import f_dp_p_value

    tail = right_guess_tails(ALLOCATION, 60)
    for v in (30, 36, 45, 60):
        exact = f_dp_p_value(ALLOCATION, v, 60, 60)
        assert exact * (1 - 1e-9) <= tail[v] <= exact * 1.002
    assert tail[0] == 1 and np.all(np.diff(tail) <= 0)
    wide = right_guess_tails(ALLOCATION, 1001)  # tabulated at some counts only: between them the larger one stands
    assert all(wide[v] >= f_dp_p_value(ALLOCATION, v, 1001, 1001) * (1 - 1e-9) for v in (510, 555, 601, 700))


NULLS = {
    "independent canaries": lambda s, m, a, n: s.binomial(m, a, n),
    "all right or all wrong together": lambda s, m, a, n: m * s.binomial(1, a, n),
    "everything published sometimes": lambda s, m, a, n: np.where(s.random(n) < 2 * a - 1, m, s.binomial(m, 0.5, n)),
    "half of the runs at A": lambda s, m, a, n: s.binomial(m, np.where(np.arange(n[-1]) % 2, a, 0.5), n),
}


@pytest.mark.parametrize("draw", NULLS.values(), ids=NULLS)
@pytest.mark.parametrize("runs", [2, 16, 64])
def test_the_size_holds_when_canaries_err_together(draw, runs):
    """5,000 null repeats at 5 %, the accuracy bet: nothing is assumed of the canaries inside a run."""
    accuracy = upper_accuracy(ALLOCATION)
    bet = accuracy_bet(60, accuracy, runs)
    rejected = runs_reject(bet, draw(np.random.default_rng(runs), 60, accuracy, (5000, runs))).sum()
    assert binomial_tail(int(rejected), 5000, 0.05) > 1e-3


@pytest.mark.parametrize("runs", [4, 16, 64])
@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_the_size_holds_on_the_worst_law_that_a_claim_allows(claim, runs):
    """5,000 null repeats: canaries of a run depend in the way that pays the bet most."""
    accuracy = upper_accuracy(claim)
    bet = curve_bet(claim, 60, accuracy, runs)
    law, _ = worst_law(bet.payoff, accuracy, right_guess_tails(claim, 60))
    stream = np.random.default_rng(runs)
    for counts in (stream.choice(61, (5000, runs), p=law), stream.binomial(60, accuracy, (5000, runs))):
        assert binomial_tail(int(runs_reject(bet, counts).sum()), 5000, 0.05) > 1e-3


def test_half_the_noise_is_found_in_sixteen_runs_with_the_curve_and_in_32_without():
    claimed, ran = upper_accuracy(ALLOCATION), RandomAllocation(100, 10, 1.43 / 2).accuracy().lower
    assert runs_power(curve_bet(ALLOCATION, 60, claimed, 16), ran, 16).interval[0] > 0.9
    assert runs_power(accuracy_bet(60, claimed, 16), ran, 16).interval[1] < 0.15
    assert runs_power(accuracy_bet(60, claimed, 32), ran, 32).interval[0] > 0.95


def test_the_number_of_runs_needed_has_the_power_and_one_fewer_has_not():
    claimed = upper_accuracy(ALLOCATION)
    for bet in (lambda runs: curve_bet(ALLOCATION, 60, claimed, runs), lambda runs: accuracy_bet(60, claimed, runs)):
        runs, reached = runs_needed(bet, 0.64)
        assert 4 < runs < 40 and reached.power >= 0.8
        assert runs_power(bet(runs // 2), 0.64, runs // 2).power < 0.8
    assert runs_needed(lambda runs: accuracy_bet(60, claimed, runs), claimed, most=64) is None


def test_no_test_of_the_accuracy_alone_could_be_much_stronger():
    """Runs that are right with probability A/x at a rate x, else never, have mean A: so p >= prod min(1, A/x)."""
    bet = accuracy_bet(60, 0.539, 16)
    for v in ([36] * 16, [40] * 16, [33, 45] * 8):
        floor = float(np.prod(np.minimum(1, 0.539 * 60 / np.array(v))))
        assert floor <= runs_p_value(bet, v).p_value
    assert runs_p_value(bet, [44] * 16).p_value < 1.1 * (0.539 * 60 / 44) ** 16


def test_the_power_is_that_of_the_decisions():
    bet = curve_bet(ALLOCATION, 60, upper_accuracy(ALLOCATION), 16)
    stream = np.random.default_rng(0)
    counts = stream.binomial(60, 0.62, (400, 16))
    decisions = [runs_p_value(bet, row).p_value < 0.05 for row in counts]
    assert decisions == runs_reject(bet, counts).tolist()
    low, high = runs_power(bet, 0.62, 16).interval
    assert low - 0.08 < np.mean(decisions) < high + 0.08


def test_the_p_value_is_one_over_the_largest_capital():
    found = runs_p_value(accuracy_bet(60, 0.55, 4), [60, 60, 60, 0])
    assert found.p_value == pytest.approx(1 / max(found.capital)) == pytest.approx(0.55**3, rel=1e-2)
    assert found.capital[-1] < found.capital[2] and found.smallest_p_value <= 0.55**4 * 1.05
    assert runs_p_value(accuracy_bet(60, 0.55, 4), [0, 0, 0, 0]).p_value == 1.0
    assert accuracy_bet(60, 0.55, 4).smallest_p_value(4) == pytest.approx(found.smallest_p_value)


def test_stopping_early_or_adding_runs_keeps_the_size():
    """Rejected at any of 200 looks: 5,000 null repeats of all canaries right or wrong together."""
    bet = accuracy_bet(60, 0.55, 16)
    counts = 60 * np.random.default_rng(0).binomial(1, 0.55, (5000, 200))
    assert binomial_tail(int(runs_reject(bet, counts).sum()), 5000, 0.05) > 1e-3


def test_runs_with_different_numbers_of_canaries_take_a_bet_each():
    bets = [accuracy_bet(m, 0.55, 3) for m in (20, 60, 40)]
    found = runs_p_value(bets, [20, 60, 40])
    assert found.capital[-1] == pytest.approx(math.prod(bet.payoff[-1] for bet in bets))


@pytest.mark.parametrize(
    "correct", [[], [61], [-1], [30.5], [[30, 31]]], ids=["none", "too many", "negative", "a half", "a table"]
)
def test_impossible_counts_are_refused(correct):
    with pytest.raises(InputError, match="correct"):
        runs_p_value(accuracy_bet(60, 0.55, 1), correct)


@pytest.mark.parametrize(
    "arguments, name",
    [((0, 0.55, 4), "guesses"), ((60, 0.4, 4), "accuracy"), ((60, 0.55, 0), "runs"), ((60, 0.55, 4, 0.6), "alpha")],
)
def test_impossible_designs_are_refused(arguments, name):
    with pytest.raises(InputError, match=name):
        accuracy_bet(*arguments)


def test_a_claim_that_allows_everything_is_never_rejected():
    assert runs_p_value(accuracy_bet(60, 1.0, 4), [60] * 4).p_value == 1.0
    assert runs_p_value(curve_bet(EpsilonDelta(0.5, 0.9), 60, 1.0, 4), [60] * 4).p_value >= 0.4


INSIDE = {
    "independent": (lambda s, m, n: s.binomial(m, 0.6, n), 0.6),
    "all together": (lambda s, m, n: m * s.binomial(1, 0.55, n), 0.55),
    "rarely": (lambda s, m, n: m * s.binomial(1, 0.05, n), 0.05),
    "two kinds of runs": (lambda s, m, n: np.where(np.arange(n) % 2, m, s.binomial(m, 0.2, n)), 0.6),
}


@pytest.mark.parametrize("draw, truth", INSIDE.values(), ids=INSIDE)
@pytest.mark.parametrize("m, runs", [(1, 20), (60, 2), (60, 16)])
def test_the_accuracy_interval_covers_whatever_happens_inside_a_run(draw, truth, m, runs):
    stream = np.random.default_rng(0)
    found = [runs_accuracy(draw(stream, m, runs), m) for _ in range(600)]
    assert binomial_tail(sum(not each.lower <= truth <= each.upper for each in found), 600, 0.05) > 1e-3


@pytest.mark.parametrize("counts", [[36, 36], [36, 36, 36, 36], [0, 0], [60, 60], [31, 47, 22], [36] * 64])
def test_the_accuracy_interval_is_never_narrower_than_the_binomial_one(counts):
    """Two runs with equal counts once had an interval of width zero."""
    found = runs_accuracy(counts, 60)
    low, high = clopper_pearson(sum(counts), 60 * len(counts))
    assert found.lower <= low <= found.accuracy <= high <= found.upper and found.validity == "runs"


def test_the_mean_interval_is_the_library_s():
    from scipy.stats import t

    values = [0.3, 0.7, 0.4, 0.9]
    found = mean_interval(values, 0.9)
    low, high = t.interval(0.9, 3, loc=np.mean(values), scale=np.std(values, ddof=1) / 2)
    assert (found.lower, found.upper) == pytest.approx((low, high))
    assert mean_interval([0.5]).half_width is None
    with pytest.raises(InputError, match="values"):
        mean_interval([0.5, math.nan])


def test_p_values_too_small_for_a_double_are_combined():
    """3,000 canaries all right against epsilon 1, delta 0: the p-value is below the smallest double."""
    assert 0 < combine_p_values([0.0, 0.0]) < 1e-300
    assert combine_p_values([0.0, 1.0]) < 1e-290
