"""Privacy auditing with one training run: Steinke, Nasr, Jagielski 2023, arXiv:2305.08846, Theorem 5.2. Class A.

Of m canaries, each a member by its own fair coin, r are guessed and v guesses are right. If training is
(epsilon, delta)-DP in one canary, the right guesses are stochastically below W + F with W ~ Bin(r, q),
q = e^epsilon/(1 + e^epsilon), F >= 0 and E[F] <= 2 m delta, so that

    P[V >= v] <= beta + 2 m delta max_{1<=i<=v} P[v > W >= v - i]/i,     beta = P[W >= v].

It holds for any training algorithm and any dependence between canaries, if the rule that chose which canaries to
guess, and how, saw the output but not the coins.

The product of delta and the tail takes F to be independent of W. It need not be: for few right guesses, beta above
0.85, linear programming over all mechanisms finds some that exceed the formula. Above 1/2 the p-value is therefore
never below the bound for an F that depends on W in any way (docs/statistics.md), with E[F] <= m delta: for all n >= 1

    P[V >= v] <= m delta/n + (P[W >= v] + ... + P[W >= v - n + 1])/n.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit, logit

from ...foundation import InputError
from .rates import binomial_tail, clopper_pearson_lower

LARGEST_EPSILON = 200.0


def one_run_p_value(correct: int, guesses: int, canaries: int, epsilon: float, delta: float = 0.0) -> float:
    """The largest probability of `correct` or more right guesses under any (epsilon, delta)-DP training."""
    check_counts(correct, guesses, canaries)
    check_delta(delta)
    if not 0 <= epsilon < math.inf:
        raise InputError(f"epsilon must be a finite number of at least 0, got {epsilon!r}")
    return _p_value(correct, guesses, canaries, epsilon, delta)


def one_run_epsilon(correct: int, guesses: int, canaries: int, delta: float = 0.0, confidence: float = 0.95) -> float:
    """Lower bound on epsilon at the given delta, one-sided. 0 when the counts prove nothing."""
    check_counts(correct, guesses, canaries)
    check_delta(delta)
    alpha = 1 - check_confidence(confidence)
    if correct == 0 or _p_value(correct, guesses, canaries, 0.0, delta) > alpha:
        return 0.0
    # The bound without delta is the logit of the Clopper-Pearson limit, and delta can only lower it.
    high = min(LARGEST_EPSILON, float(logit(clopper_pearson_lower(correct, guesses, confidence))))
    if delta == 0:
        return max(0.0, high)
    low = 0.0
    while high - low > 1e-10 * max(1.0, high):
        middle = (low + high) / 2
        if _p_value(correct, guesses, canaries, middle, delta) <= alpha:
            low = middle
        else:
            high = middle
    return low


def _p_value(correct: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    if correct == 0:
        return 1.0
    q = float(expit(epsilon))
    beta = float(binomial_tail(correct, guesses, q))
    if delta == 0:
        return min(1.0, beta)
    # max_i (P[W >= v - i] - beta)/i; beyond i no term exceeds (1 - beta)/(i + 1), which ends the search early.
    worst, first = 0.0, 1
    while first <= correct and (1 - beta) / first > worst:
        i = np.arange(first, min(first + 256, correct + 1))
        worst = max(worst, float(np.max((binomial_tail(correct - i, guesses, q) - beta) / i)))
        first += 256
    product = beta + 2 * canaries * delta * worst
    if product <= 0.5:
        return float(product)
    return float(min(1.0, max(product, _dependent(correct, guesses, canaries * delta, q))))


def _dependent(correct: int, guesses: int, help_: float, q: float) -> float:
    """The largest P[W + F >= correct] over every F >= 0 with E[F] <= help_, however F depends on W."""
    tails = binomial_tail(correct - np.arange(correct), guesses, q)
    return float(np.min((help_ + np.cumsum(tails)) / np.arange(1, correct + 1)))


def check_counts(correct: int, guesses: int, canaries: int) -> None:
    """Whole numbers with 0 <= correct <= guesses <= canaries and at least one guess. Errors: InputError."""
    for name, value in (("correct", correct), ("guesses", guesses), ("canaries", canaries)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise InputError(f"{name} must be a whole number, got {value!r}")
    if not (0 <= correct <= guesses <= canaries and guesses >= 1):
        raise InputError(
            "counts must satisfy 0 <= correct <= guesses <= canaries with at least one guess, "
            f"got correct={correct}, guesses={guesses}, canaries={canaries}"
        )


def check_delta(delta: float) -> float:
    if not 0 <= delta < 1:
        raise InputError(f"delta must lie in [0, 1), got {delta!r}")
    return delta


def check_confidence(confidence: float) -> float:
    if not 0.5 < confidence < 1:
        raise InputError(f"confidence must lie strictly between 0.5 and 1, got {confidence!r}")
    return confidence
