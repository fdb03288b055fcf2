"""How well `coalmine check` does, on trainers whose truth is known (tests/zoo): run from the root of the repository.

    python reports/experiments/check_table.py right --seeds 15 --output runs/check_right.jsonl
    python reports/experiments/check_table.py faults --seeds 10 --output runs/check_faults.jsonl
    python reports/experiments/check_table.py accuracy --output runs/check_accuracy.jsonl
    python reports/experiments/check_table.py show runs/check_right.jsonl runs/check_faults.jsonl

Lines are added as they are done and what is there is not done again, so that a run can be stopped and resumed. `show`
prints: false alarms by trainer, p-values of every finding on right trainers against the uniform law; and fault × found
by which finding × power × seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import binom, kstest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from zoo.faults import FAULTS  # noqa: E402
from zoo.plain import Plain  # noqa: E402
from zoo.right import RIGHT  # noqa: E402

from coalmine.audit.bounds import RandomAllocation  # noqa: E402
from coalmine.audit.white_box import CheckSettings, check  # noqa: E402

ALPHA = 0.01


def done(path: Path) -> set[tuple[str, int]]:
    if not path.exists():
        return set()
    return {(row["name"], row["seed"]) for row in map(json.loads, path.read_text("utf-8").splitlines())}


def add(path: Path, row: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def one(name: str, train: Any, claim: Any, seed: int, group: str, records: int) -> dict[str, Any]:
    start = time.process_time()
    result = check(train, claim, CheckSettings(records=records, seed=seed, alpha=ALPHA))
    return {
        "group": group,
        "name": name,
        "seed": seed,
        "verdict": result.verdict,
        "seconds": round(time.process_time() - start, 3),  # of one core: others may use the machine
        "found": {f.name: f.status for f in result.findings if f.status in ("violated", "differs", "warning")},
        "p": {f.name: f.p_value for f in result.findings if f.p_value is not None},
        "adjusted": min((f.adjusted_p_value for f in result.findings if f.adjusted_p_value is not None), default=None),
    }


def run(path: Path, cases: list[tuple[str, Any, Any]], seeds: int, group: str, records: int) -> None:
    there = done(path)
    for number in range(1, seeds + 1):
        for place, (name, train, claim) in enumerate(cases):
            seed = 1000 * place + number  # no two checks share a draw
            if (name, seed) not in there:
                add(path, one(name, train, claim, seed, group, records))


def accuracy(path: Path, seeds: int) -> None:
    """White-box one-run accuracy against the exact one, over a grid of claims."""
    from zoo import plain

    there = done(path)
    for steps, epochs, sigma in ((10, 1, 0.5), (10, 5, 0.7), (10, 5, 1.5), (30, 2, 0.6), (30, 10, 1.0), (4, 20, 2.0)):
        name = f"M {steps}, E {epochs}, sigma {sigma:g}"
        for seed in range(1, seeds + 1):
            if (name, seed) in there:
                continue

            class Trainer(Plain):
                def batches(self, n: int, steps: int = steps, epochs: int = epochs) -> Any:
                    for _ in range(epochs):
                        step = torch.randint(steps, (n,))
                        yield from (torch.nonzero(step == t)[:, 0] for t in range(steps))

                def noise(self, total: Any, sigma: float = sigma) -> Any:
                    return plain.gaussian(total, sigma)

            claim = RandomAllocation(steps, epochs, sigma)
            result = check(Trainer(), claim, CheckSettings(records=400, seed=seed, alpha=ALPHA, replays=False))
            found = result["one_run_audit"]
            add(
                path,
                {
                    "group": "accuracy",
                    "name": name,
                    "seed": seed,
                    "correct": found.details["correct"],
                    "canaries": found.details["canaries"],
                    "lower": found.details["accuracy_lower"],
                    "upper": found.details["accuracy_upper"],
                    "p": {"one_run_audit": found.p_value},
                    "verdict": result.verdict,
                },
            )


def show(paths: list[Path]) -> None:
    rows = [json.loads(line) for path in paths for line in path.read_text("utf-8").splitlines()]
    by_group: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        by_group[row["group"]][row["name"]].append(row)
    if right := by_group.get("right"):
        _show_right(right)
    if faults := by_group.get("faults"):
        _show_faults(faults)
    if grid := by_group.get("accuracy"):
        _show_accuracy(grid)


def _show_right(right: dict[str, list[dict[str, Any]]]) -> None:
    print("| right trainer | checks | violated | differs | weaknesses named | core seconds, median |")
    print("|---|---|---|---|---|---|")
    alarms = total = 0
    for name, rows in right.items():
        violated, differs = (sum(r["verdict"] == v for r in rows) for v in ("violated", "differs"))
        warned = sorted({n for r in rows for n, s in r["found"].items() if s == "warning"})
        seconds = float(np.median([r["seconds"] for r in rows]))
        print(f"| {name} | {len(rows)} | {violated} | {differs} | {', '.join(warned) or '-'} | {seconds:.1f} |")
        alarms, total = alarms + violated + differs, total + len(rows)
    allowed = int(binom.ppf(0.99, total, ALPHA))
    print(f"\n{alarms} false alarms in {total} checks; alpha {ALPHA:g} allows {allowed} (99 % of the binomial law)\n")
    print("| finding | p-values | share below 0.01 | share below 0.05 | share below 0.1 | p of too many small ones |")
    print("|---|---|---|---|---|---|")
    p_values: dict[str, list[float]] = defaultdict(list)
    for rows in right.values():
        for row in rows:
            for name, p in row["p"].items():
                p_values[name].append(p)
    for name, values in p_values.items():
        p = np.array(values)
        shares = [float(np.mean(p <= level)) for level in (0.01, 0.05, 0.1)]
        excess = kstest(p, "uniform", alternative="greater").pvalue  # type: ignore[attr-defined]
        print(f"| {name} | {len(p)} | {shares[0]:.3f} | {shares[1]:.3f} | {shares[2]:.3f} | {excess:.2f} |")


def _show_faults(faults: dict[str, list[dict[str, Any]]]) -> None:
    print("\n| # | fault | report | found by (share of checks) | power | core seconds, median |")
    print("|---|---|---|---|---|---|")
    for fault in FAULTS:
        rows = faults.get(fault.words, [])
        if not rows:
            continue
        found: dict[str, int] = defaultdict(int)
        for row in rows:
            for name, status in row["found"].items():
                if name != "not_finite" and not (status == "warning" and fault.number not in (21, 22)):
                    found[f"{name}{'' if status == 'violated' else f' ({status})'}"] += 1
        hit = sum(
            row["verdict"] != "consistent"
            or (fault.number in (21, 22) and {"batch_normalisation", "shared_layers"} & set(row["found"]) != set())
            for row in rows
        )
        words = ", ".join(f"{n} {k / len(rows):.2g}" for n, k in sorted(found.items(), key=lambda item: -item[1]))
        seconds = float(np.median([row["seconds"] for row in rows]))
        cells = (fault.number or "-", fault.words, fault.report or "-", words or "-", f"{hit} of {len(rows)}")
        print("| " + " | ".join(map(str, cells)) + f" | {seconds:.1f} |")


def _show_accuracy(grid: dict[str, list[dict[str, Any]]]) -> None:
    print("\n| claim | canaries | one-run accuracy | exact | two-sided binomial p |")
    print("|---|---|---|---|---|")
    for name, rows in grid.items():
        correct, canaries = sum(r["correct"] for r in rows), sum(r["canaries"] for r in rows)
        exact = (rows[0]["lower"] + rows[0]["upper"]) / 2
        low, high = binom.cdf(correct, canaries, exact), binom.sf(correct - 1, canaries, exact)
        print(f"| {name} | {canaries} | {correct / canaries:.4f} | {exact:.4f} | {min(1.0, 2 * min(low, high)):.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("right", "faults", "accuracy", "show"))
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--records", type=int, default=100)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--only", default="", help="a part of the name")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    if options.what == "show":
        show(options.files)
        return
    path = options.output or Path(f"runs/check_{options.what}.jsonl")
    if options.what == "accuracy":
        accuracy(path, options.seeds)
        return
    cases = [(name, *case) for name, case in RIGHT.items()]
    if options.what == "faults":
        cases = [(fault.words, fault.train, fault.claim) for fault in FAULTS]
    run(path, [case for case in cases if options.only in case[0]], options.seeds, options.what, options.records)


if __name__ == "__main__":
    main()
