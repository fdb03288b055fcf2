"""What is audited: data, models, samplers, the stacked DP-SGD engine, checkpoints and run records.

Names load on first use: a run record is read without torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .checkpoint import open_model
    from .data import Data, load_data
    from .engine import train_many
    from .models import build_model
    from .opacus_sampler import EmptyBatchCollate, RandomAllocationBatchSampler
    from .run import train_run, training_rows
    from .run_record import RunRecord, load_run
    from .settings import TrainingSettings

__all__ = [
    "Data",
    "EmptyBatchCollate",
    "RandomAllocationBatchSampler",
    "RunRecord",
    "TrainingSettings",
    "build_model",
    "load_data",
    "load_run",
    "open_model",
    "train_many",
    "train_run",
    "training_rows",
]
_HOMES = {
    "Data": "data",
    "EmptyBatchCollate": "opacus_sampler",
    "RandomAllocationBatchSampler": "opacus_sampler",
    "RunRecord": "run_record",
    "TrainingSettings": "settings",
    "build_model": "models",
    "load_data": "data",
    "load_run": "run_record",
    "open_model": "checkpoint",
    "train_many": "engine",
    "train_run": "run",
    "training_rows": "run",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
