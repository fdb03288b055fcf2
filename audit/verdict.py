"""From scores, membership and a claim to a verdict: the audit itself.

The verdict is one test at level alpha: the claim is rejected when its p-value is below alpha. Estimates (epsilon,
noise multiplier, accuracy) are reported at their own confidence and decide nothing. `looks` counts scores, signs and
thresholds that were tried with the coins open; it multiplies the p-value and divides the error of every estimate.
"""

from __future__ import annotations

import math
import platform
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import __version__
from ..foundation import InputError
from .claims import Claim, check_claim_against_run
from .estimators.attack_accuracy import accuracy_p_value
from .estimators.clopper_pearson import clopper_pearson_epsilon
from .estimators.guess_rules import (
    GuessRule,
    Tally,
    epsilon_delta_of,
    tally,
    tally_epsilon,
    tally_log_p_value,
    tally_p_value,
)
from .estimators.guesses import count_ties, guess_by_sign, order_guesses
from .estimators.mann_whitney import mann_whitney_p_value
from .estimators.noise_bound import noise_multiplier_upper_bound
from .estimators.rates import clopper_pearson
from .estimators.roc import auc, auc_interval, best_balanced_accuracy, roc_curve
from .membership import MEMBERSHIPS, member_count_remark
from .metrics import histogram, roc_section

INDEPENDENCE = ("one_run", "declared", "runs")
SIGNS = ("check", "keep", "flip")
WRONG_SIGN_P_VALUE = 1e-3
CAVEAT = "This is a statement about this attack on this run, not evidence of privacy."


@dataclass(frozen=True)
class AuditSettings:
    """How an audit is read; every field is fixed before the coins are opened.

    independence: `one_run` (classes A and B), `declared` (the user says that canaries of one run err independently)
    or `runs` (every canary comes from a training of its own); the latter two allow class C. sign: `check` refuses
    scores that are clearly upside down, `keep` does not, `flip` negates them and pays for a second look.
    """

    guess_rule: GuessRule = field(default_factory=GuessRule)
    delta: float = 1e-5
    confidence: float = 0.95
    alpha: float = 0.05
    looks: int = 1
    sign: str = "check"
    independence: str = "one_run"

    def __post_init__(self) -> None:
        if not 0 <= self.delta < 1:
            raise InputError(f"delta must lie in [0, 1), got {self.delta!r}")
        if not 0.5 < self.confidence < 1:
            raise InputError(f"confidence must lie strictly between 0.5 and 1, got {self.confidence!r}")
        if not 0 < self.alpha < 0.5:
            raise InputError(f"alpha must lie strictly between 0 and 0.5, got {self.alpha!r}")
        if isinstance(self.looks, bool) or self.looks != int(self.looks) or self.looks < 1:
            raise InputError(f"looks must be a whole number of at least 1, got {self.looks!r}")
        for name, choices in (("sign", SIGNS), ("independence", INDEPENDENCE)):
            if getattr(self, name) not in choices:
                raise InputError(f"{name} {getattr(self, name)!r} is not known: choose one of {', '.join(choices)}")

    @property
    def total_looks(self) -> int:
        return self.looks * (2 if self.sign == "flip" else 1)


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
    estimates = [_accuracy_estimate(accuracy, membership, settings)]
    p_value, power = None, {}
    decisive = None
    if bounds_allowed:
        epsilon = tally_epsilon(counts, settings.delta, _each(settings))
        decisive = epsilon.best
        estimates.append(_epsilon_estimate(epsilon.value, settings))
        power["largest_reportable_epsilon"] = tally_epsilon(counts.perfect(), settings.delta, _each(settings)).value
    if independent:
        estimates.append(_rates_estimate(scores, members, settings))
    judged = claim is not None and (bounds_allowed or independent)
    if claim is not None and judged:
        p_value, best, smallest, p_class = _judge(claim, counts, accuracy, independent, settings)
        decisive = decisive if best is None else best
        power["smallest_reportable_p_value"] = smallest
        estimates.append(_p_value_estimate(p_value, p_class, settings))
        if bounds_allowed and (bound := _noise_estimate(claim, counts, settings)):
            estimates.append(bound)
    if membership == "random_split":
        estimates.append(_no_leakage_estimate(scores, members, settings))
    estimates += _metric_estimates(scores, members, membership, settings)

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
        "verdict_text": _verdict_text(verdict, claim, membership, judged, p_value, power, settings, estimates),
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


def _each(settings: AuditSettings) -> float:
    return 1 - (1 - settings.confidence) / settings.total_looks


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
    if not claim_has_curve(claim):
        raise InputError(f"no trade-off curve is known for the claim {claim.record}: claim an (epsilon, delta)")
    target = claim.mechanism if epsilon_delta_of(claim.mechanism) else claim.mechanism.trade_off_curve()
    found = tally_p_value(counts, target, settings.alpha)
    smallest = tally_p_value(counts.perfect(), target, settings.alpha)
    p_class = "A" if epsilon_delta_of(claim.mechanism) else "B"
    return min(1.0, looks * found.value), found.best, min(1.0, looks * smallest.value), p_class


def claim_has_curve(claim: Claim) -> bool:
    return hasattr(claim.mechanism, "trade_off_curve")


def _verdict(
    claim: Claim | None, judged: bool, p_value: float | None, power: dict[str, Any], settings: AuditSettings
) -> str:
    if claim is None:
        return "no_claim"
    if not judged or p_value is None or power["smallest_reportable_p_value"] >= settings.alpha:
        return "no_power"
    return "rejected" if p_value < settings.alpha else "not_rejected"


def _verdict_text(
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


def _accuracy_estimate(accuracy: tuple[int, int], membership: str, settings: AuditSettings) -> dict[str, Any]:
    low, high = clopper_pearson(*accuracy, settings.confidence)
    known = membership != "unknown"
    note = "every canary guessed; the interval takes errors to be independent across canaries"
    return _estimate(
        "attack_accuracy",
        "attack_accuracy",
        accuracy[0] / accuracy[1],
        [float(low), float(high)],
        "C" if known else "none",
        settings.confidence,
        None,
        note if known else note + "; not a bound",
    )


def _epsilon_estimate(value: float, settings: AuditSettings) -> dict[str, Any]:
    return _estimate(
        f"one_run_{settings.guess_rule.name}",
        "epsilon",
        value,
        None,
        "A",
        settings.confidence,
        settings.delta,
        "lower bound, one-sided; needs fair coins only",
    )


def _rates_estimate(scores: np.ndarray, members: np.ndarray, settings: AuditSettings) -> dict[str, Any]:
    false_positives, false_negatives = _errors_at_the_middle(scores, members)
    n1 = int(members.sum())
    value = clopper_pearson_epsilon(
        false_positives, int(members.size - n1), false_negatives, n1, settings.delta, _each(settings)
    )
    return _estimate(
        "clopper_pearson_rates",
        "epsilon",
        value,
        None,
        "C",
        settings.confidence,
        settings.delta,
        "lower bound, one-sided, upper half guessed member; needs errors that are independent across canaries",
    )


def _p_value_estimate(p_value: float, p_class: str, settings: AuditSettings) -> dict[str, Any]:
    notes = {
        "A": "one run against the claimed (epsilon, delta); needs fair coins only",
        "B": "one run against the claimed mechanism's certified trade-off curve; needs fair coins only",
        "C": "guesses against the claim's accuracy bound; needs errors that are independent across canaries",
    }
    return _estimate("claim_p_value", "p_value", p_value, None, p_class, None, None, notes[p_class])


def _noise_estimate(claim: Claim, counts: Tally, settings: AuditSettings) -> dict[str, Any] | None:
    """The inversion of class B, inside the claimed family: leaked as if the noise multiplier were at most s."""
    record = claim.record
    if "noise_multiplier" not in record or not claim_has_curve(claim):
        return None
    error = (1 - settings.confidence) / settings.total_looks
    with_noise = type(claim.mechanism)
    others = {key: value for key, value in record.items() if key not in ("name", "noise_multiplier")}

    def log_p_value(noise_multiplier: float) -> float:
        return tally_log_p_value(counts, with_noise(**others, noise_multiplier=noise_multiplier))

    value = noise_multiplier_upper_bound(log_p_value, math.log(error), float(record["noise_multiplier"]))
    note = "upper bound, one-sided: the run leaked as if the noise multiplier were at most this; inside the family"
    if value is None:
        note = "no noise multiplier up to 64 times the claimed one is excluded"
    return _estimate("noise_multiplier", "noise_multiplier", value, None, "B", settings.confidence, None, note)


def _no_leakage_estimate(scores: np.ndarray, members: np.ndarray, settings: AuditSettings) -> dict[str, Any]:
    p_value = min(1.0, settings.total_looks * mann_whitney_p_value(scores, members))
    note = (
        'Mann-Whitney p-value of "scores tell nothing of membership"; valid under a random split, no bound on epsilon'
    )
    return _estimate("no_leakage", "p_value", p_value, None, "none", None, None, note)


def _metric_estimates(
    scores: np.ndarray, members: np.ndarray, membership: str, settings: AuditSettings
) -> list[dict[str, Any]]:
    """AUC and balanced accuracies; class C at most."""
    area, n1 = auc(scores, members), int(members.sum())
    n0 = int(members.size - n1)
    validity, doubt = ("none", "; not a bound") if membership == "unknown" else ("C", "")
    false_positives, false_negatives = _errors_at_the_middle(scores, members)
    rates = (1 - false_negatives / n1, 1 - false_positives / n0)
    # Each rate at half of the error: the mean of both limits then holds at the whole.
    each = 1 - (1 - settings.confidence) / 2
    limits = (clopper_pearson(n1 - false_negatives, n1, each), clopper_pearson(n0 - false_positives, n0, each))
    independent = "the interval takes scores to be independent across canaries" + doubt
    return [
        _estimate(
            "auc",
            "auc",
            area,
            list(auc_interval(area, n1, n0, settings.confidence)),
            validity,
            settings.confidence,
            None,
            "ties count one half; " + independent,
        ),
        _estimate(
            "balanced_accuracy",
            "balanced_accuracy",
            sum(rates) / 2,
            [float(limits[0][0] + limits[1][0]) / 2, float(limits[0][1] + limits[1][1]) / 2],
            validity,
            settings.confidence,
            None,
            "upper half of the scores guessed member; " + independent,
        ),
        _estimate(
            "best_balanced_accuracy",
            "balanced_accuracy",
            best_balanced_accuracy(roc_curve(scores, members)),
            None,
            "none",
            None,
            None,
            "threshold chosen on these labels: too high on average, not a bound",
        ),
    ]


def _errors_at_the_middle(scores: np.ndarray, members: np.ndarray) -> tuple[int, int]:
    """(false positives, false negatives), upper half guessed member; an undefined score is an error of either kind."""
    ordered = order_guesses(scores, members)
    high, low = (ordered.defined + 1) // 2, ordered.defined // 2
    undefined = np.isnan(scores)
    return (
        high - int(ordered.right_high[high]) + int((undefined & ~members).sum()),
        low - int(ordered.right_low[low]) + int((undefined & members).sum()),
    )


def _estimate(
    name: str,
    quantity: str,
    value: float | None,
    interval: list[float] | None,
    validity: str,
    confidence: float | None,
    delta: float | None,
    note: str,
) -> dict[str, Any]:
    return {
        "name": name,
        "quantity": quantity,
        "value": value,
        "interval": interval,
        "class": validity,
        "confidence": confidence,
        "delta": delta,
        "note": note,
    }


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
