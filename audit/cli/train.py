"""`coalmine train`: DP-SGD on data + member canaries, for those who have no trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...foundation import InputError
from .options import Device, Json, Quiet, Seed, print_json, remark, stepper, torch_device
from .replacing import RUN_FOLDER, replacing
from .training_claim import training_options

app = typer.Typer(add_completion=False)


@app.command(
    epilog="Example: coalmine train --data digits --model mlp --canaries runs/a/canaries.safetensors "
    "--coins runs/a/coins.json --steps-per-epoch 10 --epochs 20 --noise-multiplier 2 --clipping-norm 1 "
    "--learning-rate 0.5 --output runs/a"
)
def train(
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", callback=replacing(RUN_FOLDER), help="Folder of the run; the same command resumes it."
        ),
    ],
    learning_rate: Annotated[float, typer.Option(help="Step size of SGD.")],
    steps_per_epoch: Annotated[int | None, typer.Option(help="M: optimiser steps in one epoch.")] = None,
    epochs: Annotated[int | None, typer.Option(help="E: epochs.")] = None,
    claim: Annotated[
        Path | None, typer.Option(help="claim.json: train what it says, in place of M, E, noise and sampler.")
    ] = None,
    data: Annotated[
        str, typer.Option(help="digits, cifar10:ROOT, imagefolder:DIR, table.csv, arrays.npz …")
    ] = "digits",
    model: Annotated[
        str, typer.Option(help="mlp, cnn, cnn-137k, wrn16-4, torchvision:NAME or package.module:function.")
    ] = "mlp",
    canaries: Annotated[Path | None, typer.Option(help="canaries.safetensors; with --coins.")] = None,
    coins: Annotated[Path | None, typer.Option(help="coins.json: which canaries are members.")] = None,
    noise_multiplier: Annotated[
        float | None,
        typer.Option(help="Noise on the SUM of clipped gradients, divided by --clipping-norm. Left out: no noise."),
    ] = None,
    clipping_norm: Annotated[
        float | None, typer.Option(help="Clip each example's gradient to this norm. Left out: plain SGD, not private.")
    ] = None,
    sampler: Annotated[
        str | None,
        typer.Option(help="random_allocation (where none is named), fixed_bins, poisson, fixed_size or full_batch."),
    ] = None,
    momentum: Annotated[float, typer.Option(help="Momentum of SGD.")] = 0.0,
    augmentation: Annotated[str, typer.Option(help="none or flip_shift (images).")] = "none",
    public_size: Annotated[
        float | None,
        typer.Option(
            help="The constant that stands for the number of records in the divisor, whoever is among them. Left out: "
            "the rows that are there and half the canaries, which is public only if you toss no rows of your own."
        ),
    ] = None,
    seed: Seed = None,
    device: Device = "cpu",
    json_output: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a model with DP-SGD (or plain SGD) on the data and the member canaries.

    Writes checkpoint.safetensors, initial.safetensors and run.json into --output. Interrupted, it loses at most one
    epoch: the same command goes on.
    """
    if (canaries is None) != (coins is None):
        raise InputError("--canaries and --coins go together: give both, or neither for a run without canaries")
    from ...canaries import CanarySet, Coins
    from ..craft import recipe_differences
    from ..training.data import load_data
    from ..training.models import build_model
    from ..training.run import train_run, training_rows
    from ..training.settings import TrainingSettings

    told = training_options(
        claim,
        {
            "steps_per_epoch": steps_per_epoch,
            "epochs": epochs,
            "noise_multiplier": noise_multiplier,
            "sampler": sampler,
        },
    )
    canary_set = CanarySet.load(canaries) if canaries else None
    drawn = Coins.load(coins) if coins else None
    where = torch_device(device)
    source = load_data(data)
    rows = training_rows(source, canary_set, drawn)
    settings = TrainingSettings(
        learning_rate=learning_rate,
        public_size=rows.expected_size if public_size is None else public_size,
        public_size_fixed=public_size is not None,
        clipping_norm=clipping_norm,
        momentum=momentum,
        augmentation=augmentation,
        **told,
    )
    if canary_set is None and public_size is None and settings.noise_multiplier > 0:
        remark(
            "warning: the divisor is counted from the rows that are there, which tells who is among them if you tossed "
            "rows of your own: no DP claim will be accepted for this run. Name a constant with --public-size.",
            quiet,
        )
    if drawn is not None and drawn.remark():
        remark(f"warning: {drawn.remark()} run.json names no commitment.", quiet)
    differences = recipe_differences(canary_set, settings, model) if canary_set is not None else []
    if differences:
        remark(f"warning: the canaries were crafted through another recipe ({'; '.join(differences)})", quiet)
    if seed is not None:
        remark("seeded: this run is for reproduction, not for privacy", quiet)
    shape, classes = source.x.shape[1:], len(source.classes)
    trained = False

    def done(_: int) -> None:
        nonlocal trained
        trained = True
        advance()

    with stepper(settings.epochs, "training", quiet) as advance:
        record = train_run(
            output,
            source,
            lambda s: build_model(model, shape, classes, s),
            model,
            settings,
            canary_set,
            drawn,
            seed,
            where,
            on_epoch=done,
        )
    if json_output:
        print_json(record.to_json())
        return
    shown = {"train": record.train_accuracy, "test": record.test_accuracy}
    if not trained:
        typer.echo(f"{output} holds this run already, finished: nothing was trained")
        return
    typer.echo(f"trained {record.epochs_done} epochs of {source.name} with {settings.sampler}; files in {output}")
    typer.echo("accuracy: " + ", ".join(f"{name} {v:.3f}" for name, v in shown.items() if v is not None))
