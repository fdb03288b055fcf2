"""The numerical pitfalls that cost others time, each held open to view."""

import math
import warnings

import numpy as np
import pytest

from coalmine.audit.bounds import FixedBins, Gaussian, PoissonSampling, RandomAllocation, closed_form
from coalmine.audit.bounds.refine import LONGEST, profile_of
from coalmine.audit.bounds.rounding import EXTENDED
from coalmine.foundation import InputError


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_01_and_02_overflow_of_the_closed_form():
    assert closed_form.accuracy_bound(100, 1, 0.03) == 1.0
    assert closed_form.one_line_bound(100, 1000, 0.3) == 1.0
    assert closed_form.chi_square(100, 10**6, 0.5) == math.inf
    found = RandomAllocation(100, 1, 0.03).accuracy()
    assert found.upper == 1.0 and found.lower > 0.999


def test_03_inverse_at_its_ends():
    assert closed_form.noise_multiplier_for_accuracy(100, 10, 0.5) == math.inf
    with pytest.raises(InputError, match="accuracy"):
        closed_form.noise_multiplier_for_accuracy(100, 10, 1.0)
    for accuracy in (0.51, 0.74, 0.76, 0.99):
        sigma = closed_form.noise_multiplier_for_accuracy(100, 10, accuracy)
        assert closed_form.accuracy_bound(100, 10, sigma) == pytest.approx(accuracy, rel=1e-12)


def test_04_huge_noise_keeps_relative_accuracy():
    found = RandomAllocation(100, 1, 100.0).accuracy(width=1e-10)
    assert found.width <= 1e-10
    # for σ → ∞ the pair is Gaussian: TV = 2Φ(√(v/M)/2) − 1 to a relative 1e-4
    assert 2 * found.midpoint - 1 == pytest.approx(closed_form.gaussian_limit(100, 1, 100.0), rel=1e-3)


def test_05_one_step_is_the_gaussian_mechanism_and_few_steps_are_regular():
    for e, sigma in ((1, 1.0), (100, 10.0), (7, 0.6)):
        exact = RandomAllocation(1, e, sigma).accuracy()
        gaussian = Gaussian(sigma, e).accuracy_bound()
        assert exact.lower <= gaussian <= exact.upper and exact.width < 1e-9
    for m in (2, 3):
        found = RandomAllocation(m, 3, 0.8).accuracy(1e-5)
        assert found.width <= 1e-5


def test_06_heavy_tails_lose_nothing_and_lower_stays_below_upper():
    found = RandomAllocation(1000, 1, 0.5).accuracy(1e-6)
    assert found.width <= 1e-6
    assert found.contains(0.5 + 0.0742325 / 2) or abs(2 * found.midpoint - 1 - 0.07423) < 1e-5
    for sigma in (0.25, 0.35, 0.5):
        for resolution in (0.05, 0.02):
            profile = profile_of(RandomAllocation(100, 3, sigma), resolution)
            assert profile.remove.delta_lower(0.0) <= profile.add.delta_upper(0.0)
            assert profile.add.delta_lower(0.0) <= profile.remove.delta_upper(0.0)


def test_07_a_power_of_a_million():
    found = RandomAllocation(10**6, 1, 1.0).accuracy(1e-6)
    assert found.lower <= 0.5 + 0.00052297 / 2 and found.upper >= 0.5 + 0.00052293 / 2
    assert found.width <= 1e-6


def test_08_regions_are_thresholds():
    # summing max(P − Q, 0) over bins would add noise; the threshold's value cannot exceed the upper law's
    for m, e, sigma in ((1000, 100, 1.0), (10_000, 10, 2.0)):
        profile = profile_of(RandomAllocation(m, e, sigma), 0.02)
        assert profile.total_variation().width < 1e-4


def test_09_total_variation_is_the_same_from_both_directions():
    for m, e, sigma in ((100, 10, 1.0), (20, 3, 0.7), (2, 2, 1.0)):
        profile = profile_of(RandomAllocation(m, e, sigma), 0.01)
        assert profile.remove.delta_lower(0.0) <= profile.add.delta_upper(0.0)
        assert profile.add.delta_lower(0.0) <= profile.remove.delta_upper(0.0)
        assert abs(profile.remove.delta_upper(0.0) - profile.add.delta_upper(0.0)) < 1e-4


def test_10_poisson_does_not_drift_with_the_number_of_steps():
    found = PoissonSampling(1 / 3906, 3906 * 25, 0.7).accuracy(1e-5)
    assert 2 * found.midpoint - 1 == pytest.approx(0.0821, abs=1e-4)


def test_12_epsilon_zero_is_an_ordinary_question():
    found = RandomAllocation(100, 10, 1.0).delta(0.0)
    accuracy = RandomAllocation(100, 10, 1.0).accuracy()
    assert found.lower <= 2 * accuracy.upper - 1 and found.upper >= 2 * accuracy.lower - 1


def test_13_and_14_saturation():
    found = RandomAllocation(10, 2000, 0.5).accuracy()
    assert 0.999 < found.lower <= found.upper <= 1.0
    assert RandomAllocation(100, 10, 0.2).accuracy(1e-4).upper <= 1.0


def test_15_tiny_delta_gives_a_wide_interval_not_a_wrong_number():
    mechanism = RandomAllocation(100, 10, 1.0)
    small, tiny = mechanism.epsilon(1e-8), mechanism.epsilon(1e-18)
    assert small.lower <= small.upper <= tiny.upper
    assert tiny.upper <= Gaussian(1.0, 10).epsilon(1e-18).upper  # the fallback, finite
    assert mechanism.epsilon(0.5).upper == 0.0  # δ ≥ TV


@pytest.mark.parametrize("sigma", [0, 0.0, -1, math.nan, math.inf, "1", None, True])
def test_17_noise_must_be_positive_and_zero_is_named_as_no_privacy(sigma):
    with pytest.raises(InputError, match="noise_multiplier"):
        RandomAllocation(100, 10, sigma)
    if sigma == 0 and sigma is not True:
        with pytest.raises(InputError, match="no privacy"):
            RandomAllocation(100, 10, sigma)


def test_17_sampling_rate_one_is_the_gaussian_mechanism():
    assert PoissonSampling(1.0, 9, 3.0).accuracy() == Gaussian(3.0, 9).accuracy()
    assert PoissonSampling(1.0, 9, 3.0).epsilon(1e-5) == Gaussian(3.0, 9).epsilon(1e-5)


def test_18_whole_numbers():
    assert RandomAllocation(100.0, 10.0, 1.0) == RandomAllocation(100, 10, 1.0)
    assert isinstance(RandomAllocation(100.0, np.int64(10), 1).steps_per_epoch, int)
    for bad in ((10.5, 1), (100, 1.5), (0, 1), (1, 0), (math.inf, 1), (math.nan, 1)):
        with pytest.raises(InputError, match="whole number"):
            RandomAllocation(*bad, 1.0)


@pytest.mark.parametrize("sigma", [1e-3, 1e6])
def test_extreme_noise_gives_right_and_finite_answers(sigma):
    mechanism = RandomAllocation(100, 10, sigma)
    accuracy, epsilon = mechanism.accuracy(), mechanism.epsilon(1e-5)
    if sigma < 1:
        assert accuracy.lower > 1 - 1e-9 and accuracy.upper == 1.0
        assert 4.9e6 < epsilon.lower <= epsilon.upper < 5.1e6  # E/(2σ²) = 5e6
    else:
        assert 0.5 < accuracy.lower <= accuracy.upper < 0.5 + 1e-7
        assert epsilon.upper == 0.0
    for other in (FixedBins(100, 10, sigma), PoissonSampling(0.01, 1000, sigma), Gaussian(sigma, 10)):
        assert 0.5 <= other.accuracy().lower <= other.accuracy().upper <= 1.0
        assert math.isfinite(other.epsilon(1e-5).upper)


@pytest.mark.parametrize(
    ("m", "e", "sigma"),
    [
        (10**6, 10**4, 100.0),
        pytest.param(10**6, 1, 0.2, marks=pytest.mark.slow),
        (2, 10**4, 0.2),
        (10**6, 10**4, 1),
    ],
)
def test_a_valid_interval_at_the_corners_of_the_range(m, e, sigma):
    found = RandomAllocation(m, e, sigma).accuracy(1e-3)
    assert 0.5 <= found.lower <= found.upper <= 1.0
    assert found.upper <= RandomAllocation(m, e, sigma).accuracy_bound() + 1e-12
    assert found.width <= (1e-3 if EXTENDED else 5e-3)  # at 10¹⁰ steps in all, rounding sets the width of doubles
    assert LONGEST * 150 < 4 * 2**30  # about 150 bytes a point at the peak stay below 4 GiB


@pytest.mark.parametrize("delta", [1.0, 1.5, -0.1, math.nan])
def test_bad_delta_is_refused(delta):
    with pytest.raises(InputError, match="delta"):
        RandomAllocation(100, 10, 1.0).epsilon(delta)
