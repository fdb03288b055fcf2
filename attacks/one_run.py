"""Scores from one training run: what one model says about a canary, best against what it said before training.

Steinke, Nasr, Jagielski (arXiv:2305.08846) score a canary by loss(w_0) - loss(w_T); the difference takes the canary's
own difficulty away and needs no shadow models. The reference may be the initial model or any model that was
trained without canaries. A score depends on the models and the canary alone, so that class A estimators may take it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..foundation import InputError
from .arrays import as_views
from .loss import global_threshold
from .result import NON_FINITE_TARGET, AttackScores, mark, status_array


def one_run(target_signal: Any, reference_signal: Any | None = None, signal: str = "phi") -> AttackScores:
    """Mean over views of target - reference, or of the target alone. Both (n,) or (n, views), one shape.

    Signals (phi, log_confidence, hinge) rise with confidence, so a rise speaks for membership.
    """
    if reference_signal is None:
        alone = global_threshold(target_signal, signal)
        return AttackScores(alone.scores, alone.status, {**alone.details, "attack": "one_run", "reference": None})
    target = as_views(target_signal, "target_signal")
    reference = as_views(reference_signal, "reference_signal")
    if target.shape != reference.shape:
        raise InputError(f"target and reference must have one shape, got {target.shape} and {reference.shape}")
    status = status_array(len(target))
    bad = np.any(~np.isfinite(target) | ~np.isfinite(reference), axis=1)
    mark(status, bad, NON_FINITE_TARGET)
    with np.errstate(invalid="ignore"):
        scores = np.where(bad, np.nan, (target - reference).mean(axis=1))
    details = {"attack": "one_run", "signal": signal, "views": target.shape[1], "reference": "difference"}
    return AttackScores(scores, status, details)
