"""Right guesses on guess counts that were fixed before looking, and what they say of epsilon and of a claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .calibrated import calibrated_epsilon_of_counts, calibrated_p_value_of_counts
from .class_a import class_a_epsilons, class_a_p_values
from .f_dp import epsilon_delta_of, f_dp_p_values


@dataclass(frozen=True)
class Tally:
    """Right guesses for one or several guess counts that were fixed before looking; m canaries with fair coins."""

    canaries: int
    guesses: np.ndarray
    correct: np.ndarray
    calibrated: bool = False

    @staticmethod
    def of(canaries: int, guesses: int, correct: int) -> Tally:
        """A single guess count."""
        return Tally(canaries, np.array([guesses]), np.array([correct]))

    def perfect(self) -> Tally:
        """The same counts with every guess right: what this audit could report at most."""
        return Tally(self.canaries, self.guesses, self.guesses.copy(), self.calibrated)


@dataclass(frozen=True)
class Finding:
    """A corrected value and the index of the guess count behind it."""

    value: float
    best: int


def tally_epsilon(counts: Tally, delta: float, confidence: float) -> Finding:
    """Class A: lower bound on epsilon at delta."""
    if counts.calibrated:
        return Finding(
            *calibrated_epsilon_of_counts(counts.correct, counts.guesses, counts.canaries, delta, confidence)
        )
    values = class_a_epsilons(counts.correct, counts.guesses, counts.canaries, delta, confidence)
    best = int(np.argmax(values))
    return Finding(float(values[best]), best)


def tally_p_value(counts: Tally, claim: Any, alpha: float = 0.05) -> Finding:
    """The p-value of a claim, corrected for the number of guess counts. Class A for (epsilon, delta), else B."""
    pair = epsilon_delta_of(claim)
    if pair is not None and counts.calibrated:
        return Finding(*calibrated_p_value_of_counts(*pair, counts.correct, counts.guesses, counts.canaries))
    values = _single_p_values(claim, counts.correct, counts, alpha)
    best = int(np.argmin(values))
    return Finding(float(min(1.0, values.size * values[best])), best)


def critical_counts(claim: Any, counts: Tally, alpha: float) -> np.ndarray:
    """The fewest right guesses that reject the claim at each guess count; guesses + 1 where none can.

    The test of the tally rejects exactly when one of its counts reaches its critical count (calibrated tallies with a
    bare (epsilon, delta) excepted): tabulated once, thousands of simulated audits cost no more than counting.
    """
    low = np.zeros(counts.guesses.size, int)  # does not reject
    high = counts.guesses.astype(int) + 1  # rejects, or cannot be reached
    while np.any(high - low > 1):
        middle = np.minimum((low + high) // 2, counts.guesses)
        rejects = _single_p_values(claim, middle, counts, alpha) * counts.guesses.size < alpha
        open_ = high - low > 1
        high, low = np.where(open_ & rejects, middle, high), np.where(open_ & ~rejects, middle, low)
    return high


def tally_log_p_value(counts: Tally, curve: Any) -> float:
    """The logarithm of the corrected p-value of a curve to about 1e-3, rounded up: enough to search with."""
    values = f_dp_p_values(curve, counts.correct, counts.guesses, counts.canaries, tolerance=1e-3)
    return float(np.log(values.size * values.min()))


def _single_p_values(claim: Any, correct: np.ndarray, counts: Tally, alpha: float) -> np.ndarray:
    pair = epsilon_delta_of(claim)
    if pair is not None:
        return class_a_p_values(*pair, correct, counts.guesses, counts.canaries, alpha)
    return f_dp_p_values(claim, correct, counts.guesses, counts.canaries)
