"""Where the theorem promises nothing: how far each parameter alone would have to move until it does."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

from .calculator import Question, feasible

WHOLE = ("records", "sample_size")
FARTHEST = 2.0**20  # times, in either direction
STEP = 2.0**0.25


@dataclass(frozen=True)
class Nearest:
    """The feasible value of `parameter` nearest to `asked` by ratio, all others as asked; None: none within 2^20."""

    parameter: str
    asked: float
    value: float | None

    def to_json(self) -> dict[str, Any]:
        return {"parameter": self.parameter, "asked": self.asked, "nearest_feasible": self.value}


def nearest_feasible(question: Question) -> tuple[Nearest, ...]:
    """One for each parameter that was asked, and for delta."""
    given = ["records", "epochs", "epsilon", "sample_size", "noise_multiplier"]
    given = [name for name in given if getattr(question, name) is not None]
    asked = {name: float(getattr(question, name)) for name in given}
    asked["delta"] = 1 / question.records if question.delta is None else question.delta
    if question.theta > 1:
        asked["theta"] = question.theta
    return tuple(Nearest(name, value, _solve(question, name, value)) for name, value in asked.items())


def _solve(question: Question, name: str, asked: float) -> float | None:
    """Outwards in both directions by small ratios until one is feasible, then bisection back towards `asked`."""
    whole = name in WHOLE or (name == "epochs" and asked == int(asked))
    delta = {"delta": 1 / question.records} if question.delta is None and name == "records" else {}

    def holds(value: float) -> bool:
        if not value > 0 or (name == "delta" and value >= 1):
            return False
        changed: dict[str, Any] = {name: int(value) if whole else value}
        return feasible(replace(question, **(delta | changed)))

    for turn in range(1, round(math.log(FARTHEST, STEP)) + 1):
        for up in (True, False):
            far = _rounded(asked * STEP ** (turn if up else -turn), whole, up)
            if holds(far):
                near = _rounded(asked * STEP ** (turn - 1 if up else 1 - turn), whole, up)
                return _bisect(holds, near, far, whole, up)
    return None


def _bisect(holds: Callable[[float], bool], near: float, far: float, whole: bool, up: bool) -> float:
    for _ in range(60):
        middle = _rounded((near + far) / 2, whole, up)
        if middle in (near, far):
            break
        near, far = (near, middle) if holds(middle) else (middle, far)
    if whole:
        return far
    digits = Context(4, ROUND_CEILING if up else ROUND_FLOOR)
    short = float(digits.create_decimal(Decimal(repr(far))))
    return short if holds(short) else far


def _rounded(value: float, whole: bool, up: bool) -> float:
    return (math.ceil(value) if up else math.floor(value)) if whole else value
