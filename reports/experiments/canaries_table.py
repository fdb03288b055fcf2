"""The table of docs/canaries.md: how detectable canaries of each method are, on scikit-learn's digits.

    python reports/experiments/canaries_table.py --folder runs/canaries_table
    python reports/experiments/canaries_table.py --folder runs/canaries_table --print-only

A piece is one (seed, method) set or one (seed, method, setting) evaluation, kept as a file: an interrupted call goes on
where it stopped, and pieces are made in the same way whatever their order. A seed means new base models, replicas,
labels, starts, coins and audited models; the data split is fixed. Reported seeds are 0 … 9, under DP 1 … 10: clipped
influence was developed on the set of seed 0. 900 and 901 served to choose the recipe, the number of steps, λ and the
form of the outer objective, and are not reported.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from coalmine.audit.bounds import RandomAllocation
from coalmine.audit.craft import Trainer, craft_for
from coalmine.audit.evaluate import evaluate_canaries, mean_interval
from coalmine.audit.training.data import Data, load_data
from coalmine.audit.training.settings import TrainingSettings
from coalmine.canaries import CanarySet
from coalmine.canaries.refinement import Refinement
from coalmine.foundation import read_json, write_json

COUNT = 200
DELTA = 1e-5
FULL = Refinement(restarts=12, step_size=0.08)
SHORT = Refinement(restarts=8, step_size=0.04)
AS_PROTOTYPED = Refinement(
    restart_from="bank", outer="loss", restarts=5, steps=60, warmup=20, regulariser=10.0, step_size=0.03
)


def ibis(start: str, refinement: Refinement) -> dict[str, Any]:
    return {"method": "ibis", "start": start, "refinement": refinement}


METHODS: dict[str, dict[str, Any]] = {
    "random": {"method": "random"},
    "mislabelled": {"method": "mislabelled"},
    "highest loss": {"method": "highest_loss"},
    "highest self influence": {"method": "highest_self_influence"},
    "greedy": {"method": "greedy"},
    "noise": {"method": "noise"},
    "binary noise": {"method": "binary_noise"},
    "binary noise + SOBA, short": ibis("binary_noise", SHORT),
    "greedy + SOBA": ibis("greedy", FULL),
    "greedy + SOBA, λ = 10": ibis("greedy", replace(FULL, regulariser=10.0)),
    "binary noise + SOBA": ibis("binary_noise", FULL),
    "greedy + SOBA, v = 0": ibis("greedy", replace(FULL, implicit=False)),
    "random + SOBA": ibis("random", FULL),
    "greedy + SOBA, loss, bank": ibis("greedy", AS_PROTOTYPED),
    "metagradient": {"method": "metagradient"},
    "clipped influence": {"method": "clipped_influence"},
    "binary noise + SOBA, DP restarts": ibis("binary_noise", SHORT),
}
SETTINGS = {
    # name: (width, hidden, noise multiplier or None, runs)
    "plain": (16, 64, None, 8),
    "wide": (32, 128, None, 4),
    "four times wider": (64, 256, None, 4),
    "dp 0.8": (16, 64, 0.8, 4),
    "dp 1.2": (16, 64, 1.2, 4),
}
# whose recipe trains the models that a set is crafted through: that of "plain" but for
CRAFTED_FOR = {"clipped influence": "dp 0.8", "binary noise + SOBA, DP restarts": "dp 0.8"}
SHORT_ROW, FULL_ROW, REGULARISED = "binary noise + SOBA, short", "greedy + SOBA", "greedy + SOBA, λ = 10"
UNDER_DP = ("random", "mislabelled", "noise", "binary noise", SHORT_ROW, FULL_ROW, "clipped influence")
# setting, rows, seeds; in this order, so that an early stop leaves a table with wide intervals, not with holes
PIECES: tuple[tuple[str, tuple[str, ...], int], ...] = (
    ("plain", tuple(METHODS)[:7], 10),
    ("plain", (SHORT_ROW, FULL_ROW, REGULARISED), 10),
    ("dp 0.8", UNDER_DP, 10),
    ("dp 1.2", UNDER_DP, 10),
    ("wide", ("mislabelled", "noise", "binary noise", SHORT_ROW, FULL_ROW, REGULARISED), 10),
    ("four times wider", ("mislabelled", "noise", "binary noise", SHORT_ROW, FULL_ROW), 10),
    ("plain", ("binary noise + SOBA", "greedy + SOBA, v = 0", "random + SOBA"), 3),
    ("plain", ("greedy + SOBA, loss, bank", "metagradient"), 3),
    ("plain", ("clipped influence",), 3),
    ("dp 0.8", ("binary noise + SOBA, DP restarts",), 3),
)


class Patches(nn.Module):
    """(n, 1, 8, 8) -> (n, 16, 9): the 3 × 3 patches of a convolution with stride 2 and padding 1. With a Linear layer
    behind it this is the convolution, and stacks of models multiply matrices instead of grouping convolutions."""

    index: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        pixel = torch.arange(100).reshape(10, 10)
        corners = [(2 * row, 2 * column) for row in range(4) for column in range(4)]
        self.register_buffer("index", torch.stack([pixel[r : r + 3, c : c + 3].reshape(-1) for r, c in corners]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.pad(x, (1, 1, 1, 1)).flatten(-3)[..., self.index]


def network(width: int, hidden: int, seed: int) -> nn.Module:
    """Convolution 3 × 3 with stride 2 – GELU – Linear – GELU – Linear; 17,258 parameters at (16, 64)."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            Patches(),
            nn.Linear(9, width),
            nn.GELU(),
            nn.Flatten(-2),
            nn.Linear(16 * width, hidden),
            nn.GELU(),
            nn.Linear(hidden, 10),
        )


@cache
def digits() -> Data:
    return load_data("digits")


def trainer(setting: str) -> Trainer:
    """SGD with momentum, 20 epochs of 15 steps; under DP 30 epochs of 10 steps of random allocation, clipping at 1."""
    width, hidden, noise, _ = SETTINGS[setting]
    rows = float(len(digits().y))
    if noise is None:
        settings = TrainingSettings(15, 20, 0.06, rows, sampler="fixed_size", momentum=0.9)
    else:
        settings = TrainingSettings(10, 30, 0.3, rows, noise, 1.0, "random_allocation", 0.9)
    return Trainer(lambda seed: network(width, hidden, seed), settings)


def crafted(folder: Path, seed: int, name: str) -> CanarySet:
    path = folder / f"{seed}" / f"{name}.safetensors"
    if path.exists():
        return CanarySet.load(path)
    data, options = digits(), dict(METHODS[name])
    recipe = trainer(CRAFTED_FOR.get(name, "plain"))
    started = time.process_time()
    canaries = craft_for(data, options.pop("method"), COUNT, seed, recipe, **options)
    write_json(path.with_suffix(".cost.json"), {"cpu_seconds": time.process_time() - started})
    canaries.save(path)
    return canaries


def evaluated(folder: Path, seed: int, name: str, setting: str) -> list[dict[str, Any]]:
    path = folder / f"{seed}" / f"{name}.{setting}.json"
    if path.exists():
        return read_json(path, "evaluation")
    canaries = crafted(folder, seed, name)
    # audits of a seed share coins and weights across methods: comparisons are paired
    results = evaluate_canaries(canaries, digits(), trainer(setting), SETTINGS[setting][3], 10_000 + seed, DELTA)
    record = [asdict(result) for result in results]
    write_json(path, record)
    return record


def seeds_of(setting: str, count: int) -> list[int]:
    first = 1 if setting.startswith("dp") else 0
    return list(range(first, first + count))


def pieces(most: int) -> list[tuple[int, str, str]]:
    return [
        (seed, name, setting)
        for setting, names, count in PIECES
        for seed in seeds_of(setting, min(count, most))
        for name in names
    ]


def done(folder: Path, seeds: list[int], name: str, setting: str) -> dict[int, list[dict[str, Any]]]:
    paths = {seed: folder / f"{seed}" / f"{name}.{setting}.json" for seed in seeds}
    return {seed: read_json(path, "evaluation") for seed, path in paths.items() if path.exists()}


def per_seed(runs: dict[int, list[dict[str, Any]]], column: str) -> dict[int, float]:
    return {seed: float(np.mean([run[column] for run in some])) for seed, some in runs.items()}


def shown(values: list[float], digits_: int = 3) -> str:
    mean, half = mean_interval(values)
    return f"{mean:.{digits_}f}" + (f" ± {half:.{digits_}f}" if half is not None else "")


def print_tables(folder: Path, most: int) -> None:
    for setting in SETTINGS:
        seeds = seeds_of(setting, most)
        rows = {name: done(folder, seeds, name, setting) for name in METHODS}
        rows = {name: runs for name, runs in rows.items() if runs}
        if not rows:
            continue
        width, hidden, noise, count = SETTINGS[setting]
        print(f"\n### {setting}: {width} channels, {hidden} hidden, {count} runs a seed", end="")
        print(f", noise multiplier {noise}, {claim(noise)}" if noise else "", "\n")
        print("| set | seeds | TPR at FPR 0.05 | AUC | ε (class A, mean) | TPR by loss | test accuracy | CPU s |")
        print("|---|---|---|---|---|---|---|---|")
        for name, runs in rows.items():
            columns = [list(per_seed(runs, c).values()) for c in ("true_positive_rate", "auc", "epsilon")]
            loss, accuracy = (list(per_seed(runs, c).values()) for c in ("loss_true_positive_rate", "test_accuracy"))
            costs = [folder / f"{seed}" / f"{name}.cost.json" for seed in runs]
            cost = np.mean([read_json(path, "cost")["cpu_seconds"] for path in costs])
            print(
                f"| {name} | {len(runs)} | {shown(columns[0])} | {shown(columns[1])} | {shown(columns[2], 2)} "
                f"| {shown(loss)} | {np.mean(accuracy):.3f} | {cost:.0f} |"
            )
        print_differences(rows)


PAIRS = [
    ("greedy", "random"),
    ("greedy", "highest self influence"),
    ("binary noise", "noise"),
    ("binary noise + SOBA, short", "binary noise"),
    ("greedy + SOBA", "greedy"),
    ("greedy + SOBA", "binary noise"),
    ("greedy + SOBA, λ = 10", "greedy + SOBA"),
    ("greedy + SOBA", "random + SOBA"),
    ("greedy + SOBA", "binary noise + SOBA"),
    ("greedy + SOBA", "greedy + SOBA, v = 0"),
    ("greedy + SOBA", "greedy + SOBA, loss, bank"),
    ("greedy + SOBA", "metagradient"),
    ("binary noise + SOBA, short", "noise"),
    ("greedy + SOBA", "noise"),
    ("clipped influence", "noise"),
    ("clipped influence", "binary noise"),
    ("clipped influence", "greedy + SOBA"),
    ("binary noise + SOBA, DP restarts", "binary noise + SOBA, short"),
]


def print_differences(rows: dict[str, dict[int, list[dict[str, Any]]]]) -> None:
    print("\n| paired difference of TPR | mean ± 95 % | seeds |\n|---|---|---|")
    for one, other in PAIRS:
        if one in rows and other in rows:
            a, b = (per_seed(rows[name], "true_positive_rate") for name in (one, other))
            common = sorted(set(a) & set(b))
            if len(common) > 1:
                print(f"| {one} − {other} | {shown([a[s] - b[s] for s in common])} | {len(common)} |")


@cache
def claim(noise: float) -> str:
    epsilon = RandomAllocation(steps_per_epoch=10, epochs=30, noise_multiplier=noise).epsilon(delta=DELTA)
    return f"ε ≤ {epsilon.upper:.2f} at δ = {DELTA:g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("runs/canaries_table"))
    parser.add_argument("--seeds", type=int, default=10, help="at most so many seeds a row")
    parser.add_argument("--print-only", action="store_true", help="print what is there, make nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # sums do not depend on the machine's cores, and small matrices gain nothing from more
    if not arguments.print_only:
        for seed, name, setting in pieces(arguments.seeds):
            results = evaluated(arguments.folder, seed, name, setting)
            rate = np.mean([run["true_positive_rate"] for run in results])
            print(f"seed {seed}, {name}, {setting}: TPR {rate:.3f}", flush=True)
    print_tables(arguments.folder, arguments.seeds)


if __name__ == "__main__":
    main()
