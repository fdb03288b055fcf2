"""Metrics: ties, signs, undefined scores, and intervals that hold."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from sklearn.metrics import roc_auc_score

from coalmine.audit.estimators import (
    auc,
    auc_interval,
    best_balanced_accuracy,
    clopper_pearson,
    clopper_pearson_lower,
    clopper_pearson_upper,
    mann_whitney_p_value,
    positive_predictive_value,
    roc_curve,
    tpr_at_fpr,
)
from coalmine.audit.estimators.rates import binomial_tail
from coalmine.audit.estimators.roc_band import roc_band
from coalmine.foundation import InputError

tied = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=40).filter(
    lambda rows: 0 < sum(member for _, member in rows) < len(rows)
)


@settings(max_examples=100, deadline=None)
@given(tied)
def test_auc_is_the_independent_one(rows):
    scores, members = np.array([r[0] for r in rows], float), np.array([r[1] for r in rows])
    expected = roc_auc_score(members, scores)
    assert auc(scores, members) == pytest.approx(expected, abs=1e-12)
    assert roc_curve(scores, members).auc == pytest.approx(expected, abs=1e-12)
    assert auc(-scores, members) == pytest.approx(1 - expected, abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(tied, st.randoms())
def test_the_order_of_rows_changes_nothing(rows, random):
    shuffled = rows[:]
    random.shuffle(shuffled)
    curves = [roc_curve(np.array([r[0] for r in x], float), np.array([r[1] for r in x])) for x in (rows, shuffled)]
    assert np.array_equal(curves[0].false_positive_rate, curves[1].false_positive_rate)
    assert np.array_equal(curves[0].true_positive_rate, curves[1].true_positive_rate)


def test_a_tie_block_counts_as_a_whole():
    """[9, 9, 5, 5] with one member in each pair: AUC one half, not 0.375 or 0.625 by the order of the array."""
    for members in ([1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 0, 1]):
        assert auc([9, 9, 5, 5], members) == 0.5
    assert auc([9, 9, 9, 9], [1, 1, 0, 0]) == 0.5


def test_the_realised_false_positive_rate_never_exceeds_the_request():
    """A thousand tied non-members: no threshold inside the block exists, so nothing of it is taken."""
    scores = np.concatenate((np.full(1000, 5.0), np.arange(1000) / 100))
    members = np.concatenate((np.zeros(1000, bool), np.ones(1000, bool)))
    point = tpr_at_fpr(scores, members, 0.01)
    assert point.fp == 0 and point.tp == 499
    assert point.threshold == pytest.approx(5.01)


def test_counts_behind_a_rate_are_those_of_the_threshold():
    stream = np.random.default_rng(0)
    members = stream.random(4000) < 0.5
    scores = stream.normal(size=4000) + members
    point = tpr_at_fpr(scores, members, 0.1)
    called = scores >= point.threshold
    assert (point.tp, point.fp) == (int((called & members).sum()), int((called & ~members).sum()))
    assert point.fp / (~members).sum() <= 0.1
    assert point.interval[0] < point.true_positive_rate < point.interval[1]


def test_too_few_non_members_are_refused_with_the_reason():
    members = np.arange(1000) < 500
    assert "10 are needed" in tpr_at_fpr(np.arange(1000.0), members, 0.01).refused
    assert tpr_at_fpr(np.arange(1000.0), members, 0.02).refused is None


def test_a_flipped_sign_shows():
    members = np.arange(100) < 50
    scores = np.arange(100.0)
    assert auc(scores, members) == 0.0
    assert mann_whitney_p_value(scores, members, "less") < 1e-10
    assert mann_whitney_p_value(scores, members, "greater") > 0.999


def test_undefined_scores_are_neither_high_nor_low():
    members = np.array([1, 1, 0, 0], bool)
    assert auc([np.nan] * 4, members) == 0.5
    assert auc([3, np.nan, np.nan, 1], members) == pytest.approx(0.875)
    assert mann_whitney_p_value([np.nan] * 4, members) == 1.0


def test_infinite_scores_stay_in_the_counts():
    curve = roc_curve([np.inf, 1, 0, -np.inf], [1, 1, 0, 0])
    assert (curve.members, curve.non_members, curve.auc) == (2, 2, 1.0)
    assert roc_curve([np.inf, np.inf], [0, 1]).false_positive_rate.tolist() == [0, 1]  # one block, one diagonal


def test_best_balanced_accuracy_is_the_brute_force_maximum():
    stream = np.random.default_rng(1)
    members, scores = stream.random(200) < 0.5, stream.integers(0, 20, 200).astype(float)
    brute = max(
        ((scores >= t) & members).sum() / members.sum() / 2 + ((scores < t) & ~members).sum() / (~members).sum() / 2
        for t in [*np.unique(scores), np.inf]
    )
    assert best_balanced_accuracy(roc_curve(scores, members)) == pytest.approx(brute)


def test_positive_predictive_value_is_bayes():
    assert positive_predictive_value(0.1, 0.001, 0.01) == pytest.approx(0.1 * 0.01 / (0.1 * 0.01 + 0.001 * 0.99))
    assert positive_predictive_value(0.0, 0.0, 0.5) is None


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, math.nan])
def test_impossible_rates_are_refused(bad):
    with pytest.raises(InputError):
        tpr_at_fpr([1, 2], [0, 1], bad)
    with pytest.raises(InputError):
        positive_predictive_value(0.5, 0.5, bad)


@pytest.mark.parametrize("members", [[1, 1], [0, 0]])
def test_one_group_only_is_refused(members):
    with pytest.raises(InputError, match="at least one member and one non-member"):
        auc([1, 2], members)


@pytest.mark.parametrize("scores, members", [([1, 2, 3], [0, 1]), ([[1, 2]], [[0, 1]]), ([1, 2], [0, 2])])
def test_shapes_and_flags_that_do_not_fit_are_refused(scores, members):
    with pytest.raises(InputError):
        roc_curve(scores, members)


def test_clopper_pearson_ends():
    """k = 0 and k = n give 0 and 1, not NaN; all right in n gives alpha^(1/n)."""
    assert clopper_pearson_lower(0, 50, 0.95) == 0.0
    assert clopper_pearson_upper(50, 50, 0.95) == 1.0
    assert clopper_pearson_lower(50, 50, 0.95) == pytest.approx(0.05 ** (1 / 50))


@pytest.mark.parametrize("n, p", [(10, 0.1), (40, 0.5), (100, 0.99)])
def test_clopper_pearson_holds_exactly(n, p):
    """The probability of leaving out the truth, summed over every outcome, is at most the stated error."""
    k = np.arange(n + 1)
    mass = binomial_tail(k, n, p) - binomial_tail(k + 1, n, p)
    low, high = clopper_pearson(k, n, 0.9)
    assert mass.sum() == pytest.approx(1)
    assert mass[low > p].sum() <= 0.05 and mass[high < p].sum() <= 0.05


def test_auc_interval_holds_on_gaussian_scores():
    """1,000 draws at nominal 95 %: the method is approximate, 93 % would be a defect of it."""
    missed, mu = 0, 1.0
    truth = float(ndtr(mu / math.sqrt(2)))
    for seed in range(1000):
        stream = np.random.default_rng(seed)
        members = np.arange(100) < 50
        low, high = auc_interval(auc(stream.normal(size=100) + mu * members, members), 50, 50)
        missed += not low <= truth <= high
    assert missed < 70


def test_auc_interval_is_sensible_at_the_ends():
    low, high = auc_interval(1.0, 50, 50)
    assert high == 1.0 and 0.9 < low < 1
    low, high = auc_interval(0.0, 50, 50)
    assert low == 0.0 and 0 < high < 0.1


def test_the_roc_band_holds_everywhere_at_once():
    """Nominal error 5 %, 200 draws: the band covers the whole true curve."""
    missed = 0
    for seed in range(200):
        stream = np.random.default_rng(seed)
        members = np.arange(400) < 200
        band = roc_band(stream.normal(size=400) + members, members)
        truth = ndtr(ndtri(band.false_positive_rate) + 1)
        missed += bool(np.any((truth < band.lower - 1e-12) | (truth > band.upper + 1e-12)))
    assert binomial_tail(missed, 200, 0.05) > 1e-3


def test_the_roc_band_is_a_band():
    members = np.arange(400) < 200
    band = roc_band(np.arange(400.0)[::-1], members)
    assert np.all(band.lower <= band.upper) and np.all(np.diff(band.lower) >= 0) and np.all(np.diff(band.upper) >= 0)
    assert band.upper[-1] == 1 and band.validity == "C"
    assert np.max(band.lower) > 0.9  # a perfect attack is seen
