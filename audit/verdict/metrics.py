"""The pictures' numbers: the ROC and the histogram sections of audit.json."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..estimators.roc import TprAtFpr, auc_interval, positive_predictive_value, roc_curve, tpr_at_fpr
from ..estimators.roc_band import roc_band

FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1)
PRIORS = (0.5, 0.1, 0.01)
MOST_POINTS = 2000
BINS = 40


def roc_section(scores: np.ndarray, members: np.ndarray, confidence: float, validity: str) -> dict[str, Any]:
    """`roc` of audit.json; at most 2,000 points, its corners kept and steps between them thinned."""
    curve = roc_curve(scores, members)
    keep = _thinned(curve.false_positive_rate.size)
    points = [tpr_at_fpr(scores, members, rate, confidence) for rate in FALSE_POSITIVE_RATES]
    band = roc_band(scores, members, confidence)
    return {
        "false_positive_rate": curve.false_positive_rate[keep].tolist(),
        "true_positive_rate": curve.true_positive_rate[keep].tolist(),
        "auc": curve.auc,
        "auc_interval": list(auc_interval(curve.auc, curve.members, curve.non_members, confidence)),
        "class": validity,
        "confidence": confidence,
        "tpr_at_fpr": [
            {
                "false_positive_rate": point.false_positive_rate,
                "threshold": point.threshold,
                "true_positive_rate": point.true_positive_rate,
                "interval": None if point.interval is None else list(point.interval),
                "tp": point.tp,
                "fp": point.fp,
                "fn": point.fn,
                "tn": point.tn,
                "refused": point.refused,
                "positive_predictive_value": _predictive_values(point),
            }
            for point in points
        ],
        "band": {
            "false_positive_rate": band.false_positive_rate.tolist(),
            "lower": band.lower.tolist(),
            "upper": band.upper.tolist(),
            "confidence": confidence,
            "class": validity,
            "note": "simultaneous: the true curve lies in the band everywhere at once, if scores are independent",
        },
    }


def _predictive_values(point: TprAtFpr) -> list[dict[str, float | None]] | None:
    """How sure a "member" is at this threshold, if a share `prior` of the candidates are members."""
    if point.true_positive_rate is None:
        return None
    realised = point.fp / (point.fp + point.tn)
    return [
        {"prior": prior, "value": positive_predictive_value(point.true_positive_rate, realised, prior)}
        for prior in PRIORS
    ]


def histogram(scores: np.ndarray, members: np.ndarray) -> dict[str, Any]:
    """Counts of finite scores in 40 equal bins, members and non-members apart."""
    finite = np.isfinite(scores)
    values = scores[finite]
    if values.size == 0:
        return {"edges": [], "members": [], "non_members": []}
    low, high = float(values.min()), float(values.max())
    if not np.isfinite(high - low):  # wider than a double can tell
        low, high = float(np.clip(low, -1e300, 1e300)), float(np.clip(high, -1e300, 1e300))
    if (high - low) <= 1e-12 * max(1.0, abs(low), abs(high)):
        pad = 0.5 * max(1.0, abs(low))
        low, high = low - pad, high + pad
    edges = np.linspace(low, high, BINS + 1)
    bins = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, BINS - 1)
    return {
        "edges": edges.tolist(),
        "members": np.bincount(bins[members[finite]], minlength=BINS).tolist(),
        "non_members": np.bincount(bins[~members[finite]], minlength=BINS).tolist(),
    }


def _thinned(size: int) -> np.ndarray:
    """All points of a short curve; of a long one the ends and points even in the logarithm from both ends."""
    if size <= MOST_POINTS:
        return np.arange(size)
    near = np.unique(np.round(np.geomspace(1, size - 1, MOST_POINTS // 2)).astype(int))
    even = np.round(np.linspace(0, size - 1, MOST_POINTS // 2)).astype(int)
    return np.union1d(near, even)
