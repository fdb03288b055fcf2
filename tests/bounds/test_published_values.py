"""The certified intervals against every published value and against brackets of another program."""

import csv
from pathlib import Path

import numpy as np
import pytest

from coalmine.audit.bounds import RandomAllocation, noise_multiplier_for_accuracy

DATA = Path(__file__).parents[1] / "data" / "bounds"


SECONDS = [  # cells that take more than a second: left to the slow tests
    ("1000", "1", "0.3"),
    ("10000", "10", "0.4821"),
    ("1000000", "1", "1.0"),
    ("100", "1", "0.25"),
    ("16384", "1", "0.55"),
    ("16384", "1", "0.505"),
    ("65536", "1", "0.525"),
    ("500", "1", "0.7"),
    ("500", "1", "0.6"),
]


def rows(name):
    """One parameter for each row, named by its first three columns."""
    with open(DATA / name, encoding="utf-8") as file:
        found = [(tuple(row.values())[:3], row) for row in csv.DictReader(file)]
    return [
        pytest.param(row, marks=pytest.mark.slow if cell in SECONDS else (), id="-".join(cell)) for cell, row in found
    ]


@pytest.mark.parametrize("row", rows("tv_values.csv"))
def test_total_variation_overlaps_the_reference_bracket(row):
    found = RandomAllocation(int(row["M"]), int(row["E"]), float(row["sigma"])).accuracy(width=1e-5)
    assert found.width <= 1e-5
    assert found.lower <= 0.5 + float(row["tv_hi"]) / 2
    assert found.upper >= 0.5 + float(row["tv_lo"]) / 2


@pytest.mark.parametrize("row", rows("sigma_values.csv"))
def test_reference_noise_multipliers_meet_and_miss_their_targets(row):
    m, e, target = int(row["M"]), int(row["E"]), float(row["target_acc"])
    assert noise_multiplier_for_accuracy(m, e, target) == pytest.approx(float(row["sigma_formula"]), rel=1e-8)
    meets = RandomAllocation(m, e, float(row["sigma_exact_hi"])).accuracy(1e-4)
    misses = RandomAllocation(m, e, float(row["sigma_exact_lo"])).accuracy(1e-4)
    assert meets.lower <= target and misses.upper >= target


TABLE_11 = {
    (100, 10): (0.07885, 0.15193, 0.24117),
    (100, 20): (0.07887, 0.15254, 0.24572),
    (100, 40): (0.07888, 0.15270, 0.24724),
    (250, 10): (0.07880, 0.15079, 0.23524),
    (250, 20): (0.07886, 0.15223, 0.24318),
    (250, 40): (0.07887, 0.15262, 0.24643),
    (500, 10): (0.07870, 0.14923, 0.22923),
    (500, 20): (0.07884, 0.15172, 0.24004),
    (500, 40): (0.07887, 0.15249, 0.24523),
}


@pytest.mark.parametrize(("cell", "values"), TABLE_11.items(), ids=str)
def test_table_11_to_its_five_decimals(cell, values):
    for gain, value in zip((0.10, 0.20, 0.35), values, strict=True):
        sigma = noise_multiplier_for_accuracy(*cell, 0.5 + gain / 2)
        found = RandomAllocation(*cell, sigma).accuracy(2e-6)
        assert 2 * found.lower - 1 <= value + 5e-6 and 2 * found.upper - 1 >= value - 5e-6


@pytest.mark.parametrize(
    ("m", "e", "sigma"),
    [
        (100, 1, 0.6770),
        (1000, 1, 0.4520),
        pytest.param(10**4, 1, 0.3532, marks=pytest.mark.slow),
        pytest.param(10**5, 1, 0.2970, marks=pytest.mark.slow),
        (100, 100, 4.0400),
        (1000, 10, 0.7048),
        pytest.param(10**4, 10, 0.4821, marks=pytest.mark.slow),
        (1000, 100, 1.4289),
        (10**4, 100, 0.7085),
    ],
)
def test_table_7_exact_noise_at_larger_sizes(m, e, sigma):
    # rounded to four decimals, so half a unit more meets accuracy 0.55 and half a unit less misses it
    assert RandomAllocation(m, e, sigma + 6e-5).accuracy(5e-5).lower <= 0.55
    assert RandomAllocation(m, e, sigma - 6e-5).accuracy(5e-5).upper >= 0.55


@pytest.mark.parametrize(
    ("m", "sigma", "rates", "pinned"),
    [
        (100, 1.426215, (0.1, 0.01, 0.001), (0.151628, 0.0190615, 0.00227822)),
        (500, 0.834432, (0.1, 0.01, 0.001), (0.152289, 0.0193586, 0.00235243)),
    ],
)
def test_table_3_true_positive_rates(m, sigma, rates, pinned):
    found = RandomAllocation(m, 10, sigma).true_positive_rate(rates)
    assert np.all(np.asarray(found.lower) <= np.array(pinned) + 1e-6)
    assert np.all(np.asarray(found.upper) >= np.array(pinned) - 1e-6)
    assert np.all(found.width <= 1e-3 * np.asarray(found.upper))


@pytest.mark.parametrize(
    ("m", "sigma", "epsilon", "remove", "add"),
    [
        (100, 1.426215, 0.5, (2.895445e-3, 2.895455e-3), (2.719364e-3, 2.719376e-3)),
        (100, 1.426215, 0.9, (1.93195e-5, 1.93205e-5), (1.4579e-5, 1.4580e-5)),
        (100, 1.426215, 1.0, (3.9835e-6, 3.9845e-6), (2.7335e-6, 2.7345e-6)),
        (500, 0.834432, 0.5, (3.294508e-3, 3.295024e-3), (2.473182e-3, 2.473788e-3)),
        (500, 0.834432, 0.9, (4.0912e-5, 4.0923e-5), (9.855e-6, 9.862e-6)),
        (500, 0.834432, 1.0, (1.2065e-5, 1.2068e-5), (1.637e-6, 1.638e-6)),
    ],
)
def test_privacy_profile_in_both_directions(m, sigma, epsilon, remove, add):
    mechanism = RandomAllocation(m, 10, sigma)
    for direction, (low, high) in (("remove", remove), ("add", add)):
        found = mechanism.delta(epsilon, direction)
        assert found.lower <= high and found.upper >= low
        assert found.width <= 3e-3 * found.upper
    assert mechanism.delta(epsilon).upper >= max(remove[0], add[0])


@pytest.mark.parametrize(
    ("m", "e", "sigma", "remove", "add"),
    [
        (100, 10, 1.426215, 0.9427, 0.9233),
        (100, 20, 1.907073, 0.9343, 0.9294),
        (250, 10, 1.024495, 0.9636, 0.9128),
        (500, 10, 0.834432, 1.0155, 0.8992),
        (500, 40, 1.310146, 0.9349, 0.9288),
        (100, 10, 1.736982036, 0.7213, 0.7142),
    ],
)
def test_epsilon_at_delta_1e_5(m, e, sigma, remove, add):
    mechanism = RandomAllocation(m, e, sigma)
    for direction, pinned in (("remove", remove), ("add", add)):
        found = mechanism.epsilon(1e-5, direction)
        assert found.lower - 1e-4 <= pinned <= found.upper + 1e-4
        assert found.width <= 1e-3 * found.upper


@pytest.mark.parametrize(
    ("m", "e", "sigma", "value", "closed", "pair"),
    [
        (128, 125, 5.039, 0.5394, 0.55, 3e-4),
        (128, 125, 3.994, 0.55, 0.564, 1e-4),
        (128, 125, 1.561, 0.6374, 0.70, 1e-4),
        (100, 10, 1.737, 0.5394, 0.55, 1e-4),
    ],
)
def test_table_2_bound_pair_and_the_attack_below_it(m, e, sigma, value, closed, pair):
    mechanism = RandomAllocation(m, e, sigma)
    exact = mechanism.accuracy(1e-5)
    assert exact.midpoint == pytest.approx(value, abs=pair)
    assert mechanism.accuracy_bound() == pytest.approx(closed, abs=6e-4)


def test_at_equal_chi_square_the_exact_value_still_depends_on_m():
    for m, value in ((7, 0.0787), (5360, 0.0586)):
        sigma = 1 / np.sqrt(np.log1p(0.04 * m))
        mechanism = RandomAllocation(m, 1, float(sigma))
        assert 2 * mechanism.accuracy_bound() - 1 == pytest.approx(0.1, abs=1e-9)
        assert 2 * mechanism.accuracy(1e-5).midpoint - 1 == pytest.approx(value, abs=6e-5)
