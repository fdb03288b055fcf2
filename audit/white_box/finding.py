"""One statement about a trainer: what was seen, with its evidence, what it means, where to look."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from .exact_tests import holm

Status = Literal["passed", "warning", "differs", "violated", "not_tested"]
STATUSES: tuple[Status, ...] = ("passed", "warning", "differs", "violated", "not_tested")
WORDS: dict[str, str] = {
    "passed": "as claimed",
    "warning": "weakness",
    "differs": "not as claimed, but no weaker",
    "violated": "violates the claim",
    "not_tested": "not tested",
}


@dataclass(frozen=True)
class Finding:
    """`p_value`: of the claim being true, before the correction for the number of findings; None where the finding is
    a plain fact, or was not tested. `if_wrong`: what it is when the p-value rejects, or when a fact is `broken`."""

    name: str
    seen: str
    meaning: str = ""
    look: str = ""
    p_value: float | None = None
    broken: bool = False
    if_wrong: Status = "violated"
    status: Status = "passed"
    adjusted_p_value: float | None = None
    value: float | None = None
    expected: float | None = None
    interval: tuple[float, float] | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return plain(asdict(self))

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Finding:
        interval = content.get("interval")
        return cls(**{**content, "interval": None if interval is None else (interval[0], interval[1])})


def plain(value: Any) -> Any:
    """As JSON holds it: no array, no numpy scalar, null for what is not finite."""
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def not_tested(name: str, why: str) -> Finding:
    return Finding(name, why, status="not_tested")


def judged(findings: Sequence[Finding], alpha: float) -> tuple[Finding, ...]:
    """Statuses at familywise error `alpha`: Holm over all findings that have a p-value; facts need no correction."""
    tested = [i for i, finding in enumerate(findings) if finding.p_value is not None]
    adjusted = dict(zip(tested, holm([findings[i].p_value or 0.0 for i in tested]), strict=True))
    done = []
    for i, finding in enumerate(findings):
        p = adjusted.get(i)
        wrong = finding.broken or (p is not None and p <= alpha)
        status = finding.status if finding.status == "not_tested" else finding.if_wrong if wrong else "passed"
        done.append(replace(finding, status=status, adjusted_p_value=p))
    return tuple(done)
