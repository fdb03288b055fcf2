"""Shadow values of one side (IN or OUT), summarised per example and view.

Values that are not finite are left out of their own example and counted; nothing else moves. Work goes block by block
over the examples, so that 128 shadows of 50,000 examples need little more memory than the values themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..foundation import InputError
from .arrays import as_float, as_mask

LARGEST = 1e60  # of a usable value: fourth powers stay within float64. No model has such logits
FAR_CENTRE, FAR_VARIANCE = 100.0, (1e-12, 1e6)  # of an untypical example, relative to the spread and median of all
_BLOCK_VALUES = 2**18  # values worked on at once: 2 MiB of float64, which stays in a core's cache


@dataclass(frozen=True)
class Moments:
    """All (n, views): count of values, their mean, sum of squared deviations about the mean, centre (mean or median).

    missing: values of this side that were not finite. constant: at least one value, and all equal.
    """

    count: np.ndarray
    mean: np.ndarray
    squares: np.ndarray
    centre: np.ndarray
    missing: np.ndarray
    constant: np.ndarray


def side_moments(values: np.ndarray, side: np.ndarray, centre: str = "mean") -> Moments:
    """Moments over the shadows of one side. values (S, n, views), side (S, n) bool. Empty sides have mean NaN."""
    if centre not in ("mean", "median"):
        raise InputError(f"centre must be mean or median, got {centre!r}")
    shadows, n, views = values.shape
    count = np.zeros((n, views))
    mean, squares, middle = (np.full((n, views), np.nan) for _ in range(3))
    missing = np.zeros((n, views), dtype=np.int64)
    step = max(1, _BLOCK_VALUES // max(1, shadows * views))
    for start in range(0, n, step):
        rows = slice(start, start + step)
        block = values[:, rows].astype(np.float64)  # a copy: the caller's values are never written to
        mine = side[:, rows, None]
        finite = np.isfinite(block)
        used = mine & finite
        block[~used] = 0.0
        count[rows] = used.sum(axis=0)
        missing[rows] = (mine & ~finite).sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean[rows] = block.sum(axis=0) / count[rows]
        if centre == "median":
            middle[rows] = _masked_median(np.where(used, block, np.inf), count[rows])
        block -= np.where(count[rows] > 0, mean[rows], 0.0)
        block[~used] = 0.0
        squares[rows] = np.einsum("sna,sna->na", block, block)
    # Equal values leave only the rounding of their mean.
    constant = (count > 0) & (squares <= count * (16 * np.finfo(np.float64).eps * np.abs(mean)) ** 2)
    squares = np.where(count > 0, np.where(constant, 0.0, squares), np.nan)
    return Moments(count, mean, squares, mean if centre == "mean" else middle, missing, constant)


def typical(moments: Moments, pool: np.ndarray) -> np.ndarray:
    """(n,) bool: examples of `pool` (n,) whose values can teach something about the others.

    One absurd value, a centre or a variance orders of magnitude away from all others, would spoil what is learned from
    all examples together. The bounds are so wide that no value of a model is left out by chance.
    """
    kept = pool.copy()
    for view in range(moments.mean.shape[1]):
        rows = np.flatnonzero(pool & (moments.count[:, view] >= 2) & ~moments.constant[:, view])
        if len(rows) == 0:
            continue
        mean = moments.mean[:, view]
        low, middle, high = np.quantile(mean[rows], (0.1, 0.5, 0.9))
        if high > low:
            kept &= ~(np.abs(mean - middle) > FAR_CENTRE * (high - low))
        with np.errstate(invalid="ignore", divide="ignore"):
            variance = moments.squares[:, view] / (moments.count[:, view] - 1)
            ratio = variance / np.median(variance[rows])
            used = (moments.count[:, view] >= 2) & ~moments.constant[:, view]
            kept &= ~(used & ((ratio < FAR_VARIANCE[0]) | (ratio > FAR_VARIANCE[1])))
    return kept


def mean_over(values: np.ndarray, side: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean (n,), count (n,) and number of missing values (n,) over the shadows of a side; values, side (S, n)."""
    moments = side_moments(values[:, :, None], side)
    return moments.mean[:, 0], moments.count[:, 0], moments.missing[:, 0]


def log_mean_confidence(log_confidence: np.ndarray, side: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log of the mean of p = exp(log_confidence) over a side, count, missing: all (n,). Stable for p near 0 and 1."""
    finite = np.isfinite(log_confidence)
    used = side & finite
    count = used.sum(axis=0)
    top = np.where(used, log_confidence, -np.inf).max(axis=0, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    total = np.where(used, np.exp(np.where(used, log_confidence - top, 0.0)), 0.0).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(total / count) + top, count, (side & ~finite).sum(axis=0)


def checked_shadows(shadow: object, keep: object, target: object) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """shadow (S, n, views), keep (S, n) bool, target (n, views) float64; a missing view axis is one view. Finite values
    beyond ±LARGEST become NaN: missing, like everything that no model says.

    Errors: InputError naming the array whose shape does not fit.
    """
    values = as_float(shadow, "shadow values")
    if values.ndim == 2:
        values = values[:, :, None]
    if values.ndim != 3 or 0 in values.shape:
        raise InputError(f"shadow values must have shape (shadows, n, views) or (shadows, n), got {values.shape}")
    mine = as_float(target, "target values").astype(np.float64, copy=False)
    if mine.ndim == 1:
        mine = mine[:, None]
    if mine.shape != values.shape[1:]:
        raise InputError(f"target values {mine.shape} must have the examples and views of the shadows {values.shape}")
    return _sane(values), as_mask(keep, "keep", values.shape[:2]), _sane(mine)


def _sane(values: np.ndarray) -> np.ndarray:
    if (
        values.dtype == np.float32
        or not max(np.fmax.reduce(values, axis=None), -np.fmin.reduce(values, axis=None)) > LARGEST
    ):
        return values
    return np.where(np.isfinite(values) & (np.abs(values) > LARGEST), np.nan, values)


def one_view(shadow: object, keep: object, target: object, attack: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same for attacks defined on one view: shadow (S, n) float64, keep (S, n), target (n,)."""
    values, mask, mine = checked_shadows(shadow, keep, target)
    if values.shape[2] != 1:
        raise InputError(f"{attack} is defined on one view, got {values.shape[2]}: give values[:, :, 0]")
    return values[:, :, 0].astype(np.float64), mask, mine[:, 0]


def _masked_median(padded: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Median over axis 0 of the first `count` of the sorted values; unused ones are +inf and sort to the end."""
    padded = np.sort(padded, axis=0)
    count = count.astype(np.int64)
    lower = np.take_along_axis(padded, np.maximum((count - 1) // 2, 0)[None], axis=0)[0]
    upper = np.take_along_axis(padded, np.minimum(count // 2, len(padded) - 1)[None], axis=0)[0]
    return np.where(count > 0, (lower + upper) / 2, np.nan)
