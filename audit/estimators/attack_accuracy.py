"""Accuracy of guesses against its upper bound A*, for independent errors. Class C.

Right for independent trainings with one canary each, or where the user declares that the canaries of one run err
independently. For one run without that word the statement is f_dp_p_value (class B): E[accuracy] <= A* always, but
v of m need not concentrate.
"""

from __future__ import annotations

import math

from ...foundation import InputError
from .one_run import check_confidence, check_counts, check_delta
from .rates import binomial_tail, clopper_pearson_lower


def accuracy_p_value(correct: int, guesses: int, accuracy_upper_bound: float) -> float:
    """P[Bin(guesses, A*) >= correct]: the p-value of "no attack is right more often than A*"."""
    check_counts(correct, guesses, guesses)
    if not 0.5 <= accuracy_upper_bound <= 1:
        raise InputError(f"accuracy_upper_bound must lie between 0.5 and 1, got {accuracy_upper_bound!r}")
    return float(binomial_tail(correct, guesses, accuracy_upper_bound))


def accuracy_lower_bound(correct: int, guesses: int, confidence: float = 0.95) -> float:
    """Clopper-Pearson: the accuracy of this attack is at least that much, one-sided."""
    check_counts(correct, guesses, guesses)
    return float(clopper_pearson_lower(correct, guesses, check_confidence(confidence)))


def accuracy_epsilon(correct: int, guesses: int, delta: float = 0.0, confidence: float = 0.95) -> float:
    """epsilon = ln((A - delta)/(1 - A)) at the lower limit A of the accuracy; 0 if that proves nothing."""
    check_delta(delta)
    accuracy = accuracy_lower_bound(correct, guesses, confidence)
    if accuracy <= delta:
        return 0.0
    return max(0.0, math.log((accuracy - delta) / (1 - accuracy)))
