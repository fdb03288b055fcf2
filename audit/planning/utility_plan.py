"""plan.json: a measured utility graph, the setting that it chose, and what the same budget buys otherwise.

The producer writes it with to_json, readers check it with from_json. It holds no times: the same request and seed give
the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from ...foundation import InputError
from ...foundation.fields import Fields
from .private_selection import SelectionPrice
from .setting import Setting

CONFIDENCE = 0.95
REMEDY = "write it with coalmine plan --measure"


@dataclass(frozen=True)
class MeanAccuracy:
    """Mean over independent seeds with its t interval: for these rows, over the randomness of training alone.

    low and high are None for a single seed.
    """

    mean: float
    low: float | None
    high: float | None
    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> MeanAccuracy:
        mean, n = fmean(values), len(values)
        if n < 2:
            return cls(mean, None, None, tuple(values))
        from scipy.stats import t

        half = float(t.ppf((1 + CONFIDENCE) / 2, n - 1)) * stdev(values) / math.sqrt(n)
        return cls(mean, mean - half, mean + half, tuple(values))

    def to_json(self) -> dict[str, Any]:
        interval = None if self.low is None else [self.low, self.high]
        return {"mean": self.mean, "interval": interval, "values": list(self.values)}

    @classmethod
    def from_fields(cls, fields: Fields) -> MeanAccuracy:
        low, high = fields.interval("interval") or (None, None)
        return cls(_number(fields, "mean", -1, 1), low, high, fields.numbers("values", -1, 1))


@dataclass(frozen=True)
class Point:
    """A setting, its noise for the budget, and its validation accuracy after the part of its run that it was given."""

    setting: Setting
    noise_multiplier: float
    epochs_done: int
    accuracy: MeanAccuracy

    @property
    def whole(self) -> bool:
        return self.epochs_done == self.setting.epochs

    def to_json(self) -> dict[str, Any]:
        return self.setting.to_json() | {
            "noise_multiplier": self.noise_multiplier,
            "epochs_done": self.epochs_done,
            "validation_accuracy": self.accuracy.to_json(),
        }

    @classmethod
    def from_fields(cls, fields: Fields) -> Point:
        return cls(
            _setting(fields),
            _number(fields, "noise_multiplier", 0),
            fields.whole("epochs_done"),
            MeanAccuracy.from_fields(_inner(fields, "validation_accuracy")),
        )


@dataclass(frozen=True)
class Arm:
    """The budget under one way of accounting: what was trained and its test accuracy over fresh seeds.

    lost: the chosen plan's accuracy less this one's, seed by seed. `reason` in place of all that where there is none.
    """

    name: str  # random_allocation, poisson, closed_form
    mechanism: Mapping[str, Any] | None = None
    setting: Setting | None = None
    accuracy: MeanAccuracy | None = None
    lost: MeanAccuracy | None = None
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "mechanism": None if self.mechanism is None else dict(self.mechanism),
            "setting": None if self.setting is None else self.setting.to_json(),
            "test_accuracy": None if self.accuracy is None else self.accuracy.to_json(),
            "lost": None if self.lost is None else self.lost.to_json(),
            "reason": self.reason,
        }

    @classmethod
    def from_fields(cls, fields: Fields) -> Arm:
        name, reason = fields.text("name"), fields.text("reason", "")
        if reason:
            return cls(name, reason=reason)
        return cls(
            name,
            fields.mapping("mechanism"),
            _setting(_inner(fields, "setting")),
            MeanAccuracy.from_fields(_inner(fields, "test_accuracy")),
            MeanAccuracy.from_fields(_inner(fields, "lost")),
        )


@dataclass(frozen=True)
class Effort:
    """Optimiser steps times models: of the search, of the fresh runs, and of a search that runs every setting whole."""

    search_steps: int
    fresh_steps: int
    full_grid_steps: int
    rounds: tuple[tuple[int, int], ...]  # (settings, turns of the last) of successive halving
    search_seeds: int
    fresh_seeds: int

    def to_json(self) -> dict[str, Any]:
        return {
            "search_steps": self.search_steps,
            "fresh_steps": self.fresh_steps,
            "full_grid_steps": self.full_grid_steps,
            "rounds": [list(one) for one in self.rounds],
            "search_seeds": self.search_seeds,
            "fresh_seeds": self.fresh_seeds,
        }

    @classmethod
    def from_fields(cls, fields: Fields) -> Effort:
        names = ("search_steps", "fresh_steps", "full_grid_steps")
        rounds = fields.content.get("rounds")
        pairs = [one for one in rounds if _is_pair(one)] if isinstance(rounds, list) else []
        if not isinstance(rounds, list) or not pairs or len(pairs) < len(rounds):
            raise fields.error("rounds", "a list of pairs of whole numbers", rounds)
        search, fresh, full = (fields.whole(name) for name in names)
        through = tuple((a, b) for a, b in pairs)
        return cls(search, fresh, full, through, fields.whole("search_seeds"), fields.whole("fresh_seeds"))


@dataclass(frozen=True)
class Source:
    """The data and the model that were measured."""

    data: str
    fingerprint: str
    records: int
    validation_records: int
    test_records: int
    public: bool
    model: str

    def to_json(self) -> dict[str, Any]:
        return {
            "data": self.data,
            "data_fingerprint": self.fingerprint,
            "records": self.records,
            "validation_records": self.validation_records,
            "test_records": self.test_records,
            "public": self.public,
            "model": self.model,
        }

    @classmethod
    def from_fields(cls, fields: Fields) -> Source:
        public = fields.boolean("public")
        if public is None:
            raise fields.error("public", "true or false", public)
        sizes = [fields.whole(name) for name in ("records", "validation_records", "test_records")]
        return cls(
            fields.text("data"), fields.text("data_fingerprint"), sizes[0], sizes[1], sizes[2], public,
            fields.text("model"),
        )  # fmt: skip


@dataclass(frozen=True)
class UtilityPlan:
    """All of plan.json. `points` best first, `arms` with the chosen plan's own (random_allocation) first."""

    source: Source
    target: Mapping[str, float]  # {"epsilon", "delta"} or {"accuracy"}
    points: tuple[Point, ...]
    arms: tuple[Arm, ...]
    effort: Effort
    price: SelectionPrice
    seed: int | None
    version: str

    @property
    def winner(self) -> Point:
        return self.points[0]

    @property
    def chosen(self) -> Arm:
        return self.arms[0]

    def claim(self) -> dict[str, Any]:
        """claim.json of the chosen run."""
        mechanism = dict(self.chosen.mechanism or {})
        return {"schema_version": 1, "mechanism": mechanism, "adjacency": "add_remove", "membership": "coins"}

    def command(self) -> str:
        """What trains the chosen setting."""
        s = self.winner.setting
        return (
            f"coalmine train --claim claim.json --data {self.source.data} --model {self.source.model} "
            f"--clipping-norm {s.clipping_norm!r} --learning-rate {s.learning_rate!r} --output runs/planned"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "schema_version": 1,
            "kind": "plan",
            "source": self.source.to_json(),
            "target": dict(self.target),
            "winner": self.winner.to_json(),
            "command": self.command(),
            "claim": self.claim(),
            "same_budget": [arm.to_json() for arm in self.arms],
            "selection_price": self.price.to_json(),
            "effort": self.effort.to_json(),
            "points": [point.to_json() for point in self.points],
            "seed": self.seed,
            "coalmine_version": self.version,
        }

    @classmethod
    def from_json(cls, content: Any, source: str = "plan") -> UtilityPlan:
        """Errors: InputError naming the field."""
        if not is_plan(content):
            raise InputError(f"{source} is no plan: its kind must be 'plan' and its schema_version 1; {REMEDY}")
        fields = Fields(content, source, remedy=REMEDY)
        told = fields.mapping("target")
        names = {"epsilon", "delta"} if "epsilon" in told else {"accuracy"}
        target = {name: _number(_inner(fields, "target"), name, 0) for name in sorted(names, reverse=True)}
        points = tuple(Point.from_fields(one) for one in fields.list_of_fields("points"))
        arms = tuple(Arm.from_fields(one) for one in fields.list_of_fields("same_budget"))
        if not points or not arms or arms[0].accuracy is None:
            raise fields.error("points and same_budget", "lists that begin with the chosen setting", None)
        seed = None if content.get("seed") is None else fields.whole("seed")
        return cls(
            Source.from_fields(_inner(fields, "source")),
            target,
            points,
            arms,
            Effort.from_fields(_inner(fields, "effort")),
            SelectionPrice.from_json(dict(_inner(fields, "selection_price").content)),
            seed,
            fields.text("coalmine_version"),
        )


def is_plan(content: Any) -> bool:
    return isinstance(content, Mapping) and content.get("kind") == "plan" and content.get("schema_version") == 1


def _inner(fields: Fields, name: str) -> Fields:
    found = fields.fields(name)
    assert found is not None
    return found


def _number(fields: Fields, name: str, least: float = -math.inf, most: float = math.inf) -> float:
    found = fields.number(name, least, most)
    assert found is not None
    return found


def _setting(fields: Fields) -> Setting:
    return Setting(
        max(1, fields.whole("steps_per_epoch")),
        max(1, fields.whole("epochs")),
        _number(fields, "clipping_norm", 1e-300),
        _number(fields, "learning_rate", 1e-300),
    )


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(type(one) is int and one >= 0 for one in value)
