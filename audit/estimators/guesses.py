"""Which canaries are guessed, and how. A guess rule sees scores only; coins are used to count right guesses.

Order: for r guesses the ceil(r/2) highest scores are guessed "member" and the floor(r/2) lowest "non-member", the
rest abstained. Ties are broken by a public permutation of the canary ids, drawn independently of any coin, so neither
the order of a file nor the labels decide. An undefined score (NaN) is guessed last, and such a guess counts as wrong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ...foundation import InputError, numpy_stream
from .roc import check_scores

TIE_SEED = 0


@dataclass(frozen=True)
class OrderedGuesses:
    """Right guesses among the first k "member" guesses and the first k "non-member" guesses, for every k."""

    right_high: np.ndarray  # (defined + 1,) members among the k highest scores
    right_low: np.ndarray  # (defined + 1,) non-members among the k lowest scores
    canaries: int
    defined: int

    def correct(self, guesses: ArrayLike) -> np.ndarray:
        """Right guesses when ceil(r/2) highest and floor(r/2) lowest are guessed; broadcasts over r."""
        r = np.minimum(np.asarray(guesses, int), self.defined)
        return self.correct_of((r + 1) // 2, r // 2)

    def correct_of(self, highest: ArrayLike, lowest: ArrayLike) -> np.ndarray:
        """Right guesses for the given numbers of "member" and "non-member" guesses."""
        return self.right_high[np.asarray(highest, int)] + self.right_low[np.asarray(lowest, int)]


def order_guesses(scores: ArrayLike, members: ArrayLike) -> OrderedGuesses:
    """(m,) scores in order of canary id, (m,) bool. Higher scores are more likely members."""
    scores, members = check_scores(scores, members)
    order = confidence_order(scores)
    found = members[order]
    return OrderedGuesses(
        right_high=np.concatenate(([0], np.cumsum(found[::-1]))),
        right_low=np.concatenate(([0], np.cumsum(~found))),
        canaries=scores.size,
        defined=order.size,
    )


def confidence_order(scores: np.ndarray) -> np.ndarray:
    """Indices of the defined scores from lowest to highest, ties by the public permutation."""
    shuffled = numpy_stream(TIE_SEED, "ties").permutation(scores.size)
    shuffled = shuffled[~np.isnan(scores[shuffled])]
    return shuffled[np.argsort(scores[shuffled], kind="stable")]


def guess_by_sign(scores: ArrayLike, members: ArrayLike) -> tuple[int, int]:
    """(correct, guesses) when score > 0 is guessed "member" and score < 0 "non-member": log-likelihood ratios.

    Every canary is guessed: 0 by a public coin, undefined scores count as wrong.
    """
    scores, members = check_scores(scores, members)
    coin = numpy_stream(TIE_SEED, "ties/sign").random(scores.size) < 0.5
    called = np.where(scores == 0, coin, scores > 0)
    return int(np.sum((called == members) & ~np.isnan(scores))), scores.size


def guess_grid(canaries: int, alpha: float = 0.05, factor: float = 1.35) -> np.ndarray:
    """The grid of guess counts, fixed by m and alpha alone.

    It starts where a perfect run of guesses could reject epsilon = 0 at all, grows by the factor and ends at m.
    """
    if canaries < 1:
        raise InputError(f"canaries must be at least 1, got {canaries!r}")
    if not 0 < alpha < 0.5:
        raise InputError(f"alpha must lie strictly between 0 and 0.5, got {alpha!r}")
    point = max(4, math.ceil(math.log2(1 / alpha) - 1e-12) + 1)
    grid = []
    position = float(point)
    while math.floor(position) < canaries:
        grid.append(math.floor(position))
        position *= factor
    return np.unique([*grid, canaries])


def count_ties(scores: ArrayLike) -> int:
    """How many defined scores are shared with another canary."""
    scores = np.asarray(scores, float)
    _, size = np.unique(scores[~np.isnan(scores)], return_counts=True)
    return int(size[size > 1].sum())
