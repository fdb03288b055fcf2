"""Show what audits found: one self-contained HTML page, its figures, and a block for a model card.

Everything here reads audit.json and draws. No statistic is computed here: measured numbers come from the file,
theory's curves from audit.bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .markdown import model_card
    from .page import write_report
    from .read import read_audit

__all__ = ["model_card", "read_audit", "write_report"]

_HOME = {"read_audit": "read", "model_card": "markdown", "write_report": "page"}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        import importlib

        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
