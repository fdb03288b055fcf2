"""A comparison as the page shows it: the measured numbers, and theory's curves over the whole range of one parameter.

From the table of `coalmine compare`, or from many audits. Nothing is estimated here: measured numbers and their
intervals come from the files, curves from audit.bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..audit.compare.grid import mechanism_of
from ..audit.verdict.result import AuditResult
from ..foundation import InputError

AXES = ("noise_multiplier", "epochs", "steps_per_epoch")
POINTS = {"attack_accuracy": 121, "epsilon": 61}
MOST_STEPS = 20_000  # of an epoch and of a run, for a curve: one point then costs up to a second
MOST_FAMILIES = 6  # drawn; the table and the csv hold all
REACH = 2.0  # of the curve beyond the smallest and the largest value that was run


@dataclass(frozen=True)
class Point:
    """One measured number. `run`: None for all runs of a training judged together, or for an audit."""

    label: str
    training: tuple[str, int, int]  # sampler, M, E
    noise_multiplier: float
    access: str
    attack: str
    run: int | None
    quantity: str
    value: float
    lower: float | None
    upper: float | None
    validity: str
    n: int | None
    confidence: float | None
    delta: float | None
    bound: tuple[float | None, float | None, float | None]  # closed form, certified lower and upper
    share: float | None

    def at(self, axis: str) -> float:
        named = {"noise_multiplier": self.noise_multiplier, "steps_per_epoch": self.training[1]}
        return float(named.get(axis, self.training[2]))

    @property
    def series(self) -> str:
        return f"{self.access.replace('_', ' ')}, {self.attack.replace('_', ' ')}"


@dataclass(frozen=True)
class Family:
    """Points that differ along one axis of theory: one figure a quantity. `fixed`: the training, None on the axis."""

    axis: str
    fixed: tuple[str, float | None, float | None, float | None]  # sampler, M, E, noise multiplier
    points: tuple[Point, ...]

    @property
    def name(self) -> str:
        sampler, *numbers = self.fixed
        told = [f"{short} = {value:g}" for short, value in zip(("M", "E", "σ"), numbers, strict=True) if value]
        return ", ".join([sampler.replace("_", " "), *told])

    def of(self, quantity: str) -> tuple[Point, ...]:
        return tuple(point for point in self.points if point.quantity == quantity)


@dataclass(frozen=True, eq=False)
class Line:
    """Theory along the axis: the closed form (NaN where there is none) and the certified interval, at many points."""

    axis: str
    quantity: str
    values: np.ndarray
    closed_form: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def points_of_table(rows: Iterable[Mapping[str, Any]]) -> tuple[Point, ...]:
    """Errors: InputError for a row without a number where one is needed."""
    found = []
    for place, row in enumerate(rows, 2):
        for name in ("sampler", "steps_per_epoch", "epochs", "noise_multiplier", "quantity"):
            if row.get(name) is None:
                raise InputError(f"line {place} of the comparison has no {name}: give a table of coalmine compare")
        if row.get("value") is None:
            continue
        found.append(
            Point(
                label=", ".join(str(row[k]).replace("_", " ") for k in ("model", "canary_method") if row.get(k)),
                training=(row["sampler"], row["steps_per_epoch"], row["epochs"]),
                noise_multiplier=row["noise_multiplier"],
                access=row["access"],
                attack=row.get("score") or "",
                run=row.get("run"),
                quantity=row["quantity"],
                value=row["value"],
                lower=row.get("lower"),
                upper=row.get("upper"),
                validity=row.get("class") or "none",
                n=row.get("n"),
                confidence=row.get("confidence"),
                delta=row.get("delta"),
                bound=(row.get("bound_closed_form"), row.get("bound_lower"), row.get("bound_upper")),
                share=row.get("share"),
            )
        )  # fmt: skip
    return tuple(found)


def points_of_audits(audits: Sequence[AuditResult]) -> tuple[Point, ...]:
    """Audits with a claim that has steps and noise; others have no place on the axis and are left out."""
    found = []
    for audit in audits:
        record = {} if audit.claim is None else audit.claim.record
        noise, steps, epochs = (record.get(name) for name in ("noise_multiplier", "steps_per_epoch", "epochs"))
        name = str(record.get("name"))
        if name == "poisson" and record.get("sampling_rate"):
            steps = round(1 / record["sampling_rate"])
            epochs = max(1, round(record.get("steps", steps) / steps))
        if audit.claim is None or not (noise and steps and epochs):
            continue
        for quantity, bounds, nothing in (
            ("attack_accuracy", audit.claim.accuracy, 0.5),
            ("epsilon", audit.claim.epsilon, 0.0),
        ):
            one = audit.estimate(quantity)
            if one is None or one.value is None:
                continue
            allowed = (None, None, None) if bounds is None else (bounds.closed_form, bounds.lower, bounds.upper)
            top = allowed[2]
            low, high = one.interval or ((one.value, None) if quantity == "epsilon" else (None, None))
            found.append(
                Point(
                    label=audit.label,
                    training=(name, int(steps), int(epochs)),
                    noise_multiplier=float(noise),
                    access=audit.threat_model.access,
                    attack=audit.threat_model.score or "",
                    run=None,
                    quantity=quantity,
                    value=one.value,
                    lower=low,
                    upper=high,
                    validity=one.validity,
                    n=audit.counts.all_guesses if quantity == "attack_accuracy" else audit.counts.guesses,
                    confidence=one.confidence,
                    delta=one.delta,
                    bound=allowed,
                    share=None if not top or top <= nothing else (one.value - nothing) / (top - nothing),
                )
            )
    return tuple(found)


def families(points: Sequence[Point]) -> tuple[Family, ...]:
    """The parameter with the most values is the axis; every combination of the others is a family."""
    if not points:
        return ()
    axis = max(AXES, key=lambda name: len({point.at(name) for point in points}))
    groups: dict[tuple[Any, ...], list[Point]] = {}
    for point in points:
        fixed = [None if name == axis else point.at(name) for name in ("steps_per_epoch", "epochs", "noise_multiplier")]
        groups.setdefault((point.training[0], *fixed), []).append(point)
    return tuple(Family(axis, key, tuple(group)) for key, group in groups.items())  # type: ignore[arg-type]


def line(family: Family, quantity: str, delta: float = 1e-5) -> Line | None:
    """Theory for a family's quantity, from REACH below its smallest value to REACH above its largest; None for
    mechanisms too long for a curve."""
    at = [point.at(family.axis) for point in family.points]
    return _line(family.axis, family.fixed, quantity, min(at) / REACH, max(at) * REACH, delta)


@lru_cache(maxsize=256)
def _line(
    axis: str, fixed: tuple[str, float | None, float | None, float | None], quantity: str, low: float, high: float,
    delta: float,
) -> Line | None:  # fmt: skip
    values = np.geomspace(low, high, POINTS[quantity])
    if axis != "noise_multiplier":
        values = np.unique(np.maximum(1, np.round(values)))
    rows = []
    for value in values:
        sampler, *numbers = fixed
        steps, epochs, noise = (value if one is None else one for one in numbers)
        if steps > MOST_STEPS or epochs > MOST_STEPS:
            return None
        try:
            mechanism = mechanism_of(sampler, int(steps), int(epochs), float(noise))
        except InputError:
            return None
        if quantity == "epsilon":
            interval = mechanism.epsilon(delta)
            rows.append((math.nan, float(interval.lower), float(interval.upper)))
            continue
        closed = float(mechanism.accuracy_bound())
        # an interval as fine as the line is high: at large noise a width of 1e-3 would be all there is to see
        width = min(1e-3, max(1e-6, 0.01 * (closed - 0.5)))
        interval = mechanism.accuracy(width=width)
        rows.append((closed, float(interval.lower), float(min(interval.upper, closed))))
    table = np.array(rows).T
    return Line(axis, quantity, values, *table)
