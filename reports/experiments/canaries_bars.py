"""Is a refined set ever worse than binary noise, and how much better is it? Five kinds of data, two sizes of set.

    python reports/experiments/canaries_bars.py --folder runs/canaries_bars --data digits --count 100 --seeds 5
    python reports/experiments/canaries_bars.py --folder runs/canaries_bars --print-only

The recipe is what `coalmine canaries craft` has unless told otherwise: mlp, 20 epochs of SGD, batches of about 100,
learning rate 0.5. Data: digits; digits odd/even (two classes); breast cancer, standardised; patches of two photographs
(which of eight regions does an 8 × 8 patch come from); CIFAR-10 JPEG files, 1,000 rows (--jpegs). A seed is new base
models, labels, starts, replicas, coins and audited models; sets of a seed share the coins and weights of their audits,
so that differences are paired. A piece is one set with its audits, kept as a file: an interrupted call goes on where it
stopped. Seeds 900 and above served to choose settings and are not reported.
"""

from __future__ import annotations

import argparse
import csv
import time
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from coalmine.audit.craft import Trainer, craft_for, recipe
from coalmine.audit.evaluate import evaluate_canaries, mean_interval
from coalmine.audit.training.data import Data, checked_data, load_data
from coalmine.canaries.refinement import Refinement
from coalmine.foundation import read_json, write_json, write_text

REFINEMENT = Refinement(restarts=8, step_size=0.05)
METHODS: dict[str, dict[str, Any]] = {
    "binary noise": {"method": "binary_noise"},
    "ibis": {"method": "ibis", "start": "greedy", "refinement": REFINEMENT},
    "greedy": {"method": "greedy"},
    "ibis from binary noise": {"method": "ibis", "start": "binary_noise", "refinement": REFINEMENT},
    "mislabelled": {"method": "mislabelled"},
}
FREE = ("binary noise", "mislabelled", "greedy")  # sets that move no input
KINDS = ("digits", "odd/even", "breast cancer", "patches", "cifar10 jpeg")


@cache
def data_of(kind: str, jpegs: str = "") -> Data:
    if kind == "digits":
        return load_data("digits")
    if kind == "odd/even":
        d = load_data("digits")
        return checked_data(kind, d.x, d.y % 2, d.x_test, d.y_test % 2, classes=("even", "odd"), value_range=(0.0, 1.0))
    if kind == "breast cancer":
        from sklearn.datasets import load_breast_cancer

        table = load_breast_cancer()
        x = (table.data - table.data.mean(axis=0)) / table.data.std(axis=0)
        return checked_data(kind, x.astype(np.float32), table.target)
    if kind == "patches":
        return _patches()
    d, stream = load_data(f"imagefolder:{jpegs}"), np.random.default_rng(0)
    rows, test = stream.permutation(len(d.y))[:1000], stream.permutation(len(d.y_test))[:500]
    return checked_data(
        kind, d.x[rows], d.y[rows], d.x_test[test], d.y_test[test], classes=d.classes, value_range=(0.0, 1.0)
    )


def _patches() -> Data:
    """1,500 grey 8 × 8 patches, evenly from eight regions: the quarters of each photograph."""
    from sklearn.datasets import load_sample_images

    stream, x, y = np.random.default_rng(0), [], []
    for number, photograph in enumerate(load_sample_images().images):
        grey = photograph.mean(axis=2).astype(np.float32) / 255
        height, width = grey.shape[0] // 2, grey.shape[1] // 2
        for quarter in range(4):
            top, left = height * (quarter // 2), width * (quarter % 2)
            for _ in range(188):
                r, c = top + stream.integers(height - 8), left + stream.integers(width - 8)
                x.append(grey[None, r : r + 8, c : c + 8])
                y.append(4 * number + quarter)
    return checked_data("patches", np.stack(x), np.array(y), value_range=(0.0, 1.0))


def trainer(data: Data) -> Trainer:
    return recipe(data, "mlp", max(1, round(len(data.y) / 100)), 20, 0.5)


def piece(folder: Path, data: Data, count: int, seed: int, name: str, runs: int) -> dict[str, Any]:
    place = folder / data.name.replace("/", "-") / str(count) / str(seed)
    path = place / f"{name}.json"
    if path.exists():
        return read_json(path, "piece")
    log: list[dict[str, Any]] = []
    options = dict(METHODS[name])
    if options["method"] == "ibis":
        options |= {"on_restart": log.append, "checkpoint": place / f"{name}.progress"}
    started = time.process_time()
    canaries = craft_for(data, options.pop("method"), count, seed, trainer(data), **options)
    cost = time.process_time() - started
    results = evaluate_canaries(canaries, data, trainer(data), runs, 10_000 + seed)
    canaries.save(place / f"{name}.safetensors")
    record = {
        "data": data.name,
        "count": count,
        "seed": seed,
        "set": name,
        "true_positive_rate": float(np.mean([run.true_positive_rate for run in results])),
        "auc": float(np.mean([run.auc for run in results])),
        "epsilon": float(np.mean([run.epsilon for run in results])),
        "runs": runs,
        "cpu_seconds": round(cost, 1),
        "choice": canaries.parameters.get("choice"),
        "log": log,
        "each": [asdict(run) for run in results],
    }
    write_json(path, record)
    (place / f"{name}.progress").unlink(missing_ok=True)
    return record


def gathered(folder: Path) -> list[dict[str, Any]]:
    return [read_json(path, "piece") for path in sorted(folder.glob("*/*/*/*.json"))]


def write_csv(records: list[dict[str, Any]], path: Path) -> None:
    columns = ("data", "count", "seed", "set", "true_positive_rate", "auc", "epsilon", "runs", "cpu_seconds")
    lines = [",".join((*columns, "returned", "restart", "corners"))]
    for record in sorted(records, key=lambda r: (r["data"], r["count"], r["set"], r["seed"])):
        choice = record["choice"] or {}
        values = [round(v, 4) if isinstance(v := record[c], float) else v for c in columns]
        values += [choice.get(name, "") for name in ("returned", "restart", "corners")]
        lines.append(",".join(str(value) for value in values))
    write_text(path, "\n".join(lines) + "\n")


def print_tables(rows: list[dict[str, str]]) -> None:
    cells = sorted({(row["data"], int(row["count"])) for row in rows})
    print("| data | canaries | set | seeds | TPR at FPR 0.05 | AUC | − binary noise, paired | CPU s |")
    print("|---|---|---|---|---|---|---|---|")
    for kind, count in cells:
        own = [row for row in rows if (row["data"], int(row["count"])) == (kind, count)]
        rates = {name: {r["seed"]: float(r["true_positive_rate"]) for r in own if r["set"] == name} for name in METHODS}
        for name in METHODS:
            some = [row for row in own if row["set"] == name]
            if not some:
                continue
            common = sorted(set(rates[name]) & set(rates["binary noise"]))
            paired = (
                ""
                if name == "binary noise" or not common
                else shown([rates[name][s] - rates["binary noise"][s] for s in common])
            )
            cost = np.mean([float(row["cpu_seconds"]) for row in some])
            print(
                f"| {kind} | {count} | {name} | {len(some)} | {shown(list(rates[name].values()))} "
                f"| {shown([float(row['auc']) for row in some])} | {paired} | {cost:.0f} |"
            )


def shown(values: list[float]) -> str:
    mean, half = mean_interval(values)
    return f"{mean:.3f}" + (f" ± {half:.3f}" if half is not None else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("runs/canaries_bars"))
    parser.add_argument("--data", choices=KINDS, action="append", help="left out: the first three")
    parser.add_argument("--count", type=int, action="append", help="left out: 100")
    parser.add_argument("--sets", choices=list(METHODS), action="append", help="left out: the first three")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=8, help="audits a set")
    parser.add_argument("--jpegs", default="", help="the folder of CIFAR-10 JPEG files")
    parser.add_argument("--csv", type=Path, help="gather what the folder holds")
    parser.add_argument("--print-only", action="store_true", help="print what --csv holds, make nothing")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if not given.print_only:
        for seed in range(given.seeds):
            for count in given.count or [100]:
                for kind in given.data or KINDS[:3]:
                    for name in given.sets or list(METHODS)[:3]:
                        record = piece(given.folder, data_of(kind, given.jpegs), count, seed, name, given.runs)
                        print(f"{kind}, {count}, seed {seed}, {name}: {record['true_positive_rate']:.3f}", flush=True)
    if given.csv and not given.print_only:
        write_csv(gathered(given.folder), given.csv)
    if given.csv:
        with given.csv.open(encoding="utf-8") as file:
            print_tables(list(csv.DictReader(file)))


if __name__ == "__main__":
    main()
