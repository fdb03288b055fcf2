"""Attacks × number of shadow models on handwritten digits with an overfitted network, one command.

    python reports/experiments/attacks_table.py

Independent groups: each trains 64 shadow models and 4 targets of its own, all on the same 1,442 digits, one label in
ten replaced at random (once, for all groups). Within a group the scores of the 4 targets are pooled; targets that share
shadow models are dependent, so that intervals come from the groups alone: Student t over the groups' values. They speak
of this data set and recipe. With k shadows the first k of the 64 are used, in every group; comparisons are paired.
Resumable: the models' phi lies in --output, the same command goes on. About five minutes of one core in all.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import log_expit

from coalmine.attacks import AttackScores, attack_r, base, calibrated_loss, lira, loss, midpoint, rmia
from coalmine.attacks.shadow_arrays import ShadowArrays
from coalmine.audit.estimators.roc import auc
from coalmine.audit.lira import Work, engine_recipe, shadow_arrays, universe
from coalmine.audit.lira_metrics import over_groups, true_positive_rate_at
from coalmine.audit.training.data import checked_data, load_data
from coalmine.audit.training.settings import TrainingSettings
from coalmine.foundation import numpy_stream

SHADOWS, TARGETS, COUNTS = 64, 4, (4, 8, 16, 32, 64)
Attack = Callable[[ShadowArrays, int], AttackScores]


def of_lira(*arguments: str, **keywords: str) -> Attack:
    return lambda a, t: lira(a.shadow_phi, a.keep, a.target_phi[t], *arguments, **keywords)


def on_log_p(attack: Callable[..., AttackScores], *more: str) -> Attack:
    return lambda a, t: attack(log_p(a.shadow_phi), a.keep, log_p(a.target_phi[t]), *more)


def log_p(phi: np.ndarray) -> np.ndarray:
    return log_expit(phi[..., 0].astype(np.float64))


def of_rmia(a: ShadowArrays, t: int) -> AttackScores:
    assert a.population_shadow is not None and a.population_target is not None
    population = log_expit(a.population_shadow), log_expit(a.population_target[t])
    return rmia(log_p(a.shadow_phi), a.keep, log_p(a.target_phi[t]), *population)


ATTACKS: dict[str, Attack] = {
    "LiRA online, per example": of_lira("online", "per_example"),
    "LiRA online, pooled": of_lira("online", "pooled"),
    "LiRA online, shrunk, plain centre": of_lira("online", "shrunk", "mean"),
    "LiRA online, shrunk": of_lira("online", "shrunk"),
    "LiRA online, 2021 code": of_lira("online", "per_example", variant="carlini2021"),
    "LiRA online, 2021 code, fixed": of_lira("online", "fixed_raw", variant="carlini2021"),
    "LiRA offline, per example": of_lira("offline", "per_example"),
    "LiRA offline, pooled": of_lira("offline", "pooled"),
    "LiRA offline, shrunk": of_lira("offline", "shrunk"),
    "LiRA offline, two-sided, per example": of_lira("offline_two_sided", "per_example"),
    "BASE online": on_log_p(base),
    "BASE offline": on_log_p(base, "offline"),
    "RMIA offline": of_rmia,
    "midpoint": on_log_p(midpoint),
    "calibrated loss": on_log_p(calibrated_loss),
    "Attack-R": on_log_p(attack_r),
    "loss": lambda a, t: loss(a.target_phi[t]),
}
METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "AUC": auc,
    "TPR at 1% FPR": lambda s, m: true_positive_rate_at(s, m, 0.01),
    "TPR at 0.1% FPR": lambda s, m: true_positive_rate_at(s, m, 0.001),
}


def group(number: int, folder: Path) -> ShadowArrays:
    """64 shadows and 4 targets of one group, trained where missing."""
    digits = load_data("digits")
    random = numpy_stream(0, "label_noise")
    noisy = random.random(len(digits.y)) < 0.1
    y = np.where(noisy, random.integers(0, 10, len(digits.y)), digits.y)
    data = checked_data("digits, 10 % random labels", digits.x, y, digits.x_test, digits.y_test, classes=digits.classes)
    rows = universe(data)
    settings = TrainingSettings(
        steps_per_epoch=12, epochs=60, learning_rate=0.1, momentum=0.9, public_size=rows.expected_size(0.5)
    )
    recipe = engine_recipe(rows, "mlp", settings, chunk=16)
    arrays = shadow_arrays(rows, recipe, Work(folder, seed=number, chunk=16), SHADOWS, targets=TARGETS)
    assert arrays is not None and arrays.target_member is not None
    return arrays


def rows_of(arrays: ShadowArrays, number: int) -> list[dict[str, object]]:
    """One row an attack, number of shadows and metric: pooled over the targets of the group."""
    rows = []
    members = np.concatenate(list(arrays.target_member)) if arrays.target_member is not None else np.zeros(0, bool)
    for count in COUNTS:
        part = arrays.first(count)
        for name, attack in ATTACKS.items():
            if "2021" in name and min(part.keep.sum(axis=0).min(), (~part.keep).sum(axis=0).min()) == 0:
                continue  # that code makes every score NaN as soon as one example is in all shadows, or in none
            scores = np.concatenate([attack(part, t).scores for t in range(arrays.targets)])
            for metric, statistic in METRICS.items():
                rows.append(
                    {
                        "group": number,
                        "attack": name,
                        "shadows": count,
                        "metric": metric,
                        "value": statistic(scores, members),
                    }
                )
    return rows


def table(frame: pd.DataFrame, metric: str, scale: float) -> str:
    """Markdown: attacks down, shadows across, mean [interval]."""
    lines = [f"| {metric} | " + " | ".join(f"{c} shadows" for c in COUNTS) + " |", "|---" * (len(COUNTS) + 1) + "|"]
    for name in ATTACKS:
        cells = []
        for count in COUNTS:
            values = frame[(frame.attack == name) & (frame.shadows == count) & (frame.metric == metric)]["value"]
            if len(values) < frame.group.nunique():
                cells.append("fails")
                continue
            mean, low, high = (scale * v for v in over_groups(values.to_numpy()))
            digits = 3 if scale == 1 else 1
            cells.append(f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def comparison(frame: pd.DataFrame, better: tuple[str, int], worse: tuple[str, int]) -> str:
    """Paired differences over the groups."""
    lines = []
    for metric in METRICS:
        chosen = frame[frame.metric == metric].pivot_table(index="group", columns=["attack", "shadows"], values="value")
        mean, low, high = over_groups((chosen[better] - chosen[worse]).to_numpy())
        lines.append(
            f"{metric}: {better[0]} at {better[1]} shadows minus {worse[0]} at {worse[1]}: "
            f"{mean:+.4f} [{low:+.4f}, {high:+.4f}]"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=8)
    parser.add_argument("--output", type=Path, default=Path("runs/attacks_table"))
    given = parser.parse_args()
    rows: list[dict[str, object]] = []
    for number in range(given.groups):
        arrays = group(number, given.output / f"group{number}")
        rows += rows_of(arrays, number)
        print(f"group {number}: held-out accuracy of the targets {np.round(arrays.target_accuracy, 3)}", flush=True)
    frame = pd.DataFrame(rows)
    frame.to_csv(given.output / "values.csv", index=False)
    print(f"\n{given.groups} groups of {SHADOWS} shadows and {TARGETS} targets; mean [95 % interval over groups]\n")
    for metric, scale in (("AUC", 1.0), ("TPR at 1% FPR", 100.0), ("TPR at 0.1% FPR", 100.0)):
        print(table(frame, metric, scale) + "\n")
    print(comparison(frame, ("LiRA online, shrunk", 8), ("LiRA online, per example", 64)) + "\n")
    print(comparison(frame, ("LiRA online, pooled", 8), ("LiRA online, per example", 64)) + "\n")
    print(comparison(frame, ("LiRA online, shrunk", 16), ("LiRA online, per example", 64)) + "\n")
    print(comparison(frame, ("LiRA online, shrunk", 8), ("LiRA online, 2021 code", 64)) + "\n")
    print(comparison(frame, ("LiRA online, shrunk", 8), ("LiRA online, 2021 code, fixed", 64)) + "\n")
    print(comparison(frame, ("LiRA online, shrunk", 8), ("LiRA online, shrunk, plain centre", 8)) + "\n")
    print(comparison(frame, ("LiRA online, shrunk", 8), ("LiRA online, pooled", 8)) + "\n")
    print(comparison(frame, ("LiRA online, shrunk", 64), ("LiRA online, pooled", 64)) + "\n")
    print(comparison(frame, ("BASE online", 8), ("LiRA online, shrunk", 8)))


if __name__ == "__main__":
    main()
