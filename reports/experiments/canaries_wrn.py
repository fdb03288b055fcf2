"""1,000 canaries for a WRN-16-4: influence, greedy choice, refinement, evaluation. For a machine with a GPU.

    python reports/experiments/canaries_wrn.py --data imagefolder:CIFAR10 --folder runs/canaries_wrn
    python reports/experiments/canaries_wrn.py --rehearse

`--rehearse` runs the same code on digits at toy size (200 rows, 32 canaries, 2 replicas, 1 restart), on the CPU in
minutes; its numbers mean nothing. What the full size needs and a small set does not: influence by projections in large
blocks, a batch of canaries a step, replicas one at a time. Every set, the refinement after each restart and every
evaluation is a file: an interrupted call goes on where it stopped. On a GPU convolutions may sum in another order each
time, so equal seeds agree up to rounding there, not to the bit.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from coalmine.audit.craft import Trainer
from coalmine.audit.evaluate import evaluate_canaries
from coalmine.audit.training.data import Data, checked_data, load_data
from coalmine.audit.training.models import build_model
from coalmine.audit.training.settings import TrainingSettings
from coalmine.canaries import CanarySet
from coalmine.canaries.base_models import base_models
from coalmine.canaries.binary_noise import binary_noise
from coalmine.canaries.greedy import select_greedy
from coalmine.canaries.ibis import ibis
from coalmine.canaries.influence import influence
from coalmine.canaries.pool import Pool
from coalmine.canaries.refinement import Refinement
from coalmine.foundation import InputError, numpy_stream, read_json, write_json

DELTA = 1e-5


@dataclass(frozen=True)
class Size:
    """How large everything is. rows, test_rows: at most so many; fisher_rows: rows that the curvature is taken from;
    memory: bytes for a block of per-example gradients."""

    data: str
    rows: int
    test_rows: int
    count: int
    models: int
    projection: int
    fisher_rows: int
    memory: int
    steps_per_epoch: int
    epochs: int
    crafting_epochs: int
    runs: int
    refinement: Refinement


FULL = Size(
    data="imagefolder:CIFAR10",
    rows=50_000,
    test_rows=10_000,
    count=1000,
    models=2,
    projection=512,
    fisher_rows=5000,
    memory=8 * 2**30,
    steps_per_epoch=390,
    epochs=30,
    crafting_epochs=10,
    runs=2,
    refinement=Refinement(replicas=4, restarts=4, steps=40, warmup=8, batch=200, canary_batch=200),
)
REHEARSAL = Size(
    data="digits",
    rows=200,
    test_rows=100,
    count=32,
    models=1,
    projection=32,
    fisher_rows=50,
    memory=2**28,
    steps_per_epoch=8,
    epochs=2,
    crafting_epochs=1,
    runs=1,
    refinement=Refinement(replicas=2, restarts=1, steps=3, warmup=1, batch=16, canary_batch=8),
)


def some_rows(source: str, size: Size) -> Data:
    data = load_data(source)
    train = np.sort(numpy_stream(0, "canaries_wrn/rows").permutation(len(data.y))[: size.rows])
    test = np.sort(numpy_stream(0, "canaries_wrn/test_rows").permutation(len(data.y_test))[: size.test_rows])
    parts = data.x[train], data.y[train], data.x_test[test], data.y_test[test]
    return checked_data(data.name, *parts, classes=data.classes, value_range=data.value_range)


def trainer(data: Data, size: Size, epochs: int, device: str) -> Trainer:
    """Plain SGD with momentum, models one at a time."""
    settings = TrainingSettings(
        size.steps_per_epoch, epochs, 0.05, float(len(data.y)), sampler="fixed_size", momentum=0.9
    )
    shape, classes = data.input_shape, len(data.classes)
    return Trainer(lambda seed: build_model("wrn16-4", shape, classes, seed), settings, device, chunk=1)


def greedy(pool: Pool, train_many: Trainer, size: Size, seed: int) -> CanarySet:
    """Stage 1: rows by self over cross influence, through projected gradients."""
    models = base_models(pool, train_many, seed, size.models)
    fisher = numpy_stream(seed, "canaries_wrn/fisher").permutation(len(pool))[: size.fisher_rows]
    among = influence(
        models, (pool.x, pool.y), (pool.x[fisher], pool.y[fisher]), "projected",
        projection=size.projection, seed=seed, memory=size.memory,
    )  # fmt: skip
    rows = select_greedy(among, size.count)
    return pool.canary_set(pool.x[rows], pool.y[rows], rows, "greedy", {"seed": seed, "projection": size.projection})


def run(data: Data, size: Size, seed: int, device: str, folder: Path) -> None:
    pool = Pool(data.x, data.y, len(data.classes), data.value_range, data.fingerprint)
    crafting = trainer(data, size, size.crafting_epochs, device)

    def refined() -> CanarySet:
        checkpoint = folder / "greedy_refined.progress"
        return ibis(
            pool, seed, crafting, CanarySet.load(folder / "greedy.safetensors"), size.refinement,
            checkpoint=checkpoint, on_restart=lambda record: print(record, flush=True), device=device, together=1,
        )[0]  # fmt: skip

    makers = {
        "binary_noise": lambda: binary_noise(pool, size.count, seed),
        "greedy": lambda: greedy(pool, crafting, size, seed),
        "greedy_refined": refined,
    }
    for name, make in makers.items():
        path = folder / f"{name}.safetensors"
        if not path.exists():
            started = time.monotonic()
            make().save(path)
            write_json(folder / f"{name}.cost.json", {"seconds": time.monotonic() - started})
    print("| set | canaries | runs | TPR at FPR 0.05 | AUC | ε (class A) of each run | test accuracy | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for name in makers:
        path = folder / f"{name}.evaluation.json"
        if not path.exists():
            audited = trainer(data, size, size.epochs, device)
            canaries = CanarySet.load(folder / f"{name}.safetensors")
            results = evaluate_canaries(canaries, data, audited, size.runs, 10_000 + seed, DELTA, together=1)
            write_json(path, [asdict(result) for result in results])
        runs = read_json(path, "evaluation")
        rate, auc, accuracy = (np.mean([r[c] for r in runs]) for c in ("true_positive_rate", "auc", "test_accuracy"))
        epsilons = ", ".join(f"{r['epsilon']:.2f}" for r in runs)
        seconds = read_json(folder / f"{name}.cost.json", "cost")["seconds"]
        print(
            f"| {name} | {size.count} | {len(runs)} | {rate:.3f} | {auc:.3f} | {epsilons} | {accuracy:.3f} "
            f"| {seconds:.0f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="left out: imagefolder:CIFAR10, to rehearse digits")
    parser.add_argument(
        "--folder", type=Path, help="left out: runs/canaries_wrn, to rehearse runs/canaries_wrn_rehearsal"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rehearse", action="store_true", help="the same code at toy size on the CPU")
    arguments = parser.parse_args()
    size = REHEARSAL if arguments.rehearse else FULL
    folder = arguments.folder or Path("runs/canaries_wrn_rehearsal" if arguments.rehearse else "runs/canaries_wrn")
    try:
        if not arguments.rehearse and not torch.cuda.is_available():
            raise InputError(
                f"{size.count} canaries on a WRN-16-4 need a GPU, and torch sees none here: use a machine with CUDA, "
                "or --rehearse to run the same code at toy size on the CPU"
            )
        torch.backends.cudnn.allow_tf32 = False  # v solves a linear system: ten bits of mantissa are too few
        torch.set_num_threads(1 if arguments.rehearse else torch.get_num_threads())
        run(
            some_rows(arguments.data or size.data, size),
            size,
            arguments.seed,
            "cpu" if arguments.rehearse else "cuda",
            folder / f"{arguments.seed}",
        )
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
