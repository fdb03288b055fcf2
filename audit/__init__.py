"""Conclude: claims, scores and membership in; verdicts, estimates and their validity out.

The names below are what Python users call; each loads on first use, so that auditing scores costs no torch import.
Theory is in `coalmine.audit.bounds`, what scores prove in `coalmine.audit.estimators`, training in
`coalmine.audit.training`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .attack.attack_model import attack_model
    from .attack.result import AttackResult
    from .evaluate import evaluate_canaries
    from .feeding import Feeding
    from .planning.power import canaries_needed, detection_power, reach
    from .planning.selftest import selftest
    from .repeat import repeat_training
    from .score import score_canaries
    from .training.run_record import RunRecord, load_run
    from .verdict.claim import Claim, load_claim
    from .verdict.facts import ThreatModel
    from .verdict.input import AuditInput, read_evidence
    from .verdict.judge import Evidence, audit, judge
    from .verdict.repeated import judge_repeated
    from .verdict.result import AuditResult
    from .verdict.score_record import ScoreRecord, save_scores
    from .verdict.scores import load_scores
    from .verdict.settings import AuditSettings
    from .white_box import CheckResult, CheckSettings, check

__all__ = [
    "AttackResult",
    "AuditInput",
    "AuditResult",
    "AuditSettings",
    "CheckResult",
    "CheckSettings",
    "Claim",
    "Evidence",
    "Feeding",
    "RunRecord",
    "ScoreRecord",
    "ThreatModel",
    "attack_model",
    "audit",
    "canaries_needed",
    "check",
    "detection_power",
    "evaluate_canaries",
    "judge",
    "judge_repeated",
    "load_claim",
    "load_run",
    "load_scores",
    "reach",
    "read_evidence",
    "repeat_training",
    "save_scores",
    "score_canaries",
    "selftest",
]
_HOMES = {
    "AttackResult": "attack.result",
    "AuditInput": "verdict.input",
    "AuditResult": "verdict.result",
    "AuditSettings": "verdict.settings",
    "CheckResult": "white_box",
    "CheckSettings": "white_box",
    "Claim": "verdict.claim",
    "Evidence": "verdict.judge",
    "Feeding": "feeding",
    "RunRecord": "training.run_record",
    "ScoreRecord": "verdict.score_record",
    "ThreatModel": "verdict.facts",
    "attack_model": "attack.attack_model",
    "audit": "verdict.judge",
    "canaries_needed": "planning.power",
    "check": "white_box",
    "detection_power": "planning.power",
    "evaluate_canaries": "evaluate",
    "judge": "verdict.judge",
    "judge_repeated": "verdict.repeated",
    "load_claim": "verdict.claim",
    "load_run": "training.run_record",
    "load_scores": "verdict.scores",
    "reach": "planning.power",
    "read_evidence": "verdict.input",
    "repeat_training": "repeat",
    "save_scores": "verdict.score_record",
    "score_canaries": "score",
    "selftest": "planning.selftest",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
