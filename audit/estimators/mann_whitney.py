"""Mann-Whitney test: do members score higher than non-members at all? Exact wherever that is affordable.

Valid under a random split or fair coins as a test of "scores tell nothing of membership", the whole null and nothing
more: a small p-value shows leakage, not a violated claim. Given the scores and the number of members every choice of
the members is equally likely then, so the rank sum has a known law, ties or not:

exact        hypergeometric for two levels; else by convolution over the blocks of tied scores, where that is quick
             (up to about 80 canaries without ties);
permutation  9,999 draws from the same law, p = (1 + as extreme)/10,000 (Phipson and Smyth 2010), where ties are heavy
             or a side has fewer than 50;
normal       with correction for ties and continuity, elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from ...foundation import InputError, numpy_stream
from .roc import check_scores, undefined_to_the_middle

EXACT_STEPS = 5e6
DRAWS = 9999
FEWEST_NORMAL = 50  # members and non-members
LEAST_SPREAD = 0.9  # of the variance without ties: below it ties are heavy
_MOST_CELLS = 1e7


@dataclass(frozen=True)
class RankTest:
    """`method`: exact, permutation or normal."""

    p_value: float
    method: str


def mann_whitney_p_value(scores: ArrayLike, members: ArrayLike, alternative: str = "greater") -> float:
    """One-sided p-value: `greater` when members should score higher, `less` when lower. 1 when all scores tie."""
    return mann_whitney(scores, members, alternative).p_value


def mann_whitney(scores: ArrayLike, members: ArrayLike, alternative: str = "greater") -> RankTest:
    """(m,) scores, (m,) bool -> the p-value and how it was found. NaN counts as the middle. Errors: InputError."""
    if alternative not in ("greater", "less"):
        raise InputError(f"alternative must be greater or less, got {alternative!r}")
    scores, members = check_scores(scores, members)
    filled = undefined_to_the_middle(scores)
    _, block, size = np.unique(filled if alternative == "greater" else -filled, return_inverse=True, return_counts=True)
    if size.size == 1:
        return RankTest(1.0, "exact")
    inside = np.bincount(block[members], minlength=size.size)
    level = _levels(size)
    n1, n = int(inside.sum()), int(size.sum())
    if n1 > n - n1:  # count the smaller group: non-members must then rank low
        inside, size, level = (size - inside)[::-1], size[::-1], (level[-1] - level)[::-1]
        n1 = n - n1
    observed = int(np.sum(inside * level))
    if size.size == 2:
        top = int(size[1])
        tail = sum(_chance(j, top, n, n1) for j in range(observed, min(top, n1) + 1))
        return RankTest(min(1.0, tail * (1 + 1e-9)), "exact")
    if _steps(size, level, n1) <= EXACT_STEPS:
        return RankTest(_exact(size, level, n1, observed), "exact")
    spread = 1 - float(np.sum(size.astype(float) ** 3 - size)) / (float(n) ** 3 - n)
    heavy = spread < LEAST_SPREAD and DRAWS * size.size <= _MOST_CELLS  # more levels than that are no heavy ties
    if heavy or n1 < FEWEST_NORMAL:
        return RankTest(_permutation(size, level, n1, observed), "permutation")
    return RankTest(_normal(size, level, n1, observed), "normal")


def _levels(size: np.ndarray) -> np.ndarray:
    """Whole numbers proportional to the blocks' mean ranks, the lowest 0, without a common divisor."""
    twice = 2 * np.cumsum(size) - size
    twice = twice - twice[0]
    return twice // math.gcd(*(int(step) for step in twice))


def _largest(size: np.ndarray, level: np.ndarray, members: int) -> int:
    """The sum of levels when the members hold the highest scores."""
    taken = np.diff(np.minimum(np.cumsum(size[::-1]), members), prepend=0)
    return int(taken @ level[::-1])


def _steps(size: np.ndarray, level: np.ndarray, members: int) -> float:
    """Additions of the convolution, roughly, and infinity where its table would not fit."""
    if (members + 1.0) * (_largest(size, level, members) + 1.0) > _MOST_CELLS:
        return math.inf
    choices = np.minimum(size, members) + 1.0
    return float(np.sum(choices)) * members * (_largest(size, level, members) / 3 + 200)


def _exact(size: np.ndarray, level: np.ndarray, members: int, observed: int) -> float:
    """P[sum of the members' levels >= observed], rounded up.

    law[i, w]: i members placed in the blocks so far, their levels adding to w, which is at most i times the highest.
    """
    law = np.zeros((members + 1, _largest(size, level, members) + 1))
    law[0, 0] = 1.0
    left, below = int(size.sum()), 0
    for count, height in zip(size.tolist(), level.tolist(), strict=True):
        grown = np.zeros_like(law)
        for i in range(members + 1):
            known = law[i, : i * below + 1]
            if not known.any():
                continue
            wanted = members - i  # to place among the `left` canaries from here on, `count` of them in this block
            for j in range(max(0, wanted - (left - count)), min(count, wanted) + 1):
                room = known[: max(0, law.shape[1] - j * height)]  # beyond lies only what cannot be reached
                grown[i + j, j * height : j * height + room.size] += _chance(j, count, left, wanted) * room
        law, left, below = grown, left - count, height
    return float(min(1.0, np.sum(law[members, observed:]) * (1 + 1e-9)))


def _permutation(size: np.ndarray, level: np.ndarray, members: int, observed: int) -> float:
    stream = numpy_stream(0, "mann_whitney")
    if DRAWS * size.size <= _MOST_CELLS:
        drawn = stream.multivariate_hypergeometric(size, members, size=DRAWS, method="marginals") @ level
    else:
        each = np.repeat(level, size)
        chosen = stream.integers(0, each.size, (DRAWS, members))
        while (again := (np.diff(np.sort(chosen, axis=1), axis=1) == 0).any(axis=1)).any():
            chosen[again] = stream.integers(0, each.size, (int(again.sum()), members))
        drawn = each[chosen].sum(axis=1)
    return (1 + int(np.sum(drawn >= observed))) / (1 + DRAWS)


def _normal(size: np.ndarray, level: np.ndarray, members: int, observed: int) -> float:
    """The sum of levels moves in whole steps: half of one is its correction for continuity."""
    share, n = size / size.sum(), float(size.sum())
    mean = float(share @ level)
    spread = float(share @ (level - mean) ** 2) * n / (n - 1)
    deviation = math.sqrt(members * spread * (1 - members / n))
    return float(ndtr(-(observed - 0.5 - members * mean) / deviation))


def _chance(j: int, count: int, left: int, wanted: int) -> float:
    """P[j of the block's `count` canaries are members] when `wanted` of `left` are, drawn evenly."""
    return math.exp(_log_choose(count, j) + _log_choose(left - count, wanted - j) - _log_choose(left, wanted))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
