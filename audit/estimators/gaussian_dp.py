"""Gaussian differential privacy: Dong, Roth, Su 2019, arXiv:1905.02383. mu to (epsilon, delta) and back."""

from __future__ import annotations

import math

from scipy.special import log_ndtr, ndtr

from .one_run import LARGEST_EPSILON, check_delta


def gaussian_delta(mu: float, epsilon: float) -> float:
    """delta(epsilon; mu) = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2), in logarithms."""
    if mu <= 0:
        return 0.0
    a = float(log_ndtr(-epsilon / mu + mu / 2))
    b = epsilon + float(log_ndtr(-epsilon / mu - mu / 2))
    return math.exp(a) * -math.expm1(min(b - a, 0.0))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon with delta(epsilon; mu) <= delta; inf at delta = 0 and mu > 0."""
    check_delta(delta)
    if mu <= 0 or 2 * float(ndtr(mu / 2)) - 1 <= delta:
        return 0.0
    if delta == 0:
        return math.inf
    low, high = 0.0, 1.0
    while gaussian_delta(mu, high) > delta:
        low, high = high, 2 * high
        if high > 100 * LARGEST_EPSILON:
            return high
    while high - low > 1e-12 * max(1.0, high):
        middle = (low + high) / 2
        if gaussian_delta(mu, middle) > delta:
            low = middle
        else:
            high = middle
    return low
