"""How often does the demo show what it should? `python reports/experiments/demo_seeds.py --seeds 50`

Runs the whole demo for seeds 0 … n-1 and counts: run without noise rejected, private run not rejected, both.
Finished seeds are kept in the folder and not run again.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from coalmine.audit import AuditResult, RunRecord
from coalmine.audit.demo import run_demo
from coalmine.audit.estimators.rates import clopper_pearson
from coalmine.foundation import read_json, write_json


def main(
    seeds: Annotated[int, typer.Option(help="How many.")] = 50,
    first: Annotated[int, typer.Option(help="The first seed.")] = 0,
    folder: Annotated[Path, typer.Option(help="Results, one small file a seed.")] = Path("runs/demo_seeds"),
) -> None:
    rows = []
    for seed in range(first, first + seeds):
        file = folder / f"{seed}.json"
        if not file.exists():
            with tempfile.TemporaryDirectory() as scratch:
                result = run_demo(scratch, seed)
            row = {name: _facts(audit, result.records[name]) for name, audit in result.audits.items()}
            write_json(file, row)
        rows.append(read_json(file, "result of a seed"))
    for name in ("private", "noise_forgotten"):
        verdicts = [row[name]["verdict"] for row in rows]
        rejected = verdicts.count("rejected")
        low, high = clopper_pearson(rejected, len(rows), 0.95)
        facts = {key: np.array([row[name][key] for row in rows]) for key in ("p_value", "attack", "test_accuracy")}
        print(
            f"{name}: rejected for {rejected} of {len(rows)} seeds [{low:.3f}, {high:.3f}]; "
            f"largest p-value {facts['p_value'].max():.3g}, smallest {facts['p_value'].min():.3g}; "
            f"attack accuracy {facts['attack'].mean():.3f} ± {facts['attack'].std(ddof=1):.3f}, "
            f"test accuracy {facts['test_accuracy'].mean():.3f} ± {facts['test_accuracy'].std(ddof=1):.3f}"
        )
    as_told = sum(
        row["noise_forgotten"]["verdict"] == "rejected" and row["private"]["verdict"] == "not_rejected" for row in rows
    )
    print(f"both as they should be: {as_told} of {len(rows)} seeds")


def _facts(audit: AuditResult, record: RunRecord) -> dict:
    attack = audit.named("attack_accuracy")
    assert attack is not None
    facts = {"verdict": audit.verdict, "p_value": audit.p_value, "attack": attack.value}
    return facts | {"test_accuracy": record.test_accuracy}


if __name__ == "__main__":
    typer.run(main)
