"""Turn models into membership scores: one per example, higher = more likely a member, with a status each.

From arrays (numpy only): phi, log_confidence, hinge, loss, lira, rmia, base, … From torch modules: `query`, `shadows`.
Knows arrays, torch modules and an injected train_many(); nothing of canaries or of the audit.
"""

from __future__ import annotations

from .loss import global_threshold, loss
from .one_run import one_run
from .phi import hinge, log_confidence, phi, phi_from_probability
from .result import AttackScores

__all__ = [
    "AttackScores",
    "global_threshold",
    "hinge",
    "log_confidence",
    "loss",
    "one_run",
    "phi",
    "phi_from_probability",
]
