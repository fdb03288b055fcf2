"""The logit-scaled confidence phi = log(p / (1 - p)) of the true class (Carlini et al., arXiv:2112.03570).

Computed as z_y - logsumexp of the other logits in float64, never through the probability p: p rounds to 1 from
phi = 36.7 in float64 and from 16.6 in float32, and a saturated signal has no variance left to attack with.
phi determines the other signals of the true class: log p = log_expit(phi).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import log_expit

from ..foundation import InputError
from .arrays import as_float, as_numpy


def phi(logits: Any, labels: Any) -> np.ndarray:
    """phi of the true class, float64, shape of `labels`.

    logits: (..., classes), any float type, numpy or torch; classes = 1 is one sigmoid output, its labels 0 or 1.
    labels: (...) whole numbers 0 … classes - 1; an axis of length 1 is repeated, axes are not added.
    NaN where any logit is NaN or +inf. -inf of a wrong class is a class ruled out; of the true class, phi = -inf.
    """
    values, rows = _split(logits, labels)
    if values.shape[-1] == 1:
        return _undefined_to_nan(values, np.where(rows == 1, values[..., 0], -values[..., 0]))
    true = np.take_along_axis(values, rows[..., None], axis=-1)[..., 0]
    others = values.copy()
    np.put_along_axis(others, rows[..., None], -np.inf, axis=-1)
    return _undefined_to_nan(values, true - _logsumexp(others))


def log_confidence(logits: Any, labels: Any, temperature: float = 1.0) -> np.ndarray:
    """log p of the true class = minus the cross-entropy, float64; shapes and undefined values as in `phi`."""
    if not (np.isfinite(temperature) and temperature > 0):
        raise InputError(f"temperature must be a positive number, got {temperature!r}")
    # log p = log_expit(phi) keeps full precision at both ends: near p = 1 it is -exp(-phi), not a rounded 0.
    return log_expit(phi(as_float(logits, "logits").astype(np.float64) / temperature, labels))


def hinge(logits: Any, labels: Any) -> np.ndarray:
    """z_y minus the largest other logit, float64; one sigmoid output: the signed logit. Undefined as in `phi`."""
    values, rows = _split(logits, labels)
    if values.shape[-1] == 1:
        return phi(values, rows)
    true = np.take_along_axis(values, rows[..., None], axis=-1)[..., 0]
    others = values.copy()
    np.put_along_axis(others, rows[..., None], -np.inf, axis=-1)
    with np.errstate(invalid="ignore"):
        return _undefined_to_nan(values, true - others.max(axis=-1))


def phi_from_probability(probability: Any) -> tuple[np.ndarray, int]:
    """phi from the true class's probability alone, and how many values had to be clipped.

    For those who hold no logits: p of exactly 0 or 1 has lost its phi, is clipped to the neighbouring number of its
    own float type, and counted. Values outside [0, 1] are refused.
    """
    given = as_numpy(probability, "probability")
    kind = given.dtype if given.dtype.kind == "f" else np.dtype(np.float64)
    p = given.astype(np.float64)
    if np.any((p < 0) | (p > 1)):
        raise InputError("probability must lie in [0, 1]: are these logits or losses?")
    low, high = float(np.finfo(kind).tiny), 1 - float(np.finfo(kind).epsneg)
    clipped = int(np.sum((p < low) | (p > high)))
    p = np.clip(p, low, high)
    return np.log(p) - np.log1p(-p), clipped


def checked_labels(logits_shape: tuple[int, ...], labels: Any) -> np.ndarray:
    """Whole-number labels (...) that fit logits (..., classes). Errors: InputError."""
    if len(logits_shape) == 0 or logits_shape[-1] == 0:
        raise InputError(f"logits must have shape (..., classes), got {logits_shape}")
    given = as_numpy(labels, "labels")
    if given.dtype.kind not in "iufb":
        raise InputError(f"labels must be class numbers 0 … classes - 1, got dtype {given.dtype}: encode them first")
    if given.ndim != len(logits_shape) - 1:
        raise InputError(
            f"labels must have one axis less than logits {logits_shape}, got shape {given.shape}: "
            "for logits (n, views, classes) give labels[:, None]"
        )
    with np.errstate(invalid="ignore"):
        rows = given.astype(np.int64)
    if np.any(rows != given):
        raise InputError("labels must be whole numbers, got fractions or NaN")
    highest = max(logits_shape[-1], 2) - 1
    if rows.size and (rows.min() < 0 or rows.max() > highest):
        bad = rows.min() if rows.min() < 0 else rows.max()
        raise InputError(f"labels must lie in 0 … {highest} for {logits_shape[-1]} logit(s), got {bad}")
    try:
        return np.broadcast_to(rows, logits_shape[:-1])
    except ValueError:
        raise InputError(f"labels {given.shape} do not fit logits {logits_shape}") from None


def _split(logits: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    values = as_float(logits, "logits").astype(np.float64, copy=False)
    return values, checked_labels(values.shape, labels)


def _logsumexp(values: np.ndarray) -> np.ndarray:
    """Over the last axis; -inf where every value is -inf. scipy's does the same more slowly."""
    top = values.max(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.log(np.exp(values - np.where(np.isfinite(top), top, 0)).sum(axis=-1)) + np.where(
            np.isfinite(top), top, 0
        ).squeeze(-1)


def _undefined_to_nan(values: np.ndarray, result: np.ndarray) -> np.ndarray:
    return np.where((np.isnan(values) | (values == np.inf)).any(axis=-1), np.nan, result)
