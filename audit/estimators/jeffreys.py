"""epsilon from the error rates of one attack by Jeffreys limits. Bayesian: a credible statement, not a bound."""

from __future__ import annotations

from .clopper_pearson import epsilon_from_rates
from .one_run import check_confidence, check_delta
from .rates import jeffreys_upper


def jeffreys_epsilon(
    false_positives: int,
    non_members: int,
    false_negatives: int,
    members: int,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> float:
    """As clopper_pearson_epsilon with the quantiles of Beta(1/2 + k, 1/2 + n - k), half of the error for each rate."""
    check_delta(delta)
    one_rate = 1 - (1 - check_confidence(confidence)) / 2
    return epsilon_from_rates(
        float(jeffreys_upper(false_positives, non_members, one_rate)),
        float(jeffreys_upper(false_negatives, members, one_rate)),
        delta,
    )
