"""Attack-R (Ye et al. 2022, arXiv:2111.09679): the share of OUT shadows that find the example no more likely.

At most |OUT| + 1 distinct values: a large block of ties at 1, so that no false positive rate below that block exists.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import __version__
from .moments import one_view
from .result import MISSING_VALUES, NON_FINITE_TARGET, TOO_FEW_OUT, AttackScores, mark, status_array


def attack_r(shadow_signal: Any, keep: Any, target_signal: Any) -> AttackScores:
    """Share of m in OUT with signal_m(x) <= signal_t(x). Shadows and keep (S, n), target (n,): log p or phi."""
    values, mask, target = one_view(shadow_signal, keep, target_signal, "attack_r")
    used = ~mask & np.isfinite(values)
    count, missing = used.sum(axis=0), (~mask & ~np.isfinite(values)).sum(axis=0)
    status = status_array(len(target))
    mark(status, ~np.isfinite(target), NON_FINITE_TARGET)
    mark(status, count + missing == 0, TOO_FEW_OUT)
    mark(status, count == 0, MISSING_VALUES)
    defined = status == "ok"
    mark(status, missing > 0, MISSING_VALUES)
    with np.errstate(invalid="ignore", divide="ignore"):
        scores = (used & (values <= target)).sum(axis=0) / count
    details = {"attack": "attack_r", "shadows": len(values), "views": 1, "coalmine": __version__}
    return AttackScores(np.where(defined, scores, np.nan), status, details)
