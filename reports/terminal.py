"""An audit for a terminal: the verdict first, then every number with its class."""

from __future__ import annotations

from ..audit.verdict.estimate import Estimate
from ..audit.verdict.result import AuditResult
from .rounding import UP, at_least, at_most, number, p_value, percent, plain
from .summary import canaries_in_words, guessed, informative
from .words import commitment


def audit_lines(result: AuditResult) -> list[str]:
    """What a person reads: verdict first, then every number with its class; bounds rounded to the safe side."""
    counts = result.counts
    lines = [
        result.verdict_text,
        *(one.replace("ε", "epsilon") for one in guessed(result)),
        f"{canaries_in_words(result).replace('×', 'x')} ({counts.members} members, {counts.non_members} "
        f"non-members), {counts.undefined} undefined, {counts.ties} tied; rule {result.guess_rule.name}",
    ]
    if result.fair_coins:
        lines.append(f"commitment: {commitment(result)}")
    lines += [_estimate_line(result, estimate) for estimate in result.estimates]
    for point in result.roc.operating_points if result.roc is not None else ():
        at = f"TPR at FPR {point.false_positive_rate:g}"
        if point.refused or point.interval is None or point.counts is None:
            lines.append(f"  {at}: refused ({point.refused})")
        else:
            low, high = point.interval
            tp, fp, _, _ = point.counts
            lines.append(
                f"  {at}: {number(point.true_positive_rate)} [{at_least(low)}, {at_most(high)}] "
                f"(tp {tp}, fp {fp}; class {result.roc.validity if result.roc else 'none'})"
            )
    lines += [f"remark: {text}" for text in result.remarks]
    return [plain(line) for line in lines]


def _estimate_line(audit: AuditResult, estimate: Estimate) -> str:
    name, quantity = (text.replace("_", " ") for text in (estimate.name, estimate.quantity))
    named = name if name == quantity else f"{quantity}, {name}"
    if estimate.value is None:
        value = "none"
    elif not informative(audit, estimate):
        value = "not informative, no bound below the claimed one"
    elif quantity == "noise multiplier":
        value = f"at most {at_most(estimate.value)}"
    elif quantity == "epsilon":
        value = f"at least {at_least(estimate.value)}"
    else:
        value = p_value(estimate.value) if quantity == "p value" else number(estimate.value)
    interval = estimate.interval
    within = "" if interval is None else f" [{at_least(interval[0])}, {at_most(interval[1])}]"
    at = "" if estimate.delta is None else f" at delta {estimate.delta:g}"
    confidence = "" if estimate.confidence is None else f", {estimate.confidence:g} confidence"
    line = f"  {named}: {value}{within}{at} (class {estimate.validity}{confidence})"
    allowed = audit.claim.accuracy.promised if audit.claim and audit.claim.accuracy else None
    if quantity == "attack accuracy" and allowed is not None:
        line += f"; the claim allows at most {percent(allowed, UP)}"
    return line
