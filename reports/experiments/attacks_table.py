"""Attacks × number of shadow models with an overfitted network, one command.

    python reports/experiments/attacks_table.py
    python reports/experiments/attacks_table.py --data imagefolder:CIFAR10 --rows 2000 --model cnn-137k --groups 3 \\
        --shadows 4 --targets 1 --steps-per-epoch 16 --epochs 60 --learning-rate 0.1 --chunk 4 --output runs/cifar

Independent groups: each trains shadow models (64) and targets (4) of its own, all on the same rows, by default 1,442
handwritten digits, one training label in ten replaced at random once for all groups. Within a group the scores of the
targets are pooled; targets that share shadow models are dependent, so that intervals come from the groups alone:
Student t over the groups' values. They speak of this data set and recipe. With k shadows the first k of a group are
used; comparisons are paired. Resumable: the models' phi lies in --output, the same command goes on.
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
from coalmine.audit.attack.metrics import over_groups, true_positive_rate_at
from coalmine.audit.estimators.roc import auc
from coalmine.audit.lira.shadows import Plan, shadow_arrays
from coalmine.audit.recipe import engine_recipe
from coalmine.audit.rows import Universe, universe
from coalmine.audit.training.data import checked_data, load_data
from coalmine.audit.training.settings import TrainingSettings
from coalmine.audit.work import Work
from coalmine.foundation import numpy_stream

COUNTS = (4, 8, 16, 32, 64)
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


SHRUNK, OWN, CODE = "LiRA online, shrunk", "LiRA online, per example", "LiRA online, 2021 code"
COMPARISONS: tuple[tuple[tuple[str, int], tuple[str, int]], ...] = (
    ((SHRUNK, 8), (OWN, 64)),
    ((SHRUNK, 16), (OWN, 64)),
    ((SHRUNK, 8), (CODE, 64)),
    ((SHRUNK, 8), (f"{CODE}, fixed", 64)),
    ((SHRUNK, 8), (f"{SHRUNK}, plain centre", 8)),
    ((SHRUNK, 8), ("LiRA online, pooled", 8)),
    ((SHRUNK, 8), ("BASE online", 8)),
    ((SHRUNK, 64), (OWN, 64)),
)


def noisy_rows(source: str, rows: int | None) -> Universe:
    """The data with one training label in ten replaced at random; test labels stay. rows: that many, at random."""
    clean = load_data(source)
    random = numpy_stream(0, "label_noise")
    noisy = random.random(len(clean.y)) < 0.1
    y = np.where(noisy, random.integers(0, len(clean.classes), len(clean.y)), clean.y)
    name = f"{clean.name}, 10 % random labels"
    some = np.sort(numpy_stream(0, "rows").permutation(len(y))[:rows])
    test = np.sort(numpy_stream(0, "test_rows").permutation(len(clean.y_test))[:rows])
    parts = clean.x[some], y[some], clean.x_test[test], clean.y_test[test]
    return universe(checked_data(name, *parts, classes=clean.classes))


def group(rows: Universe, number: int, given: argparse.Namespace) -> ShadowArrays:
    """The shadows and targets of one group, trained where missing."""
    settings = TrainingSettings(
        steps_per_epoch=given.steps_per_epoch,
        epochs=given.epochs,
        learning_rate=given.learning_rate,
        momentum=0.9,
        public_size=rows.expected_size(0.5),
    )
    recipe = engine_recipe(rows, given.model, settings, chunk=given.chunk)
    work = Work(given.output / f"group{number}", seed=number, chunk=given.chunk)
    arrays = shadow_arrays(rows, recipe, work, Plan(given.shadows, given.targets))
    assert arrays is not None and arrays.target_member is not None
    return arrays


def fit_of_targets(arrays: ShadowArrays) -> str:
    """How well the targets know held-out rows and their own."""
    assert arrays.target_accuracy is not None and arrays.target_member is not None
    own = [(phi[:, 0] > 0)[member].mean() for phi, member in zip(arrays.target_phi, arrays.target_member, strict=True)]
    return (
        f"held-out accuracy of the targets {np.round(arrays.target_accuracy, 3)}, "
        f"share of their training rows with p > 1/2 for the label {np.round(own, 3)}"
    )


def rows_of(arrays: ShadowArrays, number: int) -> list[dict[str, object]]:
    """One row an attack, number of shadows and metric: pooled over the targets of the group."""
    rows = []
    members = np.concatenate(list(arrays.target_member)) if arrays.target_member is not None else np.zeros(0, bool)
    for count in [c for c in COUNTS if c <= arrays.shadows]:
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
    counts = sorted(frame.shadows.unique())
    lines = [f"| {metric} | " + " | ".join(f"{c} shadows" for c in counts) + " |", "|---" * (len(counts) + 1) + "|"]
    for name in ATTACKS:
        cells = []
        for count in counts:
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
    parser.add_argument("--first-group", type=int, default=0, help="Other groups than the first: a fresh sample.")
    parser.add_argument("--shadows", type=int, default=64)
    parser.add_argument("--targets", type=int, default=4)
    parser.add_argument("--data", default="digits")
    parser.add_argument(
        "--rows", type=int, help="Training rows to use, and at most as many test rows; all if left out."
    )
    parser.add_argument("--model", default="mlp")
    parser.add_argument("--steps-per-epoch", type=int, default=12)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--chunk", type=int, default=16)
    parser.add_argument("--output", type=Path, default=Path("runs/attacks_table"))
    given = parser.parse_args()
    data = noisy_rows(given.data, given.rows)
    rows: list[dict[str, object]] = []
    for number in range(given.first_group, given.first_group + given.groups):
        arrays = group(data, number, given)
        rows += rows_of(arrays, number)
        print(f"group {number}: {fit_of_targets(arrays)}", flush=True)
    frame = pd.DataFrame(rows)
    frame.to_csv(given.output / "values.csv", index=False)
    print(f"\n{given.groups} groups of {given.shadows} shadows and {given.targets} targets")
    print("mean [95 % interval over groups]\n")
    for metric, scale in (("AUC", 1.0), ("TPR at 1% FPR", 100.0), ("TPR at 0.1% FPR", 100.0)):
        print(table(frame, metric, scale) + "\n")
    for better, worse in COMPARISONS:
        if max(better[1], worse[1]) <= given.shadows:
            print(comparison(frame, better, worse) + "\n")


if __name__ == "__main__":
    main()
