"""White-box scores for DP-SGD: the exact log-likelihood ratio of a canary's direction.

The canary's clipped gradient is C·u, u a unit direction that no other gradient reaches. Then the noisy clipped sum of
step t, read along u and divided by C, is x_t ~ N(1{used in step t}, noise_multiplier²), and the ratio of "member" to
"non-member" is known exactly: by Neyman and Pearson no attack on the same numbers does better. Guess by the sign.
With plain SGD the noisy sum follows from consecutive weights: (w_{t-1} - w_t) · divisor / learning_rate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

from .. import __version__
from ..foundation import InputError
from .arrays import as_float
from .result import NON_FINITE_TARGET, AttackScores, mark, status_array


def random_allocation_ratio(projections: Any, noise_multiplier: float) -> AttackScores:
    """Sum over epochs of log mean_t exp((x_{e,t} - 1/2) / sigma²). projections (epochs, steps_per_epoch, n)."""
    x = _projections(projections, 3)
    log_ratios = logsumexp(_step_ratios(x, noise_multiplier), axis=1) - np.log(x.shape[1])
    return _result(log_ratios.sum(axis=0), x, "random_allocation", noise_multiplier)


def fixed_bins_ratio(projections: Any, noise_multiplier: float) -> AttackScores:
    """log mean_t exp(sum over epochs of (x_{e,t} - 1/2) / sigma²): one draw of the step, reused in every epoch."""
    x = _projections(projections, 3)
    log_ratios = logsumexp(_step_ratios(x, noise_multiplier).sum(axis=0), axis=0) - np.log(x.shape[1])
    return _result(log_ratios, x, "fixed_bins", noise_multiplier)


def poisson_ratio(projections: Any, noise_multiplier: float, sampling_rate: float) -> AttackScores:
    """Sum over steps of log(1 - q + q exp((x_t - 1/2) / sigma²)). projections (steps, n)."""
    if not (0 < sampling_rate <= 1):
        raise InputError(f"sampling_rate must lie in (0, 1], got {sampling_rate!r}")
    x = _projections(projections, 2)
    used = np.log(sampling_rate) + _step_ratios(x, noise_multiplier)
    unused = np.log1p(-sampling_rate) if sampling_rate < 1 else -np.inf
    return _result(np.logaddexp(unused, used).sum(axis=0), x, "poisson", noise_multiplier)


def every_step_ratio(projections: Any, noise_multiplier: float) -> AttackScores:
    """Sum over steps of (x_t - 1/2) / sigma²: full-batch training. projections (steps, n)."""
    x = _projections(projections, 2)
    return _result(_step_ratios(x, noise_multiplier).sum(axis=0), x, "every_step", noise_multiplier)


def _projections(projections: Any, dimensions: int) -> np.ndarray:
    x = as_float(projections, "projections", dimensions).astype(np.float64)
    if 0 in x.shape[:-1]:
        raise InputError(f"projections hold no step: shape {x.shape}")
    return x


def _step_ratios(x: np.ndarray, noise_multiplier: float) -> np.ndarray:
    if not (np.isfinite(noise_multiplier) and noise_multiplier > 0):
        raise InputError(f"noise_multiplier must be a positive number, got {noise_multiplier!r}")
    return (x - 0.5) / noise_multiplier**2


def _result(scores: np.ndarray, x: np.ndarray, mechanism: str, noise_multiplier: float) -> AttackScores:
    status = status_array(len(scores))
    bad = ~np.isfinite(x).reshape(-1, x.shape[-1]).all(axis=0)
    mark(status, bad, NON_FINITE_TARGET)
    details = {
        "attack": "white_box_log_likelihood_ratio",
        "mechanism": mechanism,
        "noise_multiplier": noise_multiplier,
        "coalmine": __version__,
    }
    return AttackScores(np.where(bad, np.nan, scores), status, details)
