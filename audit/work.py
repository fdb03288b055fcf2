"""Where and how many models are trained: a folder of shards, processes, a part of the whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Work:
    """Where and how the models are trained: shards in `folder`; see `run_shadows`."""

    folder: Path
    seed: int = 0
    chunk: int = 8
    jobs: int = 1
    backend: str = "loky"
    span: tuple[int, int] | None = None
    advance: Callable[[], None] | None = field(default=None, compare=False)
