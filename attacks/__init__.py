"""Turn models into membership scores: one per example, higher = more likely a member, with a status each.

From arrays (numpy only): phi, log_confidence, hinge, loss, lira, rmia, base, … From torch modules: `query`, `shadows`.
Knows arrays, torch modules and an injected train_many(); nothing of canaries or of the audit.
"""

from __future__ import annotations

from .attack_p import attack_p
from .attack_r import attack_r
from .base import base
from .calibrated_loss import calibrated_loss
from .lira import lira
from .lira_multivariate import lira_multivariate
from .loss import global_threshold, loss
from .midpoint import midpoint
from .one_run import one_run
from .phi import hinge, log_confidence, phi, phi_from_probability
from .quantile_regression import quantile_regression
from .result import AttackScores
from .rmia import rmia
from .white_box import every_step_ratio, fixed_bins_ratio, poisson_ratio, random_allocation_ratio

__all__ = [
    "AttackScores",
    "attack_p",
    "attack_r",
    "base",
    "calibrated_loss",
    "every_step_ratio",
    "fixed_bins_ratio",
    "global_threshold",
    "hinge",
    "lira",
    "lira_multivariate",
    "log_confidence",
    "loss",
    "midpoint",
    "one_run",
    "phi",
    "phi_from_probability",
    "poisson_ratio",
    "quantile_regression",
    "random_allocation_ratio",
    "rmia",
]
