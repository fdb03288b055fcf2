"""The curve that audits use promises no less than the certified TPR: every mechanism, ε from 0.01 to 200."""

import numpy as np
import pytest

from coalmine.audit.bounds import (
    EpsilonDelta,
    FixedBins,
    Gaussian,
    Interval,
    PoissonSampling,
    RandomAllocation,
    gaussian_curve,
)
from coalmine.audit.bounds.privacy_lines import MOST, privacy_lines
from coalmine.audit.estimators import f_dp_p_value

QUICK = [
    RandomAllocation(10, 1, 78.3),
    RandomAllocation(10, 1, 0.207),
    RandomAllocation(10, 10, 0.45),
    RandomAllocation(500, 10, 0.8344),
    RandomAllocation(100, 100, 0.35),
    FixedBins(100, 16, 8.0),
    FixedBins(20, 100, 1.5),
    PoissonSampling(0.004, 3750, 1.0),
    PoissonSampling(0.01, 5000, 1.0),
    PoissonSampling(0.1, 100, 0.5),
    Gaussian(1.0, 10),
    Gaussian(400.0, 1),
    Gaussian(0.06, 1),
]
SLOW = [
    RandomAllocation(10000, 10, 0.5),
    RandomAllocation(10000, 100, 5.0),
    RandomAllocation(1000, 1, 0.07),
    RandomAllocation(10000, 100, 0.25),
    FixedBins(10000, 10, 0.4),
    PoissonSampling(1e-4, 10000, 0.4),
    PoissonSampling(1e-4, 10000, 0.15),
    PoissonSampling(1e-4, 100000, 2.0),
]
RATES = np.geomspace(1e-6, 0.5, 60)
EVERY = [*QUICK, *(pytest.param(m, marks=pytest.mark.slow, id=str(m)) for m in SLOW)]


def concave_hull(x, y):
    """The least concave function above the points: what a test that tosses between two others attains."""
    corners = []
    for point in sorted(zip(x.tolist(), y.tolist(), strict=True)):
        while len(corners) > 1:
            (x0, y0), (x1, y1) = corners[-2:]
            if (y1 - y0) * (point[0] - x0) > (point[1] - y0) * (x1 - x0):
                break
            corners.pop()
        corners.append(point)
    return np.array(corners).T


@pytest.mark.parametrize("mechanism", EVERY, ids=str)
def test_the_curve_is_within_five_percent_of_the_certified_rates(mechanism):
    curve = mechanism.trade_off_curve()
    remove, add = (
        mechanism.true_positive_rate(RATES, direction, relative_width=0.01) for direction in ("remove", "add")
    )
    promised = 1 - curve(RATES)
    assert np.all(promised >= np.maximum(remove.lower, add.lower))  # valid: an attack attains the lower ends
    # a symmetric convex curve holds for both orders of the pair, so it cannot lie below the hull of both
    x = np.concatenate((RATES, RATES, 1 - remove.upper, 1 - add.upper, [0, 1]))
    y = np.concatenate((remove.upper, add.upper, 1 - RATES, 1 - RATES, [0, 1]))
    hull = np.interp(RATES, *concave_hull(x, y))
    assert np.all(promised <= 1.05 * hull)
    # up to where the two orders cross that is the worse direction's own rate
    small = RATES <= 1e-3
    assert np.all(promised[small] <= 1.05 * np.maximum(remove.upper, add.upper)[small])


@pytest.mark.parametrize("mechanism", EVERY, ids=str)
def test_the_curve_reports_no_larger_p_than_its_own_epsilon_and_delta(mechanism):
    delta = 1e-5
    own = EpsilonDelta(mechanism.epsilon(delta).upper, delta)
    best = f_dp_p_value(mechanism, 1000, 1000, 1000)
    assert best <= f_dp_p_value(own, 1000, 1000, 1000) * (1 + 1e-5)


def test_the_poisson_curve_that_was_a_line():
    mechanism = PoissonSampling(0.004, 3750, 1.0)
    assert 1 - mechanism.trade_off_curve()(0.001) <= 1.02 * mechanism.true_positive_rate(0.001).upper < 0.003
    assert f_dp_p_value(mechanism, 1000, 1000, 1000) < 1e-8


def test_lines_are_placed_where_delta_or_epsilon_has_moved():
    # a plateau between two cliffs, as rare participation with little noise has it
    def deltas(epsilon):
        level = 0.6 if epsilon < 100 else 0.6 * np.exp(100 - epsilon)
        return float(level), float(np.exp(-5 * epsilon))

    lines = privacy_lines(deltas)
    assert len(lines.epsilons) < MOST
    at = np.geomspace(1e-40, 0.3, 50)
    fine = np.linspace(0, 200, 20001)[:, None]
    remove, add = np.array([deltas(e) for e in fine[:, 0]]).T[:, :, None]
    steep, flat = remove + np.exp(fine) * at, 1 - np.exp(-fine) * np.maximum(0, 1 - add - at)
    exact = np.minimum(1.0, np.minimum(steep, flat).min(axis=0))
    assert np.all(lines.true_positive_rate(at, "remove") >= exact * (1 - 1e-3))
    assert np.all(lines.true_positive_rate(at, "remove") <= exact * 1.03)


def test_a_gaussian_curve_is_rounded_down():
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.dps = 40
    for mu, y in ((1.0, 1e-30), (0.3, 1e-5), (5.0, 0.2)):
        z = mpmath.findroot(lambda v, y=y: mpmath.ncdf(v) - mpmath.mpf(y), float(-np.sqrt(2 * np.log(1 / y)) + 0.3))
        exact = mpmath.ncdf(z - mu)
        assert exact * (1 - mpmath.mpf("1e-11")) <= gaussian_curve(mu).inverse_complement(y) <= exact


def test_a_curve_that_misses_its_width_says_so():
    label = RandomAllocation(10**6, 10, 0.03).trade_off_curve().label
    assert "certified" in label and "memory" in label
    assert Interval(0.0, 1.0, "why").intersection(Interval(0.5, 2.0)) == Interval(0.5, 1.0)
