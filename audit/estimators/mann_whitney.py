"""Mann-Whitney test: do members score higher than non-members at all? Tie-corrected normal approximation.

Valid under a random split or fair coins as a test of "scores tell nothing of membership", the whole null and nothing
more: a small p-value shows leakage, not a violated claim.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from .roc import auc, check_scores


def mann_whitney_p_value(scores: ArrayLike, members: ArrayLike, alternative: str = "greater") -> float:
    """One-sided p-value: `greater` when members should score higher, `less` when lower. 1 when all scores tie."""
    scores, members = check_scores(scores, members)
    n1 = int(members.sum())
    n0 = members.size - n1
    area = auc(scores, members)
    filled = np.where(np.isnan(scores), np.nanmedian(scores) if not np.isnan(scores).all() else 0.0, scores)
    _, size = np.unique(filled, return_counts=True)
    n = n1 + n0
    size = size.astype(float)
    ties = float(np.sum(size**3 - size)) / (n * (n - 1))
    variance = n1 * n0 / 12 * (n + 1 - ties)
    if variance <= 0:
        return 1.0
    shift = (area - 0.5) * n1 * n0 * (1 if alternative == "greater" else -1)
    return float(ndtr(-(shift - 0.5) / math.sqrt(variance)))
