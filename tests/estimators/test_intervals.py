"""Intervals of metrics: they cover what they are said to cover, ties and small samples included."""

import importlib.util
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy.special import betainc, ndtr, ndtri
from scipy.stats import mannwhitneyu, rankdata

from coalmine.audit.estimators import (
    auc,
    auc_interval,
    errors_at_the_middle,
    errors_at_threshold,
    mann_whitney,
    mann_whitney_p_value,
    tpr_at_fpr,
)
from coalmine.audit.estimators.mann_whitney import DRAWS
from coalmine.audit.estimators.rates import binomial_tail, clopper_pearson_lower, clopper_pearson_upper
from coalmine.audit.estimators.tpr_interval import threshold_ranks, tpr_limits
from coalmine.foundation import InputError

PATH = Path(__file__).parents[2] / "reports" / "experiments" / "interval_table.py"
SPECIFICATION = importlib.util.spec_from_file_location("interval_table", PATH)
interval_table = importlib.util.module_from_spec(SPECIFICATION)
sys.modules["interval_table"] = interval_table
SPECIFICATION.loader.exec_module(interval_table)

REPEATS = 200


@pytest.fixture(scope="module")
def cells():
    return interval_table.interval_cells(REPEATS, 1, sizes=((10, 10), (20, 100), (200, 200)))


def test_every_printed_interval_covers_its_truth(cells):
    """A reduced but powered subset of reports/experiments/interval_table.py."""
    assert sum(cell.judged for cell in cells) > 150
    assert interval_table.failing(cells) == []
    assert {cell.interval for cell in cells} >= {
        "AUC",
        "ROC band",
        "TPR at FPR 0.1",
        "accuracy over runs",
        "attack accuracy",
        "balanced accuracy, middle",
        "balanced accuracy, threshold",
        "noise multiplier, upper",
    }


def test_the_same_judgement_catches_what_is_invalid(cells):
    """The t interval where canaries of a run err together: 94 % of two runs agree, and it has no width."""
    together = next(
        c for c in cells if c.interval == "t interval" and c.world == "all right in 5 %" and c.size == "2 × 60"
    )
    assert not together.judged and binomial_tail(together.missed, together.repeats, 0.05) < 1e-12


def test_a_clopper_pearson_interval_at_the_realised_threshold_would_fail():
    """1,000 + 1,000, FPR 1 %, shift 1: it covers the TPR at the stated FPR in about 59 % of draws."""
    truth = float(ndtr(ndtri(0.01) + 1))
    covered = {"realised": 0, "ours": 0}
    members = np.arange(2000) < 1000
    for seed in range(400):
        point = tpr_at_fpr(np.random.default_rng(seed).normal(size=2000) + members, members, 0.01)
        low, high = clopper_pearson_lower(point.tp, 1000, 0.975), clopper_pearson_upper(point.tp, 1000, 0.975)
        covered["realised"] += low <= truth <= high
        covered["ours"] += point.interval[0] <= truth <= point.interval[1]
    assert covered["realised"] < 0.7 * 400
    assert binomial_tail(400 - covered["ours"], 400, 0.05) > 1e-3


def test_the_ranks_of_the_thresholds_keep_their_share_of_the_error():
    for n0, n1, rate in ((1000, 1000, 0.01), (25000, 500, 0.001), (100, 10, 0.1), (40, 40, 0.5)):
        ranks = threshold_ranks(n0, n1, rate, 0.95)
        left = 0.025 - (1 - ranks.strict_confidence)
        assert 0 < left < 0.025
        assert betainc(ranks.strict, n0 + 1 - ranks.strict, rate) >= 1 - left - 1e-12  # FPR at most the stated one
        assert betainc(ranks.strict + 1, n0 - ranks.strict, rate) < 1 - left  # and no higher rank would do
        left = 0.025 - (1 - ranks.loose_confidence)
        assert betainc(ranks.loose, n0 + 1 - ranks.loose, rate) <= left + 1e-12
        assert ranks.strict <= n0 * rate < ranks.loose


def test_the_tpr_interval_holds_its_point_and_knows_when_it_knows_nothing():
    members = np.arange(400) < 200
    stream = np.random.default_rng(0)
    for scores in (stream.normal(size=400) + members, np.round(stream.normal(size=400)), np.zeros(400)):
        point = tpr_at_fpr(scores, members, 0.1)
        assert point.interval[0] <= point.true_positive_rate <= point.interval[1]
    assert tpr_at_fpr(np.zeros(400), members, 0.1).interval == (0.0, 1.0)
    assert tpr_limits(np.ones(5), np.zeros(3), 0.001, 0.95)[0] == 0.0  # three non-members fix no such threshold


def test_undefined_members_are_misses_and_undefined_non_members_no_help():
    members = np.arange(400) < 200
    scores = np.where(members, 5.0, 0.0) + np.random.default_rng(0).normal(size=400)
    scores[:100] = np.nan
    point = tpr_at_fpr(scores, members, 0.1)
    assert point.tp == 100 and point.interval[1] < 0.6


def test_auc_interval_is_the_binomial_one_for_members_above_all_or_below():
    """Then the area is a share of the members, and no interval of that share is shorter."""
    for won in (0, 13, 40, 50):
        low, high = auc_interval(won / 50, 50, 500)
        assert low == pytest.approx(clopper_pearson_lower(won, 50, 0.975)) and high == pytest.approx(
            clopper_pearson_upper(won, 50, 0.975)
        )
    assert auc_interval(0.7, 50, 500) == auc_interval(0.7, 500, 50)


def test_auc_interval_covers_where_a_variance_formula_does_not():
    """Members eight times wider than non-members, 10 + 100: Newcombe's method 5 misses a fifth of the draws."""
    missed = 0
    members = np.arange(110) < 10
    for seed in range(600):
        scores = np.random.default_rng(seed).normal(size=110) * np.where(members, 8, 1)
        low, high = auc_interval(auc(scores, members), 10, 100)
        missed += not low <= 0.5 <= high
    assert binomial_tail(missed, 600, 0.05) > 1e-3


def test_balanced_accuracy_counts_errors_once():
    scores = np.array([4.0, 3.0, 2.0, 1.0, np.nan, np.nan])
    members = np.array([True, False, True, False, True, False])
    counts = errors_at_the_middle(scores, members)
    assert counts == replace(errors_at_threshold(scores, members, 2.5), fixed_threshold=False)
    assert (counts.false_positives, counts.false_negatives) == (2, 2)
    assert counts.balanced_accuracy == pytest.approx(1 / 3)
    low, high = counts.balanced_accuracy_interval()
    assert 0 <= low < counts.balanced_accuracy < high <= 1


def test_three_tied_high_members_of_a_thousand_have_one_chance_in_eight():
    """The normal approximation once said 0.0416."""
    members = np.arange(1000) < 500
    found = mann_whitney(np.where(np.arange(1000) < 3, 1.0, 0.0), members)
    assert found.method == "exact"
    assert found.p_value == pytest.approx(500 * 499 * 498 / (1000 * 999 * 998), rel=1e-8)
    assert found.p_value == pytest.approx(1 / 8, abs=5e-4)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("alternative", ["greater", "less"])
def test_the_rank_test_is_the_count_of_every_choice_of_members(seed, alternative):
    stream = np.random.default_rng(seed)
    n = int(stream.integers(4, 11))
    scores, k = stream.integers(0, 4, n).astype(float), int(stream.integers(1, n))
    members = np.isin(np.arange(n), stream.choice(n, k, replace=False))
    ranks = rankdata(scores) * (1 if alternative == "greater" else -1)
    sums = np.array([ranks[list(choice)].sum() for choice in combinations(range(n), k)])
    expected = np.mean(sums >= ranks[members].sum() - 1e-9)
    found = mann_whitney(scores, members, alternative)
    assert found.method == "exact" and found.p_value == pytest.approx(expected, rel=1e-8)


def test_without_ties_the_rank_test_is_the_library_s():
    stream = np.random.default_rng(0)
    for n1, n0 in ((8, 12), (30, 30), (20, 60)):
        scores, members = stream.normal(size=n1 + n0), np.arange(n1 + n0) < n1
        expected = mannwhitneyu(scores[members], scores[~members], alternative="greater", method="exact").pvalue
        assert mann_whitney(scores, members).p_value == pytest.approx(expected, rel=1e-8)


def test_how_the_rank_test_is_done_depends_on_ties_and_size():
    stream = np.random.default_rng(0)
    many, few = np.arange(4000) < 2000, np.arange(4000) < 30
    levels = np.floor(stream.exponential(size=4000) ** 4)  # most at the lowest value
    assert mann_whitney(stream.normal(size=4000), many).method == "normal"
    assert mann_whitney(stream.normal(size=4000), few).method == "permutation"
    assert mann_whitney(levels, many).method == "permutation"
    assert mann_whitney(np.minimum(levels, 1), many).method == "exact"
    found = mann_whitney(np.minimum(levels, 2) + (levels > 0) * many, many)
    assert (found.p_value, found.method) == (1 / (1 + DRAWS), "permutation")  # never smaller than the draws can tell


def test_the_three_ways_agree():
    stream = np.random.default_rng(3)
    members = np.arange(3000) < 1500
    scores = np.floor(stream.exponential(size=3000) ** 3) + 0.05 * members * (stream.random(3000) < 0.3)
    found = mann_whitney(scores, members)
    assert found.method == "permutation"
    expected = mannwhitneyu(scores[members], scores[~members], alternative="greater").pvalue
    assert found.p_value == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / DRAWS) + 0.003)


def test_the_rank_test_has_its_size_under_heavy_ties():
    rejected = 0
    for seed in range(400):
        stream = np.random.default_rng(seed)
        scores = np.where(stream.random(300) < 0.02, 1.0, 0.0) + (stream.random(300) < 0.01)
        rejected += mann_whitney_p_value(scores, stream.permutation(300) < 150) <= 0.05
    assert binomial_tail(rejected, 400, 0.05) > 1e-3


def test_an_unknown_alternative_is_refused():
    with pytest.raises(InputError, match="alternative"):
        mann_whitney([1.0, 2.0], [0, 1], "two-sided")
