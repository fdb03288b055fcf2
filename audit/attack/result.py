"""What an attack on a finished model found: frozen values, with the JSON they are kept in (attack.json, lira.json).

Metrics of an attack, no bound on epsilon: a higher score means "more likely a member", members are the positive class.
schema_version 1 was written before accuracy, examples, groups, curves and stability were kept; it is read as before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ...foundation import InputError
from ...foundation.fields import Fields

SCHEMA_VERSION = 2
DIRECTION = "higher score = more likely a member; members are the positive class"
BIASED = "threshold chosen on these labels: biased upwards, never to be held to a bound"
Interval = tuple[float, float]
Origin = Mapping[str, Any]  # free facts in words and numbers, shown and never computed with


@dataclass(frozen=True)
class OperatingPoint:
    """The TPR where at most `false_positive_rate` of the non-members are called members, or why there is none."""

    false_positive_rate: float
    true_positive_rate: float | None
    interval: Interval | None
    threshold: float | None
    tp: int
    fp: int
    fn: int
    tn: int
    positive_predictive_value: Mapping[str, float | None] | None  # by prior
    refused: str | None


@dataclass(frozen=True)
class AtThreshold:
    """Balanced accuracy of "member iff score >= threshold", the threshold fixed on a shadow model."""

    value: float
    interval: Interval
    threshold: float
    tp: int
    fp: int
    fn: int
    tn: int


@dataclass(frozen=True)
class Metrics:
    """Of one attack, over the pooled scores of all targets; intervals are class C."""

    members: int
    non_members: int
    undefined: int
    auc: float
    auc_interval: Interval
    balanced_accuracy: AtThreshold | None
    best_balanced_accuracy: float
    tpr_at_fpr: tuple[OperatingPoint, ...]
    confidence: float
    interval_method: str

    def at(self, false_positive_rate: float) -> OperatingPoint | None:
        """The operating point at that rate, if there is one and it was not refused."""
        found = [p for p in self.tpr_at_fpr if p.false_positive_rate == false_positive_rate and not p.refused]
        return found[0] if found else None


@dataclass(frozen=True)
class Curve:
    """An ROC with log-spaced points: (0, 0) … (1, 1)."""

    false_positive_rate: tuple[float, ...]
    true_positive_rate: tuple[float, ...]


@dataclass(frozen=True)
class Attack:
    """One attack of the table: its knobs, what became of the examples, and, where membership is known, its metrics."""

    name: str
    details: Origin
    status: Mapping[str, int]
    distinct_scores: tuple[int, ...]
    metrics: Metrics | None = None
    curve: Curve | None = None


@dataclass(frozen=True)
class OwnAccuracy:
    """How many labels the target gets right, on its own training rows and on the others; the check that it was fed
    what it was trained on. majority: the share of the most frequent class among its own rows."""

    members: int
    members_right: int
    non_members: int
    non_members_right: int
    majority: float

    @property
    def on_members(self) -> float:
        return self.members_right / self.members

    @property
    def on_non_members(self) -> float:
        return self.non_members_right / self.non_members


@dataclass(frozen=True)
class Example:
    """One row of the table of who is at risk. false_positive_rate: share of non-members that score as high or higher;
    picture: a small PNG as a data URI, where rows are images."""

    row: int
    name: str
    label: str
    member: bool
    score: float | None
    false_positive_rate: float | None
    status: str
    picture: str | None = None


@dataclass(frozen=True)
class Group:
    """How a group of examples fares: tpr is of its members at the one threshold that gives 1 % FPR over all rows."""

    column: str
    value: str
    members: int
    non_members: int
    auc: float | None
    auc_interval: Interval | None
    found: int | None  # members above the threshold
    false_alarms: int | None


@dataclass(frozen=True)
class Stability:
    """The chosen attack with the first and with the second half of the shadows: how alike the two orders are.

    rank_correlation: Spearman's, over members with a score in both; in_both: how many of the `top` highest they share.
    """

    shadows: tuple[int, int]
    rank_correlation: float
    top: int
    in_both: int


@dataclass(frozen=True)
class Exposure:
    """What an attacker who allows `false_positive_rate` gets, if a share `prior` of those he asks about are members.

    found: members that he names, of all that were asked about here, with the interval of the TPR; false_alarms: others
    that he names beside them; precision: the share of members among all that he names.
    """

    prior: float
    false_positive_rate: float
    found: float
    found_interval: Interval
    false_alarms: float
    precision: float | None


@dataclass(frozen=True)
class AttackResult:
    """All of it. attack: the name of the one chosen beforehand; attacks: every one that applies, in table order."""

    attack: str
    origin: Origin
    shadows: int
    targets: int
    examples: int
    views: int
    attacks: tuple[Attack, ...]
    warnings: tuple[str, ...]
    not_a_bound: str
    held_out_accuracy_of_shadows: tuple[float | None, ...] | None = None
    held_out_accuracy_of_targets: tuple[float | None, ...] | None = None
    accuracy: OwnAccuracy | None = None
    at_risk: tuple[Example, ...] = ()
    groups: tuple[Group, ...] = ()
    stability: Stability | None = None
    exposures: tuple[Exposure, ...] = ()
    next_attack: str | None = None
    source: str = field(default="", compare=False)  # the file that it was read from

    @property
    def chosen(self) -> Attack:
        return next(one for one in self.attacks if one.name == self.attack)

    @property
    def metrics(self) -> Metrics | None:
        """Of the chosen attack."""
        return self.chosen.metrics

    def to_json(self) -> dict[str, Any]:
        content: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "attack": self.attack,
            "origin": dict(self.origin),
            "shadows": self.shadows,
            "targets": self.targets,
            "examples": self.examples,
            "views": self.views,
            "direction": DIRECTION,
            "attacks": {one.name: _attack_to_json(one) for one in self.attacks},
            "held_out_accuracy": {
                "shadows": _listed(self.held_out_accuracy_of_shadows),
                "targets": _listed(self.held_out_accuracy_of_targets),
            },
            "accuracy": None if self.accuracy is None else asdict(self.accuracy),
            "at_risk": [asdict(one) for one in self.at_risk],
            "groups": [{**asdict(one), "auc_interval": _listed(one.auc_interval)} for one in self.groups],
            "stability": None
            if self.stability is None
            else {**asdict(self.stability), "shadows": list(self.stability.shadows)},
            "exposures": [{**asdict(one), "found_interval": list(one.found_interval)} for one in self.exposures],
            "next_attack": self.next_attack,
            "warnings": list(self.warnings),
            "not_a_bound": self.not_a_bound,
        }
        return content

    @staticmethod
    def from_json(content: Any, source: str = "attack result") -> AttackResult:
        """Errors: InputError that names the file and the field."""
        if not is_attack_result(content):
            raise InputError(f"{source} is no attack.json or lira.json: write one by coalmine attack or coalmine lira")
        if content["schema_version"] not in (1, SCHEMA_VERSION):
            raise InputError(f"{source} has schema_version {content['schema_version']}: it needs a newer coalmine")
        try:
            result = _from_json(Fields(content, source), source)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"{source} is damaged ({type(error).__name__}: {error}): write it again by the command that made it"
            ) from None
        if result.attack not in {one.name for one in result.attacks}:
            raise InputError(f"{source}: the chosen attack {result.attack!r} is not among its attacks")
        return result


def is_attack_result(content: Any) -> bool:
    """Whether parsed JSON is of this kind: no other file of coalmine holds these keys."""
    return isinstance(content, Mapping) and {"schema_version", "attack", "attacks", "not_a_bound"} <= set(content)


def _attack_to_json(attack: Attack) -> dict[str, Any]:
    content: dict[str, Any] = {
        "details": dict(attack.details),
        "status": dict(attack.status),
        "distinct_scores": list(attack.distinct_scores),
    }
    if attack.metrics is not None:
        m = attack.metrics
        content["metrics"] = {
            **asdict(m),
            "auc_interval": list(m.auc_interval),
            "balanced_accuracy": None
            if m.balanced_accuracy is None
            else {
                **asdict(m.balanced_accuracy),
                "interval": list(m.balanced_accuracy.interval),
                "threshold_from": "a shadow model treated as the target",
            },
            "best_balanced_accuracy_note": BIASED,
            "tpr_at_fpr": [{**asdict(p), "interval": _listed(p.interval)} for p in m.tpr_at_fpr],
            "class": "C",
        }
    if attack.curve is not None:
        content["curve"] = {name: list(values) for name, values in asdict(attack.curve).items()}
    return content


def _from_json(fields: Fields, source: str) -> AttackResult:
    content = fields.content
    held_out = fields.mapping("held_out_accuracy")
    sections = fields.mapping("attacks")
    stability, accuracy = content.get("stability"), content.get("accuracy")
    return AttackResult(
        attack=fields.text("attack"),
        origin=dict(fields.mapping("origin")),
        shadows=fields.whole("shadows"),
        targets=fields.whole("targets"),
        examples=fields.whole("examples"),
        views=fields.whole("views"),
        attacks=tuple(_attack(name, Fields(one, source, f"attacks.{name}.")) for name, one in sections.items()),
        warnings=fields.texts("warnings"),
        not_a_bound=fields.text("not_a_bound"),
        held_out_accuracy_of_shadows=_tupled(held_out.get("shadows")),
        held_out_accuracy_of_targets=_tupled(held_out.get("targets")),
        accuracy=None if accuracy is None else OwnAccuracy(**accuracy),
        at_risk=tuple(Example(**one.content) for one in fields.list_of_fields("at_risk", optional=True)),
        groups=tuple(
            Group(**{**one.content, "auc_interval": _tupled(one.content["auc_interval"])})
            for one in fields.list_of_fields("groups", optional=True)
        ),
        stability=None if stability is None else Stability(**{**stability, "shadows": tuple(stability["shadows"])}),
        exposures=tuple(
            Exposure(**{**one.content, "found_interval": tuple(one.content["found_interval"])})
            for one in fields.list_of_fields("exposures", optional=True)
        ),
        next_attack=fields.text("next_attack") if content.get("next_attack") is not None else None,
        source=source,
    )


def _attack(name: str, fields: Fields) -> Attack:
    metrics, curve = fields.fields("metrics", optional=True), fields.fields("curve", optional=True)
    return Attack(
        name=name,
        details=dict(fields.mapping("details")),
        status=dict(fields.mapping("status")),
        distinct_scores=tuple(fields.content["distinct_scores"]),
        metrics=None if metrics is None else _metrics(metrics),
        curve=None
        if curve is None
        else Curve(
            curve.numbers("false_positive_rate", 0, 1, rising=True),
            curve.numbers("true_positive_rate", 0, 1, len(curve.content["false_positive_rate"]), rising=True),
        ),
    )


def _metrics(fields: Fields) -> Metrics:
    at = fields.fields("balanced_accuracy", optional=True)
    return Metrics(
        members=fields.whole("members"),
        non_members=fields.whole("non_members"),
        undefined=fields.whole("undefined"),
        auc=_number(fields, "auc"),
        auc_interval=_ends(fields, "auc_interval"),
        balanced_accuracy=None
        if at is None
        else AtThreshold(
            _number(at, "value"), _ends(at, "interval"), float(at.content["threshold"]),
            at.whole("tp"), at.whole("fp"), at.whole("fn"), at.whole("tn"),
        ),
        best_balanced_accuracy=_number(fields, "best_balanced_accuracy"),
        tpr_at_fpr=tuple(_point(one) for one in fields.list_of_fields("tpr_at_fpr")),
        confidence=_number(fields, "confidence"),
        interval_method=fields.text("interval_method"),
    )  # fmt: skip


def _point(fields: Fields) -> OperatingPoint:
    refused = fields.content["refused"]
    return OperatingPoint(
        _number(fields, "false_positive_rate"),
        fields.number("true_positive_rate", 0, 1, optional=True),
        None if fields.content["interval"] is None else _ends(fields, "interval"),
        fields.number("threshold", optional=True),
        fields.whole("tp"),
        fields.whole("fp"),
        fields.whole("fn"),
        fields.whole("tn"),
        fields.content["positive_predictive_value"],
        None if refused is None else fields.text("refused"),
    )


def _number(fields: Fields, name: str) -> float:
    value = fields.number(name, 0, 1)
    assert value is not None
    return value


def _ends(fields: Fields, name: str) -> Interval:
    low, high = fields.numbers(name, 0, 1, length=2, rising=True)
    return low, high


def _listed(values: tuple[float | None, ...] | None) -> list[float | None] | None:
    return None if values is None else list(values)


def _tupled(values: Any) -> Any:
    return None if values is None else tuple(values)
