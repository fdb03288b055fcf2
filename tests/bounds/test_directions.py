"""Both directions of every mechanism, certified from their own starts, up to large ε."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from coalmine.audit.bounds import EpsilonDelta, FixedBins, Gaussian, Mechanism, PoissonSampling, RandomAllocation
from coalmine.audit.bounds.balanced import BalancedAllocation
from coalmine.audit.bounds.composition import Composition
from coalmine.audit.bounds.fixed_size_sampling import FixedSizeSampling
from coalmine.audit.bounds.group import GroupPrivacy
from coalmine.audit.bounds.mixture import GaussianMixture
from coalmine.audit.bounds.shuffled import ShuffledBatches
from coalmine.audit.bounds.truncated_poisson import TruncatedPoisson

EXAMPLES = {
    RandomAllocation: [RandomAllocation(10, 10, 0.45), RandomAllocation(100, 3, 1.2)],
    FixedBins: [FixedBins(20, 4, 1.5)],
    PoissonSampling: [PoissonSampling(0.02, 200, 0.8)],
    Gaussian: [Gaussian(2.0, 5)],
    EpsilonDelta: [EpsilonDelta(1.5, 1e-6)],
    Composition: [Composition((RandomAllocation(10, 2, 1.5), RandomAllocation(20, 1, 2.0)))],
    GaussianMixture: [GaussianMixture((0.9, 0.1), (1.0,), 20, 1.0)],
}
# Certified from one side, or between two ends that need not meet: each says which, and its own tests hold the ends.
BRACKETED = {
    GroupPrivacy: [GroupPrivacy(RandomAllocation(10, 2, 1.5), 2)],
    BalancedAllocation: [BalancedAllocation(20, 2, 3, 1.5)],
    TruncatedPoisson: [TruncatedPoisson(1000, 0.02, 60, 20, 1.0)],
    FixedSizeSampling: [FixedSizeSampling(20, 1000, 20, 1.0)],
    ShuffledBatches: [ShuffledBatches(10, 2, 1.5)],
}


def concrete(kind):
    return {kind} if not kind.__subclasses__() else {k for sub in kind.__subclasses__() for k in concrete(sub)}


def test_no_mechanism_is_left_out():
    assert concrete(Mechanism) == {*EXAMPLES, *BRACKETED}


@pytest.mark.parametrize("mechanism", [m for group in BRACKETED.values() for m in group], ids=lambda m: m.name)
def test_what_is_bracketed_keeps_its_directions_in_order(mechanism):
    for question in (lambda direction: mechanism.epsilon(1e-5, direction), lambda d: mechanism.delta(0.7, d)):
        remove, add, both = (question(direction) for direction in ("remove", "add", "both"))
        assert both.upper >= max(remove.lower, add.lower) and both.lower <= max(remove.upper, add.upper)
        for found in (remove, add, both):
            assert 0 <= found.lower <= found.upper


@pytest.mark.parametrize("mechanism", [m for group in EXAMPLES.values() for m in group], ids=str)
def test_every_mechanism_answers_in_every_direction(mechanism):
    for question in (
        lambda direction: mechanism.epsilon(1e-5, direction, relative_width=1e-3),
        lambda direction: mechanism.delta(0.7, direction, relative_width=1e-3),
        lambda direction: mechanism.true_positive_rate(0.01, direction, relative_width=1e-3),
    ):
        remove, add, both = (question(direction) for direction in ("remove", "add", "both"))
        worse = max(remove.lower, add.lower), max(remove.upper, add.upper)
        assert both.upper >= worse[0] and both.lower <= worse[1]
        if not isinstance(mechanism, EpsilonDelta):  # whose lower end is "it may reveal nothing"
            for found in (remove, add, both):
                assert found.remark is None and found.width <= 1e-3 * found.upper + 1e-12
    # what the one direction says at ε is what the other says at −ε: at ε = 0 they agree
    zero = [mechanism.delta(0.0, direction) for direction in ("remove", "add")]
    assert zero[0].overlaps(zero[1])


LARGE = [
    (10, 10, 0.45),
    (10, 10, 0.5),
    (2, 10, 0.3),
    (3, 100, 0.6),
    (10, 1, 0.065),
    (100, 1, 0.065),
    (100, 10, 0.2),
    (100, 100, 0.33),
    (30, 30, 0.3),
]


@pytest.mark.parametrize("cell", LARGE, ids=str)
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_epsilon_is_tight_up_to_two_hundred(cell, direction):
    found = RandomAllocation(*cell).epsilon(1e-5, direction)
    assert found.remark is None and found.width <= 1e-3 * found.upper
    assert direction == "add" or 20 < found.upper < 260
    assert found.upper < Gaussian(cell[2], cell[1]).epsilon(1e-5).lower


def test_add_starts_from_its_own_lower_end():
    # one of two steps: exactly 3 at this δ, by quadrature
    found = RandomAllocation(2, 1, 0.2).epsilon(0.9288734294, "add")
    assert found.contains(3.0) and found.width <= 3e-3
    found = RandomAllocation(10, 1, 0.3).epsilon(0.3, "add")
    delta = RandomAllocation(10, 1, 0.3).delta(found.midpoint, "add")
    assert found.width <= 1e-3 * found.upper and delta.upper == pytest.approx(0.3, rel=2e-3)


# ---------------------------------------------------------------------------------------- independent: brute force


def two_steps(u, t, points=6001):
    """E(1 − e^u S)₊ and E(S − e^u)₊ for S = (X + X')/2 under Q: exact in X', trapezoid in X. u: (k,)."""
    z = np.linspace(-9, 9 + 2 * t, points)
    x = np.exp(t * z - t * t / 2)
    weight = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    level = np.exp(u)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        room = 2 / level - x
        edge = np.where(room > 0, (np.log(np.maximum(room, 1e-300)) + t * t / 2) / t, -np.inf)
        add = (1 - level * x / 2) * ndtr(edge) - level / 2 * ndtr(edge - t)
        room = 2 * level - x
        edge = np.where(room > 0, (np.log(np.maximum(room, 1e-300)) + t * t / 2) / t, -np.inf)
        remove = (x / 2 - level) * ndtr(-edge) + ndtr(t - edge) / 2
    return add @ weight, remove @ weight


@pytest.mark.parametrize("sigma", [0.2, 0.5, 1.0])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 5.0])
def test_two_steps_against_brute_force(sigma, epsilon):
    add, remove = (float(v[0]) for v in two_steps(np.array([epsilon]), 1 / sigma))
    mechanism = RandomAllocation(2, 1, sigma)
    for exact, direction in ((add, "add"), (remove, "remove")):
        found = mechanism.delta(epsilon, direction)
        assert found.lower - 1e-6 * exact <= exact + 1e-11 and exact <= found.upper + 1e-6 * exact + 1e-11
        if exact > 1e-9:
            inverse = mechanism.epsilon(exact, direction)
            assert inverse.lower - 1e-4 <= epsilon <= inverse.upper + 1e-4


@pytest.mark.parametrize("sigma", [0.4, 0.8])
def test_two_epochs_of_two_steps_against_brute_force(sigma):
    t, epsilon = 1 / sigma, 3.0
    u = np.linspace(-50, 50, 2001)
    add_table, remove_table = two_steps(u, t, 1501)
    z = np.linspace(-8, 8 + t, 801)
    weight = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    x = np.exp(t * z - t * t / 2)
    ratio = (x[:, None] + x) / 2
    first = np.interp(epsilon + np.log(ratio), u, add_table)
    second = ratio * np.interp(epsilon - np.log(ratio), u, remove_table)
    mechanism = RandomAllocation(2, 2, sigma)
    for exact, direction in ((weight @ first @ weight, "add"), (weight @ second @ weight, "remove")):
        found = mechanism.delta(epsilon, direction)
        assert found.lower * 0.998 <= exact <= found.upper * 1.002


@pytest.mark.parametrize("sigma", [0.5, 1.0])
def test_three_steps_against_brute_force(sigma):
    t, epsilon = 1 / sigma, 1.0
    z = np.linspace(-8, 8 + t, 801)
    weight = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    x = np.exp(t * z - t * t / 2)
    both = x[:, None] + x
    level = math.exp(epsilon)
    with np.errstate(divide="ignore"):
        room = 3 / level - both
        edge = np.where(room > 0, (np.log(np.maximum(room, 1e-300)) + t * t / 2) / t, -np.inf)
        add = (1 - level * both / 3) * ndtr(edge) - level / 3 * ndtr(edge - t)
        room = 3 * level - both
        edge = np.where(room > 0, (np.log(np.maximum(room, 1e-300)) + t * t / 2) / t, -np.inf)
        remove = (both / 3 - level) * ndtr(-edge) + ndtr(t - edge) / 3
    mechanism = RandomAllocation(3, 1, sigma)
    for exact, direction in ((weight @ add @ weight, "add"), (weight @ remove @ weight, "remove")):
        found = mechanism.delta(epsilon, direction)
        assert found.lower * 0.9999 <= exact <= found.upper * 1.0001
