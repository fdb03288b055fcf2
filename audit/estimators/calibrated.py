"""Adaptive number of guesses with one joint boundary instead of a union bound. Class A; proof in docs/statistics.md.

Order the canaries by a function of the output alone (most confident first, both sides in turn). Under
(epsilon, 0)-DP the right guesses are dominated by a Bernoulli(q) walk W for all guess counts g_1 < ... < g_K at once,
q = e^epsilon/(1 + e^epsilon). The statistic is the smallest binomial tail on the grid, c = min_j P[Bin(g_j, q) >= V_j],
and its law under the walk is a boundary-crossing probability, computed exactly by convolution: with
b_j = min{b : P[Bin(g_j, q) >= b] <= c},

    P[statistic <= c] <= p_0,        p_d = P[W_{g_j} >= b_j - d for some j].

Under (epsilon, delta)-DP the right guesses are dominated by W + F with F >= 0 whole, E[F_m] <= m delta, F dependent
on W in any way; then for every whole n >= 1

    P[statistic <= c] <= m delta/n + (p_0 + ... + p_{n-1})/n.

The bound on epsilon scans a fixed grid of epsilon upwards and stops at the first value that is not rejected, so that
only one true null is ever at stake.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, gammaln, log_expit, logit

from .guesses import guess_grid, order_guesses
from .one_run import check_confidence, check_delta
from .rates import binomial_tail, clopper_pearson_lower

EPSILON_STEP = 0.005
_DROPPED = 1e-18
_LARGEST_SHIFT = 9  # p_d is evaluated at d = 2^k - 1 up to k = 9


def calibrated_epsilon(scores: ArrayLike, members: ArrayLike, delta: float = 0.0, confidence: float = 0.95) -> float:
    """Class A: lower bound on epsilon at delta (a multiple of 0.005). Strong where m delta < 1 - confidence."""
    alpha = 1 - check_confidence(confidence)
    ordered = order_guesses(scores, members)
    grid = guess_grid(ordered.canaries, alpha)
    return calibrated_epsilon_of_counts(ordered.correct(grid), grid, ordered.canaries, delta, confidence)[0]


def calibrated_epsilon_of_counts(
    correct: ArrayLike, guesses: ArrayLike, canaries: int, delta: float, confidence: float
) -> tuple[float, int]:
    """The bound, and the index of the guess count that decides it, from right guesses on an increasing grid."""
    check_delta(delta)
    alpha = 1 - check_confidence(confidence)
    correct, guesses = np.asarray(correct), np.asarray(guesses)
    best = _statistic(correct, guesses, 0.0)[1]
    # Up to here a union bound rejects whatever the crossing probability is; beyond `high` nothing can.
    sure = (alpha - canaries * delta) / guesses.size
    with np.errstate(divide="ignore"):
        low = float(np.max(logit(clopper_pearson_lower(correct, guesses, 1 - sure)))) if sure > 1e-12 else -math.inf
        high = float(np.max(logit(clopper_pearson_lower(correct, guesses, 1 - alpha))))
    step = max(0, math.floor(low / EPSILON_STEP) - 1) if math.isfinite(low) else 0
    stride = 1 if math.isfinite(low) else 4
    bound = 0.0
    while step * EPSILON_STEP <= high:
        epsilon = step * EPSILON_STEP
        p_value, index = calibrated_p_value_of_counts(epsilon, delta, correct, guesses, canaries)
        if p_value > alpha:
            break
        bound, best = epsilon, index
        step += stride
    return bound, best


def calibrated_p_value_of_counts(
    epsilon: float, delta: float, correct: ArrayLike, guesses: ArrayLike, canaries: int
) -> tuple[float, int]:
    """The p-value of "training is (epsilon, delta)-DP" from right guesses on an increasing grid of guess counts."""
    correct, guesses = np.asarray(correct), np.asarray(guesses)
    statistic, index = _statistic(correct, guesses, epsilon)
    return calibrated_p_value_of_level(epsilon, delta, guesses, canaries, statistic), index


def calibrated_p_value_of_level(
    epsilon: float, delta: float, guesses: np.ndarray, canaries: int, level: float
) -> float:
    """A bound on P[statistic <= level] under any (epsilon, delta)-DP training."""
    if level >= 1:
        return 1.0
    boundary = level_boundary(guesses, epsilon, level)
    p = crossing_probability(guesses, boundary, epsilon)
    bound = p + canaries * delta
    if delta == 0:
        return min(1.0, bound)
    total, last = p, p
    for k in range(1, _LARGEST_SHIFT + 1):
        # p_d for d in [2^(k-1), 2^k - 1] is at most its value at the end of that block.
        shift = 2**k - 1
        last = crossing_probability(guesses, boundary - shift, epsilon) if last < 1 else 1.0
        total += 2 ** (k - 1) * last
        bound = min(bound, (canaries * delta + total) / 2**k)
        if last > 0.9:
            break
    return min(1.0, bound)


def crossing_probability(guesses: np.ndarray, boundary: np.ndarray, epsilon: float) -> float:
    """P[W_g >= boundary at some count of the grid] for the Bernoulli(q) walk W. Whatever is dropped counts as a hit."""
    if np.any(boundary <= 0):
        return 1.0
    alive, start, hit, before = np.ones(1), 0, 0.0, 0
    for g, b in zip(guesses.tolist(), boundary.tolist(), strict=True):
        step, first, dropped = _binomial_window(g - before, epsilon)
        alive = _convolve(alive, step)
        start += first
        hit += dropped
        keep = max(0, b - start)
        hit += float(np.sum(alive[keep:]))
        alive = alive[:keep]
        if alive.size == 0:
            break
        solid = np.flatnonzero(alive > _DROPPED)
        if solid.size == 0:
            hit += float(np.sum(alive))
            break
        hit += float(np.sum(alive[: solid[0]]) + np.sum(alive[solid[-1] + 1 :]))
        alive, start = alive[solid[0] : solid[-1] + 1], start + int(solid[0])
        before = g
    trials = float(guesses[-1])
    return min(1.0, hit * (1 + 1e-9 + 1e-15 * trials * math.log(trials + 1)))  # log-gamma's rounding, rounded up


def _statistic(correct: np.ndarray, guesses: np.ndarray, epsilon: float) -> tuple[float, int]:
    tails = binomial_tail(correct, guesses, float(expit(epsilon)))
    index = int(np.argmin(tails))
    return float(tails[index]), index


def level_boundary(guesses: np.ndarray, epsilon: float, level: float) -> np.ndarray:
    """b_j = min{b : P[Bin(g_j, q) >= b] <= level}, by bisection for all j at once; g_j + 1 if nothing is that rare."""
    q = float(expit(epsilon))
    low, high = np.zeros(guesses.size, int), guesses.astype(int) + 1  # tail(low) > level >= tail(high)
    while np.any(high - low > 1):
        middle = (low + high) // 2
        rare = binomial_tail(middle, guesses, q) <= level
        high, low = np.where(rare, middle, high), np.where(rare, low, middle)
    return high


def _binomial_window(trials: int, epsilon: float) -> tuple[np.ndarray, int, float]:
    """The probabilities of Bin(trials, q) above 1e-18, where they start, and the mass left out."""
    mean, spread = trials * float(expit(epsilon)), math.sqrt(trials * float(expit(epsilon) * expit(-epsilon)))
    low = max(0, math.floor(mean - 10 * spread - 50))
    high = min(trials, math.ceil(mean + 10 * spread + 50))
    k = np.arange(low, high + 1)
    log_mass = gammaln(trials + 1) - gammaln(k + 1) - gammaln(trials - k + 1)
    mass = np.exp(log_mass + k * log_expit(epsilon) + (trials - k) * log_expit(-epsilon))
    solid = np.flatnonzero(mass > _DROPPED)
    kept = mass[solid[0] : solid[-1] + 1]
    return kept, low + int(solid[0]), (mass.size + 2) * _DROPPED


def _convolve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if min(a.size, b.size) < 400:
        return np.convolve(a, b)
    from scipy.signal import fftconvolve

    return np.maximum(fftconvolve(a, b), 0.0) + 1e-17
