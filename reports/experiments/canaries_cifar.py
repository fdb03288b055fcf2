"""The tables of docs/canaries_cifar.md: how detectable canaries are on colour images, by a convolutional network.

    python reports/experiments/canaries_cifar.py --data imagefolder:CIFAR10 --folder runs/canaries_cifar
    python reports/experiments/canaries_cifar.py --folder runs/canaries_cifar --print-only

1,000 training and 500 test rows, chosen once for all seeds. 200 canaries a set. Audited is cnn-137k; sets are refined
through networks of that kind, or through the smaller `cnn` and then audited on cnn-137k. A piece is one (seed, method)
set or its evaluation in one setting (epochs of the audited training), kept as a file: an interrupted call goes on where
it stopped. A seed means new base models, replicas, labels, starts, coins and audited models. Seeds 900 and 901 served
to choose the recipe and are not reported.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from canaries_table import done, per_seed, shown
from torch import nn

from coalmine.audit.craft import Trainer
from coalmine.audit.evaluate import evaluate_canaries
from coalmine.audit.training.data import Data, checked_data, load_data
from coalmine.audit.training.models import build_model
from coalmine.audit.training.settings import TrainingSettings
from coalmine.canaries import CanarySet, craft
from coalmine.canaries.ibis import ibis
from coalmine.canaries.pool import Pool
from coalmine.canaries.refinement import Refinement
from coalmine.foundation import numpy_stream, read_json, torch_stream, write_json

ROWS, TEST_ROWS, COUNT, RUNS, DELTA = 1000, 500, 200, 1, 1e-5
AUDITED, OTHER = "cnn-137k", "cnn"
SETTINGS = {"plain": 30, "short": 16}  # epochs of the audited training
CRAFTING_EPOCHS = {AUDITED: 16, OTHER: 6}  # replicas half-way: on those that know all their canaries nothing is left
# to learn from, and those that know none tell nothing; it also halves the cost
SHAPE, CLASSES = (3, 32, 32), 10
# sized for a CPU core: fewer replicas and restarts than on digits; the step sizes are those of digits' two starts
FROM_NOISE = Refinement(
    replicas=2, restarts=4, steps=8, warmup=3, step_size=0.04, batch=50, learning_rate=0.02, canary_batch=100
)
FROM_ROWS = replace(FROM_NOISE, step_size=0.08)
THROUGH_SMALL = replace(FROM_NOISE, replicas=4, restarts=6)

# name: what `craft` is told; "start" names a set of this table, "through" the architecture that crafting looks through
METHODS: dict[str, dict[str, Any]] = {
    "random": {"method": "random"},
    "mislabelled": {"method": "mislabelled"},
    "noise": {"method": "noise"},
    "binary noise": {"method": "binary_noise"},
    "greedy": {"method": "greedy", "through": AUDITED, "influence_method": "projected"},
    "binary noise + SOBA": {"method": "ibis", "through": AUDITED, "start": "binary noise", "refinement": FROM_NOISE},
    "greedy + SOBA": {"method": "ibis", "through": AUDITED, "start": "greedy", "refinement": FROM_ROWS},
    "binary noise + SOBA, through cnn": {
        "method": "ibis",
        "through": OTHER,
        "start": "binary noise",
        "refinement": THROUGH_SMALL,
    },
}


class Standardise(nn.Module):
    """Pixels in [0, 1] to [−1, 1]."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x - 1


def network(name: str, seed: int) -> nn.Module:
    """A built-in architecture behind Standardise, with the initial weights of He et al. (arXiv 1502.01852): from
    torch's smaller ones, cnn-137k needs several times the epochs to remember its rows."""
    model, generator = build_model(name, SHAPE, CLASSES, seed), torch_stream(seed, "init/he")
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Conv2d | nn.Linear) and module.bias is not None:
                module.weight.normal_(0, (2 / module.weight[0].numel()) ** 0.5, generator=generator)
                module.bias.zero_()
    return nn.Sequential(Standardise(), model)


def trainer(name: str, epochs: int) -> Trainer:
    settings = TrainingSettings(20, epochs, 0.03, ROWS, sampler="fixed_size", momentum=0.9)
    return Trainer(lambda seed: network(name, seed), settings)


class Remembering:
    """The trainer, keeping the accuracy of each model on what it was trained on."""

    def __init__(self, train_many: Trainer) -> None:
        self.train_many = train_many
        self.accuracy: list[float] = []

    def __call__(self, x: np.ndarray, y: np.ndarray, membership: np.ndarray, seeds: Sequence[int]) -> list[nn.Module]:
        models = self.train_many(x, y, membership, seeds)
        for model, members in zip(models, membership, strict=True):
            with torch.no_grad():
                right = model(torch.from_numpy(x[members])).argmax(dim=1).numpy() == y[members]
            self.accuracy.append(float(right.mean()))
        return models


def some_rows(source: str) -> Data:
    """ROWS training and TEST_ROWS test rows of the data, the same for every seed."""
    data = load_data(source)
    train = np.sort(numpy_stream(0, "canaries_cifar/rows").permutation(len(data.y))[:ROWS])
    test = np.sort(numpy_stream(0, "canaries_cifar/test_rows").permutation(len(data.y_test))[:TEST_ROWS])
    parts = data.x[train], data.y[train], data.x_test[test], data.y_test[test]
    return checked_data(f"{data.name}, {ROWS} rows", *parts, classes=data.classes, value_range=data.value_range)


def crafted(folder: Path, data: Data, seed: int, name: str) -> CanarySet:
    path = folder / f"{seed}" / f"{name}.safetensors"
    if path.exists():
        return CanarySet.load(path)
    options = dict(METHODS[name])
    method, through, start = options.pop("method"), options.pop("through", None), options.pop("start", None)
    before = 0.0
    if start is not None:
        begin = crafted(folder, data, seed, start)
        before = read_json(path.with_name(f"{start}.cost.json"), "cost")["cpu_seconds"]
    started = time.process_time()
    train_many = trainer(through, CRAFTING_EPOCHS[through]) if through else None
    if start is not None:
        pool = Pool(data.x, data.y, CLASSES, data.value_range, data.fingerprint)
        assert train_many is not None
        checkpoint = path.with_suffix(".progress")
        canaries, log = ibis(pool, seed, train_many, begin, options["refinement"], checkpoint=checkpoint)
        write_json(path.with_suffix(".log.json"), log)
    else:
        canaries = craft(
            method, data.x, data.y, CLASSES, data.value_range, COUNT, seed,
            data_fingerprint=data.fingerprint, train_many=train_many, **options,
        )  # fmt: skip
    write_json(path.with_suffix(".cost.json"), {"cpu_seconds": before + time.process_time() - started})
    canaries.save(path)
    return canaries


def evaluated(folder: Path, data: Data, seed: int, name: str, setting: str) -> list[dict[str, Any]]:
    path = folder / f"{seed}" / f"{name}.{setting}.json"
    if path.exists():
        return read_json(path, "evaluation")
    canaries = crafted(folder, data, seed, name)
    train_many = Remembering(trainer(AUDITED, SETTINGS[setting]))
    # audits of a seed share coins and weights across methods: comparisons are paired
    results = evaluate_canaries(canaries, data, train_many, RUNS, 10_000 + seed, DELTA)
    accuracy = train_many.accuracy
    record = [asdict(run) | {"train_accuracy": a} for run, a in zip(results, accuracy, strict=True)]
    write_json(path, record)
    return record


PAIRS = [
    ("mislabelled", "random"),
    ("binary noise", "mislabelled"),
    ("binary noise", "noise"),
    ("binary noise + SOBA", "binary noise"),
    ("greedy + SOBA", "greedy"),
    ("greedy + SOBA", "binary noise"),
    ("binary noise + SOBA, through cnn", "binary noise"),
    ("binary noise + SOBA", "binary noise + SOBA, through cnn"),
]


def print_tables(folder: Path, seeds: list[int], setting: str) -> None:
    rows = {name: done(folder, seeds, name, setting) for name in METHODS}
    rows = {name: runs for name, runs in rows.items() if runs}
    if not rows:
        return
    print(f"\n### {setting}: {SETTINGS[setting]} epochs")
    print("\n| set | seeds | TPR at FPR 0.05 | AUC | ε (class A, mean) | train accuracy | test accuracy | CPU s |")
    print("|---|---|---|---|---|---|---|---|")
    for name, runs in rows.items():
        rate, auc, epsilon, train, test = (
            list(per_seed(runs, column).values())
            for column in ("true_positive_rate", "auc", "epsilon", "train_accuracy", "test_accuracy")
        )
        costs = [read_json(folder / f"{seed}" / f"{name}.cost.json", "cost")["cpu_seconds"] for seed in runs]
        print(
            f"| {name} | {len(runs)} | {shown(rate)} | {shown(auc)} | {shown(epsilon, 2)} "
            f"| {np.mean(train):.3f} | {np.mean(test):.3f} | {np.mean(costs):.0f} |"
        )
    for column, what in (("true_positive_rate", "TPR"), ("auc", "AUC")):
        print(f"\n| paired difference of {what} | mean ± 95 % | seeds |\n|---|---|---|")
        for one, other in PAIRS:
            if one in rows and other in rows:
                a, b = (per_seed(rows[name], column) for name in (one, other))
                common = sorted(set(a) & set(b))
                if len(common) > 1:
                    print(f"| {one} − {other} | {shown([a[s] - b[s] for s in common])} | {len(common)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="imagefolder:CIFAR10", help="colour images of 32 × 32 in ten classes")
    parser.add_argument("--folder", type=Path, default=Path("runs/canaries_cifar"))
    parser.add_argument("--seeds", type=int, default=3, help="seeds 0 … n − 1")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--print-only", action="store_true", help="print what is there, make nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    seeds = list(range(arguments.first_seed, arguments.first_seed + arguments.seeds))
    if not arguments.print_only:
        data = some_rows(arguments.data)
        for setting, seed, name in product(SETTINGS, seeds, METHODS):
            runs = evaluated(arguments.folder, data, seed, name, setting)
            rate, train = (np.mean([run[c] for run in runs]) for c in ("true_positive_rate", "train_accuracy"))
            print(f"{setting}, seed {seed}, {name}: TPR {rate:.3f}, train accuracy {train:.3f}", flush=True)
    for setting in SETTINGS:
        print_tables(arguments.folder, seeds, setting)


if __name__ == "__main__":
    main()
