"""What refinement costs against retraining: CPU seconds until the same objective is reached, on digits.

    python reports/experiments/canaries_cost.py --count 1000 --start random
    python reports/experiments/canaries_cost.py --count 400 --start binary_noise

Both methods begin with the same set, look through the same network and recipe (canaries_table.py) and lower the same
ranking objective, which both measure on freshly trained replicas before they move: refinement at every restart,
metagradient (the exact derivative through retraining) at every meta-step. For levels between the first and the lowest
that either measured, the seconds until a step that began at it was over, "–" where it was not reached; then how
detectable the finished sets are.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from canaries_table import DELTA, FULL, SHORT, digits, trainer

from coalmine.audit.craft import craft_for
from coalmine.audit.evaluate import evaluate_canaries
from coalmine.canaries import CanarySet


def timed(method: str, count: int, seed: int, **options: object) -> tuple[CanarySet, list[tuple[float, float]]]:
    """(set, [(CPU seconds, objective)] as it was measured along the way)."""
    started, path = time.process_time(), []

    def note(record: dict[str, float]) -> None:
        path.append((time.process_time() - started, float(record["outer"])))
        print(f"  {method}: {path[-1][0]:.0f} s, objective {path[-1][1]:.3f}", flush=True)

    listener = {"ibis": "on_restart", "metagradient": "on_step"}[method]
    canaries = craft_for(digits(), method, count, seed, trainer("plain"), **options, **{listener: note})  # type: ignore
    return canaries, path


def first_time(path: list[tuple[float, float]], level: float) -> float | None:
    return next((seconds for seconds, value in path if value <= level), None)


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", choices=["random", "binary_noise"], default="random")
    parser.add_argument("--meta-steps", type=int, default=16)
    given = parser.parse_args()
    torch.set_num_threads(1)
    refinement = FULL if given.start == "random" else SHORT
    refined, fast = timed("ibis", given.count, given.seed, start=given.start, refinement=refinement)
    retrained, slow = timed("metagradient", given.count, given.seed, start=given.start, meta_steps=given.meta_steps)
    best = min(value for _, value in (*fast, *slow))
    worst = min(fast[0][1], slow[0][1])
    print(f"\n{given.count} canaries from {given.start}, objective from {worst:.3f}")
    print("| objective | refinement, CPU s | retraining, CPU s | ratio |\n|---|---|---|---|")
    for share in (0.25, 0.5, 0.75, 1.0):
        level = worst + share * (best - worst)
        one, other = first_time(fast, level), first_time(slow, level)
        ratio = f"{other / one:.1f}" if one and other else "–"
        print(f"| {level:.3f} | {_seconds(one)} | {_seconds(other)} | {ratio} |")
    for name, canaries, path in (("refinement", refined, fast), ("retraining", retrained, slow)):
        runs = evaluate_canaries(canaries, digits(), trainer("plain"), 4, 10_000 + given.seed, DELTA)
        rate, auc = (np.mean([getattr(run, column) for run in runs]) for column in ("true_positive_rate", "auc"))
        print(f"{name}: {path[-1][0]:.0f} CPU s in all; TPR at FPR 0.05 {rate:.3f}, AUC {auc:.3f} over 4 audits")


if __name__ == "__main__":
    main()
