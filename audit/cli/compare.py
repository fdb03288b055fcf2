"""`coalmine compare`: a grid of trainings, attacked in black and white box, beside what theory allows."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from ...foundation import InputError
from .options import Device, Json, Quiet, print_json, remark, stepper, torch_device
from .replacing import COMPARE_FOLDER, replacing

app = typer.Typer(add_completion=False)
T = TypeVar("T")


@app.command(
    epilog="Example: coalmine compare --noise-multiplier 1,2,4,8 --steps-per-epoch 10 --epochs 20 --runs 20 "
    "--output runs/compare; then coalmine report runs/compare/compare.csv"
)
def compare(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", callback=replacing(COMPARE_FOLDER), help="Folder; the same command resumes it."),
    ],
    noise_multiplier: Annotated[str, typer.Option(help="One or several, as 0.5,1,2: noise on the sum over C.")],
    steps_per_epoch: Annotated[str, typer.Option(help="M: one or several.")] = "10",
    epochs: Annotated[str, typer.Option(help="E: one or several.")] = "20",
    canary_method: Annotated[str, typer.Option(help="One or several, as binary_noise,mislabelled.")] = "binary_noise",
    model: Annotated[str, typer.Option(help="One or several, as mlp,cnn.")] = "mlp",
    score: Annotated[str, typer.Option(help="Black-box attacks on the same models: phi, loss, hinge.")] = "phi",
    data: Annotated[str, typer.Option(help="As for `coalmine train`.")] = "digits",
    runs: Annotated[int, typer.Option(help="R: independent trainings of each cell.")] = 20,
    canaries: Annotated[int, typer.Option(help="m example canaries and m gradient canaries a run.")] = 100,
    sampler: Annotated[str, typer.Option(help="random_allocation, fixed_bins, poisson, full_batch.")] = (
        "random_allocation"
    ),
    clipping_norm: Annotated[float, typer.Option(help="C: of every gradient.")] = 1.0,
    learning_rate: Annotated[float, typer.Option(help="Step size of SGD.")] = 0.5,
    momentum: Annotated[float, typer.Option(help="Momentum of SGD.")] = 0.0,
    delta: Annotated[float, typer.Option(help="Of every epsilon.")] = 1e-5,
    confidence: Annotated[float, typer.Option(help="Of every interval and bound, each by itself.")] = 0.95,
    format: Annotated[str, typer.Option(help="csv or parquet.")] = "csv",
    chunk: Annotated[int, typer.Option(min=1, help="Models trained side by side, and a shard on disk.")] = 10,
    jobs: Annotated[int, typer.Option(min=1, help="Processes on this machine.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same table: the auditor's own runs.")] = 0,
    device: Device = "cpu",
    json_output: Json = False,
    quiet: Quiet = False,
) -> None:
    """Attack accuracy and epsilon against what theory allows, over a grid: every list is crossed with every other.

    Each run holds example canaries, attacked in black box, and gradient canaries in parameters of their own, on which
    the best attack that exists is known: how much of the bound an auditor can reach, and how much an attack does.
    """
    if format not in ("csv", "parquet"):
        raise InputError(f"--format must be csv or parquet, got {format!r}")
    from ..compare.grid import Grid

    grid = Grid(
        noise_multiplier=_several("--noise-multiplier", noise_multiplier, float),
        steps_per_epoch=_several("--steps-per-epoch", steps_per_epoch, int),
        epochs=_several("--epochs", epochs, int),
        canary_method=_several("--canary-method", canary_method, str),
        model=_several("--model", model, str),
        score=_several("--score", score, str),
        sampler=sampler,
        runs=runs,
        canaries=canaries,
        clipping_norm=clipping_norm,
        learning_rate=learning_rate,
        momentum=momentum,
        delta=delta,
        confidence=confidence,
    )
    from ..compare.run import chunks, table_path
    from ..compare.run import compare as run_grid
    from ..compare.table import write_table
    from ..training.data import load_data
    from ..work import Work

    total, began = chunks(grid, chunk), time.monotonic()
    with stepper(total, "training", quiet) as advance:
        work = Work(output, seed, chunk, jobs, advance=advance)
        rows = run_grid(grid, load_data(data), work, str(torch_device(device)))
    file = table_path(output, format)
    write_table(rows, file)
    together = [row for row in rows if row["together"] == "all_runs" and row["quantity"] == "attack_accuracy"]
    if json_output:
        print_json({"table": str(file), "rows": len(rows), "attack_accuracy": together})
        return
    for row in together:
        typer.echo(
            f"{row['model']}, {row['canary_method']}, M {row['steps_per_epoch']}, E {row['epochs']}, "
            f"σ {row['noise_multiplier']:g}: {row['access'].replace('_', ' ')} ({row['score']}) {row['value']:.4f} "
            f"[{row['lower']:.4f}, {row['upper']:.4f}] (class {row['class']}, n = {row['n']}), "
            f"allowed {row['bound_upper']:.4f}"
        )
    remark(f"written: {file} ({len(rows)} rows, {time.monotonic() - began:.0f} s)", quiet)


def _several(option: str, text: str, kind: Callable[[str], T]) -> tuple[T, ...]:
    try:
        return tuple(kind(part.strip()) for part in text.split(",") if part.strip())
    except ValueError:
        raise InputError(f"{option} {text!r} must be one number or several, as 1,2,4") from None
