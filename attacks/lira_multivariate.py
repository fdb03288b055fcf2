"""LiRA with the views taken jointly: one multivariate normal a side (Carlini et al., arXiv:2112.03570, section VI).

The views of one example are strongly correlated; averaging their ratios counts the same evidence several times.
Per side: mean vector and covariance (ddof 1) of the rows without a missing value, plus 1e-6 on the diagonal;
score = log N(phi_t; IN) - log N(phi_t; OUT).

per_example   the example's own covariance: needs more than `views` shadows on each side
pooled        the mean within-example covariance of all examples, one a side: works at few shadows
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import __version__
from ..foundation import InputError
from .moments import checked_shadows
from .result import (
    MISSING_VALUES,
    NON_FINITE_TARGET,
    TOO_FEW_IN,
    TOO_FEW_OUT,
    ZERO_VARIANCE,
    AttackScores,
    mark,
    status_array,
)

RIDGE = 1e-6
COVARIANCES = ("per_example", "pooled")


def lira_multivariate(shadow_phi: Any, keep: Any, target_phi: Any, covariance: str = "pooled") -> AttackScores:
    """Shapes as in `lira.lira`. A singular covariance has status zero_variance: the ridge alone decides there.

    No score where a side has too few complete rows: `views` or fewer for per_example, none for pooled.
    """
    if covariance not in COVARIANCES:
        raise InputError(f"covariance must be one of {', '.join(COVARIANCES)}, got {covariance!r}")
    values, mask, target = checked_shadows(shadow_phi, keep, target_phi)
    shadows, n, views = values.shape
    complete = np.isfinite(values).all(axis=2)
    status = status_array(n)
    mark(status, ~np.isfinite(target).all(axis=1), NON_FINITE_TARGET)
    needed = views + 1 if covariance == "per_example" else 1
    sides = [_moments(values, side & complete) for side in (mask, ~mask)]
    for (count, _, _), reason in zip(sides, (TOO_FEW_IN, TOO_FEW_OUT), strict=True):
        mark(status, count < needed, reason)
    defined = status == "ok"
    mark(status, ~complete.all(axis=0), MISSING_VALUES)
    for _, _, scatter in sides:
        mark(status, defined & _singular(scatter), ZERO_VARIANCE)

    lower = np.minimum(sides[0][1], sides[1][1])
    score, ceiling = np.zeros(n), np.zeros(n)
    with np.errstate(invalid="ignore", divide="ignore"):
        for sign, (count, mean, scatter) in zip((1, -1), sides, strict=True):
            if covariance == "pooled":
                rows = (status == "ok") & (count >= 2)
                if not rows.any():
                    raise InputError("no example has two usable shadow rows on a side: train more shadow models")
                matrix = (scatter[rows].sum(axis=0) / (count[rows] - 1).sum())[None].repeat(n, axis=0)
            else:
                matrix = np.where(defined[:, None, None], scatter / (count - 1)[:, None, None], np.eye(views))
            covariances = matrix + RIDGE * np.eye(views)
            score += sign * _log_normal(target - mean, covariances)
            ceiling += sign * _log_normal(lower - mean, covariances)
        if covariance == "pooled":  # ours: a target below both sides in every view does not pass the lower location
            score = np.where((target < lower).all(axis=1), np.minimum(score, ceiling), score)
    details = {
        "attack": "lira_multivariate",
        "covariance": covariance,
        "ridge": RIDGE,
        "shadows": shadows,
        "views": views,
        "coalmine": __version__,
    }
    return AttackScores(np.where(defined, score, np.nan), status, details)


def _moments(values: np.ndarray, used: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """count (n,), mean (n, views), scatter (n, views, views) = sum of outer products of deviations."""
    weight = used[:, :, None]
    count = used.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(weight, values, 0.0).sum(axis=0, dtype=np.float64) / count[:, None]
        deviation = np.where(weight, values - mean, 0.0)
    return count, mean, np.einsum("sna,snb->nab", deviation, deviation)


def _singular(scatter: np.ndarray) -> np.ndarray:
    """(n,) bool: the smallest eigenvalue is 0 up to rounding."""
    eigenvalues = np.linalg.eigvalsh(scatter)
    return eigenvalues[:, 0] <= 1e-12 * np.maximum(eigenvalues[:, -1], np.finfo(np.float64).tiny)


def _log_normal(deviation: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    factor = np.linalg.cholesky(covariance)
    whitened = np.linalg.solve(factor, np.nan_to_num(deviation)[:, :, None])[:, :, 0]
    log_root = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
    return -0.5 * (whitened**2).sum(axis=1) - log_root - 0.5 * deviation.shape[1] * np.log(2 * np.pi)
