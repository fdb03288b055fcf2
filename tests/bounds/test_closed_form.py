"""The closed forms against published values, their inverses, and their limits."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coalmine.audit.bounds import RandomAllocation, closed_form
from coalmine.foundation import InputError


@pytest.mark.parametrize(
    ("m", "e", "sigma", "value"),
    [(100, 1, 1.0, 0.5327708), (100, 10, 1.0, 0.6077445), (10, 5, 2.0, 0.5969253)],
)
def test_published_one_line_values(m, e, sigma, value):
    assert closed_form.one_line_bound(m, e, sigma) == pytest.approx(value, abs=5e-8)
    assert closed_form.accuracy_bound(m, e, sigma) == pytest.approx(value, abs=5e-8)  # c ≤ 1: the same


def test_the_sharp_branch_where_the_one_line_form_exceeds_one():
    assert closed_form.accuracy_bound(2, 1, 0.5) == pytest.approx(0.9820138, abs=5e-8)
    assert closed_form.one_line_bound(2, 1, 0.5) == 1.0
    assert 0.5 + math.sqrt(closed_form.chi_square(2, 1, 0.5)) / 4 == pytest.approx(1.794, abs=5e-4)


@pytest.mark.parametrize(
    ("m", "e", "sigma"),
    [
        (100, 10, 1.7370),
        (100, 20, 2.3621),
        (100, 40, 3.2689),
        (250, 10, 1.2088),
        (250, 20, 1.5826),
        (250, 40, 2.1352),
        (500, 10, 0.9592),
        (500, 20, 1.2093),
        (500, 40, 1.5829),
    ],
)
def test_published_closed_form_noise_for_accuracy_055(m, e, sigma):
    assert closed_form.noise_multiplier_for_accuracy(m, e, 0.55) == pytest.approx(sigma, abs=5.1e-5)


@given(
    st.integers(1, 10**6),
    st.integers(1, 10**4),
    st.floats(0.5001, 0.9999),
)
def test_inverse_in_noise_round_trips(m, e, accuracy):
    sigma = closed_form.noise_multiplier_for_accuracy(m, e, accuracy)
    assert closed_form.accuracy_bound(m, e, sigma) - 0.5 == pytest.approx(accuracy - 0.5, rel=1e-9)


@given(st.integers(1, 2000), st.integers(1, 200), st.floats(0.3, 10))
def test_inverses_in_epochs_and_steps(m, e, sigma):
    accuracy = closed_form.accuracy_bound(m, e, sigma)
    if not 0.5 + 1e-9 < accuracy < 1 - 1e-9:
        return
    most = closed_form.largest_epochs_for_accuracy(m, sigma, accuracy)
    assert closed_form.accuracy_bound(m, max(1, most), sigma) <= accuracy * (1 + 1e-9)
    assert closed_form.accuracy_bound(m, most + 2, sigma) > accuracy * (1 - 1e-12)
    fewest = closed_form.smallest_steps_for_accuracy(e, sigma, accuracy)
    assert closed_form.accuracy_bound(fewest, e, sigma) <= accuracy * (1 + 1e-9)
    assert fewest <= m + 1


def test_arrays_agree_with_scalars_and_broadcast():
    m = np.array([[1], [7], [1000]])
    sigma = np.array([0.03, 0.17, 0.9, 5.0, 100.0])
    table = closed_form.accuracy_bound(m, 3, sigma)
    assert table.shape == (3, 5)
    for i, steps in enumerate((1, 7, 1000)):
        for j, s in enumerate(sigma.tolist()):
            assert table[i, j] == pytest.approx(closed_form.accuracy_bound(steps, 3, s), rel=1e-13)
    back = closed_form.noise_multiplier_for_accuracy(m, 3, np.array([0.51, 0.6, 0.9]))
    assert back.shape == (3, 3)


def test_true_positive_rate_bound_matches_the_published_table():
    c = closed_form.chi_square(100, 10, 1.426215)
    assert closed_form.true_positive_rate_bound(c, [0.1, 0.01, 0.001]) == pytest.approx(
        [0.1767, 0.0354, 0.0091], abs=6e-5
    )
    c = closed_form.chi_square(500, 10, 0.834432)
    assert closed_form.true_positive_rate_bound(c, [0.1, 0.01, 0.001]) == pytest.approx(
        [0.1771, 0.0356, 0.0091], abs=6e-5
    )


def test_noise_for_a_true_positive_rate_round_trips():
    c = closed_form.chi_square_of_true_positive_rate(0.05, 0.01)
    sigma = closed_form.noise_multiplier_of_chi_square(200, 5, c)
    assert closed_form.true_positive_rate_bound(closed_form.chi_square(200, 5, sigma), 0.01) == pytest.approx(0.05)


def test_groups_pinsker_and_epsilon_delta():
    assert closed_form.group_total_variation_bound(0.1, 3) == pytest.approx(0.3)
    assert closed_form.group_total_variation_bound(0.4, 3) == 1.0
    assert closed_form.epsilon_delta_accuracy_bound(math.log(3), 0.0) == pytest.approx(0.75)
    assert closed_form.epsilon_delta_accuracy_bound(0.0, 0.1) == pytest.approx(0.55)
    sharp = closed_form.accuracy_bound(100, 10, 2.0)
    assert closed_form.renyi_pinsker_accuracy_bound(100, 10, 2.0) > sharp


def test_lower_bounds_and_limit_against_the_exact_value():
    for m, e, sigma in [(100, 1, 1.0), (1000, 1, 0.5), (50, 4, 1.3)]:
        exact = RandomAllocation(m, e, sigma).accuracy(1e-5)
        assert 0.5 + closed_form.sum_statistic_lower_bound(m, e, sigma) / 2 <= exact.upper
        assert 0.5 + closed_form.one_epoch_lower_bound(m, sigma) / 2 <= exact.upper
        assert 0.5 + closed_form.gaussian_limit(m, e, sigma) / 2 >= exact.lower - 1e-6  # a conjecture, seen to hold


def test_one_epoch_lower_bound_by_logarithms_joins_the_direct_formula():
    for m in (2, 1000):
        near = [closed_form.one_epoch_lower_bound(m, 0.1 * f) for f in (1 - 1e-9, 1 + 1e-9)]
        assert near[0] == pytest.approx(near[1], rel=1e-6)
    assert 0 <= closed_form.one_epoch_lower_bound(100, 0.01) <= 1


@pytest.mark.parametrize(
    ("sigma", "m", "ratio"), [(0.75, 16384, 19.9), (1.0, 16384, 12.5), (1.5, 65536, 10.7), (1.0, 1_140_000, 12.5)]
)
def test_the_earlier_closed_form_over_the_exact_value(sigma, m, ratio):
    exact = 2 * RandomAllocation(m, 1, sigma).accuracy(1e-6).midpoint - 1
    assert closed_form.berry_esseen_total_variation(m, 1, sigma) / exact == pytest.approx(ratio, rel=0.01)


def test_the_earlier_closed_form_asks_for_about_twice_the_noise():
    for m in (16384, 65536):
        earlier = closed_form.berry_esseen_noise_multiplier(m, 1, 0.525)
        assert 1.9 < earlier / closed_form.noise_multiplier_for_accuracy(m, 1, 0.525) < 3.5


def test_bound_over_exact_value_for_one_epoch_comes_near_the_root_of_half_pi():
    for m, sigma in ((4096, 1.5), (4096, 2.0), (65536, 2.0)):
        bound = 2 * closed_form.accuracy_bound(m, 1, sigma) - 1
        exact = RandomAllocation(m, 1, sigma).accuracy(1e-7)
        assert bound / (2 * exact.upper - 1) <= 1.253413
        assert bound / (2 * exact.lower - 1) >= 1.253314


@pytest.mark.parametrize("bad", [(0, 1, 1.0), (100, 0, 1.0), (100, 1, 0.0), (100, 1, -1.0), (100, 1, math.nan)])
def test_bad_parameters_are_refused(bad):
    with pytest.raises(InputError, match="steps_per_epoch"):
        closed_form.accuracy_bound(*bad)
