"""LiRA as the code of 2021 computes it, faults included, for those who must reproduce published numbers.

Source of the recipe: tensorflow/privacy, research/mi_lira_2021 (score.py, plot.py), re-stated here:
- phi from e = exp(z - max z) in float32, then in float64 log(p_y + 1e-45) - log(sum of the other p + 1e-45):
  saturates at ±103.6, so that confident models get identical values and variance zero;
- every example is cut to the first k_in IN and k_out OUT values, the smallest counts over ALL examples;
- centre = median, standard deviation with ddof 0 plus 1e-30; "fixed" = that of all values about their grand mean,
  and the IN one for both sides;
- offline is two-sided: -log N(phi; OUT), high also for a target far below.
Scores are negated with respect to that code, which returns lower = member.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import __version__
from ..foundation import InputError
from .arrays import as_float
from .moments import checked_shadows
from .phi import checked_labels
from .result import NON_FINITE_TARGET, AttackScores, mark, status_array


def phi_carlini2021(logits: Any, labels: Any) -> np.ndarray:
    """The saturating phi, float64. logits (..., classes), labels (...); shapes as in `phi.phi`."""
    values = as_float(logits, "logits").astype(np.float32)
    rows = checked_labels(values.shape, labels)[..., None]
    with np.errstate(invalid="ignore"):
        p = np.exp(values - values.max(axis=-1, keepdims=True)).astype(np.float64)
        p /= p.sum(axis=-1, keepdims=True)
    true = np.take_along_axis(p, rows, axis=-1)[..., 0]
    np.put_along_axis(p, rows, 0.0, axis=-1)
    return np.log(true + 1e-45) - np.log(p.sum(axis=-1) + 1e-45)


def lira_carlini2021(
    shadow_phi: Any, keep: Any, target_phi: Any, mode: str = "online", variance: str = "per_example"
) -> AttackScores:
    """Scores of the recipe. mode: online, or offline (= offline_two_sided); variance: per_example or fixed_raw.

    Errors: InputError where the smallest count is 0 (the code would make every score NaN), naming the examples.
    """
    if mode not in ("online", "offline", "offline_two_sided"):
        raise InputError(f"mode {mode!r} is not part of carlini2021: use online or offline")
    if variance not in ("per_example", "fixed_raw"):
        raise InputError(f"variance {variance!r} is not part of carlini2021: use per_example or fixed_raw")
    values, mask, target = checked_shadows(shadow_phi, keep, target_phi)
    values = values.astype(np.float64)
    out_centre, out_spread, out_count = _side(values, ~mask, variance, "out of")
    outside = _log_normal(target, out_centre, out_spread)
    if mode == "online":
        in_centre, in_spread, in_count = _side(values, mask, variance, "in")
        if variance == "fixed_raw":
            outside = _log_normal(target, out_centre, in_spread)  # the slip of the code: IN for both sides
        scores = (_log_normal(target, in_centre, in_spread) - outside).mean(axis=1)
    else:
        in_count, scores = None, -outside.mean(axis=1)
    status = status_array(len(scores))
    mark(status, ~np.isfinite(scores), NON_FINITE_TARGET)
    details = {
        "attack": "lira_online" if mode == "online" else "lira_offline_two_sided",
        "variant": "carlini2021",
        "mode": mode,
        "variance": variance,
        "centre": "median",
        "shadows": len(values),
        "views": values.shape[2],
        "truncated_to": {"in": in_count, "out": out_count},
        "coalmine": __version__,
    }
    return AttackScores(np.where(np.isfinite(scores), scores, np.nan), status, details)


def _side(values: np.ndarray, side: np.ndarray, variance: str, name: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Medians (n, views), standard deviations (broadcastable) and the smallest count of a side."""
    smallest = int(side.sum(axis=0).min())
    if smallest == 0:
        bare = ", ".join(map(str, np.flatnonzero(side.sum(axis=0) == 0)[:5]))
        raise InputError(
            f"carlini2021 cuts every example to the smallest count, and no shadow is trained {name} example(s) {bare}: "
            "leave them out, or use the default variant"
        )
    first = np.argsort(~side, axis=0, kind="stable")[:smallest]  # the first models of the side, in their order
    cut = np.take_along_axis(values, first[:, :, None], axis=0)
    spread = np.std(cut, axis=0) if variance == "per_example" else np.std(cut)
    return np.median(cut, axis=0), np.asarray(spread) + 1e-30, smallest


def _log_normal(value: np.ndarray, centre: np.ndarray, spread: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        return -0.5 * ((value - centre) / spread) ** 2 - np.log(spread) - 0.5 * np.log(2 * np.pi)
