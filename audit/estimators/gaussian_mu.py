"""mu of Gaussian differential privacy from the error rates of one attack. Class C, and inside the Gaussian family.

Nasr et al. 2023, arXiv:2302.07956; Annamalai and De Cristofaro 2024, arXiv:2405.14106. On a mechanism that is not
Gaussian the epsilon from this mu is wrong: randomised response with epsilon = 3 shows 11 to 16.
"""

from __future__ import annotations

from scipy.special import ndtri

from .gaussian_dp import gaussian_epsilon
from .one_run import check_confidence
from .rates import clopper_pearson_upper


def gaussian_mu(
    false_positives: int, non_members: int, false_negatives: int, members: int, confidence: float = 0.95
) -> float:
    """Lower bound on mu, one-sided; each rate gets half of the error. 0 when a rate may be 1."""
    one_rate = 1 - (1 - check_confidence(confidence)) / 2
    fpr = float(clopper_pearson_upper(false_positives, non_members, one_rate))
    fnr = float(clopper_pearson_upper(false_negatives, members, one_rate))
    if fpr >= 1 or fnr >= 1:
        return 0.0
    return max(0.0, float(-ndtri(fpr) - ndtri(fnr)))


def gaussian_mu_epsilon(
    false_positives: int,
    non_members: int,
    false_negatives: int,
    members: int,
    delta: float,
    confidence: float = 0.95,
) -> float:
    """The epsilon at delta of that mu. Inside the Gaussian family only."""
    return gaussian_epsilon(gaussian_mu(false_positives, non_members, false_negatives, members, confidence), delta)
