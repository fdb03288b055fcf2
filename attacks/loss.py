"""Attacks that look at the target model alone: the loss (Yeom et al. 2018), phi, the hinge.

One threshold for all examples: they rank an easy non-member above a hard member, which is what shadow models mend.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import log_expit

from .arrays import as_views
from .result import NON_FINITE_TARGET, AttackScores, mark, status_array


def loss(target_phi: Any) -> AttackScores:
    """log p of the true class, minus the cross-entropy, mean over views. target_phi: (n,) or (n, views)."""
    values = as_views(target_phi, "target_phi")
    # log_expit(inf) is a finite 0: a target value that is not finite must stay undefined.
    return global_threshold(np.where(np.isfinite(values), log_expit(values), np.nan), signal="loss")


def global_threshold(target_signal: Any, signal: str = "phi") -> AttackScores:
    """The mean over views of any signal of the target (phi, log_confidence, hinge): (n,) or (n, views)."""
    values = as_views(target_signal, "target_signal")
    status = status_array(len(values))
    bad = ~np.isfinite(values).all(axis=1)
    mark(status, bad, NON_FINITE_TARGET)
    with np.errstate(invalid="ignore"):
        scores = np.where(bad, np.nan, values.mean(axis=1))
    attack = signal if signal in ("loss", "hinge") else "global_threshold"
    return AttackScores(scores, status, {"attack": attack, "signal": signal, "views": values.shape[1]})
