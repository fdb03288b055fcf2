"""Binomial proportions: exact limits for "k of n", the ground under every rate that an audit prints.

Clopper and Pearson 1934: limits that hold at least as often as stated whatever the true rate, if the n trials are
independent. Jeffreys (Beta(1/2, 1/2) prior) is offered beside it and is Bayesian. All functions broadcast.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincinv

from ...foundation import InputError

SMALLEST_PROBABILITY = float(np.finfo(float).tiny)


def clopper_pearson_lower(successes: ArrayLike, trials: ArrayLike, confidence: float) -> Any:
    """One-sided lower limit of the rate: P[limit <= rate] >= confidence. 0 when there is no success."""
    k, n = _counts(successes, trials, confidence)
    with np.errstate(invalid="ignore"):
        limit = np.where(k == 0, 0.0, betaincinv(np.maximum(k, 1), n - k + 1, 1 - confidence))
    return limit[()]


def clopper_pearson_upper(successes: ArrayLike, trials: ArrayLike, confidence: float) -> Any:
    """One-sided upper limit of the rate: P[rate <= limit] >= confidence. 1 when every trial succeeded."""
    k, n = _counts(successes, trials, confidence)
    limit = np.where(k == n, 1.0, betaincinv(k + 1, np.maximum(n - k, 1), confidence))
    return limit[()]


def clopper_pearson(successes: ArrayLike, trials: ArrayLike, confidence: float = 0.95) -> tuple[Any, Any]:
    """Two-sided interval: each end leaves out at most (1 - confidence)/2."""
    one_sided = 1 - (1 - confidence) / 2
    return (
        clopper_pearson_lower(successes, trials, one_sided),
        clopper_pearson_upper(successes, trials, one_sided),
    )


def jeffreys_upper(successes: ArrayLike, trials: ArrayLike, confidence: float) -> Any:
    """Bayesian: the quantile of Beta(1/2 + k, 1/2 + n - k). A credible limit, not a confidence limit."""
    k, n = _counts(successes, trials, confidence)
    return betaincinv(k + 0.5, n - k + 0.5, confidence)[()]


def binomial_tail(at_least: ArrayLike, trials: ArrayLike, rate: ArrayLike) -> Any:
    """P[Bin(trials, rate) >= at_least], accurate in the far tail: the one tail that every test here is made of.

    1 where at_least <= 0, 0 beyond trials or at rate 0; a tail too small for a double is rounded up to 2.2e-308.
    """
    v, n, q = np.broadcast_arrays(np.asarray(at_least, float), np.asarray(trials, float), np.asarray(rate, float))
    inside = betainc(np.clip(v, 1, np.maximum(n, 1)), np.maximum(n - v + 1, 1), q)
    inside = np.where(q > 0, np.maximum(inside, SMALLEST_PROBABILITY), inside)
    return np.where(v <= 0, 1.0, np.where(v > n, 0.0, inside))[()]


def _counts(successes: ArrayLike, trials: ArrayLike, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    if not 0 < confidence < 1:
        raise InputError(f"confidence must lie strictly between 0 and 1, got {confidence!r}")
    k, n = np.broadcast_arrays(np.asarray(successes, float), np.asarray(trials, float))
    if np.any(n < 1) or np.any(k < 0) or np.any(k > n) or np.any(k != np.floor(k)) or np.any(n != np.floor(n)):
        raise InputError(f"counts must be whole numbers, 0 <= successes <= trials and trials >= 1, got {k} of {n}")
    return k, n
