"""Look inside a DP trainer: run it on a probe, read its gradients and batches, say what contradicts its claim."""

from __future__ import annotations

from .check import check
from .finding import Finding
from .result import CheckResult
from .runs import CheckSettings

__all__ = ["CheckResult", "CheckSettings", "Finding", "check"]
