"""What one run, many runs, and the white box prove for the same number of trainings.

    python reports/experiments/equal_compute.py [folder]

Digits, a small network, M = 10, E = 20, random allocation; 100 canaries a run, 32 runs a noise multiplier, trained once
and read in four ways: each run alone (the median of 32 audits of one training each), all runs together, one canary of
each run (independent trainings, class C), and all that in black box (phi) and white box (log-likelihood ratio).
Writes equal_compute.csv. What a trained model says hangs on the processor's rounding; the white box hangs on noise.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from coalmine.audit.compare.conclude import Attacked, allowed, conclude
from coalmine.audit.compare.grid import Grid
from coalmine.audit.compare.run import plan_grid
from coalmine.audit.estimators import accuracy_epsilon, clopper_pearson, order_guesses
from coalmine.audit.training.data import load_data
from coalmine.audit.work import Work
from coalmine.foundation import write_text

GRID = Grid(noise_multiplier=(0.8, 2.0, 5.0), steps_per_epoch=(10,), epochs=(20,), runs=32)
HEAD = (
    "noise_multiplier,access,reading,trainings,n,accuracy,lower,upper,accuracy_allowed,epsilon,epsilon_allowed,"
    "share,class"
)


def main(folder: Path) -> None:
    data = load_data("digits")
    lines = [HEAD]
    work = Work(Path("runs/equal_compute"), chunk=16)
    for plan in plan_grid(GRID, data, work):
        attacked, test_accuracy = plan.attack(work)
        theory = allowed(plan.cell.mechanism, GRID.delta)
        rows = list(conclude(plan.cell, GRID, attacked, test_accuracy))
        for one in attacked:
            mine = [row for row in rows if row["access"] == one.access]
            for reading, n, trainings, numbers, epsilon, validity in (
                _median(mine), _together(mine), _one_canary_a_run(one)
            ):  # fmt: skip
                share = epsilon / theory.epsilon[2]
                lines.append(
                    f"{plan.cell.noise_multiplier},{one.access},{reading},{trainings},{n},"
                    + ",".join(f"{number:.4f}" for number in (*numbers, theory.accuracy[2], epsilon))
                    + f",{theory.epsilon[2]:.4f},{share:.4f},{validity}"
                )
                print(lines[-1], flush=True)
    write_text(folder / "equal_compute.csv", "\n".join(lines) + "\n")


def _median(rows: list[dict]) -> tuple:
    """Of the runs' own audits: a typical one, no bound of anything together."""
    of = {name: [r for r in rows if r["together"] == "one_run" and r["quantity"] == name] for name in
          ("attack_accuracy", "epsilon")}  # fmt: skip
    middle = sorted(of["attack_accuracy"], key=lambda row: row["value"])[len(of["attack_accuracy"]) // 2]
    epsilon = float(np.median([row["value"] for row in of["epsilon"]]))
    return "one run", middle["n"], 1, (middle["value"], middle["lower"], middle["upper"]), epsilon, "A"


def _together(rows: list[dict]) -> tuple:
    accuracy, epsilon = (
        next(r for r in rows if r["together"] == "all_runs" and r["quantity"] == name)
        for name in ("attack_accuracy", "epsilon")
    )
    numbers = (accuracy["value"], accuracy["lower"], accuracy["upper"])
    return "all runs", accuracy["n"], accuracy["runs"], numbers, epsilon["value"], epsilon["class"]


def _one_canary_a_run(one: Attacked) -> tuple:
    """Canary r of run r: its errors are independent because its training is."""
    runs = len(one.scores)
    place = (np.arange(runs), np.arange(runs) % one.scores.shape[1])
    scores, members = one.scores[place], one.members[place]
    if one.access == "white_box":
        correct = one.rule.all_guessed(scores, members)[0]
    else:
        correct = int(order_guesses(scores, members).correct(runs))
    low, high = clopper_pearson(correct, runs, GRID.confidence)
    epsilon = accuracy_epsilon(correct, runs, GRID.delta, GRID.confidence)
    return "one canary a run", runs, runs, (correct / runs, float(low), float(high)), epsilon, "C"


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/equal_compute"))
