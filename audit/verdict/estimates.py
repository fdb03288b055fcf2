"""The entries of `estimates` in audit.json: a value, its interval, its validity class, and what it means.

Bounds are one-sided at the confidence of the settings, their error divided by the number of looks.
"""

from __future__ import annotations

import math

import numpy as np

from ..bounds import with_noise_multiplier
from ..estimators.clopper_pearson import clopper_pearson_epsilon
from ..estimators.error_counts import errors_at_the_middle
from ..estimators.mann_whitney import mann_whitney_p_value
from ..estimators.noise_bound import noise_multiplier_upper_bound
from ..estimators.rates import clopper_pearson
from ..estimators.roc import auc, auc_interval, best_balanced_accuracy, roc_curve
from ..estimators.tallies import Tally, tally_log_p_value
from .claim import Claim
from .estimate import Estimate
from .provenance import CHECKED
from .settings import AuditSettings

ON_YOUR_WORD = "that the coins are older than the training rests on the auditor's word: no commitment was checked"


def accuracy_estimate(accuracy: tuple[int, int], membership: str, settings: AuditSettings) -> Estimate:
    low, high = clopper_pearson(*accuracy, settings.confidence)
    known = membership != "unknown"
    note = "every canary guessed; the interval takes errors to be independent across canaries"
    return Estimate(
        "attack_accuracy",
        "attack_accuracy",
        accuracy[0] / accuracy[1],
        (float(low), float(high)),
        "C" if known else "none",
        settings.confidence,
        None,
        note if known else note + "; not a bound",
    )


def epsilon_estimate(value: float, commitment: str, settings: AuditSettings) -> Estimate:
    return Estimate(
        f"one_run_{settings.guess_rule.name}",
        "epsilon",
        value,
        None,
        "A",
        settings.confidence,
        settings.delta,
        "lower bound, one-sided; needs fair coins only" + ("" if commitment == CHECKED else f"; {ON_YOUR_WORD}"),
    )


def rates_estimate(scores: np.ndarray, members: np.ndarray, settings: AuditSettings) -> Estimate:
    errors = errors_at_the_middle(scores, members)
    value = clopper_pearson_epsilon(*errors.counts, settings.delta, settings.confidence_each)
    return Estimate(
        "clopper_pearson_rates",
        "epsilon",
        value,
        None,
        "C",
        settings.confidence,
        settings.delta,
        "lower bound, one-sided, upper half guessed member; needs errors that are independent across canaries",
    )


def p_value_estimate(p_value: float, p_class: str, settings: AuditSettings) -> Estimate:
    notes = {
        "A": "one run against the claimed (epsilon, delta); needs fair coins only",
        "B": "one run against the claimed mechanism's certified trade-off curve; needs fair coins only",
        "C": "guesses against the claim's accuracy bound; needs errors that are independent across canaries",
    }
    note = notes[p_class]
    if p_class == "B" and settings.guess_rule.name == "calibrated":
        note += "; the joint boundary is for (epsilon, delta) only, so this is the grid's union bound"
    if settings.total_looks > 1:
        note += f"; multiplied by {settings.total_looks} looks"
    return Estimate("claim_p_value", "p_value", p_value, None, p_class, None, None, note)


def noise_estimate(claim: Claim, counts: Tally, settings: AuditSettings) -> Estimate | None:
    """The inversion of class B, inside the claimed family: leaked as if the noise multiplier were at most s."""
    claimed = claim.record.get("noise_multiplier")
    if claimed is None:
        return None
    error = (1 - settings.confidence) / settings.total_looks

    def log_p_value(noise_multiplier: float) -> float:
        return tally_log_p_value(counts, with_noise_multiplier(claim.mechanism, noise_multiplier))

    value = noise_multiplier_upper_bound(log_p_value, math.log(error), float(claimed))
    note = "upper bound, one-sided: the run leaked as if the noise multiplier were at most this; inside the family"
    if value is None:
        note = "no noise multiplier up to 64 times the claimed one is excluded"
    return Estimate("noise_multiplier", "noise_multiplier", value, None, "B", settings.confidence, None, note)


def no_leakage_estimate(scores: np.ndarray, members: np.ndarray, settings: AuditSettings) -> Estimate:
    p_value = min(1.0, settings.total_looks * mann_whitney_p_value(scores, members))
    note = (
        'Mann-Whitney p-value of "scores tell nothing of membership"; valid under a random split, no bound on epsilon'
    )
    return Estimate("no_leakage", "p_value", p_value, None, "none", None, None, note)


def metric_estimates(
    scores: np.ndarray, members: np.ndarray, membership: str, settings: AuditSettings
) -> list[Estimate]:
    """AUC and balanced accuracies; class C at most."""
    area, n1 = auc(scores, members), int(members.sum())
    n0 = int(members.size - n1)
    validity, doubt = ("none", "; not a bound") if membership == "unknown" else ("C", "")
    errors = errors_at_the_middle(scores, members)
    independent = "the interval takes scores to be independent across canaries" + doubt
    return [
        Estimate(
            "auc",
            "auc",
            area,
            auc_interval(area, n1, n0, settings.confidence),
            validity,
            settings.confidence,
            None,
            "ties count one half; " + independent,
        ),
        Estimate(
            "balanced_accuracy",
            "balanced_accuracy",
            errors.balanced_accuracy,
            errors.balanced_accuracy_interval(settings.confidence),
            validity,
            settings.confidence,
            None,
            "upper half of the scores guessed member; " + independent,
        ),
        Estimate(
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
