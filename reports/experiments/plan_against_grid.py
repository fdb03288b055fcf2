"""Is the planner's setting as good as the best of a full grid? And what do the ways of accounting cost in accuracy?

    python reports/experiments/plan_against_grid.py --data digits --epsilon 2 --grid --output runs/plan_against_grid

Runs `coalmine plan --measure` with its defaults, then (with --grid) every setting of the same grid for the whole of its
run with the same seeds, takes the best by validation accuracy, and trains both on all training rows with the same ten
fresh seeds. Data: digits, or breast_cancer (scikit-learn's, 569 rows, each column standardised).
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from coalmine.audit.cli import main as coalmine
from coalmine.audit.planning.measure import validation_rows
from coalmine.audit.planning.noise_table import NoiseTable
from coalmine.audit.planning.setting import grid
from coalmine.audit.planning.stacked_runs import Clock, Job, Rows, StackedRuns, split_seeds
from coalmine.audit.planning.utility_plan import MeanAccuracy, UtilityPlan
from coalmine.audit.training.data import load_data
from coalmine.audit.training.models import build_model
from coalmine.foundation import numpy_stream, read_json, write_json

MODEL, SEED = "mlp", 0


def source_of(name: str, folder: Path) -> str:
    if name == "digits":
        return name
    import pandas as pd
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    x = (bunch.data - bunch.data.mean(0)) / bunch.data.std(0)  # type: ignore[union-attr]
    frame = pd.DataFrame(x).round(4)
    frame["label"] = bunch.target  # type: ignore[union-attr]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "breast_cancer.csv"
    frame.to_csv(path, index=False)
    return str(path)


def plan(source: str, epsilon: float, folder: Path) -> tuple[UtilityPlan, float]:
    started = time.process_time()
    arguments = ["plan", "--measure", "--data", source, "--model", MODEL, "--epsilon", str(epsilon)]
    arguments += ["--seed", str(SEED), "--public", "--folder", str(folder)]
    try:
        coalmine(arguments)
    except SystemExit as stop:
        if stop.code:
            raise
    spent = time.process_time() - started
    return UtilityPlan.from_json(read_json(folder / "plan.json", "plan")), spent


def best_of_grid(source: str, found: UtilityPlan, folder: Path) -> dict[str, object]:
    """Every setting whole, in the planner's own pieces; the winner by validation, on the planner's fresh seeds."""
    data = load_data(source)
    started = time.process_time()
    table = NoiseTable(folder / "noise.json", dict(found.target))
    clock = Clock(folder / "cpu_time.json", 1e9)
    identity = f"{data.fingerprint} {MODEL} {found.version}"
    runs = StackedRuns(
        folder / "pieces", identity, lambda s: build_model(MODEL, data.input_shape, len(data.classes), s), clock
    )
    seeds = split_seeds(numpy_stream(SEED, "plan/search"), found.effort.search_seeds)
    fresh = split_seeds(numpy_stream(SEED, "plan/fresh"), found.effort.fresh_seeds)
    validation, test = validation_rows(data), Rows("test", data.x, data.y, data.x_test, data.y_test)
    jobs = []
    for s in grid():
        noise = table.random_allocation(s.steps_per_epoch, s.epochs)["noise_multiplier"]
        jobs.append(Job(s, noise, "random_allocation", seeds))
    scores = [float(np.mean(runs.accuracies(job, validation, job.setting.epochs))) for job in jobs]
    best = jobs[int(np.argmax(scores))]
    values = runs.accuracies(Job(best.setting, best.noise_multiplier, best.sampler, fresh), test, best.setting.epochs)
    chosen = found.chosen.accuracy
    assert chosen is not None
    lost = [a - b for a, b in zip(values, chosen.values, strict=True)]
    steps = found.effort.full_grid_steps
    return {
        "setting": best.setting.to_json(),
        "validation_accuracy": max(scores),
        "planner_rank_in_the_grid": 1
        + sum(score > scores[[j.setting for j in jobs].index(found.winner.setting)] for score in scores),
        "test_accuracy": MeanAccuracy.of(values).to_json(),
        "planner_loses": MeanAccuracy.of(lost).to_json(),
        "steps": steps,
        "steps_over_search": steps / found.effort.search_steps,
        "steps_with_fresh_over_planner": (steps + len(fresh) * best.setting.steps)
        / (found.effort.search_steps + len(fresh) * found.winner.setting.steps),
        "cpu_minutes_beyond_the_planner": (time.process_time() - started) / 60,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=("digits", "breast_cancer"), default="digits")
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--grid", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("runs/plan_against_grid"))
    given = parser.parse_args()
    folder = given.output / f"{given.data}-{given.epsilon:g}"
    source = source_of(given.data, given.output)
    found, spent = plan(source, given.epsilon, folder)
    result = {
        "data": given.data,
        "epsilon": given.epsilon,
        "planner_cpu_minutes": spent / 60,
        "planner": found.winner.setting.to_json(),
        "arms": [arm.to_json() for arm in found.arms],
        "effort": found.effort.to_json(),
    }
    if given.grid:
        result["grid"] = best_of_grid(source, found, folder)
    write_json(folder / "against_grid.json", result)
    print(json.dumps({key: value for key, value in result.items() if key != "arms"}, indent=2))


if __name__ == "__main__":
    main()
