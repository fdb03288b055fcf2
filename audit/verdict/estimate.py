"""One number that an audit reports: its value, its interval, what it assumes, and what it means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...foundation.fields import Fields

CLASSES = ("A", "B", "C", "runs", "Bayesian", "none")
Ends = tuple[float | None, float | None]


@dataclass(frozen=True)
class Estimate:
    """`validity` is the class of DESIGN's table, "class" in files; a bound is one-sided at `confidence`."""

    name: str
    quantity: str
    value: float | None
    interval: Ends | None = None
    validity: str = "none"
    confidence: float | None = None
    delta: float | None = None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "quantity": self.quantity,
            "value": self.value,
            "interval": None if self.interval is None else list(self.interval),
            "class": self.validity,
            "confidence": self.confidence,
            "delta": self.delta,
            "note": self.note,
        }

    @classmethod
    def from_json(cls, fields: Fields) -> Estimate:
        """Errors: InputError that names the field."""
        return cls(
            name=fields.text("name"),
            quantity=fields.text("quantity"),
            value=fields.number("value", optional=True),
            interval=fields.interval("interval"),
            validity=fields.one_of("class", CLASSES),
            confidence=fields.number("confidence", 0, 1, optional=True),
            delta=fields.number("delta", 0, 1, optional=True),
            note=fields.text("note", default=""),
        )
