"""A simultaneous band for the whole ROC. Class C: scores independent across canaries.

Equal local levels: each of the two empirical distribution functions gets a band whose every point is a
Clopper-Pearson interval at one local level, chosen so that the whole band holds with the wanted confidence, both at
half of the error. Unlike a band of constant width (Dvoretzky-Kiefer-Wolfowitz) it stays narrow near 0 and 1, where
attacks are read. The intervals stand at about a hundred counts, dense at both ends, and are extended between them by
monotonicity. The local level is found by Monte Carlo on uniform order statistics from a fixed stream, taken two
standard errors lower, and cached. Rectangles [FPR interval] x [TPR interval] hold at all thresholds at once, and so
cover the true curve.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincinv

from ...foundation import numpy_stream
from .one_run import check_confidence
from .roc import roc_curve

_DRAWS = 4000


@dataclass(frozen=True)
class RocBand:
    """At each false positive rate the true TPR lies in [lower, upper], for all of them at once."""

    false_positive_rate: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    confidence: float
    validity: str = "C"


def roc_band(scores: ArrayLike, members: ArrayLike, confidence: float = 0.95, points: int = 200) -> RocBand:
    """The band on about `points` false positive rates, even in the logarithm below 1/2 and mirrored above."""
    half = 1 - (1 - check_confidence(confidence)) / 2
    curve = roc_curve(scores, members)
    fpr_low, fpr_high = _limits(curve.false_positive_rate, curve.non_members, half)
    tpr_low, tpr_high = _limits(curve.true_positive_rate, curve.members, half)
    small = np.geomspace(0.5 / curve.non_members, 0.5, points // 2)
    at = np.unique(np.concatenate(([0.0], small, 1 - small, [1.0])))
    # A threshold whose true FPR is surely <= a gives its lower limit of the TPR; one surely >= a the upper limit.
    below = np.searchsorted(fpr_high, at, side="right") - 1
    # At FPR 0 the band is its limit from the right: no threshold of a continuous score has an FPR of exactly 0.
    above = np.searchsorted(fpr_low, np.maximum(at, np.finfo(float).tiny), side="left")
    lower = np.where(below >= 0, tpr_low[np.maximum(below, 0)], 0.0)
    upper = np.where(above < fpr_low.size, tpr_high[np.minimum(above, fpr_low.size - 1)], 1.0)
    return RocBand(at, lower, upper, confidence)


def _limits(rates: np.ndarray, total: int, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Simultaneous limits of the true rates behind cumulative empirical ones."""
    count = np.rint(rates * total).astype(int)
    ranks = _ranks(total)
    level = local_level(total, round(1 - confidence, 12))
    # The k-th smallest of n uniforms lies in [low_k, high_k]. k scores beyond a threshold: the k-th of them is beyond
    # it too, so the true rate is at least its low; the (k+1)-th is not, so the true rate is at most its high.
    low = np.concatenate(([0.0], betaincinv(ranks, total - ranks + 1, level / 2)))
    high = np.concatenate((betaincinv(ranks, total - ranks + 1, 1 - level / 2), [1.0]))
    return low[np.searchsorted(ranks, count, side="right")], high[np.searchsorted(ranks, count + 1, side="left")]


@lru_cache(maxsize=64)
def local_level(total: int, error: float) -> float:
    """eta with P[an order statistic at one of the ranks leaves its central 1 - eta interval] <= error."""
    ranks = _ranks(total)
    stream = numpy_stream(0, f"roc_band/{total}")
    steps = np.diff(np.concatenate(([0], ranks, [total + 1])))
    gammas = np.cumsum(stream.gamma(steps, size=(_DRAWS, steps.size)), axis=1)
    below = betainc(ranks, total - ranks + 1, gammas[:, :-1] / gammas[:, -1:])
    smallest = np.sort(2 * np.minimum(below, 1 - below).min(axis=1))
    rank = error * _DRAWS - 2 * np.sqrt(_DRAWS * error * (1 - error))
    return float(smallest[max(0, int(rank) - 1)])


def _ranks(total: int) -> np.ndarray:
    """1 … 12, then geometric to the middle, and the same from the other end."""
    middle = (total + 1) // 2
    near = np.unique(np.concatenate((np.arange(1, 13), np.geomspace(12, max(12, middle), 40).astype(int))))
    near = near[near <= middle]
    return np.unique(np.concatenate((near, total + 1 - near)))
