"""RMIA (Zarifzadeh et al., arXiv:2312.03262): how many population points the example's ratio beats.

With r(x) = p_t(x) / p̄(x) the score is the share of population points z with r(x) / r(z) > gamma. r(z) does not depend
on x, so that the score is the empirical distribution of r(z) read at r(x) / gamma: one sort and one search,
O((n + Z) log Z), where the published code builds the n × Z matrix.

offline   p̄(x) = ((1 + a) · mean_OUT p_m(x) + 1 - a) / 2; a = 0.3 is the paper's for CIFAR-10
online    p̄(x) = (mean_IN p_m(x) + mean_OUT p_m(x)) / 2, the sides weighted alike whatever their counts
Population points are OUT of every model: their mean is over all shadows, in both modes.
The score has at most Z + 1 values: many ties, among them a block at 1, which costs all power at the smallest rates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import __version__
from ..foundation import InputError
from .arrays import as_float
from .moments import log_mean_confidence, one_view
from .result import MISSING_VALUES, NON_FINITE_TARGET, TOO_FEW_IN, TOO_FEW_OUT, AttackScores, mark, status_array


def rmia(
    shadow_log_confidence: Any,
    keep: Any,
    target_log_confidence: Any,
    population_shadow_log_confidence: Any,
    population_target_log_confidence: Any,
    mode: str = "offline",
    a: float = 0.3,
    gamma: float = 1.0,
) -> AttackScores:
    """Scores from log p: shadows (S, n), keep (S, n), target (n,), population (S, Z) and (Z,), OUT of every model.

    Population points with a value that is not finite are left out and counted.
    """
    if mode not in ("online", "offline"):
        raise InputError(f"mode must be online or offline, got {mode!r}")
    if not (0 <= a <= 1):
        raise InputError(f"a must lie in [0, 1], got {a!r}")
    if not (np.isfinite(gamma) and gamma > 0):
        raise InputError(f"gamma must be a positive number, got {gamma!r}")
    values, mask, target = one_view(shadow_log_confidence, keep, target_log_confidence, "rmia")
    population = as_float(population_shadow_log_confidence, "population_shadow_log_confidence", 2).astype(np.float64)
    population_target = as_float(population_target_log_confidence, "population_target_log_confidence", 1)
    if population.shape != (len(values), len(population_target)):
        raise InputError(
            f"population values {population.shape} must be (shadows, points) = {(len(values), len(population_target))}"
        )
    status = status_array(len(target))
    mark(status, ~np.isfinite(target), NON_FINITE_TARGET)
    log_out, count_out, missing = log_mean_confidence(values, ~mask)
    mark(status, count_out + missing == 0, TOO_FEW_OUT)
    mark(status, count_out == 0, MISSING_VALUES)
    if mode == "online":
        log_in, count_in, missing_in = log_mean_confidence(values, mask)
        mark(status, count_in + missing_in == 0, TOO_FEW_IN)
        mark(status, count_in == 0, MISSING_VALUES)
        missing = missing + missing_in
        with np.errstate(invalid="ignore"):
            log_marginal = np.logaddexp(log_in, log_out) - np.log(2)
    else:
        log_marginal = _offline(log_out, a)
    defined = status == "ok"
    mark(status, missing > 0, MISSING_VALUES)

    log_population, _, missing_population = log_mean_confidence(population, np.ones(population.shape, dtype=bool))
    log_population = log_population if mode == "online" else _offline(log_population, a)
    with np.errstate(invalid="ignore"):
        ratios = population_target - log_population
    usable = np.isfinite(ratios) & (missing_population == 0)
    if not usable.any():
        raise InputError("the population holds no usable point: give points whose confidences are finite")
    ordered = np.sort(ratios[usable])
    with np.errstate(invalid="ignore"):
        scores = np.searchsorted(ordered, target - log_marginal - np.log(gamma), side="left") / len(ordered)
    details = {
        "attack": f"rmia_{mode}",
        "mode": mode,
        "a": a if mode == "offline" else None,
        "gamma": gamma,
        "shadows": len(values),
        "views": 1,
        "population": len(ordered),
        "population_left_out": int((~usable).sum()),
        "coalmine": __version__,
    }
    return AttackScores(np.where(defined, scores, np.nan), status, details)


def _offline(log_mean: np.ndarray, a: float) -> np.ndarray:
    return np.log(((1 + a) * np.exp(log_mean) + (1 - a)) / 2)
