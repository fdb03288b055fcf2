"""The same promises in the words of attack risk: advantage, β at α, Bayes error (Kulynych et al. 2024, 2025).

Of any `Mechanism`, as intervals: the exact value for the worst data set lies between the two ends.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from .interval import Interval
from .mechanism import Mechanism
from .parameters import within


def advantage(mechanism: Mechanism, width: float = 1e-6) -> Interval:
    """The largest TPR − FPR of any attack: total variation, 2·accuracy − 1."""
    accuracy = mechanism.accuracy(width / 2)
    return Interval(max(0.0, 2 * float(accuracy.lower) - 1), 2 * float(accuracy.upper) - 1)


def beta(mechanism: Mechanism, alpha: ArrayLike, direction: str = "both") -> Interval:
    """The least false-negative rate at false-positive rate `alpha`, any shape: 1 − TPR. "both": whichever is less."""
    found = mechanism.true_positive_rate(alpha, direction)
    return Interval((1 - np.asarray(found.upper))[()], (1 - np.asarray(found.lower))[()])


def bayes_error(mechanism: Mechanism, prior: float = 0.5) -> Interval:
    """The least error of a guess at membership that has probability `prior`; at 1/2 it is 1 − accuracy.

    (1 − π)(1 − δ_add(ε)) at ε = ln(π/(1 − π)), or π(1 − δ_remove(−ε)) where that ε is negative.
    """
    pi = within("prior", prior, 0, 1, "the probability of membership before the attack")
    odds = math.log(pi) - math.log1p(-pi)
    weight, direction = (1 - pi, "add") if odds >= 0 else (pi, "remove")
    delta = mechanism.delta(abs(odds), direction)
    return Interval(weight * (1 - float(delta.upper)), min(weight * (1 - float(delta.lower)), pi, 1 - pi))
