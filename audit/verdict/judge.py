"""From scores, membership and a claim to a verdict: the audit itself.

The verdict is one test at level alpha: the claim is rejected when its p-value is below alpha. Estimates (epsilon,
noise multiplier, accuracy) are reported at their own confidence and decide nothing. `looks` counts scores, signs and
thresholds that were tried with the coins open; it multiplies the p-value and divides the error of every estimate.
"""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ... import __version__
from ...foundation import InputError
from ..estimators.attack_accuracy import accuracy_p_value
from ..estimators.guess_rules import GuessRule, Tally, epsilon_delta_of, tally, tally_epsilon, tally_p_value
from ..estimators.guesses import count_ties, guess_by_sign, order_guesses
from ..estimators.mann_whitney import mann_whitney_p_value
from ..estimators.roc import auc
from .claim import Claim, check_claim_against_run
from .estimates import (
    accuracy_estimate,
    epsilon_estimate,
    metric_estimates,
    no_leakage_estimate,
    noise_estimate,
    p_value_estimate,
    rates_estimate,
)
from .membership import MEMBERSHIPS, member_count_remark
from .metrics import histogram, roc_section
from .settings import AuditSettings
from .text import CAVEAT, verdict_text

__all__ = ["CAVEAT", "AuditSettings", "audit", "check_sign"]

WRONG_SIGN_P_VALUE = 1e-3


def audit(
    scores: ArrayLike,
    members: ArrayLike,
    claim: Claim | None = None,
    settings: AuditSettings | None = None,
    *,
    membership: str = "coins",
    run: dict[str, Any] | None = None,
    threat_model: dict[str, Any] | None = None,
    label: str = "",
) -> dict[str, Any]:
    """(m,) scores in order of canary id and (m,) bool members -> the content of audit.json.

    Errors: InputError for unusable scores, a claim that the run contradicts, or scores that look upside down.
    """
    settings = settings or AuditSettings()
    if membership not in MEMBERSHIPS:
        raise InputError(f"membership {membership!r} is not known: choose one of {', '.join(MEMBERSHIPS)}")
    _check_rule(settings, np.size(scores))
    remarks = check_claim_against_run(claim, run) if claim is not None and run is not None else []
    scores, members = np.asarray(scores, np.float64), np.asarray(members, bool)
    scores = -scores if settings.sign == "flip" else scores
    if settings.sign == "check":
        check_sign(scores, members)
    if membership == "coins" and (remark := member_count_remark(members)):
        remarks.append(remark)

    counts = tally(settings.guess_rule, scores, members, settings.alpha)
    accuracy = _accuracy_counts(settings.guess_rule, scores, members)
    bounds_allowed = membership == "coins"
    independent = settings.independence != "one_run" and membership != "unknown"
    estimates = [accuracy_estimate(accuracy, membership, settings)]
    p_value, power = None, {}
    decisive, proved = None, 0.0
    if bounds_allowed:
        epsilon = tally_epsilon(counts, settings.delta, settings.confidence_each)
        decisive, proved = epsilon.best, epsilon.value
        estimates.append(epsilon_estimate(epsilon.value, settings))
        power["largest_reportable_epsilon"] = tally_epsilon(
            counts.perfect(), settings.delta, settings.confidence_each
        ).value
    if independent:
        estimates.append(rates_estimate(scores, members, settings))
    judged = claim is not None and (bounds_allowed or independent)
    if claim is not None and judged:
        p_value, best, smallest, p_class = _judge(claim, counts, accuracy, independent, settings)
        if best is not None and (p_value < 1 or proved == 0):  # else the guesses told are those that prove epsilon
            decisive = best
        power["smallest_reportable_p_value"] = smallest
        estimates.append(p_value_estimate(p_value, p_class, settings))
        if bounds_allowed and (bound := noise_estimate(claim, counts, settings)):
            estimates.append(bound)
    if membership == "random_split":
        estimates.append(no_leakage_estimate(scores, members, settings))
    estimates += metric_estimates(scores, members, membership, settings)

    verdict = _verdict(claim, judged, p_value, power, settings)
    guessed = counts.guesses.size - 1 if decisive is None else decisive
    return {
        "schema_version": 1,
        "label": label,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "claim": None if claim is None else _claim_section(claim, membership, settings.delta),
        "run": run,
        "threat_model": _threat_model(threat_model, claim),
        "counts": {
            "canaries": int(scores.size),
            "members": int(members.sum()),
            "non_members": int(members.size - members.sum()),
            "guesses": int(counts.guesses[guessed]),
            "correct": int(counts.correct[guessed]),
            "all_guesses": int(accuracy[1]),
            "all_correct": int(accuracy[0]),
            "ties": count_ties(scores),
            "undefined": int(np.isnan(scores).sum()),
        },
        "guess_rule": settings.guess_rule.record()
        | {
            "guess_counts": counts.guesses.tolist(),
            "correct_counts": counts.correct.tolist(),
            "tested_canaries": counts.canaries,
            "looks": settings.total_looks,
            "sign": settings.sign,
        },
        "membership": membership,
        "independence": settings.independence,
        "estimates": estimates,
        "p_value": p_value,
        "alpha": settings.alpha,
        "verdict": verdict,
        "verdict_text": verdict_text(verdict, claim, membership, judged, p_value, power, settings, estimates),
        "remarks": remarks,
        "power": power,
        "roc": roc_section(scores, members, settings.confidence, "none" if membership == "unknown" else "C"),
        "histogram": histogram(scores, members),
        "versions": {"coalmine": __version__, "python": platform.python_version(), "numpy": np.__version__},
    }


def _check_rule(settings: AuditSettings, canaries: int) -> None:
    """The calibrated boundary pays canaries * delta out of its error: refuse it where nothing would be left."""
    error = (1 - settings.confidence) / settings.total_looks
    if settings.guess_rule.name == "calibrated" and canaries * settings.delta >= error:
        raise InputError(
            f"guess_rule calibrated proves nothing where canaries * delta = {canaries * settings.delta:.3g} reaches "
            f"the error {error:.3g}: use guess_rule grid, or a smaller delta"
        )


def check_sign(scores: np.ndarray, members: np.ndarray) -> None:
    if mann_whitney_p_value(scores, members, "less") < WRONG_SIGN_P_VALUE:
        raise InputError(
            f"members score lower than non-members (AUC {auc(scores, members):.3f}): wrong sign? A higher score must "
            "mean member. Negate the scores with --sign flip, which counts as a second look, or say --sign keep if "
            "the direction was fixed beforehand"
        )


def _accuracy_counts(rule: GuessRule, scores: np.ndarray, members: np.ndarray) -> tuple[int, int]:
    """(correct, guesses) with every canary guessed: by the sign where that is the rule, else upper half "member"."""
    if rule.name == "sign":
        return guess_by_sign(scores, members)
    return int(order_guesses(scores, members).correct(scores.size)), scores.size


def _judge(
    claim: Claim, counts: Tally, accuracy: tuple[int, int], independent: bool, settings: AuditSettings
) -> tuple[float, int | None, float, str]:
    """(p-value, index of the guess count behind it, smallest p-value that could have been, class)."""
    looks = settings.total_looks
    if independent:
        bound = float(claim.mechanism.accuracy().upper)
        p_value = accuracy_p_value(*accuracy, bound)
        smallest = accuracy_p_value(accuracy[1], accuracy[1], bound)
        return min(1.0, looks * p_value), None, min(1.0, looks * smallest), "C"
    target = claim.mechanism if epsilon_delta_of(claim.mechanism) else claim.mechanism.trade_off_curve()
    found = tally_p_value(counts, target, settings.alpha)
    smallest = tally_p_value(counts.perfect(), target, settings.alpha)
    p_class = "A" if epsilon_delta_of(claim.mechanism) else "B"
    return min(1.0, looks * found.value), found.best, min(1.0, looks * smallest.value), p_class


def _verdict(
    claim: Claim | None, judged: bool, p_value: float | None, power: dict[str, Any], settings: AuditSettings
) -> str:
    if claim is None:
        return "no_claim"
    if not judged or p_value is None or power["smallest_reportable_p_value"] >= settings.alpha:
        return "no_power"
    return "rejected" if p_value < settings.alpha else "not_rejected"


def _claim_section(claim: Claim, membership: str, delta: float) -> dict[str, Any]:
    mechanism = claim.mechanism
    pair = epsilon_delta_of(mechanism)
    at = pair[1] if pair else delta
    accuracy = mechanism.accuracy()
    epsilon = (pair[0], pair[0]) if pair else _ends(mechanism.epsilon(at))
    return {
        "mechanism": claim.record,
        "adjacency": claim.adjacency,
        "membership": membership,
        "accuracy": {
            "closed_form": float(mechanism.accuracy_bound()),
            "lower": float(accuracy.lower),
            "upper": float(accuracy.upper),
        },
        "epsilon": {"delta": at, "lower": _finite(epsilon[0]), "upper": _finite(epsilon[1])},
    }


def _ends(interval: Any) -> tuple[float, float]:
    return float(interval.lower), float(interval.upper)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _threat_model(given: dict[str, Any] | None, claim: Claim | None) -> dict[str, Any]:
    threat_model: dict[str, Any] = {
        "access": "black_box",
        "score": None,
        "views": 1,
        "canary_kind": "example",
        "canary_method": None,
        "insertion": "add_remove" if claim is None else claim.adjacency,
    }
    return threat_model | (given or {})
