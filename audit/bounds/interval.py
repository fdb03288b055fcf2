"""An interval that contains the exact value."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Interval:
    """[lower, upper], numbers or arrays of one shape. The exact value lies inside; nothing is said of where.

    remark: None where the width that was asked for is met; otherwise by how much it is missed, and why.
    """

    lower: float | NDArray[np.float64]
    upper: float | NDArray[np.float64]
    remark: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            value = getattr(self, name)
            object.__setattr__(self, name, value if isinstance(value, np.ndarray) and value.ndim else float(value))
        if not np.all(np.asarray(self.lower) <= np.asarray(self.upper)):
            raise ArithmeticError(f"an interval with lower > upper was computed: [{self.lower}, {self.upper}]")

    @property
    def width(self) -> Any:
        return self.upper - self.lower

    @property
    def midpoint(self) -> Any:
        return self.lower + (self.upper - self.lower) / 2

    def contains(self, value: Any) -> bool:
        return bool(np.all((np.asarray(self.lower) <= value) & (value <= np.asarray(self.upper))))

    def overlaps(self, other: Interval) -> bool:
        return bool(np.all((np.asarray(self.lower) <= other.upper) & (np.asarray(other.lower) <= self.upper)))

    @property
    def width_met(self) -> bool:
        return self.remark is None

    def remarked(self, remark: str | None) -> Interval:
        return replace(self, remark=remark)

    def intersection(self, other: Interval) -> Interval:
        """What two valid intervals for the same value say together."""
        if isinstance(self.lower, np.ndarray) or isinstance(other.lower, np.ndarray):
            return Interval(np.maximum(self.lower, other.lower), np.minimum(self.upper, other.upper))
        return Interval(max(self.lower, other.lower), min(self.upper, other.upper))

    def record(self) -> dict[str, Any]:
        def plain(value: Any) -> Any:
            return value.tolist() if isinstance(value, np.ndarray) else float(value)

        ends: dict[str, Any] = {"lower": plain(self.lower), "upper": plain(self.upper)}
        return ends if self.remark is None else {**ends, "remark": self.remark}
