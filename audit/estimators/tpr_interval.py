"""An interval for the true positive rate at a STATED false positive rate: the threshold's own error is part of it.

The threshold that belongs to a false positive rate a is not known: it is read off n0 non-members. Let y_k be the k-th
highest of them. With ties broken by a fictitious coin the k-th smallest upper-tail probability is Beta(k, n0 + 1 - k)
whatever the distribution, and it lies between P0[score > y_k] and P0[score >= y_k]. Hence, each with its own share of
the error:

    lower  k the largest with P[Beta(k, n0 + 1 - k) <= a] >= 1 - e_t: "above y_k" has an FPR of at most a, so its TPR is
           at most the one at a; Clopper-Pearson from below on the members above y_k, at e - e_t;
    upper  k the smallest with P[Beta(k, n0 + 1 - k) >= a] >= 1 - e_t: "y_k or above" has an FPR of at least a;
           Clopper-Pearson from above on the members there, at e - e_t.

e is half of the error; its split is fixed by n0, n1, a and the confidence: the one that is best for normal scores one
standard deviation apart. Finite-sample and conservative (two events are added up); it covers both TPRs that ties leave
to choose from, the largest of a whole-block threshold and the interpolated one. Class C: scores independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from .rates import binomial_tail, clopper_pearson_lower, clopper_pearson_upper

_SHARES = np.linspace(0.05, 0.95, 19)  # of each side's error, given to the threshold


@dataclass(frozen=True)
class ThresholdRanks:
    """Ranks among the non-members, highest first, and the confidence left for the members on each side."""

    strict: int  # "above y_strict" has an FPR of at most the stated one; 0: no threshold surely has
    strict_confidence: float
    loose: int  # "y_loose or above" has an FPR of at least the stated one; n0 + 1: no threshold surely has
    loose_confidence: float


def tpr_limits(
    members: np.ndarray, non_members: np.ndarray, false_positive_rate: float, confidence: float
) -> tuple[float, float]:
    """(n1,), (n0,) scores without NaN (undefined ones as -inf) -> limits of the TPR at that FPR, two-sided."""
    ranks = threshold_ranks(non_members.size, members.size, false_positive_rate, confidence)
    highest = np.sort(non_members)[::-1]
    low, high = 0.0, 1.0
    if ranks.strict > 0:
        called = int(np.sum(members > highest[ranks.strict - 1]))
        low = float(clopper_pearson_lower(called, members.size, ranks.strict_confidence))
    if ranks.loose <= non_members.size:
        called = int(np.sum(members >= highest[ranks.loose - 1]))
        high = float(clopper_pearson_upper(called, members.size, ranks.loose_confidence))
    return low, high


@lru_cache(maxsize=256)
def threshold_ranks(non_members: int, members: int, false_positive_rate: float, confidence: float) -> ThresholdRanks:
    """Fixed before any score is seen."""
    side = (1 - confidence) / 2
    error = side * _SHARES
    strict = np.array([_last_rank(non_members, false_positive_rate, 1 - e) for e in error])
    loose = np.array([_last_rank(non_members, false_positive_rate, e) + 1 for e in error])
    # What the two limits would be if normal scores one standard deviation apart came out as expected.
    hits = [np.rint(members * ndtr(ndtri(k / (non_members + 1)) + 1)).astype(int) for k in (strict, loose)]
    left = 1 - (side - error)
    low = [float(clopper_pearson_lower(h, members, c)) for h, c in zip(hits[0], left, strict=True)]
    high = [float(clopper_pearson_upper(h, members, c)) for h, c in zip(hits[1], left, strict=True)]
    low = np.where(strict > 0, low, -1.0)
    high = np.where(loose <= non_members, high, 2.0)
    best_low, best_high = int(np.argmax(low)), int(np.argmin(high))
    return ThresholdRanks(int(strict[best_low]), float(left[best_low]), int(loose[best_high]), float(left[best_high]))


def _last_rank(trials: int, rate: float, probability: float) -> int:
    """The largest k in [0, trials] with P[Bin(trials, rate) >= k] >= probability."""
    low, high = 0, trials + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if binomial_tail(middle, trials, rate) >= probability else (low, middle)
    return low
