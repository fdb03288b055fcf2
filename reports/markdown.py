"""Five lines of Markdown for a model card: claim, audit, result, class, caveat."""

from __future__ import annotations

import re

from ..audit.verdict.result import AuditResult
from . import words
from .rounding import UP, at_least, at_most, number, p_value, percent
from .summary import canaries_in_words, epsilon_bound, guessed, p_value_class

_CAVEATS = {
    "rejected": "the bound is a lower bound: the run may leak more.",
    "not_rejected": "not rejected is not evidence of privacy; a stronger attack or more canaries may still reject.",
    "no_power": "this audit could not have rejected the claim whatever the model leaks; it says nothing.",
    "not_judged": "the claim was not tested, because membership was not drawn by fair coins.",
    "no_claim": "nothing was claimed, so nothing was tested.",
}


def model_card(audit: AuditResult) -> str:
    """The block, one Markdown list item a line. Text from the file is escaped: it can add no markup and no line."""
    lines = "\n".join(
        (
            f"- **Privacy claim:** {_claim(audit)}",
            f"- **Audit** ({_plain(audit.label)}): {_method(audit)}",
            f"- **Result:** {_result(audit)}",
            f"- **Validity:** {_validity(audit)}",
            f"- **Caveat:** {_caveat(audit)}",
        )
    )
    return lines.replace("\u00a0", " ")


def _caveat(audit: AuditResult) -> str:
    if audit.verdict == "rejected" and epsilon_bound(audit) is None:
        return "no bound on ε is given: how much leaks is not said."
    return _CAVEATS[words.verdict(audit)]


def _claim(audit: AuditResult) -> str:
    if audit.claim is None:
        return "none stated."
    said = _plain(words.mechanism(audit.claim.record))
    accuracy, epsilon = audit.claim.accuracy, audit.claim.epsilon
    if accuracy is not None and accuracy.promised is not None:
        said += f"; expected attack accuracy at most {percent(accuracy.promised, UP)}"
    if epsilon is not None and epsilon.upper is not None:
        said += f"; ε ≤ {at_most(epsilon.upper)} at δ = {number(epsilon.delta)}"
    return f"{said} (theory; {_plain(words.spaced(audit.claim.adjacency))} adjacency)."


def _method(audit: AuditResult) -> str:
    model = audit.threat_model
    kind = " ".join(words.spaced(one) for one in (model.canary_method, model.canary_kind) if one)
    access = ", ".join(words.spaced(one) for one in (model.access, model.score) if one)
    version = audit.versions.get("coalmine")
    tool = f"coalmine {version}" if version else "coalmine"
    drawn = "fair coins" if audit.fair_coins else "membership not by coins"
    return _plain(
        f"{tool}, {audit.created[:10] or 'undated'}; {canaries_in_words(audit)} ({kind or 'kind unstated'}), {drawn}; "
        f"{'; '.join([access or 'access unstated', *guessed(audit)])}."
    )


def _result(audit: AuditResult) -> str:
    parts = [words.VERDICT_WORDS[words.verdict(audit)].lower().replace("no power: ", "no power, ")]
    if audit.p_value is not None:
        parts.append(f"p = {p_value(audit.p_value)} (class {p_value_class(audit)}, α = {number(audit.alpha)})")
    epsilon = epsilon_bound(audit)
    if epsilon is not None:
        delta = "" if epsilon.delta is None else f" at δ = {number(epsilon.delta)}"
        parts.append(f"ε ≥ {at_least(epsilon.value)}{delta} (class {epsilon.validity})")
    return "; ".join(parts) + "."


def _validity(audit: AuditResult) -> str:
    epsilon = epsilon_bound(audit)
    used = [p_value_class(audit)] if audit.p_value is not None else []
    used += [epsilon.validity] if epsilon is not None and epsilon.validity not in used else []
    return "; ".join(f"class {one} {words.CLASS_WORDS[one]}" for one in used or ["none"]) + "."


def _plain(text: str) -> str:
    """Text that Markdown and the HTML in it leave alone."""
    text = re.sub(r"([\\`*_\[\]|~#])", r"\\\1", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
