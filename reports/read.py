"""The audits of a page: read all of them before anything is drawn, each with a name of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..audit.verdict.result import AuditResult
from ..foundation import InputError
from ..foundation.fields import clean

Source = str | Path | Mapping[str, Any] | AuditResult


def read_audits(audits: Source | Sequence[Source]) -> tuple[AuditResult, ...]:
    """One audit without a label is named by its place; a label that occurs twice is told apart by a number."""
    if isinstance(audits, str | Path | Mapping | AuditResult):
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


def read_audit(audit: Source) -> AuditResult:
    """One audit from its file, from the same content as a dictionary, or as it is. Errors: InputError."""
    name = "unnamed audit"
    if isinstance(audit, AuditResult):
        found = audit
    elif isinstance(audit, Mapping):
        found = AuditResult.from_json(audit)
    else:
        found, name = AuditResult.load(audit), _name_from_place(Path(audit).absolute())
    return found if found.label else replace(found, label=name)


def _name_from_place(path: Path) -> str:
    """runs/before.json is "before"; runs/before/audit.json too."""
    return clean(path.stem if path.stem != "audit" else path.parent.name) or "unnamed audit"
