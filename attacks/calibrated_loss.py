"""Difficulty calibration (Watson et al. 2022, arXiv:2111.08440): the loss less what it usually is without the example.

Score = log p_t - mean over OUT shadows of log p_m: one OUT shadow is enough.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import __version__
from .moments import mean_over, one_view
from .result import MISSING_VALUES, NON_FINITE_TARGET, TOO_FEW_OUT, AttackScores, mark, status_array


def calibrated_loss(shadow_log_confidence: Any, keep: Any, target_log_confidence: Any) -> AttackScores:
    """Scores from log p: shadows and keep (S, n), target (n,); one view."""
    values, mask, target = one_view(shadow_log_confidence, keep, target_log_confidence, "calibrated_loss")
    mean, count, missing = mean_over(values, ~mask)
    status = status_array(len(target))
    mark(status, ~np.isfinite(target), NON_FINITE_TARGET)
    mark(status, count + missing == 0, TOO_FEW_OUT)
    mark(status, count == 0, MISSING_VALUES)
    defined = status == "ok"
    mark(status, missing > 0, MISSING_VALUES)
    with np.errstate(invalid="ignore"):
        scores = np.where(defined, target - mean, np.nan)
    details = {"attack": "calibrated_loss", "shadows": len(values), "views": 1, "coalmine": __version__}
    return AttackScores(scores, status, details)
