"""BASE (Lassila et al., arXiv:2505.24089): the target's confidence against the shadows' mean confidence.

online    log p_t - log mean_m p_m over ALL shadows, unweighted: it needs no membership at all
offline   log p_t - a · log mean_OUT p_m; a = 0.33 is LeakPro's, beside a softmax temperature of 2

Ranks like RMIA without RMIA's ties, and is strong already at 8 shadows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import __version__
from ..foundation import InputError
from .moments import log_mean_confidence, one_view
from .result import MISSING_VALUES, NON_FINITE_TARGET, TOO_FEW_OUT, AttackScores, mark, status_array


def base(
    shadow_log_confidence: Any, keep: Any, target_log_confidence: Any, mode: str = "online", a: float = 0.33
) -> AttackScores:
    """Scores from log p: shadows (S, n), keep (S, n) bool, target (n,); one view."""
    if mode not in ("online", "offline"):
        raise InputError(f"mode must be online or offline, got {mode!r}")
    values, mask, target = one_view(shadow_log_confidence, keep, target_log_confidence, "base")
    side = np.ones_like(mask) if mode == "online" else ~mask
    log_mean, count, missing = log_mean_confidence(values, side)
    status = status_array(len(target))
    mark(status, ~np.isfinite(target), NON_FINITE_TARGET)
    mark(status, count + missing == 0, TOO_FEW_OUT)
    mark(status, count == 0, MISSING_VALUES)
    defined = status == "ok"
    mark(status, missing > 0, MISSING_VALUES)
    with np.errstate(invalid="ignore"):
        scores = target - (1.0 if mode == "online" else a) * log_mean
    details = {"attack": f"base_{mode}", "mode": mode, "shadows": len(values), "views": 1, "coalmine": __version__}
    if mode == "offline":
        details["a"] = a
    return AttackScores(np.where(defined, scores, np.nan), status, details)
