"""Exact tail for independent Gaussian canaries with abstention: Xiang et al. 2025, arXiv:2509.08704. Class C.

Of n independent guesses the r most confident are released; P[errors <= u] = E_S[BinCDF(u; r, g(S))] with
S ~ Beta(r + 1, n - r) the tail probability at the cut and g the error rate beyond it. For Gaussian scores cut at
|t|: S = Phi(-t - mu/2) + Phi(-t + mu/2), g = Phi(-t - mu/2)/S. Inside the Gaussian family.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import betaincinv, log_ndtr, ndtr

from .gaussian_dp import gaussian_epsilon
from .one_run import check_confidence, check_counts, check_delta
from .rates import binomial_tail

_LARGEST_MU = 40.0


def exact_tail_p_value(correct: int, guesses: int, canaries: int, mu: float) -> float:
    """P[at most guesses - correct errors among the most confident guesses] under mu-GDP, canaries independent."""
    check_counts(correct, guesses, canaries)
    if guesses == canaries:
        return float(binomial_tail(correct, guesses, ndtr(mu / 2)))
    nodes, weights = _quadrature()
    tail = betaincinv(guesses + 1, canaries - guesses, nodes)
    low, high = np.zeros_like(tail), np.full_like(tail, mu / 2 + 40)
    for _ in range(70):
        t = (low + high) / 2
        above = ndtr(-t - mu / 2) + ndtr(-t + mu / 2) > tail
        low, high = np.where(above, t, low), np.where(above, high, t)
    t = (low + high) / 2
    wrong, right = log_ndtr(-t - mu / 2), log_ndtr(-t + mu / 2)
    return float(np.sum(weights * binomial_tail(correct, guesses, np.exp(right - np.logaddexp(wrong, right)))))


def exact_tail_mu(correct: int, guesses: int, canaries: int, confidence: float = 0.95) -> float:
    """Lower bound on mu, one-sided."""
    alpha = 1 - check_confidence(confidence)
    if exact_tail_p_value(correct, guesses, canaries, 0.0) > alpha:
        return 0.0
    low, high = 0.0, _LARGEST_MU
    while high - low > 1e-9:
        middle = (low + high) / 2
        if exact_tail_p_value(correct, guesses, canaries, middle) <= alpha:
            low = middle
        else:
            high = middle
    return low


def exact_tail_epsilon(correct: int, guesses: int, canaries: int, delta: float, confidence: float = 0.95) -> float:
    """The epsilon at delta of that mu. Inside the Gaussian family only."""
    check_delta(delta)
    return gaussian_epsilon(exact_tail_mu(correct, guesses, canaries, confidence), delta)


@lru_cache(maxsize=1)
def _quadrature() -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre on [0, 1], 400 nodes: dear to make, so made when first used."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    return (nodes + 1) / 2, weights / 2
