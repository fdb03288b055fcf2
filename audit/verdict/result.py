"""audit.json: what an audit concluded, as a type. The one picture of that file: written, read and reported from here.

A file may come from another machine, another version or another person. A field that is missing or impossible is
an InputError that names the file, the field and the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...foundation import InputError, read_json, write_json
from ...foundation.fields import Fields, shown
from ..training.run_record import RunRecord
from .allowed import Allowed
from .curves import Histogram, Roc
from .estimate import CLASSES, Estimate
from .facts import Counts, Guessing, Reach, Repeated, ThreatModel
from .provenance import Provenance

SCHEMA_VERSION = 2
READ_VERSIONS = (1, 2)
VERDICTS = ("rejected", "not_rejected", "no_power", "no_claim")


@dataclass(frozen=True)
class AuditResult:
    """claim        what was claimed and what it allows; None where nothing was
    run          what was run, where a record was given
    provenance   which files this was made from, and which links between them were checked
    verdict      rejected | not_rejected | no_power (also: not judged) | no_claim
    """

    verdict: str
    counts: Counts
    estimates: tuple[Estimate, ...]
    alpha: float
    label: str = ""
    created: str = ""
    claim: Allowed | None = None
    run: RunRecord | None = None
    provenance: Provenance = field(default_factory=Provenance)
    threat_model: ThreatModel = field(default_factory=ThreatModel)
    guess_rule: Guessing = field(default_factory=lambda: Guessing("unstated"))
    membership: str = "coins"
    independence: str = "one_run"
    p_value: float | None = None
    p_value_class: str | None = None
    verdict_text: str = ""
    remarks: tuple[str, ...] = ()
    power: Reach = field(default_factory=Reach)
    roc: Roc | None = None
    histogram: Histogram | None = None
    repeated: Repeated | None = None
    versions: Mapping[str, Any] = field(default_factory=dict)

    def estimate(self, quantity: str) -> Estimate | None:
        """The first estimate of that quantity that has a value: the order is the audit's."""
        return next((e for e in self.estimates if e.quantity == quantity and e.value is not None), None)

    def named(self, name: str) -> Estimate | None:
        return next((e for e in self.estimates if e.name == name), None)

    @property
    def fair_coins(self) -> bool:
        """Whether membership was decided by coins: without them every number is a metric and none is a bound."""
        return self.membership == "coins"

    @property
    def judged(self) -> bool:
        """Whether a claim was tested: without fair coins no test of it is valid, which is not a lack of canaries."""
        return self.verdict in ("rejected", "not_rejected") or self.p_value is not None

    def to_json(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "label": self.label,
            "created": self.created,
            "claim": None if self.claim is None else self.claim.to_json(),
            "run": None if self.run is None else self.run.to_json(),
            "provenance": self.provenance.to_json(),
            "threat_model": asdict(self.threat_model),
            "counts": {name: value for name, value in asdict(self.counts).items() if value is not None},
            "guess_rule": self.guess_rule.to_json(),
            "membership": self.membership,
            "independence": self.independence,
            "estimates": [estimate.to_json() for estimate in self.estimates],
            "p_value": self.p_value,
            **({} if self.p_value_class is None else {"p_value_class": self.p_value_class}),
            "alpha": self.alpha,
            "verdict": self.verdict,
            "verdict_text": self.verdict_text,
            "remarks": list(self.remarks),
            "power": self.power.to_json(),
            "roc": None if self.roc is None else self.roc.to_json(),
            "histogram": None if self.histogram is None else self.histogram.to_json(),
            **({} if self.repeated is None else {"repeated": self.repeated.to_json()}),
            "versions": dict(self.versions),
        }

    @classmethod
    def from_json(cls, content: Any, source: str = "audit") -> AuditResult:
        """Errors: InputError that names the source, the field and the value."""
        if not isinstance(content, Mapping):
            raise InputError(f"{source} holds {shown(content)} where an object is needed: give an audit.json")
        if other := _other_file(content):
            raise InputError(f"{source} is {other}, not an audit.json: give what coalmine audit --output wrote")
        top = Fields(content, source)
        version = content.get("schema_version")
        if isinstance(version, bool) or version not in READ_VERSIONS:
            known = " or ".join(map(str, READ_VERSIONS))
            raise top.error("schema_version", known, version, "write the audit again with this coalmine")
        claim = top.fields("claim", optional=True)
        roc, histogram = (top.fields(name, optional=True) for name in ("roc", "histogram"))
        run = top.fields("run", optional=True)
        verdict = top.one_of("verdict", VERDICTS)
        if verdict != "no_claim" and claim is None:
            raise top.error("claim", f"an object where verdict is {verdict!r}", None, "judge it again with a claim")
        given = "coins" if claim is None else claim.text("membership", default="unknown")
        return cls(
            verdict=verdict,
            counts=Counts.from_json(top.fields("counts")),
            estimates=tuple(Estimate.from_json(one) for one in top.list_of_fields("estimates")),
            alpha=top.number("alpha", 0, 1) or 0.0,
            label=top.text("label"),
            created=top.text("created", default=""),
            claim=None if claim is None else Allowed.from_json(claim),
            run=None if run is None else _run(run),
            provenance=Provenance.from_json(top.fields("provenance", optional=True)),
            threat_model=ThreatModel.from_json(top.fields("threat_model", optional=True)),
            guess_rule=Guessing.from_json(top.fields("guess_rule", optional=True)),
            membership=top.text("membership", default="") or given,
            independence=top.text("independence", default="one_run"),
            p_value=top.number("p_value", 0, 1, optional=True),
            p_value_class=top.one_of("p_value_class", CLASSES) if "p_value_class" in content else None,
            verdict_text=top.text("verdict_text", default=""),
            remarks=top.texts("remarks"),
            power=Reach.from_json(top.fields("power", optional=True)),
            roc=None if roc is None else Roc.from_json(roc),
            histogram=None if histogram is None else Histogram.from_json(histogram),
            repeated=Repeated.from_json(top.fields("repeated", optional=True)),
            versions=top.mapping("versions"),
        )

    def save(self, path: str | Path) -> None:
        write_json(path, self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> AuditResult:
        return cls.from_json(read_json(path, "audit file"), f"audit file {str(path)!r}")


def _run(fields: Fields) -> RunRecord | None:
    """The record inside an audit; an older file of repeated runs by a user's own training names no mechanism."""
    if "mechanism" not in fields.content:
        return None
    return RunRecord.from_json(fields.content, f"{fields.source}: run")


def _other_file(content: Mapping[str, Any]) -> str | None:
    """What another file of coalmine's is, in words, or None."""
    if "verdict" in content or "counts" in content:
        return None
    if "attacks" in content and "shadows" in content:
        return "a summary of coalmine lira"
    if "mechanism" in content:
        return "a run record" if "finished" in content or "clipping_norm" in content else "a claim"
    return "a coins file" if "member" in content else None
