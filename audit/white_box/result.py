"""What a check found, as one value and as check.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...foundation import InputError
from .finding import STATUSES, Finding

SCHEMA_VERSION = 1
Verdict = Literal["consistent", "differs", "violated"]


@dataclass(frozen=True)
class CheckResult:
    """claim: its JSON; supported: the mechanism that the observations would support, where the claim does not stand;
    figures: what the page draws."""

    trainer: str
    claim: Mapping[str, Any]
    verdict: Verdict
    findings: tuple[Finding, ...]
    alpha: float
    seed: int
    records: int
    seconds: float
    created: str
    supported: Mapping[str, Any] | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Finding:
        for finding in self.findings:
            if finding.name == name:
                return finding
        raise KeyError(name)

    @property
    def violated(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.status == "violated")

    @property
    def notable(self) -> tuple[Finding, ...]:
        """All but what passed or was not tested, the worst first."""
        found = [f for f in self.findings if f.status in ("violated", "differs", "warning")]
        return tuple(sorted(found, key=lambda f: -STATUSES.index(f.status)))

    def to_json(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": "check",
            "trainer": self.trainer,
            "claim": dict(self.claim),
            "verdict": self.verdict,
            "alpha": self.alpha,
            "seed": self.seed,
            "records": self.records,
            "seconds": self.seconds,
            "created": self.created,
            "findings": [finding.to_json() for finding in self.findings],
            "supported": None if self.supported is None else dict(self.supported),
            "figures": dict(self.figures),
            "versions": dict(self.versions),
        }

    @classmethod
    def from_json(cls, content: Any, what: str = "check file") -> CheckResult:
        """Errors: InputError that names the file and what is wrong."""
        if not isinstance(content, Mapping) or content.get("kind") != "check":
            raise InputError(f"{what} is not a check.json as `coalmine check --output` writes it")
        if content.get("schema_version") != SCHEMA_VERSION:
            raise InputError(
                f"{what} has schema_version {content.get('schema_version')!r}, {SCHEMA_VERSION} is read here"
            )
        try:
            findings = tuple(Finding.from_json(finding) for finding in content["findings"])
            rest = {k: v for k, v in content.items() if k not in ("schema_version", "kind", "findings")}
            result = cls(findings=findings, **rest)
        except (TypeError, KeyError, IndexError) as error:
            raise InputError(f"{what} does not hold what a check.json holds: {error}") from None
        if result.verdict not in ("consistent", "differs", "violated") or any(
            f.status not in STATUSES for f in findings
        ):
            raise InputError(f"{what} holds a verdict or a status that is not known here")
        return result
