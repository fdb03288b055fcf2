"""Calibration: the certificate holds on both sides, and the published savings."""

import csv
from pathlib import Path

import pytest

from coalmine.audit.bounds import FixedBins, Gaussian, PoissonSampling, RandomAllocation
from coalmine.audit.bounds.calibration import largest_epochs, make_target
from coalmine.foundation import InputError

DATA = Path(__file__).parents[1] / "data" / "bounds"

# σ exact and the noise it saves over the closed form, accuracy 0.55
NINE = {
    (100, 10): 1.426215,
    (100, 20): 1.907073,
    (100, 40): 2.610518,
    (250, 10): 1.024495,
    (250, 20): 1.309428,
    (250, 40): 1.732809,
    (500, 10): 0.834432,
    (500, 20): 1.025964,
    (500, 40): 1.310146,
}


QUICK = [(100, 10), (250, 20), (500, 10)]


@pytest.mark.parametrize(
    ("cell", "sigma"),
    [pytest.param(c, s, marks=() if c in QUICK else pytest.mark.slow, id=str(c)) for c, s in NINE.items()],
)
def test_the_nine_published_noise_multipliers(cell, sigma):
    found = RandomAllocation.calibrate(*cell, accuracy=0.55)
    assert found.two_sided and found.certificate.upper <= 0.55 < found.misses.lower
    # exact σ lies between the two, and the published one is rounded up to 1e-6
    assert found.noise_multiplier * (1 - found.tolerance) < sigma
    assert found.noise_multiplier > sigma - 1e-6
    assert 0.1300 <= found.noise_saved <= 0.2015


@pytest.mark.slow
def test_savings_of_the_reference_file():
    with open(DATA / "sigma_values.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found = RandomAllocation.calibrate(int(row["M"]), int(row["E"]), accuracy=float(row["target_acc"]))
            assert 100 * found.noise_saved == pytest.approx(float(row["less_noise_pct"]), abs=0.02)


def test_epsilon_and_true_positive_rate_targets():
    found = RandomAllocation.calibrate(100, 10, epsilon=1.0, delta=1e-5)
    assert found.two_sided and found.certificate.upper <= 1.0 < found.misses.lower
    assert found.closed_form_noise_multiplier is None and found.noise_saved is None
    found = RandomAllocation.calibrate(100, 10, true_positive_rate=0.02, false_positive_rate=0.01)
    assert found.two_sided and found.certificate.upper <= 0.02 < found.misses.lower
    assert found.noise_multiplier < found.closed_form_noise_multiplier


def test_other_mechanisms_are_calibrated_too():
    poisson = PoissonSampling.calibrate(0.01, 1000, epsilon=2.0, delta=1e-5)
    assert poisson.two_sided and poisson.certificate.upper <= 2.0
    bins = FixedBins.calibrate(100, 4, accuracy=0.55)
    fresh = RandomAllocation.calibrate(100, 1, accuracy=0.55)
    assert bins.noise_multiplier == pytest.approx(2 * fresh.noise_multiplier, rel=3e-4)
    one_step = RandomAllocation.calibrate(1, 1, accuracy=0.55)
    assert one_step.noise_multiplier == pytest.approx(3.978948, rel=2e-4)


def test_largest_number_of_epochs_is_the_inverse():
    target = make_target(accuracy=0.55)
    most, meets, misses = largest_epochs(500, 0.8345, target)
    assert most == 10 and meets.upper <= 0.55 < misses.lower


def test_bad_targets_are_refused():
    for bad in (0.5, 1.0, 1.2, 0.3, float("nan")):
        with pytest.raises(InputError, match="accuracy"):
            make_target(accuracy=bad)
    for arguments, word in (
        ({}, "exactly one"),
        ({"accuracy": 0.6, "epsilon": 1.0, "delta": 1e-5}, "exactly one"),
        ({"epsilon": 1.0}, "delta"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta"),
        ({"epsilon": 1.0, "delta": 0.0}, "delta"),
        ({"epsilon": -1.0, "delta": 1e-5}, "epsilon"),
        ({"true_positive_rate": 0.1}, "false_positive_rate"),
        ({"true_positive_rate": 0.1, "false_positive_rate": 0.2}, "true_positive_rate"),
    ):
        with pytest.raises(InputError, match=word):
            make_target(**arguments)
    with pytest.raises(InputError, match="even one epoch"):
        largest_epochs(100, 0.1, make_target(accuracy=0.55))
    with pytest.raises(InputError, match="tolerance"):
        RandomAllocation.calibrate(100, 1, accuracy=0.6, tolerance=0.9)


@pytest.mark.parametrize("epsilon", [20.0, 45.0, 190.0])
def test_a_large_budget_is_used_to_the_last_thousandth(epsilon):
    found = RandomAllocation.calibrate(10, 10, epsilon=epsilon, delta=1e-5)
    assert found.two_sided and found.reason is None
    assert 0.99 * epsilon < found.certificate.upper <= epsilon < found.misses.lower


def test_every_mechanism_is_calibrated_at_the_width_that_was_asked():
    for kind, shape in (
        (RandomAllocation, (50, 4)),
        (FixedBins, (50, 4)),
        (PoissonSampling, (0.02, 200)),
        (Gaussian, (5,)),
    ):
        for target in ({"epsilon": 3.0, "delta": 1e-6}, {"true_positive_rate": 0.05, "false_positive_rate": 0.01}):
            found = kind.calibrate(*shape, **target, tolerance=2e-4)
            limit = target.get("epsilon", target.get("true_positive_rate"))
            assert found.two_sided and found.certificate.upper <= limit < found.misses.lower
            assert found.certificate.upper > limit * (1 - 3e-3)


def test_a_target_below_the_floor_says_why_less_noise_is_not_excluded():
    found = RandomAllocation.calibrate(10, 1, epsilon=5.0, delta=1e-16, tolerance=0.02)
    assert found.certificate.upper <= 5.0 and not found.two_sided
    assert "wide" in found.reason and found.record()["reason"] == found.reason


@pytest.mark.parametrize("tolerance", [1e-308, 1e-16, 0, -1e-3, float("nan"), 0.9])
def test_a_tolerance_that_doubles_cannot_hold_is_refused(tolerance):
    with pytest.raises(InputError, match="tolerance"):
        RandomAllocation.calibrate(100, 1, accuracy=0.6, tolerance=tolerance)
