"""Read audit.json: everything that a report shows, checked field by field before anything is drawn.

A file may come from another machine, another version or another person. A field that is missing or impossible is
an InputError that names the file, the field and the value; fields that this version does not know are kept, not
refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..foundation import InputError, read_json
from ..foundation.fields import Fields, clean, shown

SCHEMA_VERSION = 1
VERDICTS = ("rejected", "not_rejected", "no_power", "no_claim")
CLASSES = ("A", "B", "C", "Bayesian", "none")


@dataclass(frozen=True)
class Bounds:
    """What theory promises for one quantity: a closed form (where there is one) and an interval around the exact."""

    closed_form: float | None
    lower: float | None
    upper: float | None
    delta: float | None = None

    @property
    def promised(self) -> float | None:
        """The smallest number that theory proves an upper bound."""
        known = [value for value in (self.closed_form, self.upper) if value is not None]
        return min(known) if known else None


@dataclass(frozen=True)
class Claim:
    mechanism: Mapping[str, Any]
    adjacency: str
    membership: str
    accuracy: Bounds | None
    epsilon: Bounds | None


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


@dataclass(frozen=True)
class Estimate:
    name: str
    quantity: str
    value: float | None
    interval: tuple[float | None, float | None] | None
    validity: str  # "class" in the file: A, B, C, Bayesian or none
    confidence: float | None
    delta: float | None
    note: str


@dataclass(frozen=True)
class OperatingPoint:
    """The true-positive rate at one fixed false-positive rate, or the reason why it is refused."""

    false_positive_rate: float
    true_positive_rate: float | None
    interval: tuple[float | None, float | None] | None
    counts: tuple[int, int, int, int] | None  # tp, fp, fn, tn
    refused: str | None


@dataclass(frozen=True)
class Band:
    false_positive_rate: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    confidence: float | None
    validity: str


@dataclass(frozen=True)
class Roc:
    false_positive_rate: tuple[float, ...]
    true_positive_rate: tuple[float, ...]
    auc: float | None
    auc_interval: tuple[float | None, float | None] | None
    validity: str
    confidence: float | None
    operating_points: tuple[OperatingPoint, ...]
    band: Band | None


@dataclass(frozen=True)
class Histogram:
    edges: tuple[float, ...]
    members: tuple[float, ...]
    non_members: tuple[float, ...]


@dataclass(frozen=True)
class Repeated:
    """Independent runs that were judged together: each run's own p-value and bound, and how far apart they lie."""

    runs: int
    design: str  # all_canaries: every run tossed coins for all of them; one_canary: one each
    p_values: tuple[float, ...]
    epsilon_lower_bounds: tuple[float, ...]
    correct_of_all: tuple[int, ...]  # of all canaries of each run; the three are empty where the file has none
    over_dispersion: float | None  # variance between runs over the binomial one
    over_dispersion_p_value: float | None


@dataclass(frozen=True)
class Audit:
    label: str
    labelled: bool  # by the file itself; else the label is taken from the file's place
    created: str
    claim: Claim | None
    run: Mapping[str, Any] | None
    threat_model: Mapping[str, Any]
    counts: Counts
    guess_rule: Mapping[str, Any]
    estimates: tuple[Estimate, ...]
    p_value: float | None
    p_value_class: str | None
    alpha: float
    verdict: str
    verdict_text: str
    remarks: tuple[str, ...]
    membership: str
    power: Mapping[str, Any]
    roc: Roc | None
    histogram: Histogram | None
    versions: Mapping[str, Any]
    repeated: Repeated | None
    source: str

    def estimate(self, quantity: str) -> Estimate | None:
        """The first estimate of that quantity that has a value: the file's order is the audit's."""
        return next((e for e in self.estimates if e.quantity == quantity and e.value is not None), None)

    @property
    def fair_coins(self) -> bool:
        """Whether membership was decided by coins: without them every number is a metric and none is a bound."""
        return self.membership == "coins"

    @property
    def judged(self) -> bool:
        """Whether a claim was tested: without fair coins no test of it is valid, which is not a lack of canaries."""
        return self.verdict in ("rejected", "not_rejected") or self.p_value is not None


def read_audits(audits: Sequence[str | Path | Mapping[str, Any]]) -> tuple[Audit, ...]:
    """Read all before drawing any. A label that occurs twice is told apart by a number."""
    if isinstance(audits, str | Path | Mapping):
        audits = [audits]
    if not audits:
        raise InputError("audits is empty: name at least one audit.json")
    read = [read_audit(audit) for audit in audits]
    seen: dict[str, int] = {}
    named = []
    for audit in read:
        seen[audit.label] = seen.get(audit.label, 0) + 1
        again = seen[audit.label]
        named.append(audit if again == 1 else replace(audit, label=f"{audit.label} ({again})"))
    return tuple(named)


def read_audit(audit: str | Path | Mapping[str, Any]) -> Audit:
    """One audit from its file or from the same content as a dictionary. Errors: InputError."""
    if isinstance(audit, Mapping):
        content, source, name = audit, "audit", "unnamed audit"
    else:
        content, source = read_json(audit, "audit file"), f"audit file {str(audit)!r}"
        name = _name_from_place(Path(audit).absolute())
    if not isinstance(content, Mapping):
        raise InputError(f"{source} holds {shown(content)} where an object is needed: give coalmine audit's audit.json")
    if other := _other_file(content):
        raise InputError(f"{source} is {other}, not an audit.json: give what coalmine audit --output wrote")
    return _audit(Fields(content, source), name)


def _name_from_place(path: Path) -> str:
    """runs/before.json is "before"; runs/before/audit.json too."""
    return clean(path.stem if path.stem != "audit" else path.parent.name) or "unnamed audit"


def _other_file(content: Mapping[str, Any]) -> str | None:
    """What another file of coalmine's is, in words, or None."""
    if "verdict" in content or "counts" in content:
        return None
    if "attacks" in content and "shadows" in content:
        return "a summary of coalmine lira"
    if "mechanism" in content:
        return "a run record" if "finished" in content or "clipping_norm" in content else "a claim"
    return "a coins file" if "member" in content else None


def _audit(top: Fields, name: str) -> Audit:
    version = top.content.get("schema_version")
    if isinstance(version, bool) or version != SCHEMA_VERSION:
        raise top.error("schema_version", f"{SCHEMA_VERSION}", version, "write the audit again with this coalmine")
    counts = _counts(top.fields("counts"))
    claim = top.fields("claim", optional=True)
    roc = top.fields("roc", optional=True)
    histogram = top.fields("histogram", optional=True)
    run = top.fields("run", optional=True)
    verdict = top.one_of("verdict", VERDICTS)
    if verdict != "no_claim" and claim is None:
        raise top.error("claim", f"an object where verdict is {verdict!r}", None, "judge it again with a claim")
    given = "coins" if claim is None else claim.text("membership", default="unknown")
    return Audit(
        label=top.text("label") or name,
        labelled=bool(top.text("label")),
        created=top.text("created", default=""),
        claim=None if claim is None else _claim(claim),
        run=None if run is None else run.content,
        threat_model=top.mapping("threat_model"),
        counts=counts,
        guess_rule=top.mapping("guess_rule"),
        estimates=tuple(_estimate(one) for one in top.list_of_fields("estimates")),
        p_value=top.number("p_value", 0, 1, optional=True),
        p_value_class=top.one_of("p_value_class", CLASSES) if "p_value_class" in top.content else None,
        alpha=top.number("alpha", 0, 1) or 0.0,
        verdict=verdict,
        verdict_text=top.text("verdict_text", default=""),
        remarks=top.texts("remarks"),
        membership=top.text("membership", default="") or given,
        power=top.mapping("power"),
        roc=None if roc is None else _roc(roc),
        histogram=None if histogram is None else _histogram(histogram),
        versions=top.mapping("versions"),
        repeated=_repeated(top.fields("repeated", optional=True)),
        source=top.source,
    )


def _claim(fields: Fields) -> Claim:
    mechanism = fields.fields("mechanism")
    assert mechanism is not None
    return Claim(
        mechanism=mechanism.content,
        adjacency=fields.text("adjacency", default="unstated"),
        membership=fields.text("membership", default="unknown"),
        accuracy=_bounds(fields.fields("accuracy", optional=True), 1.0),
        epsilon=_bounds(fields.fields("epsilon", optional=True), math.inf),
    )


def _bounds(fields: Fields | None, most: float) -> Bounds | None:
    if fields is None:
        return None
    closed_form, lower, upper = (
        fields.number(name, 0, most, optional=True) for name in ("closed_form", "lower", "upper")
    )
    if lower is not None and upper is not None and lower > upper:
        raise fields.error("lower", f"at most upper ({upper})", lower)
    return Bounds(closed_form, lower, upper, fields.number("delta", 0, 1, optional=True))


def _counts(fields: Fields | None) -> Counts:
    assert fields is not None
    absent = {name for name in ("all_guesses", "all_correct") if fields.content.get(name) is None}
    counts = Counts(**{name: fields.whole(name) for name in Counts.__dataclass_fields__ if name not in absent})
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


def _repeated(fields: Fields | None) -> Repeated | None:
    if fields is None:
        return None
    runs = fields.whole("runs")
    spread = fields.fields("over_dispersion", optional=True)

    def one_each(name: str, most: float) -> tuple[float, ...]:
        values = fields.content.get(name)
        absent = values is None or (isinstance(values, list | tuple) and None in values)
        return () if absent else fields.numbers(name, 0, most, length=runs)

    return Repeated(
        runs=runs,
        design=fields.text("design", default=""),
        p_values=one_each("p_values", 1),
        epsilon_lower_bounds=one_each("epsilon_lower_bounds", math.inf),
        correct_of_all=tuple(int(count) for count in one_each("correct_of_all", 2**53)),
        over_dispersion=None if spread is None else spread.number("ratio", 0, optional=True),
        over_dispersion_p_value=None if spread is None else spread.number("p_value", 0, 1, optional=True),
    )


def _estimate(fields: Fields) -> Estimate:
    return Estimate(
        name=fields.text("name"),
        quantity=fields.text("quantity"),
        value=fields.number("value", optional=True),
        interval=fields.interval("interval"),
        validity=fields.one_of("class", CLASSES),
        confidence=fields.number("confidence", 0, 1, optional=True),
        delta=fields.number("delta", 0, 1, optional=True),
        note=fields.text("note", default=""),
    )


def _roc(fields: Fields) -> Roc:
    false_positive_rate = fields.numbers("false_positive_rate", 0, 1, rising=True)
    true_positive_rate = fields.numbers("true_positive_rate", 0, 1, length=len(false_positive_rate), rising=True)
    band = fields.fields("band", optional=True)
    return Roc(
        false_positive_rate=false_positive_rate,
        true_positive_rate=true_positive_rate,
        auc=fields.number("auc", 0, 1, optional=True),
        auc_interval=fields.interval("auc_interval"),
        validity=fields.one_of("class", CLASSES) if "class" in fields.content else "C",
        confidence=fields.number("confidence", 0, 1, optional=True),
        operating_points=tuple(_operating_point(one) for one in fields.list_of_fields("tpr_at_fpr", optional=True)),
        band=None if band is None else _band(band, false_positive_rate),
    )


def _operating_point(fields: Fields) -> OperatingPoint:
    names = ("tp", "fp", "fn", "tn")
    counted = all(fields.content.get(name) is not None for name in names)
    rate = fields.number("false_positive_rate", 0, 1)
    assert rate is not None
    return OperatingPoint(
        false_positive_rate=rate,
        true_positive_rate=fields.number("true_positive_rate", 0, 1, optional=True),
        interval=fields.interval("interval"),
        counts=tuple(fields.whole(name) for name in names) if counted else None,  # type: ignore[arg-type]
        refused=fields.text("refused", default="") or None,
    )


def _band(fields: Fields, false_positive_rate: tuple[float, ...]) -> Band:
    own = fields.numbers("false_positive_rate", 0, 1) if "false_positive_rate" in fields.content else ()
    rates = own or false_positive_rate
    return Band(
        false_positive_rate=rates,
        lower=fields.numbers("lower", 0, 1, length=len(rates)),
        upper=fields.numbers("upper", 0, 1, length=len(rates)),
        confidence=fields.number("confidence", 0, 1, optional=True),
        validity=fields.one_of("class", CLASSES) if "class" in fields.content else "C",
    )


def _histogram(fields: Fields) -> Histogram | None:
    edges = fields.numbers("edges", rising=True)
    if len(edges) < 2:
        return None  # no defined score, so nothing to count
    bins = len(edges) - 1
    return Histogram(edges, fields.numbers("members", 0, length=bins), fields.numbers("non_members", 0, length=bins))
