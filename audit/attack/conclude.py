"""Scores, metrics and warnings of a shadow-model attack: what `coalmine lira` prints and writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_expit
from scipy.stats import t as student_t

from ...attacks import AttackScores, attack_r, base, calibrated_loss, global_threshold, lira, loss, rmia
from ...attacks.blind_baseline import blind_baseline
from ...attacks.null_test import permuted_values
from ...attacks.shadow_arrays import ShadowArrays
from ...foundation import InputError
from ..estimators.roc import auc, auc_interval, roc_curve
from .metrics import membership_metrics

ALARM = 0.999  # two-sided confidence at which a warning calls an AUC different from 1/2
PREDICTION = 0.99  # of the interval in which one more model's held-out accuracy should lie
NO_BOUND = "These are metrics of an attack, not a bound on epsilon: no claim is tested here."
DRAW_COINS = (
    "For a bound, score canaries whose membership was drawn by fair coins before training, and give the scores to "
    "`coalmine audit`."
)
ATTACKS: dict[str, Callable[[ShadowArrays, int], AttackScores]] = {
    "lira_online": lambda a, t: lira(a.shadow_phi, a.keep, a.target_phi[t]),
    "lira_offline": lambda a, t: lira(a.shadow_phi, a.keep, a.target_phi[t], "offline", "pooled"),
    "base_online": lambda a, t: base(_log_p(a.shadow_phi), a.keep, _log_p(a.target_phi[t])),
    "rmia_offline": lambda a, t: _rmia(a, t),
    "calibrated_loss": lambda a, t: calibrated_loss(_log_p(a.shadow_phi), a.keep, _log_p(a.target_phi[t])),
    "attack_r": lambda a, t: attack_r(a.shadow_phi[:, :, 0], a.keep, a.target_phi[t][:, 0]),
    "loss": lambda a, t: loss(a.target_phi[t]),
    "phi": lambda a, t: global_threshold(a.target_phi[t]),
}


@dataclass(frozen=True, eq=False)
class LiraResult:
    """scores[attack]: one AttackScores a target. record: everything as JSON. warnings: sentences for people."""

    arrays: ShadowArrays
    scores: dict[str, list[AttackScores]]
    record: dict[str, Any]
    warnings: list[str]


def conclude(
    arrays: ShadowArrays,
    attack: str = "lira_online",
    inputs: tuple[np.ndarray, np.ndarray] | None = None,
    seed: int = 0,
    next_step: str = DRAW_COINS,
) -> LiraResult:
    """All attacks of the table, with `attack` the one that was chosen beforehand; inputs (x, y) for the blind baseline.

    next_step: how to get from these metrics to a bound, the end of what people read.
    Without target_member there are scores and warnings, and no metrics.
    """
    if attack not in ATTACKS:
        raise InputError(f"attack must be one of {', '.join(ATTACKS)}, got {attack!r}")
    if attack == "rmia_offline" and arrays.population_shadow is None:
        raise InputError("attack rmia_offline needs population rows outside every training set; these arrays have none")
    usable = {n: f for n, f in ATTACKS.items() if n != "rmia_offline" or arrays.population_shadow is not None}
    scores = {name: [run(arrays, t) for t in range(arrays.targets)] for name, run in usable.items()}
    warnings = _warnings(arrays, attack, inputs, seed)
    warnings += [f"{attack}: {line}" for line in scores[attack][0].remarks()]
    record: dict[str, Any] = {
        "schema_version": 1,
        "attack": attack,
        "origin": dict(arrays.origin),
        "shadows": arrays.shadows,
        "targets": arrays.targets,
        "examples": arrays.keep.shape[1],
        "views": arrays.shadow_phi.shape[2],
        "direction": "higher score = more likely a member; members are the positive class",
        "attacks": {name: _section(usable[name], results, arrays) for name, results in scores.items()},
        "held_out_accuracy": {
            "shadows": _numbers(arrays.shadow_accuracy),
            "targets": _numbers(arrays.target_accuracy),
        },
        "warnings": warnings,
        "not_a_bound": f"{NO_BOUND} {next_step}",
    }
    return LiraResult(arrays, scores, record, warnings)


def _section(
    run: Callable[[ShadowArrays, int], AttackScores], results: list[AttackScores], arrays: ShadowArrays
) -> dict[str, Any]:
    section: dict[str, Any] = {
        "details": dict(results[0].details),
        "status": {k: sum(r.counts()[k] for r in results) for k in results[0].counts()},
        "distinct_scores": [r.distinct for r in results],
    }
    if arrays.target_member is not None:
        section["metrics"] = membership_metrics(
            [r.scores for r in results], list(arrays.target_member), _threshold_from_a_shadow(run, arrays)
        )
    return section


def _threshold_from_a_shadow(run: Callable[[ShadowArrays, int], AttackScores], arrays: ShadowArrays) -> float | None:
    """The threshold of best balanced accuracy when shadow 0 is attacked with the others; None where that fails.

    Chosen without a look at any target's labels.
    """
    member = arrays.keep[0]
    if arrays.shadows < 3 or not member.any() or member.all():
        return None
    population = arrays.population_shadow
    inner = ShadowArrays(
        arrays.shadow_phi[1:],
        arrays.keep[1:],
        arrays.shadow_phi[:1],
        population_shadow=None if population is None else population[1:],
        population_target=None if population is None else population[:1],
    )
    try:
        scores = run(inner, 0).scores
    except InputError:  # too few shadows left
        return None
    defined = ~np.isnan(scores)
    if not member[defined].any() or member[defined].all():
        return None
    curve = roc_curve(scores[defined], member[defined])
    threshold = float(curve.threshold[np.argmax(curve.true_positive_rate - curve.false_positive_rate)])
    return threshold if np.isfinite(threshold) else None


def _warnings(arrays: ShadowArrays, attack: str, inputs: tuple[np.ndarray, np.ndarray] | None, seed: int) -> list[str]:
    lines = []
    asked = arrays.origin.get("shadows_asked")
    if asked is not None and asked != arrays.shadows:
        lines.append(f"{arrays.shadows} shadow models are present of {asked} asked for: scores are weaker than planned")
    bare = int(((arrays.keep.sum(axis=0) == 0) | (~arrays.keep).all(axis=0) | arrays.keep.all(axis=0)).sum())
    if bare:
        lines.append(f"{bare} of {arrays.keep.shape[1]} examples are in none or in all of the {arrays.shadows} shadows")
    training = str(arrays.origin.get("training", "stacked"))
    if training != "stacked":
        lines.append(f"the shadow models could not be stacked and were trained {training}")
    lines += _trained_differently(arrays)
    clipped = arrays.origin.get("clipped_probabilities")
    if clipped:
        lines.append(
            f"{clipped} probabilities of exactly 0 or 1 were clipped: their phi is lost; export logits instead"
        )
    if arrays.target_member is None:
        return lines
    for t, member in enumerate(arrays.target_member):
        if not member.any() or member.all():
            raise InputError(f"target {t} has {int(member.sum())} members of {member.size}: both kinds are needed")
        mixed_shadow, mixed_target = permuted_values(arrays.shadow_phi, arrays.target_phi[t], seed)
        if attack.startswith("lira"):
            # plain means: what a leaky design betrays, and the joint centre would hide
            null = lira(mixed_shadow, arrays.keep, mixed_target, attack.removeprefix("lira_"), centre="mean")
            if _differs(null.scores, member):
                lines.append(
                    f"null test: with shuffled values and plain means the AUC of {attack} on target {t} is "
                    f"{auc(null.scores, member):.3f}, not 0.5: the keep mask itself tells the membership (an exactly "
                    "balanced design with the target inside it does); use independent coins"
                )
        if inputs is not None and not _own_targets(arrays):  # our own coins cannot depend on the inputs
            blind = blind_baseline(*inputs, member, seed=0)
            if _differs(blind.scores, member) and auc(blind.scores, member) > 0.5:
                lines.append(
                    f"blind baseline: a classifier that sees no model tells members from non-members of target {t} "
                    f"with AUC {auc(blind.scores, member):.3f}: the data leak membership, and no attack's success "
                    "here can be laid at the model's door"
                )
    return lines


def _own_targets(arrays: ShadowArrays) -> bool:
    """Targets of the recipe itself: coins of our own, training like the shadows'."""
    return str(arrays.origin.get("target", "")).endswith("by the same recipe")


def _trained_differently(arrays: ShadowArrays) -> list[str]:
    """Held-out accuracy outside the 99 % prediction interval for one more model trained like the shadows.

    Student's t for models, and the binomial error of an accuracy measured on few rows: with 8 shadows one more model
    of the same recipe lies outside their range 2 times in 9, and outside this interval less than once in 100.
    """
    shadow, target = arrays.shadow_accuracy, arrays.target_accuracy
    if _own_targets(arrays) or shadow is None or target is None:
        return []
    shadow = shadow[np.isfinite(shadow)]
    rows = _held_out_rows(arrays)
    if len(shadow) < 2 or rows is None:
        return []
    mean = float(shadow.mean())
    rate = (mean * rows + 1) / (rows + 2)  # never 0 or 1: an accuracy of 1 on few rows is not certain either
    variance = shadow.var(ddof=1) * (1 + 1 / len(shadow)) + rate * (1 - rate) / rows
    half = student_t.ppf((1 + PREDICTION) / 2, len(shadow) - 1) * np.sqrt(variance)
    outside = [float(a) for a, far in zip(target, np.abs(target - mean) > half, strict=True) if far]
    if not outside:
        return []
    return [
        f"held-out accuracy of the target is {', '.join(f'{a:.3f}' for a in outside)}; {PREDICTION:.0%} of models "
        f"trained like the shadows lie between {max(0.0, mean - float(np.max(half))):.3f} and "
        f"{min(1.0, mean + float(np.max(half))):.3f}: it may have been trained differently, or on another number of "
        "examples, which costs power"
    ]


def _held_out_rows(arrays: ShadowArrays) -> np.ndarray | int | None:
    """On how many rows each target's accuracy was measured: the population, else its own non-members."""
    if arrays.population_target is not None:
        return arrays.population_target.shape[1]
    if arrays.target_member is not None:
        return np.maximum((~arrays.target_member).sum(axis=1), 1)
    return None


def _differs(scores: np.ndarray, member: np.ndarray) -> bool:
    low, high = auc_interval(auc(scores, member), int(member.sum()), int((~member).sum()), ALARM)
    return not low <= 0.5 <= high


def _rmia(arrays: ShadowArrays, t: int) -> AttackScores:
    assert arrays.population_shadow is not None and arrays.population_target is not None
    population, own = log_expit(arrays.population_shadow), log_expit(arrays.population_target[t])
    return rmia(_log_p(arrays.shadow_phi), arrays.keep, _log_p(arrays.target_phi[t]), population, own)


def _log_p(phi: np.ndarray) -> np.ndarray:
    """log p of view 0 from phi, float64."""
    return log_expit(phi[..., 0].astype(np.float64))


def _numbers(values: np.ndarray | None) -> list[float | None] | None:
    return None if values is None else [float(v) if np.isfinite(v) else None for v in values]
