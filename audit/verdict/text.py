"""The verdict in words: what was shown, and what was not."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from .result import AuditResult

CAVEAT = "This is a statement about this attack on this run, not evidence of privacy."


def verdict_text(result: AuditResult) -> str:
    """`verdict_text` of audit.json for a result of one run, or of one canary a run."""
    claimed, alpha, p_value = described(result), result.alpha, result.p_value
    if result.verdict == "rejected":
        leaked = "these runs" if result.independence == "runs" else "this run"
        return (
            f"Rejected: if training had been what is claimed ({claimed}), scores like these would appear with "
            f"probability at most {rounded_up(p_value)}, below alpha = {alpha:g}. Shown: {leaked} leaked more "
            "than the claim allows. Not shown: why, or how much more beyond the bounds below."
        )
    if result.verdict == "not_rejected":
        return (
            f"Not rejected: the p-value of the claim ({claimed}) is {rounded_up(p_value)}, not below alpha = "
            f"{alpha:g}. Not shown: that the claim holds; a stronger attack or more canaries may reject it. " + CAVEAT
        )
    if result.verdict == "no_power" and result.judged:
        return (
            f"No power: even if every guess had been right, the p-value of the claim ({claimed}) would be "
            f"{result.power.smallest_reportable_p_value:.3g}, not below alpha = {alpha:g}. Nothing can be "
            "concluded about the claim; `coalmine power` says how many canaries would be enough."
        )
    if result.verdict == "no_power":
        return (
            f"Not judged: the claim ({claimed}) was not tested, because membership ({result.membership}) was not drawn "
            "by fair coins: no bound on epsilon and no test of a claim is valid then. For a verdict, draw fair coins "
            "for canaries before training (`coalmine coins`), or train repeatedly with one canary each "
            "(`coalmine repeat --one-canary`)."
        )
    if result.membership == "coins":
        bound = next(e for e in result.estimates if e.quantity == "epsilon" and e.validity == "A")
        if not bound.value:
            return f"No claim was given, and these guesses prove no epsilon above 0. {CAVEAT}"
        return (
            f"No claim was given. With confidence {bound.confidence:g}, training is not (epsilon, "
            f"{bound.delta:g})-DP for any epsilon below {rounded_down(bound.value)}. {CAVEAT}"
        )
    pointer = (
        "Flags that are not fair coins bound nothing: metrics only, not a bound. For a bound, draw fair coins for "
        "canaries before training (`coalmine coins`). "
    )
    return "No claim was given. " + pointer + CAVEAT


def described(result: AuditResult) -> str:
    return "" if result.claim is None else ", ".join(f"{key} {value}" for key, value in result.claim.record.items())


def rounded_up(value: float | None, digits: int = 3) -> str:
    """A p-value or another upper end, never shown smaller than it is."""
    return "none" if value is None else _rounded(value, digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = 4) -> str:
    """A lower bound, never shown larger than it is."""
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: float, digits: int, direction: str) -> str:
    return f"{float(Context(digits, direction).create_decimal(Decimal(repr(value)))):.{digits}g}"
