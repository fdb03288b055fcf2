"""The verdict in words: what was shown, and what was not."""

from __future__ import annotations

from typing import Any

from .audit_settings import AuditSettings
from .claims import Claim

CAVEAT = "This is a statement about this attack on this run, not evidence of privacy."


def verdict_text(
    verdict: str,
    claim: Claim | None,
    membership: str,
    judged: bool,
    p_value: float | None,
    power: dict[str, Any],
    settings: AuditSettings,
    estimates: list[dict[str, Any]],
) -> str:
    described = "" if claim is None else ", ".join(f"{key} {value}" for key, value in claim.record.items())
    if verdict == "rejected":
        return (
            f"Rejected: if training had been what is claimed ({described}), scores like these would appear with "
            f"probability at most {p_value:.3g}, below alpha = {settings.alpha:g}. Shown: this run leaked more than "
            "the claim allows. Not shown: why, or how much more beyond the bounds below."
        )
    if verdict == "not_rejected":
        return (
            f"Not rejected: the p-value of the claim ({described}) is {p_value:.3g}, not below alpha = "
            f"{settings.alpha:g}. Not shown: that the claim holds; a stronger attack or more canaries may reject it. "
            + CAVEAT
        )
    if verdict == "no_power" and judged:
        return (
            f"No power: even if every guess had been right, the p-value of the claim ({described}) would be "
            f"{power['smallest_reportable_p_value']:.3g}, not below alpha = {settings.alpha:g}. Nothing can be "
            "concluded about the claim; `coalmine power` says how many canaries would be enough."
        )
    if verdict == "no_power":
        return (
            f"No power: with membership {membership} no bound on epsilon and no test of a claim is valid, so the claim "
            f"({described}) was not judged. For a verdict, draw fair coins for canaries before training (`coalmine "
            "coins`), or train repeatedly with one canary each."
        )
    if membership == "coins":
        bound = next(e for e in estimates if e["quantity"] == "epsilon" and e["class"] == "A")
        if bound["value"] == 0:
            return f"No claim was given, and these guesses prove no epsilon above 0. {CAVEAT}"
        return (
            f"No claim was given. With confidence {bound['confidence']:g}, training is not (epsilon, "
            f"{settings.delta:g})-DP for any epsilon below {bound['value']:.4g}. {CAVEAT}"
        )
    pointer = (
        "Flags that are not fair coins bound nothing: metrics only, not a bound. For a bound, draw fair coins for "
        "canaries before training (`coalmine coins`). "
    )
    return "No claim was given. " + pointer + CAVEAT
