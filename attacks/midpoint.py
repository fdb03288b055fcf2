"""The midpoint attack, MALT (Sablayrolles et al. 2019, arXiv:1908.11229): which side's mean is the target nearer to?

Score = log p_t - (mean_IN log p_m + mean_OUT log p_m) / 2, the sides weighted alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import __version__
from .moments import mean_over, one_view
from .result import (
    MISSING_VALUES,
    NON_FINITE_TARGET,
    TOO_FEW_IN,
    TOO_FEW_OUT,
    AttackScores,
    mark,
    status_array,
)


def midpoint(shadow_log_confidence: Any, keep: Any, target_log_confidence: Any) -> AttackScores:
    """Scores from log p: shadows and keep (S, n), target (n,); one view, one shadow a side at least."""
    values, mask, target = one_view(shadow_log_confidence, keep, target_log_confidence, "midpoint")
    mean_out, count_out, missing_out = mean_over(values, ~mask)
    mean_in, count_in, missing_in = mean_over(values, mask)
    status = status_array(len(target))
    mark(status, ~np.isfinite(target), NON_FINITE_TARGET)
    mark(status, count_out + missing_out == 0, TOO_FEW_OUT)
    mark(status, count_in + missing_in == 0, TOO_FEW_IN)
    mark(status, (count_in == 0) | (count_out == 0), MISSING_VALUES)
    defined = status == "ok"
    mark(status, missing_in + missing_out > 0, MISSING_VALUES)
    with np.errstate(invalid="ignore"):
        scores = np.where(defined, target - 0.5 * (mean_in + mean_out), np.nan)
    details = {"attack": "midpoint", "shadows": len(values), "views": 1, "coalmine": __version__}
    return AttackScores(scores, status, details)
