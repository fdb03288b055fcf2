"""Accuracy over independent training runs, with an interval that needs independent runs only. Class "runs".

The canaries of one run may err together as they like: their accuracy then has no known variance, only a range, and an
interval that knows no more is wide. Its lower end is the smallest m that bets on the accuracy do not reject: at a stake
s, the product of 1 + s (x_k/m - 1) over runs has expectation at most 1 when the mean of the expected accuracies is m
(their product is largest when they are equal), and so has a mixture of three stakes; it passes 2/error with probability
at most error/2. The upper end is the same for the share of wrong guesses. Never narrower than Clopper-Pearson on all
guesses of all runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from ...foundation import InputError
from .one_run import check_confidence
from .rates import clopper_pearson
from .run_bets import accuracy_bet

VALIDITY = "runs"
STAKES = np.array([1, 1 / 2, 1 / 8])  # of the planned one: small ones pay where runs are all right or all wrong
WEIGHTS = np.array([3 / 4, 1 / 8, 1 / 8])


@dataclass(frozen=True)
class RunsAccuracy:
    """Mean accuracy of the runs, and limits of the mean of their expected accuracies, two-sided."""

    accuracy: float
    lower: float
    upper: float
    confidence: float
    runs: int
    validity: str = VALIDITY


def runs_accuracy(correct: ArrayLike, guesses: ArrayLike, confidence: float = 0.95) -> RunsAccuracy:
    """(R,) right guesses of (R,) guesses, all canaries guessed in each run. Finite-sample. Errors: InputError."""
    check_confidence(confidence)
    v, r = np.broadcast_arrays(np.asarray(correct), np.asarray(guesses))
    if v.ndim != 1 or v.size < 1:
        raise InputError(f"correct must hold one count a run, got shape {v.shape}")
    low, high = clopper_pearson(int(v.sum()), int(r.sum()), confidence)  # refuses impossible totals
    if np.any(v < 0) or np.any(v > r) or np.any(r < 1):
        raise InputError(f"counts must be whole numbers with 0 <= correct <= guesses, got {v} of {r}")
    rates, error = v / r, (1 - confidence) / 2
    stake = planned_stake(int(np.max(r)), v.size, round(error, 12))
    return RunsAccuracy(
        accuracy=float(np.mean(rates)),
        lower=min(float(low), lower_limit(rates, stake, error)),
        upper=max(float(high), 1 - lower_limit(1 - rates, stake, error)),
        confidence=confidence,
        runs=int(v.size),
    )


@lru_cache(maxsize=64)
def planned_stake(guesses: int, runs: int, error: float) -> float:
    """The share of its capital that the accuracy bet stakes, for that many runs and guesses, around accuracy 1/2."""
    return float(1 - accuracy_bet(guesses, 0.5, runs, error).payoff[0])


def lower_limit(rates: np.ndarray, stake: float, error: float) -> float:
    """The largest mean that the bet rejects at `error`, rounded down; 0 where it rejects none."""

    def rejected(mean: float) -> bool:
        with np.errstate(divide="ignore"):
            capital = np.log1p(np.multiply.outer(stake * STAKES, rates / mean - 1)).sum(axis=1)
        return float(logsumexp(capital, b=WEIGHTS)) >= -math.log(error)

    low, high = 0.0, float(np.mean(rates))  # no product of 1 + s (x/m - 1) passes 1 at the mean of x itself
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if middle > 0 and rejected(middle) else (low, middle)
    return low
