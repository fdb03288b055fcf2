"""Metrics of membership scores with intervals: one target, or several that share shadow models.

One target: intervals take the errors of different examples as independent (class C, not a bound on epsilon).
Several targets: scores are pooled; targets that share shadow models are dependent, so the interval is a jackknife over
targets, never narrower than for independent examples, and speaks of a further target attacked with THESE shadows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.stats import t as student

from ..estimators.rates import clopper_pearson
from ..estimators.roc import auc, auc_interval, best_balanced_accuracy, positive_predictive_value, roc_curve, tpr_at_fpr
from .result import AtThreshold, Metrics, OperatingPoint

CONFIDENCE = 0.95
RATES = (0.1, 0.01, 0.001)
PRIORS = (0.01, 0.1, 0.5)


def membership_metrics(
    scores: list[np.ndarray],
    members: list[np.ndarray],
    threshold: float | None = None,
    confidence: float = CONFIDENCE,
) -> Metrics:
    """AUC, balanced accuracy, TPR at 1 % and 0.1 % FPR over the pooled scores of all targets.

    scores, members: one array a target. threshold: fixed without these labels (on a shadow model), for the balanced
    accuracy; its best value over all thresholds is given beside it and is biased upwards. Rows without a score are
    counted and help no attack: neither a member found nor a non-member cleared.
    """
    pooled, flags = np.concatenate(scores), np.concatenate(members)
    curve = roc_curve(pooled, flags)
    several = len(scores) > 1
    area = curve.auc
    independent = auc_interval(area, curve.members, curve.non_members, confidence)
    return Metrics(
        members=curve.members,
        non_members=curve.non_members,
        undefined=int(np.isnan(pooled).sum()),
        auc=area,
        auc_interval=jackknife(auc, scores, members, independent, confidence),
        balanced_accuracy=_at_threshold(scores, members, threshold, confidence),
        best_balanced_accuracy=best_balanced_accuracy(curve),
        tpr_at_fpr=tuple(_operating_point(scores, members, rate, confidence) for rate in RATES),
        confidence=confidence,
        interval_method="jackknife over targets, given these shadow models" if several else "one target",
    )


def _operating_point(
    scores: list[np.ndarray], members: list[np.ndarray], rate: float, confidence: float
) -> OperatingPoint:
    point = tpr_at_fpr(np.concatenate(scores), np.concatenate(members), rate, confidence)
    interval = None
    if point.interval is not None:
        interval = jackknife(
            lambda s, m: true_positive_rate_at(s, m, rate), scores, members, point.interval, confidence
        )
    precision = None
    if point.true_positive_rate is not None:
        realised = point.fp / (point.fp + point.tn)
        precision = {str(p): positive_predictive_value(point.true_positive_rate, realised, p) for p in PRIORS}
    return OperatingPoint(
        false_positive_rate=rate,
        true_positive_rate=point.true_positive_rate,
        interval=interval,
        threshold=point.threshold,
        tp=point.tp,
        fp=point.fp,
        fn=point.fn,
        tn=point.tn,
        positive_predictive_value=precision,
        refused=point.refused,
    )


def _at_threshold(
    scores: list[np.ndarray], members: list[np.ndarray], threshold: float | None, confidence: float
) -> AtThreshold | None:
    """Balanced accuracy of "member iff score >= threshold", with its counts; None without a threshold."""
    if threshold is None:
        return None

    def counts(s: np.ndarray, m: np.ndarray) -> tuple[int, int, int, int]:
        called = s >= threshold  # False for NaN: a member without a score is missed
        cleared = ~called & ~np.isnan(s)
        return int((called & m).sum()), int((m & ~called).sum()), int((~m & ~cleared).sum()), int((~m & cleared).sum())

    def value(s: np.ndarray, m: np.ndarray) -> float:
        tp, fn, fp, tn = counts(s, m)
        return (tp / (tp + fn) + tn / (fp + tn)) / 2

    pooled, flags = np.concatenate(scores), np.concatenate(members)
    tp, fn, fp, tn = counts(pooled, flags)
    each = 1 - (1 - confidence) / 2  # two rates from separate examples, each at half the error
    hits, clears = clopper_pearson(tp, tp + fn, each), clopper_pearson(tn, fp + tn, each)
    independent = ((float(hits[0]) + float(clears[0])) / 2, (float(hits[1]) + float(clears[1])) / 2)
    interval = jackknife(value, scores, members, independent, confidence)
    return AtThreshold(value(pooled, flags), interval, threshold, tp, fp, fn, tn)


def jackknife(
    statistic: Callable[[np.ndarray, np.ndarray], float],
    scores: list[np.ndarray],
    members: list[np.ndarray],
    independent: tuple[float, float],
    confidence: float = CONFIDENCE,
) -> tuple[float, float]:
    """Interval of a statistic of pooled scores: value ± Student t times the leave-one-target-out standard error.

    Never narrower than `independent`, the interval that would hold if all examples of all targets were independent;
    with a single target that is the interval.
    """
    count = len(scores)
    if count == 1:
        return float(independent[0]), float(independent[1])
    whole = statistic(np.concatenate(scores), np.concatenate(members))
    without = np.array(
        [
            statistic(
                np.concatenate([s for k, s in enumerate(scores) if k != left]),
                np.concatenate([m for k, m in enumerate(members) if k != left]),
            )
            for left in range(count)
        ]
    )
    error = np.sqrt((count - 1) / count * ((without - without.mean()) ** 2).sum())
    half = float(student.ppf(0.5 + confidence / 2, count - 1) * error)
    return max(0.0, min(whole - half, float(independent[0]))), min(1.0, max(whole + half, float(independent[1])))


def true_positive_rate_at(scores: np.ndarray, members: np.ndarray, false_positive_rate: float) -> float:
    """The largest TPR among the corners of the ROC whose realised FPR is at most the one asked for."""
    curve = roc_curve(scores, members)
    return float(curve.true_positive_rate[curve.false_positive_rate <= false_positive_rate * (1 + 1e-12)].max())


def over_groups(values: np.ndarray, confidence: float = CONFIDENCE) -> tuple[float, float, float]:
    """Mean and its Student t interval over independent groups, each with shadow models and targets of its own."""
    count = len(values)
    half = float(student.ppf(0.5 + confidence / 2, count - 1) * np.std(values, ddof=1) / np.sqrt(count))
    mean = float(np.mean(values))
    return mean, mean - half, mean + half
