"""The joint boundary: exact size, never below a union bound by construction, and delta paid in full."""

import numpy as np
import pytest
from scipy.special import expit

from coalmine.audit.estimators import calibrated_epsilon, grid_epsilon, guess_grid
from coalmine.audit.estimators.calibrated import (
    calibrated_epsilon_of_counts,
    calibrated_p_value_of_counts,
    calibrated_p_value_of_level,
    crossing_probability,
    level_boundary,
)
from coalmine.audit.estimators.rates import binomial_tail


def test_crossing_probability_is_that_of_every_path():
    """All 2^12 paths of a walk of 12 steps, counted one by one."""
    guesses, boundary, epsilon = np.array([3, 7, 12]), np.array([4, 6, 9]), 0.7
    q = expit(epsilon)
    paths = (np.arange(2**12)[:, None] >> np.arange(12)) & 1
    mass = np.prod(np.where(paths == 1, q, 1 - q), axis=1)
    sums = np.cumsum(paths, axis=1)[:, guesses - 1]
    assert crossing_probability(guesses, boundary, epsilon) == pytest.approx(
        mass[(sums >= boundary).any(axis=1)].sum(), rel=1e-8
    )


def test_boundary_is_the_smallest_rare_count():
    grid = guess_grid(300)
    for epsilon in (0.0, 2.0):
        b = level_boundary(grid, epsilon, 0.01)
        q = expit(epsilon)
        assert np.all(binomial_tail(b, grid, q) <= 0.01 * (1 + 1e-9))
        assert np.all(binomial_tail(b - 1, grid, q) > 0.01)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 3.0])
def test_the_size_is_as_stated_on_randomised_response(epsilon):
    """3,000 walks: rejecting the truth at 5 % happens in at most 5 %, and in most of it."""
    grid, q = guess_grid(100), expit(epsilon)
    walks = (np.random.default_rng(0).random((3000, 100)) < q).cumsum(axis=1)[:, grid - 1]
    levels = np.geomspace(0.05 / 11, 0.05, 60)
    allowed = [c for c in levels if calibrated_p_value_of_level(epsilon, 0.0, grid, 100, c) <= 0.05]
    rejected = (walks >= level_boundary(grid, epsilon, max(allowed))).any(axis=1).sum()
    assert binomial_tail(int(rejected), 3000, 0.05) > 1e-3
    assert rejected > 3000 * 0.015  # far above the union bound's half per cent


def adversarial_walks(stream, q, m, delta, spend_when):
    """Right guesses of a mechanism that spends its delta where it helps most: mass delta in all m canaries at once."""
    walks = (stream.random((4000, m)) < q).astype(int)
    publish = stream.random(4000) < m * delta / spend_when
    walks[publish, :spend_when] = 1
    return walks.cumsum(axis=1)


@pytest.mark.parametrize("spend_when", [3, 10, 40])
def test_delta_is_paid_for(spend_when):
    """A mechanism that publishes some coins with probability m delta/k each is (epsilon, delta)-DP on average only;
    the bound holds for it as for every F with E[F] <= m delta."""
    m, delta, epsilon = 100, 2e-4, 1.0
    grid = guess_grid(m)
    walks = adversarial_walks(np.random.default_rng(1), expit(epsilon), m, delta, spend_when)[:, grid - 1]
    levels = np.geomspace(0.05 / 100, 0.05, 80)
    allowed = [c for c in levels if calibrated_p_value_of_level(epsilon, delta, grid, m, c) <= 0.05]
    rejected = (walks >= level_boundary(grid, epsilon, max(allowed))).any(axis=1).sum()
    assert binomial_tail(int(rejected), 4000, 0.05) > 1e-3


def test_delta_only_lowers_the_bound():
    stream = np.random.default_rng(0)
    members = stream.random(300) < 0.5
    scores = stream.normal(size=300) + 2 * members
    bounds = [calibrated_epsilon(scores, members, delta) for delta in (0.0, 1e-6, 1e-5, 1e-4, 1e-2)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[0] > grid_epsilon(scores, members) > 0
    assert bounds[-1] < bounds[0] / 2


def test_more_right_guesses_never_lower_the_bound():
    grid = guess_grid(50)
    perfect = grid.copy()
    previous = -1.0
    for wrong in (20, 10, 5, 1, 0):
        counts = np.maximum(0, perfect - np.minimum(wrong, grid // 2))
        bound, _ = calibrated_epsilon_of_counts(counts, grid, 50, 0.0, 0.95)
        assert bound >= previous
        previous = bound


def test_no_right_guess_has_p_value_one():
    grid = guess_grid(50)
    assert calibrated_p_value_of_counts(0.0, 0.0, np.zeros(grid.size, int), grid, 50)[0] == 1.0
    assert calibrated_epsilon_of_counts(np.zeros(grid.size, int), grid, 50, 1e-5, 0.95)[0] == 0.0
