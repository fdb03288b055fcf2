"""Guess rules: how many canaries are guessed and how that number was found, with the correction that it needs.

| rule | guesses | correction |
|---|---|---|
| grid | counts on a fixed grid, as many "member" as "non-member" | union bound over the grid (the default) |
| fixed | k+ highest and k- lowest, named before the coins are opened | none |
| all | every canary, upper half "member" | none |
| sign | every canary, by the sign of a log-likelihood ratio | none |
| split | the count that is best on a random half of the canaries, used on the other half | half of the canaries |
| calibrated | counts on the grid, one joint boundary of exact size; (epsilon, delta) only | in the boundary |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...foundation import InputError, numpy_stream
from .calibrated import calibrated_epsilon_of_counts, calibrated_p_value_of_counts
from .class_a import class_a_epsilons, class_a_p_values
from .f_dp import epsilon_delta_of, f_dp_p_values
from .guesses import TIE_SEED, guess_by_sign, guess_grid, order_guesses
from .roc import check_scores

RULES = ("grid", "fixed", "all", "sign", "split", "calibrated")


@dataclass(frozen=True)
class GuessRule:
    """`highest` and `lowest` belong to the rule `fixed`. Errors: InputError."""

    name: str = "grid"
    highest: int | None = None
    lowest: int | None = None

    def __post_init__(self) -> None:
        if self.name not in RULES:
            raise InputError(f"guess_rule {self.name!r} is not known: choose one of {', '.join(RULES)}")
        numbers = (self.highest, self.lowest)
        if self.name == "fixed":
            if any(k is None or isinstance(k, bool) or k != int(k) or k < 0 for k in numbers) or not any(numbers):
                raise InputError(f"guess_rule fixed needs whole numbers of highest and lowest guesses, got {numbers}")
        elif numbers != (None, None):
            raise InputError(f"numbers of guesses belong to guess_rule fixed, not to {self.name}")

    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = {"name": self.name}
        if self.name == "fixed":
            record |= {"highest": self.highest, "lowest": self.lowest}
        return record


@dataclass(frozen=True)
class Tally:
    """Right guesses for one or several guess counts that were fixed before looking; m canaries with fair coins."""

    canaries: int
    guesses: np.ndarray
    correct: np.ndarray
    calibrated: bool = False

    def perfect(self) -> Tally:
        """The same counts with every guess right: what this audit could report at most."""
        return Tally(self.canaries, self.guesses, self.guesses.copy(), self.calibrated)


@dataclass(frozen=True)
class Finding:
    """A corrected value and the index of the guess count behind it."""

    value: float
    best: int


def tally(rule: GuessRule, scores: ArrayLike, members: ArrayLike, alpha: float = 0.05) -> Tally:
    """Open the coins: count right guesses under the rule. alpha shapes the grid only."""
    scores, members = check_scores(scores, members)
    m = scores.size
    if rule.name == "sign":
        correct, guesses = guess_by_sign(scores, members)
        return Tally(m, np.array([guesses]), np.array([correct]))
    if rule.name == "split":
        return _split(scores, members, alpha)
    ordered = order_guesses(scores, members)
    if rule.name in ("grid", "calibrated"):
        grid = guess_grid(m, alpha)
        return Tally(m, grid, ordered.correct(grid), rule.name == "calibrated")
    if rule.name == "all":
        return Tally(m, np.array([m]), np.atleast_1d(ordered.correct(m)))
    highest, lowest = int(rule.highest or 0), int(rule.lowest or 0)
    if highest + lowest > m:
        raise InputError(f"guess_rule fixed asks for {highest} + {lowest} guesses of {m} canaries: lower the numbers")
    # Where fewer scores are defined than guesses are asked for, the missing guesses count as wrong.
    known_high = min(highest, ordered.defined)
    known_low = min(lowest, ordered.defined - known_high)
    return Tally(m, np.array([highest + lowest]), np.atleast_1d(ordered.correct_of(known_high, known_low)))


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


def _split(scores: np.ndarray, members: np.ndarray, alpha: float) -> Tally:
    """Half of the canaries, by a public permutation, choose the guess count; their coins are spent by that."""
    shuffled = numpy_stream(TIE_SEED, "split").permutation(scores.size)
    chooser, tester = np.sort(shuffled[: scores.size // 2]), np.sort(shuffled[scores.size // 2 :])
    if (
        chooser.size < 2
        or tester.size < 2
        or any(not 0 < members[part].sum() < part.size for part in (chooser, tester))
    ):
        raise InputError("guess_rule split needs members and non-members in both halves: use more canaries or the grid")
    look = order_guesses(scores[chooser], members[chooser])
    grid = guess_grid(chooser.size, alpha)
    values = class_a_epsilons(look.correct(grid), grid, chooser.size, 0.0, 1 - alpha)
    guesses = max(1, round(grid[int(np.argmax(values))] * tester.size / chooser.size))
    use = order_guesses(scores[tester], members[tester])
    guesses = min(guesses, tester.size)
    return Tally(tester.size, np.array([guesses]), np.atleast_1d(use.correct(guesses)))
