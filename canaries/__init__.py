"""Canaries: examples planted in the training data to be detected, and the coins that decide which are planted.

Make a set (`craft`), freeze it (`CanarySet.save`), draw membership (`draw_coins`), put the members in the training
data (`inject`). Nothing here knows of attacks or audits; models come from outside, as modules or through an injected
`train_many`. Names load on first use, so that reading a canary file costs no torch import.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .canary_set import CanarySet
    from .coins import Coins, commit, draw_coins, verify_commitment
    from .crafting import METHODS, craft
    from .injection import inject, remaining_rows

__all__ = [
    "METHODS",
    "CanarySet",
    "Coins",
    "commit",
    "craft",
    "draw_coins",
    "inject",
    "remaining_rows",
    "verify_commitment",
]
_HOMES = {
    "METHODS": "crafting",
    "CanarySet": "canary_set",
    "Coins": "coins",
    "commit": "coins",
    "craft": "crafting",
    "draw_coins": "coins",
    "inject": "injection",
    "remaining_rows": "injection",
    "verify_commitment": "coins",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
