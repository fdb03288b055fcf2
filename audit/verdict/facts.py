"""The circumstances of an audit: what the attacker saw, what was counted, what could have been shown at most."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from ...foundation.fields import Fields


@dataclass(frozen=True)
class ThreatModel:
    """What the attacker saw and did; `insertion`: what the coin of a canary decided."""

    access: str = "black_box"
    score: str | None = None
    views: int = 1
    canary_kind: str = "example"
    canary_method: str | None = None
    insertion: str = "add_remove"

    @classmethod
    def from_json(cls, fields: Fields | None) -> ThreatModel:
        if fields is None:
            return cls()
        return cls(
            access=fields.text("access", default="black_box"),
            score=fields.optional_text("score"),
            views=fields.optional_whole("views") or 1,
            canary_kind=fields.text("canary_kind", default="example"),
            canary_method=fields.optional_text("canary_method"),
            insertion=fields.text("insertion", default="add_remove"),
        )


@dataclass(frozen=True)
class Counts:
    canaries: int
    members: int
    non_members: int
    guesses: int
    correct: int
    ties: int
    undefined: int
    all_guesses: int | None = None  # every canary guessed, also those that no test used; absent in older files
    all_correct: int | None = None

    @classmethod
    def from_json(cls, fields: Fields | None) -> Counts:
        assert fields is not None
        absent = {name for name in ("all_guesses", "all_correct") if fields.content.get(name) is None}
        counts = cls(**{name: fields.whole(name) for name in cls.__dataclass_fields__ if name not in absent})
        if counts.members + counts.non_members > counts.canaries:
            raise fields.error("canaries", "at least members + non_members", counts.canaries)
        if counts.guesses > counts.canaries:
            raise fields.error("guesses", f"at most canaries ({counts.canaries})", counts.guesses)
        if counts.correct > counts.guesses:
            raise fields.error("correct", f"at most guesses ({counts.guesses})", counts.correct)
        if counts.all_guesses is not None and counts.all_guesses > counts.canaries:
            raise fields.error("all_guesses", f"at most canaries ({counts.canaries})", counts.all_guesses)
        if counts.all_correct is not None and counts.all_correct > (counts.all_guesses or 0):
            raise fields.error("all_correct", f"at most all_guesses ({counts.all_guesses})", counts.all_correct)
        return counts


@dataclass(frozen=True)
class Guessing:
    """The guess rule as it was used, and what it counted at each of its numbers of guesses."""

    name: str
    highest: int | None = None
    lowest: int | None = None
    guess_counts: tuple[int, ...] = ()
    correct_counts: tuple[int, ...] = ()
    tested_canaries: int | None = None
    looks: int = 1
    sign: str = "check"

    def to_json(self) -> dict[str, Any]:
        record = {name: value for name, value in asdict(self).items() if value not in (None, ())}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in record.items()}

    @classmethod
    def from_json(cls, fields: Fields | None) -> Guessing:
        if fields is None:
            return cls("unstated")

        def counts(name: str) -> tuple[int, ...]:
            absent = fields.content.get(name) is None
            return () if absent else tuple(int(one) for one in fields.numbers(name, 0, 2**53))

        return cls(
            name=fields.text("name", default="unstated"),
            highest=fields.optional_whole("highest"),
            lowest=fields.optional_whole("lowest"),
            guess_counts=counts("guess_counts"),
            correct_counts=counts("correct_counts"),
            tested_canaries=fields.optional_whole("tested_canaries"),
            looks=fields.optional_whole("looks") or 1,
            sign=fields.text("sign", default="check"),
        )


@dataclass(frozen=True)
class Reach:
    """What this audit could have reported at most, had every guess been right; None where nothing was asked."""

    largest_reportable_epsilon: float | None = None
    smallest_reportable_p_value: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, fields: Fields | None) -> Reach:
        if fields is None:
            return cls()
        return cls(
            fields.number("largest_reportable_epsilon", optional=True),
            fields.number("smallest_reportable_p_value", 0, 1, optional=True),
        )


@dataclass(frozen=True)
class Repeated:
    """Independent runs that were judged together: each run's own p-value and bound, and how far apart they lie."""

    runs: int
    design: str  # all_canaries: every run tossed coins for all of them; one_canary: one each
    p_values: tuple[float, ...] = ()
    epsilon_lower_bounds: tuple[float, ...] = ()
    correct_of_all: tuple[int, ...] = ()  # of all canaries of each run; the three are empty where there are none
    over_dispersion: float | None = None  # variance between runs over the binomial one
    over_dispersion_p_value: float | None = None

    def to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {"runs": self.runs, "design": self.design}
        for name in ("p_values", "epsilon_lower_bounds", "correct_of_all"):
            if values := getattr(self, name):
                record[name] = list(values)
        if self.over_dispersion is not None:
            record["over_dispersion"] = {"ratio": self.over_dispersion, "p_value": self.over_dispersion_p_value}
        return record

    @classmethod
    def from_json(cls, fields: Fields | None) -> Repeated | None:
        if fields is None:
            return None
        runs = fields.whole("runs")
        spread = fields.fields("over_dispersion", optional=True)

        def one_each(name: str, most: float) -> tuple[float, ...]:
            values = fields.content.get(name)
            absent = values is None or (isinstance(values, list | tuple) and None in values)
            return () if absent else fields.numbers(name, 0, most, length=runs)

        return cls(
            runs=runs,
            design=fields.text("design", default=""),
            p_values=one_each("p_values", 1),
            epsilon_lower_bounds=one_each("epsilon_lower_bounds", math.inf),
            correct_of_all=tuple(int(count) for count in one_each("correct_of_all", 2**53)),
            over_dispersion=None if spread is None else spread.number("ratio", 0, optional=True),
            over_dispersion_p_value=None if spread is None else spread.number("p_value", 0, 1, optional=True),
        )
