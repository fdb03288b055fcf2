"""Look inside a DP trainer: run it on a probe, read its gradients and batches, say what contradicts its claim.

Names load on first use, so that the pytest plugin costs no torch import.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .finding import Finding
    from .inspect_trainer import check
    from .result import CheckResult
    from .runs import CheckSettings

__all__ = ["CheckResult", "CheckSettings", "Finding", "check"]
_HOMES = {"CheckResult": "result", "CheckSettings": "runs", "Finding": "finding", "check": "inspect_trainer"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
