"""Class A in one place: which of the two valid one-run tests speaks, by a rule fixed before looking at coins.

Steinke's bound pays 2 m delta whatever the number of guesses, the recursion with f_{epsilon,delta} hardly pays for
delta but is slightly looser than the binomial. Rule: Steinke where 2 m delta is below the error that the test may
make, the recursion elsewhere. Never the better of both. With several guess counts each is tested at alpha/k, a union
bound over counts fixed before looking.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .f_dp import epsilon_delta_inverse, f_dp_epsilons, f_dp_p_values
from .one_run import check_confidence, check_delta, one_run_epsilon, one_run_p_value


def class_a_epsilons(
    correct: ArrayLike, guesses: ArrayLike, canaries: int, delta: float, confidence: float
) -> np.ndarray:
    """Lower bounds on epsilon for vectors of counts, each at the confidence shared out equally among them."""
    check_delta(delta)
    correct, guesses = np.atleast_1d(correct), np.atleast_1d(guesses)
    each = (1 - check_confidence(confidence)) / correct.size
    if steinke_speaks(canaries, delta, each):
        return np.array(
            [one_run_epsilon(int(v), int(r), canaries, delta, 1 - each) for v, r in zip(correct, guesses, strict=True)]
        )
    return f_dp_epsilons(correct, guesses, canaries, delta, 1 - each)


def class_a_p_values(
    epsilon: float, delta: float, correct: ArrayLike, guesses: ArrayLike, canaries: int, alpha: float
) -> np.ndarray:
    """p-values of "training is (epsilon, delta)-DP" for vectors of counts, not yet corrected for their number."""
    correct, guesses = np.atleast_1d(correct), np.atleast_1d(guesses)
    if steinke_speaks(canaries, delta, alpha / correct.size):
        return np.array(
            [one_run_p_value(int(v), int(r), canaries, epsilon, delta) for v, r in zip(correct, guesses, strict=True)]
        )
    return f_dp_p_values(EpsilonDeltaCurve(epsilon, delta), correct, guesses, canaries)


def steinke_speaks(canaries: int, delta: float, error: float) -> bool:
    return 2 * canaries * delta < error


class EpsilonDeltaCurve:
    """f_{epsilon,delta} as the recursion wants it: g(y) = f(1 - y)."""

    def __init__(self, epsilon: float, delta: float) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self._inverse = epsilon_delta_inverse(delta)
        self._slope = np.asarray(np.exp(-min(epsilon, 700.0)))

    def inverse_complement(self, y: ArrayLike) -> np.ndarray:
        return self._inverse(np.asarray(y, float), self._slope)

    def record(self) -> dict[str, float]:
        return {"epsilon": self.epsilon, "delta": self.delta}
