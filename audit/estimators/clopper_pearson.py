"""epsilon from the error rates of one attack by Clopper-Pearson limits. Class C.

Jagielski, Ullman, Oprea 2020, arXiv:2006.07709; Nasr et al. 2021, arXiv:2101.04535. Needs independent errors (one
canary per training, or declared) and one threshold fixed in advance.
"""

from __future__ import annotations

import math

from .one_run import check_confidence, check_delta
from .rates import clopper_pearson_upper


def clopper_pearson_epsilon(
    false_positives: int,
    non_members: int,
    false_negatives: int,
    members: int,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> float:
    """Lower bound on epsilon at delta, one-sided; each rate gets half of the error."""
    check_delta(delta)
    one_rate = 1 - (1 - check_confidence(confidence)) / 2
    return epsilon_from_rates(
        float(clopper_pearson_upper(false_positives, non_members, one_rate)),
        float(clopper_pearson_upper(false_negatives, members, one_rate)),
        delta,
    )


def epsilon_from_rates(false_positive_rate: float, false_negative_rate: float, delta: float) -> float:
    """The smallest epsilon that an attack with these two error rates leaves possible, in either direction."""
    epsilon = 0.0
    for hit, miss in ((1 - false_negative_rate, false_positive_rate), (1 - false_positive_rate, false_negative_rate)):
        if hit > delta:
            epsilon = max(epsilon, math.log((hit - delta) / miss) if miss > 0 else math.inf)
    return epsilon
