"""The default: guess counts on a fixed grid with a union bound. Class A with f_{epsilon, delta}, B with a curve.

The grid depends on the number of canaries and on alpha only, so testing each of its counts at alpha/len(grid) is a
union bound over tests fixed before looking: the number of guesses may then be read off the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .class_a import class_a_epsilons
from .f_dp import f_dp_p_values, gaussian_family_mus
from .gaussian_dp import gaussian_epsilon
from .guesses import guess_grid, order_guesses
from .one_run import check_confidence, check_delta


@dataclass(frozen=True)
class GridResult:
    """The grid, the right guesses on it, and what each count says; `value` is the corrected whole."""

    value: float
    best: int  # index into the grid
    guesses: np.ndarray
    correct: np.ndarray
    values: np.ndarray


def grid_epsilon(scores: ArrayLike, members: ArrayLike, delta: float = 0.0, confidence: float = 0.95) -> float:
    """Class A: lower bound on epsilon at delta from scores and fair coins, the number of guesses found by itself."""
    return grid_epsilon_details(scores, members, delta, confidence).value


def grid_epsilon_details(
    scores: ArrayLike, members: ArrayLike, delta: float = 0.0, confidence: float = 0.95
) -> GridResult:
    check_delta(delta)
    alpha = 1 - check_confidence(confidence)
    ordered = order_guesses(scores, members)
    grid = guess_grid(ordered.canaries, alpha)
    correct = ordered.correct(grid)
    values = class_a_epsilons(correct, grid, ordered.canaries, delta, confidence)
    return _best(values, grid, correct)


def grid_mu(scores: ArrayLike, members: ArrayLike, confidence: float = 0.95) -> float:
    """Class B inside the Gaussian family: lower bound on mu."""
    alpha = 1 - check_confidence(confidence)
    ordered = order_guesses(scores, members)
    grid = guess_grid(ordered.canaries, alpha)
    return float(np.max(gaussian_family_mus(ordered.correct(grid), grid, ordered.canaries, 1 - alpha / grid.size)))


def grid_gaussian_epsilon(scores: ArrayLike, members: ArrayLike, delta: float, confidence: float = 0.95) -> float:
    """Class B inside the Gaussian family: the epsilon at delta of that mu. Wrong outside the family."""
    return gaussian_epsilon(grid_mu(scores, members, confidence), check_delta(delta))


def grid_p_value(claim: Any, scores: ArrayLike, members: ArrayLike, alpha: float = 0.05) -> float:
    """Class B (A for an EpsilonDelta claim): the p-value of the claim, corrected for the whole grid.

    `alpha` shapes the grid only: fix it, like the number of canaries, before looking.
    """
    return grid_p_value_details(claim, scores, members, alpha).value


def grid_p_value_details(claim: Any, scores: ArrayLike, members: ArrayLike, alpha: float = 0.05) -> GridResult:
    ordered = order_guesses(scores, members)
    grid = guess_grid(ordered.canaries, alpha)
    correct = ordered.correct(grid)
    values = f_dp_p_values(claim, correct, grid, ordered.canaries)
    best = int(np.argmin(values))
    return GridResult(float(min(1.0, grid.size * values[best])), best, grid, correct, values)


def _best(values: np.ndarray, grid: np.ndarray, correct: np.ndarray) -> GridResult:
    best = int(np.argmax(values))
    return GridResult(float(values[best]), best, grid, correct, values)
