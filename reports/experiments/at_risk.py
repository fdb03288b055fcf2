"""Do at-risk lists name the rows that are at risk? Digits with planted mislabelled rows, precision at 20 over seeds.

Twenty of the about 900 training rows get a wrong label, and so do twenty of the rows outside. A model that fits the
first gives them away. Lists: by LiRA with shadows, and by the loss alone. Precision at 20: how many of the first twenty
members of the list are planted; by chance it would be 0.02.

    python reports/experiments/at_risk.py --seeds 20
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from coalmine.audit.attack.attack import Question, attack
from coalmine.audit.attack.candidates import Candidates
from coalmine.audit.attack.target import Target
from coalmine.audit.lira.lira import lira
from coalmine.audit.lira.shadows import Plan
from coalmine.audit.recipe import engine_recipe
from coalmine.audit.rows import universe_of
from coalmine.audit.training.settings import TrainingSettings
from coalmine.audit.work import Work

PLANTED = TOP = 20
CLASSES = tuple("0123456789")


def rows_with_wrong_labels(seed: int) -> tuple[Candidates, np.ndarray]:
    """Half of the digits are members; 20 members and 20 others are mislabelled. Second: which, (n,) bool."""
    random = np.random.default_rng(seed)
    x, y = load_digits(return_X_y=True)
    x, y = (x / 16).astype(np.float32).reshape(-1, 1, 8, 8), y.astype(np.int64)
    member = random.random(len(y)) < 0.5
    planted = np.zeros(len(y), bool)
    for side in (member, ~member):
        planted[random.choice(np.flatnonzero(side), PLANTED, replace=False)] = True
    y = np.where(planted, (y + random.integers(1, 10, len(y))) % 10, y)
    none = x[:0], y[:0]
    return Candidates(x, y, member, CLASSES, "digits", f"planted {seed}", *none), planted


def precision(seed: int, shadows: int, epochs: int, folder: Path) -> tuple[float, float, float]:
    """(precision at 20 with shadows, without, rank correlation between halves of the shadows)."""
    rows, planted = rows_with_wrong_labels(seed)
    settings = TrainingSettings(12, epochs, 0.1, public_size=float(len(rows.y) / 2), momentum=0.9)
    recipe = engine_recipe(universe_of(rows), "mlp", settings)
    module = recipe.train_many(rows.member[None], [10_000 + seed])[0]
    target = Target(module, "target", "mlp", classes=CLASSES)
    strong = lira(rows, recipe, Work(folder / str(seed), seed), Plan(shadows), target)
    weak = attack(target, rows, Question())
    assert strong is not None
    share = [np.mean([planted[one.row] for one in c.result.at_risk[:TOP]]) for c in (strong, weak)]
    stable = strong.result.stability
    return float(share[0]), float(share[1]), float("nan") if stable is None else stable.rank_correlation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--shadows", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=40)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = np.array([precision(s, given.shadows, given.epochs, Path(folder)) for s in range(given.seeds)])
    for name, column in zip(
        (
            f"LiRA, {given.shadows} shadows: precision at 20",
            "loss alone: precision at 20",
            "rank correlation of halves",
        ),
        found.T,
        strict=True,
    ):
        error = column.std(ddof=1) / np.sqrt(len(column)) if len(column) > 1 else float("nan")
        print(f"{name:38}{column.mean():.3f} ± {error:.3f} (standard error; {column.min():.2f} to {column.max():.2f})")


if __name__ == "__main__":
    main()
