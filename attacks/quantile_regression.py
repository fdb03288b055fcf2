"""Quantile regression (Bertran et al., NeurIPS 2023, arXiv:2307.03694): a threshold per example, without shadow models.

A regressor learns, on NON-MEMBERS only, the quantile of the target's signal given the example, by the pinball loss
max(alpha·e, (alpha - 1)·e), e = signal - q(x). Score = signal(x) - q_{1 - false_positive_rate}(x), guess member where
it is positive. Five regressors, each fitted without a fifth of the non-members, are averaged and shifted so that the
left-out fifths keep the rate (cross-conformal; Romano, Patterson, Candes 2019, arXiv:1905.03222): a regressor alone
overfits and nearly doubles it. The non-members that were used for fitting are spent: judge the attack on others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import __version__
from ..foundation import InputError
from .arrays import as_float
from .result import NON_FINITE_TARGET, AttackScores, mark, status_array

FOLDS = 5


def quantile_regression(
    non_member_features: Any,
    non_member_signal: Any,
    features: Any,
    target_signal: Any,
    false_positive_rate: float = 0.05,
    seed: int = 0,
) -> AttackScores:
    """Scores (n,) from gradient-boosted quantile regressors (scikit-learn).

    non_member_features (k, …) and non_member_signal (k,), phi or hinge: for fitting, disjoint from the audited rows.
    features (n, …), target_signal (n,): the audited rows. Features are flattened; non-finite ones count as missing.
    Errors: InputError below ten expected exceedances (k · false_positive_rate < 10), where the quantile is noise.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.model_selection import KFold

    x_fit, signal_fit = _pair(non_member_features, non_member_signal, "non_member")
    x, signal = _pair(features, target_signal, "target")
    if x.shape[1] != x_fit.shape[1]:
        raise InputError(f"features have {x.shape[1]} columns and non_member_features {x_fit.shape[1]}")
    if not (0 < false_positive_rate < 1):
        raise InputError(f"false_positive_rate must lie in (0, 1), got {false_positive_rate!r}")
    usable = np.isfinite(signal_fit)
    if usable.sum() * min(false_positive_rate, 1 - false_positive_rate) < 10:
        raise InputError(
            f"{usable.sum()} non-members cannot fit a quantile at false_positive_rate {false_positive_rate}: "
            f"at least {int(np.ceil(10 / min(false_positive_rate, 1 - false_positive_rate)))} are needed"
        )
    x_fit, signal_fit = x_fit[usable], signal_fit[usable]
    thresholds, left_out = np.zeros(len(signal)), np.zeros(len(signal_fit))
    for train, test in KFold(FOLDS, shuffle=True, random_state=seed).split(x_fit):
        regressor = HistGradientBoostingRegressor(
            loss="quantile", quantile=1 - false_positive_rate, max_iter=60, max_leaf_nodes=8, random_state=seed
        ).set_params(early_stopping=False)
        regressor.fit(x_fit[train], signal_fit[train])
        left_out[test] = signal_fit[test] - regressor.predict(x_fit[test])
        thresholds += regressor.predict(x) / FOLDS
    # A regressor overfits its own rows: what the left-out rows exceed it by puts the rate right (conformal).
    rank = min(int(np.ceil((1 - false_positive_rate) * (len(left_out) + 1))), len(left_out)) - 1
    thresholds += np.sort(left_out)[rank]
    status = status_array(len(signal))
    bad = ~np.isfinite(signal)
    mark(status, bad, NON_FINITE_TARGET)
    scores = np.where(bad, np.nan, signal - thresholds)
    details = {
        "attack": "quantile_regression",
        "false_positive_rate": false_positive_rate,
        "fitted_on": len(signal_fit),
        "seed": seed,
        "coalmine": __version__,
    }
    return AttackScores(scores, status, details)


def _pair(features: Any, signal: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    x = as_float(features, f"{name}_features").astype(np.float64)
    s = as_float(signal, f"{name}_signal", 1).astype(np.float64)
    if x.ndim == 0 or len(x) != len(s):
        raise InputError(f"{name}_features {x.shape} and {name}_signal {s.shape} must have one row an example")
    x = x.reshape(len(x), -1)
    x[~np.isfinite(x)] = np.nan
    return x, s
