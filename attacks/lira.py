"""The likelihood ratio attack, LiRA (Carlini et al., arXiv:2112.03570), online and offline, with several views.

online              mean over views of log p(phi_t; IN) - log p(phi_t; OUT)
offline             one-sided, the paper's: mean over views of z = (phi_t - location_out) / scale_out
offline_neglogsf    one-sided: mean over views of -log P[Z > phi_t]; ranks as `offline` with one normal view
offline_two_sided   what the 2021 code calls offline: mean over views of -log p(phi_t; OUT); weak, kept by name

The densities are those of `spread.predictive`: normal, or Student t for variance "shrunk"; online, "shrunk" takes those
of `joint`, in which both centres are estimated at once. Every example uses all of its own shadow models: counts may
differ. With unequal variances the ratio is quadratic in phi, so that a target far BELOW both sides can look like a
member; the shrunk variant, ours, never lets such a target pass the score of the lower of the two locations, which costs
power where the variances truly differ. The textbook variants are left as published.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import __version__
from ..foundation import InputError
from .carlini2021 import lira_carlini2021
from .joint import JointPredictive, joint
from .moments import Moments, checked_shadows, side_moments, typical
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
from .spread import Predictive, predictive

MODES = ("online", "offline", "offline_neglogsf", "offline_two_sided")


def lira(
    shadow_phi: Any,
    keep: Any,
    target_phi: Any,
    mode: str = "online",
    variance: str = "shrunk",
    centre: str | None = None,
    variant: str | None = None,
) -> AttackScores:
    """LiRA scores (n,). shadow_phi (S, n, views) or (S, n); keep (S, n) bool, who trained whom; target_phi (n, views).

    mode: see the module. variance: per_example, pooled, shrunk or fixed_raw (`spread`). centre: mean, median or
    joint (`joint`: both centres by empirical Bayes; for online and shrunk, its default; the mean below 100 examples).
    variant "carlini2021" reproduces the published code with its faults (`carlini2021`); centre does not apply to it.
    Status: an example without a value on a needed side has no score (too_few_in, too_few_out); with a single value,
    constant values (zero_variance) or values left out (missing_values) it has one and is flagged.
    Errors: InputError for shapes, unknown names, and a design that leaves no example two shadows on a needed side.
    """
    if mode not in MODES:
        raise InputError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")
    if variant == "carlini2021":
        return lira_carlini2021(shadow_phi, keep, target_phi, mode, variance)
    if variant is not None:
        raise InputError(f"variant must be carlini2021 or left out, got {variant!r}")
    values, mask, target = checked_shadows(shadow_phi, keep, target_phi)
    online = mode == "online"
    if centre is None:
        centre = "joint" if online and variance == "shrunk" else "mean"
    if centre == "joint" and not (online and variance == "shrunk"):
        raise InputError("centre joint goes with mode online and variance shrunk: use mean or median")
    of_side = "mean" if centre == "joint" else centre
    outside = side_moments(values, ~mask, of_side)
    inside = side_moments(values, mask, of_side) if online else None
    status, defined = _status(outside, inside, target)

    teaches = typical(outside, status == "ok")
    if inside is not None:
        teaches = typical(inside, teaches)
    with np.errstate(invalid="ignore", over="ignore"):
        out = _side(outside, teaches, variance, "out")
        if inside is None:
            per_view, fitted = _one_side(out, target, mode), {"out": out.fitted}
        else:
            within = _side(inside, teaches, variance, "in")
            per_view = _ratio(within, out, target, variance)
            fitted = {"in": within.fitted, "out": out.fitted}
            together = joint(inside, outside, teaches) if centre == "joint" else None
            if together is not None:
                joint_in, joint_out, centres = together
                learned = _ratio(joint_in, joint_out, target, variance)
                # what was learned from typical examples says nothing of an absurd one
                per_view = np.where((teaches | (status != "ok"))[:, None], learned, per_view)
                fitted = {"in": joint_in.fitted, "out": joint_out.fitted, "centres": centres}
        scores = np.where(defined, per_view.mean(axis=1), np.nan)

    count_in, count_out = mask.sum(axis=0), (~mask).sum(axis=0)
    details = {
        "attack": f"lira_{mode}",
        "mode": mode,
        "variance": variance,
        "centre": centre,
        "shadows": len(values),
        "views": values.shape[2],
        "shadows_in": [int(count_in.min()), int(count_in.max())],
        "shadows_out": [int(count_out.min()), int(count_out.max())],
        "missing_values": int(outside.missing.sum() + (inside.missing.sum() if inside else 0)),
        "fitted": fitted,
        "coalmine": __version__,
    }
    return AttackScores(scores, status, details)


def _status(outside: Moments, inside: Moments | None, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Status (n,), and which examples have a score, (n,) bool. First reasons for no score, then remarks."""
    status = status_array(len(target))
    sides = [(outside, TOO_FEW_OUT)] + ([(inside, TOO_FEW_IN)] if inside is not None else [])
    mark(status, ~np.isfinite(target).all(axis=1), NON_FINITE_TARGET)
    for side, reason in sides:
        mark(status, (side.count + side.missing == 0).any(axis=1), reason)
        mark(status, (side.count == 0).any(axis=1), MISSING_VALUES)
    defined = status == "ok"
    for side, reason in sides:
        mark(status, (side.count + side.missing < 2).any(axis=1), reason)
    for side, _ in sides:
        mark(status, (side.missing > 0).any(axis=1), MISSING_VALUES)
    for side, _ in sides:
        mark(status, side.constant.any(axis=1), ZERO_VARIANCE)
    return status, defined


def _ratio(
    within: Predictive | JointPredictive, out: Predictive | JointPredictive, target: np.ndarray, variance: str
) -> np.ndarray:
    """(n, views): log p(target; IN) − log p(target; OUT), with the ceiling of "shrunk"."""
    per_view = within.log_density(target) - out.log_density(target)
    if variance == "shrunk":
        lower = np.minimum(within.location, out.location)
        ceiling = within.log_density(lower) - out.log_density(lower)
        per_view = np.where(target < lower, np.minimum(per_view, ceiling), per_view)
    return per_view


def _one_side(out: Predictive, target: np.ndarray, mode: str) -> np.ndarray:
    """(n, views): the offline scores."""
    if mode == "offline":
        return out.standardised(target)
    if mode == "offline_neglogsf":
        return out.negative_log_survival(target)
    return -out.log_density(target)


def _side(moments: Moments, pool: np.ndarray, variance: str, name: str) -> Predictive:
    """The predictive of a side, pooled over the typical examples without a remark, pool (n,) bool.

    Where every example has one (two shadows: one IN, one OUT), those with two values on this side have to do.
    """
    if not (pool & (moments.count >= 2).all(axis=1)).any():
        pool = ~moments.constant.any(axis=1) & (moments.missing == 0).all(axis=1)
    try:
        return predictive(moments, pool, variance)
    except InputError as error:
        bare = np.flatnonzero(moments.count.min(axis=1) == 0)
        few = ", ".join(map(str, bare[:5])) + (", …" if len(bare) > 5 else "")
        which = f"; examples without any {name.upper()} shadow: {few}" if len(bare) else ""
        raise InputError(f"keep gives the {name.upper()} side too few values: {error}{which}") from None
