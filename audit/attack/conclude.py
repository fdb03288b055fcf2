"""Scores, metrics, warnings and who is at risk: what `coalmine attack` and `coalmine lira` print and write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_expit
from scipy.stats import t as student_t

from ...attacks import (
    AttackScores,
    attack_p,
    attack_r,
    base,
    calibrated_loss,
    global_threshold,
    lira,
    loss,
    rmia,
)
from ...attacks.blind_baseline import FOLDS, blind_baseline
from ...attacks.null_test import permuted_values
from ...attacks.shadow_arrays import ShadowArrays
from ...foundation import InputError, numpy_stream
from ..estimators.roc import auc, auc_interval, positive_predictive_value, roc_curve
from .examples import Shown, Table, example_table, groups, most_at_risk, stability
from .metrics import PRIORS, membership_metrics
from .result import Attack, AttackResult, Curve, Exposure, Metrics, OwnAccuracy, Stability

ALARM = 0.999  # two-sided confidence at which a warning calls an AUC different from 1/2
PREDICTION = 0.99  # of the interval in which one more model's held-out accuracy should lie
CURVE_POINTS = 300
BLIND_ROWS = 10_000  # enough to see a leak of the data that matters, in a second or two
NO_BOUND = "These are metrics of an attack, not a bound on epsilon: no claim is tested here."
DRAW_COINS = (
    "For a bound, score canaries whose membership was drawn by fair coins before training, and give the scores to "
    "`coalmine audit`."
)
RunAttack = Callable[[ShadowArrays, int], AttackScores]
ATTACKS: dict[str, RunAttack] = {
    "lira_online": lambda a, t: lira(a.shadow_phi, a.keep, a.target_phi[t]),
    "lira_offline": lambda a, t: lira(a.shadow_phi, a.keep, a.target_phi[t], "offline", "pooled"),
    "base_online": lambda a, t: base(_log_p(a.shadow_phi), a.keep, _log_p(a.target_phi[t])),
    "rmia_offline": lambda a, t: _rmia(a, t),
    "calibrated_loss": lambda a, t: calibrated_loss(_log_p(a.shadow_phi), a.keep, _log_p(a.target_phi[t])),
    "attack_r": lambda a, t: attack_r(a.shadow_phi[:, :, 0], a.keep, a.target_phi[t][:, 0]),
    "loss": lambda a, t: loss(a.target_phi[t]),
    "phi": lambda a, t: global_threshold(a.target_phi[t]),
    "hinge": lambda a, t: _hinge(a, t),
    "attack_p": lambda a, t: _attack_p(a, t),
}
TARGET_ONLY = ("loss", "phi", "hinge", "attack_p")  # need no shadow model


@dataclass(frozen=True, eq=False)
class Conclusion:
    """result: what is kept as JSON. scores[attack]: one AttackScores a target. table: of the chosen attack, every
    row, where there is one target and its members are known."""

    result: AttackResult
    scores: dict[str, list[AttackScores]]
    member: np.ndarray | None
    table: Table | None


@dataclass(frozen=True, eq=False)
class Known:
    """What is known beside the arrays. inputs (x, y): for the blind baseline. shown: of the rows, for people.
    warnings: what was found before. next_step: from these metrics to a bound; next_attack: to a stronger attack."""

    inputs: tuple[np.ndarray, np.ndarray] | None = None
    shown: Shown = Shown()  # noqa: RUF009 — frozen
    accuracy: OwnAccuracy | None = None
    warnings: tuple[str, ...] = ()
    next_step: str = DRAW_COINS
    next_attack: str | None = None


def applicable(arrays: ShadowArrays) -> list[str]:
    """The attacks that these arrays allow, in the order of the table."""
    population = arrays.population_shadow is not None and arrays.shadows > 0
    return [
        name
        for name in ATTACKS
        if (arrays.shadows > 0 or name in TARGET_ONLY)
        and (name != "rmia_offline" or population)
        and (name != "hinge" or arrays.target_hinge is not None)
        and (name != "attack_p" or arrays.population_target is not None)
    ]


def conclude(
    arrays: ShadowArrays, attack: str = "lira_online", known: Known | None = None, seed: int = 0
) -> Conclusion:
    """All attacks that apply, with `attack` the one that was chosen beforehand.

    Without target_member there are scores and warnings, and no metrics. Errors: InputError for an attack that these
    arrays do not allow.
    """
    known = known or Known()
    if attack not in ATTACKS:
        raise InputError(f"attack must be one of {', '.join(ATTACKS)}, got {attack!r}")
    usable = applicable(arrays)
    if attack not in usable:
        needs = {
            "rmia_offline": "population rows outside every training set and shadow models",
            "attack_p": "population rows outside the target's training set",
            "hinge": "logits of the target",
        }
        raise InputError(f"attack {attack} needs {needs.get(attack, 'shadow models')}; these arrays have none")
    scores = {name: [ATTACKS[name](arrays, t) for t in range(arrays.targets)] for name in usable}
    warnings = [*known.warnings, *_warnings(arrays, attack, known.inputs, seed)]
    warnings += [f"{attack}: {line}" for line in scores[attack][0].remarks()]
    attacks = tuple(_section(name, results, arrays) for name, results in scores.items())
    chosen = next(one for one in attacks if one.name == attack)
    table = None
    if arrays.target_member is not None and arrays.targets == 1:
        table = example_table(scores[attack][0], arrays.target_member[0], known.shown)
    point = None if chosen.metrics is None else chosen.metrics.at(0.01)
    result = AttackResult(
        attack=attack,
        origin=dict(arrays.origin),
        shadows=arrays.shadows,
        targets=arrays.targets,
        examples=arrays.keep.shape[1],
        views=arrays.target_phi.shape[2],
        attacks=attacks,
        warnings=tuple(warnings),
        not_a_bound=f"{NO_BOUND} {known.next_step}",
        held_out_accuracy_of_shadows=_numbers(arrays.shadow_accuracy),
        held_out_accuracy_of_targets=_numbers(arrays.target_accuracy),
        accuracy=known.accuracy,
        at_risk=() if table is None else most_at_risk(table, known.shown),
        groups=() if table is None else groups(table, None if point is None else point.threshold),
        stability=_stability(arrays, attack),
        exposures=() if chosen.metrics is None else exposures(chosen.metrics),
        next_attack=known.next_attack,
    )
    return Conclusion(result, scores, arrays.target_member, table)


def _section(name: str, results: list[AttackScores], arrays: ShadowArrays) -> Attack:
    metrics = curve = None
    if arrays.target_member is not None:
        scores, members = [r.scores for r in results], list(arrays.target_member)
        threshold = _threshold_from_a_shadow(name, arrays)
        metrics = membership_metrics(scores, members, threshold)
        curve = thinned_curve(np.concatenate(scores), np.concatenate(members))
    return Attack(
        name=name,
        details=dict(results[0].details),
        status={k: sum(r.counts()[k] for r in results) for k in results[0].counts()},
        distinct_scores=tuple(r.distinct for r in results),
        metrics=metrics,
        curve=curve,
    )


def thinned_curve(scores: np.ndarray, members: np.ndarray) -> Curve:
    """The ROC at about CURVE_POINTS of its corners, even in the logarithm of the false-positive rate."""
    curve = roc_curve(scores, members)
    size = curve.false_positive_rate.size
    keep = np.arange(size)
    if size > CURVE_POINTS:
        at = np.concatenate(
            [[0.0], np.geomspace(0.5 / curve.non_members, 1, CURVE_POINTS // 2), np.linspace(0, 1, CURVE_POINTS // 2)]
        )
        keep = np.unique(np.searchsorted(curve.false_positive_rate, at, side="right") - 1)
        keep = np.union1d(keep, [0, size - 1])
    return Curve(tuple(curve.false_positive_rate[keep].tolist()), tuple(curve.true_positive_rate[keep].tolist()))


def exposures(metrics: Metrics) -> tuple[Exposure, ...]:
    """For each prior, at the smallest false-positive rate of 1 % and 10 % that these non-members can tell."""
    point = metrics.at(0.01) or metrics.at(0.1)
    if point is None or point.interval is None or point.true_positive_rate is None:
        return ()
    realised = point.fp / (point.fp + point.tn)
    found, n = point.true_positive_rate, metrics.members
    return tuple(
        Exposure(
            prior=prior,
            false_positive_rate=point.false_positive_rate,
            found=found * n,
            found_interval=(point.interval[0] * n, point.interval[1] * n),
            false_alarms=realised * n * (1 - prior) / prior,
            precision=positive_predictive_value(found, realised, prior),
        )
        for prior in PRIORS
    )


def _stability(arrays: ShadowArrays, attack: str) -> Stability | None:
    """Of one target whose members are known; None below four shadows and for attacks that use none."""
    if arrays.target_member is None or arrays.targets != 1 or arrays.shadows < 4 or attack in TARGET_ONLY:
        return None
    halves = [arrays.half(0), arrays.half(1)]
    try:
        scores = [ATTACKS[attack](half, 0).scores for half in halves]
    except InputError:  # too few shadows on a side
        return None
    return stability(scores[0], scores[1], arrays.target_member[0], (halves[0].shadows, halves[1].shadows))


def _threshold_from_a_shadow(name: str, arrays: ShadowArrays) -> float | None:
    """The threshold of best balanced accuracy when shadow 0 is attacked with the others; None where that fails.

    Chosen without a look at any target's labels.
    """
    if arrays.shadows < 3 or not arrays.keep[0].any() or arrays.keep[0].all():
        return None
    member = arrays.keep[0]
    population = arrays.population_shadow
    inner = ShadowArrays(
        arrays.shadow_phi[1:],
        arrays.keep[1:],
        arrays.shadow_phi[:1],
        population_shadow=None if population is None else population[1:],
        population_target=None if population is None else population[:1],
    )
    if name not in applicable(inner):
        return None
    try:
        scores = ATTACKS[name](inner, 0).scores
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
    if arrays.shadows == 0:
        return lines + _blind(arrays, inputs)
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
    return lines + _blind(arrays, inputs)


def _blind(arrays: ShadowArrays, inputs: tuple[np.ndarray, np.ndarray] | None) -> list[str]:
    """A classifier on the inputs alone, for each target whose members were not drawn by coins of our own."""
    if inputs is None or arrays.target_member is None or _own_targets(arrays):
        return []
    lines = []
    few = np.sort(numpy_stream(0, "blind/rows").permutation(len(inputs[1]))[:BLIND_ROWS])
    for t, members in enumerate(arrays.target_member):
        member = members[few]
        if min(member.sum(), (~member).sum()) < FOLDS:
            continue
        blind = blind_baseline(inputs[0][few], inputs[1][few], member, seed=0)
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


def _hinge(arrays: ShadowArrays, t: int) -> AttackScores:
    assert arrays.target_hinge is not None
    return global_threshold(arrays.target_hinge[t], "hinge")


def _attack_p(arrays: ShadowArrays, t: int) -> AttackScores:
    assert arrays.population_target is not None
    return attack_p(arrays.target_phi[t][:, 0], arrays.population_target[t])


def _numbers(values: np.ndarray | None) -> tuple[float | None, ...] | None:
    return None if values is None else tuple(float(v) if np.isfinite(v) else None for v in values)
