"""A verdict from repeated training runs.

With one canary a run the R scores are one class C audit: errors of independent trainings are independent. With all
canaries in every run each run is a class B audit of its own (any dependence between its canaries), and their p-values
are combined by Fisher's method. The over-dispersion test says whether canaries of one run err independently: where it
rejects, class C statements about single runs of this configuration are not to be trusted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import t as student_t

from ...foundation import InputError
from ..estimators.guesses import order_guesses
from ..estimators.independent_runs import combine_p_values, over_dispersion
from ..repeat import RepeatedRuns
from .claim import Claim
from .judge import CAVEAT, AuditSettings, audit, check_sign
from .metrics import histogram, roc_section
from .text import rounded_down, rounded_up


def judge_repeated(
    runs: RepeatedRuns,
    claim: Claim | None = None,
    settings: AuditSettings | None = None,
    *,
    threat_model: dict[str, Any] | None = None,
    label: str = "",
) -> dict[str, Any]:
    """The content of audit.json for all runs together; `repeated` in it says what each run gave.

    Errors: InputError for runs whose coins all fell on one side (with one canary a run: train more runs).
    """
    settings = settings or AuditSettings()
    if runs.canary is not None:
        scores, members = runs.one_per_run()
        if members.all() or not members.any():
            raise InputError(f"the coins of all {len(members)} runs fell on one side: train more runs")
        together = replace(settings, independence="runs")
        result = audit(scores, members, claim, together, threat_model=threat_model, label=label)
        return result | {"repeated": {"runs": len(scores), "design": "one_canary"}}
    return _combined(runs, claim, settings, threat_model, label)


def _combined(
    runs: RepeatedRuns, claim: Claim | None, settings: AuditSettings, threat_model: dict[str, Any] | None, label: str
) -> dict[str, Any]:
    if settings.sign == "check":  # over all runs: with many runs a single one looks upside down by chance
        check_sign(runs.scores.ravel(), runs.members.ravel())
        settings = replace(settings, sign="keep")
    single = [
        audit(scores, members, claim, settings, threat_model=threat_model, label=label)
        for scores, members in zip(runs.scores, runs.members, strict=True)
    ]
    counted = [order_guesses(scores, members) for scores, members in zip(runs.scores, runs.members, strict=True)]
    correct = np.array([int(each.correct(len(runs.scores[0]))) for each in counted])
    spread = over_dispersion(correct, np.full(len(correct), runs.scores.shape[1]))
    epsilons = [_value(each, "epsilon") for each in single]
    estimates = [_accuracy_over_runs(correct / runs.scores.shape[1], settings.confidence)]
    p_value, power, verdict = None, {}, "no_claim"
    if claim is not None:
        p_value = combine_p_values([each["p_value"] for each in single])
        best = combine_p_values([each["power"]["smallest_reportable_p_value"] for each in single])
        power = {"smallest_reportable_p_value": best}
        verdict = "no_power" if best >= settings.alpha else "rejected" if p_value < settings.alpha else "not_rejected"
        estimates.append(_p_value_estimate(p_value, single[0], len(single)))
    scores, members = runs.scores.ravel(), runs.members.ravel()
    counts = {key: sum(each["counts"][key] for each in single) for key in single[0]["counts"]}
    return single[0] | {
        "counts": counts,
        "guess_rule": settings.guess_rule.record() | {"looks": settings.total_looks, "sign": settings.sign},
        "independence": "one_run",
        "estimates": estimates,
        "p_value": p_value,
        "verdict": verdict,
        "verdict_text": _text(verdict, claim, p_value, settings.alpha, len(single), epsilons),
        "remarks": sorted({remark for each in single for remark in each["remarks"]}),
        "power": power,
        "roc": roc_section(scores, members, settings.confidence, "none"),
        "histogram": histogram(scores, members),
        "repeated": {
            "runs": len(single),
            "design": "all_canaries",
            "p_values": [each["p_value"] for each in single],
            "epsilon_lower_bounds": epsilons,
            "correct_of_all": correct.tolist(),
            "over_dispersion": {"ratio": spread.ratio, "p_value": spread.p_value},
        },
    }


def _value(result: dict[str, Any], quantity: str) -> float:
    return next(e["value"] for e in result["estimates"] if e["quantity"] == quantity)


def _accuracy_over_runs(accuracy: np.ndarray, confidence: float) -> dict[str, Any]:
    """Mean over runs with a t interval: runs are independent, canaries of a run need not be."""
    half = student_t.ppf((1 + confidence) / 2, len(accuracy) - 1) * accuracy.std(ddof=1) / np.sqrt(len(accuracy))
    mean = float(accuracy.mean())
    return {
        "name": "attack_accuracy_over_runs",
        "quantity": "attack_accuracy",
        "value": mean,
        "interval": [max(0.0, mean - float(half)), min(1.0, mean + float(half))],
        "class": "C",
        "confidence": confidence,
        "delta": None,
        "note": f"mean of {len(accuracy)} runs, every canary guessed; t interval over independent runs, approximate",
    }


def _p_value_estimate(p_value: float, first: dict[str, Any], runs: int) -> dict[str, Any]:
    one = next(e for e in first["estimates"] if e["name"] == "claim_p_value")
    note = f"Fisher's combination of {runs} independent runs; each: {one['note']}"
    return one | {"name": "combined_claim_p_value", "value": p_value, "note": note}


def _text(
    verdict: str, claim: Claim | None, p_value: float | None, alpha: float, runs: int, epsilons: list[float]
) -> str:
    bounds = (
        f"Their lower bounds on epsilon run from {rounded_down(min(epsilons), 3)} to {rounded_down(max(epsilons), 3)}, "
        "each at its own confidence: neither the largest nor the mean is a bound of the whole. "
    )
    if claim is None or p_value is None:
        return f"{runs} runs, and no claim was given. {bounds}{CAVEAT}"
    described = ", ".join(f"{key} {value}" for key, value in claim.record.items())
    if verdict == "rejected":
        return (
            f"Rejected: over {runs} independent runs the combined p-value of the claim ({described}) is "
            f"{rounded_up(p_value)}, below alpha = {alpha:g}. Shown: training leaks more than the claim allows. "
            f"Not shown: why. {bounds}"
        )
    if verdict == "no_power":
        return f"No power: {runs} runs with every guess right would not reject the claim ({described}). {bounds}"
    return (
        f"Not rejected: over {runs} independent runs the combined p-value of the claim ({described}) is "
        f"{rounded_up(p_value)}, not below alpha = {alpha:g}. Not shown: that the claim holds. {bounds}{CAVEAT}"
    )
