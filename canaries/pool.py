"""The pool: the training data canaries are made from, checked once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..foundation import InputError
from .canary_set import CanarySet
from .columns import Columns, columns_of


@dataclass(frozen=True, eq=False)
class Pool:
    """x (n, …) float32 finite, y (n,) int64 below classes, value_range (lowest, highest) or None where the features
    have no common range, fingerprint of the data. `allowed` (n,) bool: rows that may become canaries."""

    x: np.ndarray
    y: np.ndarray
    classes: int
    value_range: tuple[float, float] | None = None
    fingerprint: str = ""
    allowed: np.ndarray | None = None
    fixed: tuple[int, ...] = ()
    columns: Columns = field(init=False)

    def __post_init__(self) -> None:
        # The rules for canaries are the rules for the rows they come from.
        rows = CanarySet(
            self.x, self.y, np.full(len(self.x), -1), "pool", {}, self.fingerprint, self.value_range, self.classes
        )
        object.__setattr__(self, "x", rows.x)
        object.__setattr__(self, "y", rows.y)
        allowed = np.ones(len(self.x), bool) if self.allowed is None else np.asarray(self.allowed)
        if allowed.dtype != np.bool_ or allowed.shape != (len(self.x),):
            raise InputError(f"allowed must be one boolean a row, got {allowed.dtype} of shape {allowed.shape}")
        object.__setattr__(self, "allowed", allowed)
        object.__setattr__(self, "columns", columns_of(self.x, self.value_range is None, self.fixed))

    def __len__(self) -> int:
        return len(self.y)

    def candidates(self) -> np.ndarray:
        """Row numbers that may become canaries."""
        assert self.allowed is not None
        return np.flatnonzero(self.allowed)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """(lowest, highest) valid value of each feature: the stated range, or else what each feature spans."""
        if self.value_range is not None:
            shape = self.x.shape[1:]
            return np.full(shape, self.value_range[0], np.float32), np.full(shape, self.value_range[1], np.float32)
        return self.x.min(axis=0), self.x.max(axis=0)

    def canary_set(
        self, x: np.ndarray, y: np.ndarray, source_index: np.ndarray, method: str, parameters: dict[str, Any]
    ) -> CanarySet:
        """A set of this pool's kind, its rows made legal (columns.py): natural rows are."""
        x = self.columns.legal(np.asarray(x))
        if self.fixed:
            parameters = parameters | {"fixed_columns": list(self.fixed)}
        return CanarySet(x, y, source_index, method, parameters, self.fingerprint, self.value_range, self.classes)

    def with_fixed(self, x: np.ndarray, stream: np.random.Generator) -> np.ndarray:
        """Made-up rows x (m, …), their fixed columns those of random rows; a copy only where there are any."""
        if not self.fixed:
            return x
        rows = self.x[stream.integers(len(self), size=len(x))]
        return np.where(self.columns.fixed, rows, x)


def distinct_rows(pool: Pool, count: int, stream: np.random.Generator) -> np.ndarray:
    """`count` different allowed rows, uniformly. Errors: InputError with both numbers when there are too few."""
    candidates = pool.candidates()
    if count > len(candidates):
        raise InputError(f"count is {count}, the pool has {len(candidates)} rows to choose from: ask for fewer")
    return stream.choice(candidates, size=count, replace=False)
