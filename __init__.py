"""coalmine: privacy auditing for PyTorch.

canaries/  make examples that a model memorises      attacks/  turn models into membership scores
audit/     conclude: bounds (theory), estimators (evidence), training (what is audited), verdicts
reports/   draw bound against empirical

Sub-packages load on first use, so that `import coalmine` and `coalmine bound` cost no torch import.
"""

from __future__ import annotations

import importlib
from types import ModuleType

__version__ = "0.1.0"
__all__ = ["attacks", "audit", "canaries", "foundation", "reports"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
