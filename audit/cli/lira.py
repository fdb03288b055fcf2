"""`coalmine lira`: the likelihood ratio attack and its successors with shadow models, resumable."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...foundation import InputError
from ..choices import ATTACKS, LAYOUTS
from . import model_options, shadow_options
from .options import Device, Json, Quiet, print_json, remark
from .replacing import LIRA_FOLDER, replacing

app = typer.Typer(add_completion=False)

EXAMPLE = (
    "Examples: coalmine lira --data digits --model mlp --shadows 16 --targets 4 --steps-per-epoch 12 --epochs 40 "
    "--learning-rate 0.1 --momentum 0.9 --output runs/lira   |   coalmine lira --target runs/a --canaries "
    "canaries.safetensors --output runs/lira   |   coalmine lira --arrays logits_and_keep.npz --output runs/lira"
)


@app.command(epilog=EXAMPLE)
def lira(
    ctx: typer.Context,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", callback=replacing(LIRA_FOLDER), help="Folder of the run; the same command resumes it."
        ),
    ],
    data: Annotated[
        str, typer.Option(help="digits, cifar10:ROOT, imagefolder:DIR, table.csv, arrays.npz …")
    ] = "digits",
    canaries: Annotated[
        Path | None, typer.Option(help="Attack the membership of these canaries; all other rows are always in.")
    ] = None,
    coins: Annotated[
        Path | None, typer.Option(help="With --canaries and --target: open the coins for metrics. Leave out to score.")
    ] = None,
    target: model_options.Target = None,
    target_members: model_options.TargetMembers = None,
    model: model_options.ModelName = None,
    pixel_mean: model_options.PixelMean = None,
    pixel_std: model_options.PixelStd = None,
    classes: model_options.Classes = None,
    transform: model_options.Transform = None,
    training_accuracy: model_options.TrainingAccuracy = None,
    about: model_options.About = None,
    trust_code: model_options.TrustCode = False,
    train: shadow_options.Train = None,
    arrays: Annotated[
        Path | None, typer.Option(help="No training: a .npz with keep and logits or phi (see docs/attacks.md).")
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="No training: the folder of another tool; with --layout.")] = None,
    layout: Annotated[str | None, typer.Option(help=f"Whose folder: {', '.join(LAYOUTS)}.")] = None,
    target_index: Annotated[
        int | None, typer.Option(help="With --folder: the number of the model that is attacked.")
    ] = None,
    shadows: Annotated[
        int | None,
        typer.Option(min=2, help="How many shadow models: 16 if left out, or all that --arrays and --folder hold."),
    ] = None,
    targets: Annotated[
        int, typer.Option(min=1, help="Without --target: how many models of the recipe are attacked.")
    ] = 1,
    fraction: shadow_options.Fraction = 0.5,
    attack: Annotated[
        str, typer.Option(help=f"Whose scores are written, chosen before you see any coins: {', '.join(ATTACKS)}.")
    ] = "lira_online",
    views: model_options.ViewCount = 1,
    top: model_options.Top = 0,
    steps_per_epoch: shadow_options.StepsPerEpoch = None,
    epochs: shadow_options.Epochs = None,
    learning_rate: shadow_options.LearningRate = None,
    noise_multiplier: shadow_options.NoiseMultiplier = None,
    clipping_norm: shadow_options.ClippingNorm = None,
    sampler: shadow_options.Sampler = None,
    momentum: shadow_options.Momentum = None,
    augmentation: shadow_options.Augmentation = None,
    chunk: shadow_options.Chunk = None,
    jobs: shadow_options.Jobs = 1,
    scheduler: shadow_options.Scheduler = None,
    span: shadow_options.Span = None,
    seed: shadow_options.ShadowSeed = 0,
    device: Device = "cpu",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Attack membership with shadow models: LiRA, BASE, RMIA and simpler scores, with intervals.

    `coalmine attack` with shadows: stronger, and it says who is at risk. Metrics, not a bound on epsilon: a model
    trained before any coins were drawn gets metrics only. Writes scores.csv, scores.json with what was chosen,
    lira.json (for coalmine report), and where membership is known examples.csv and roc.csv into --output. Every
    finished chunk of shadows is on disk: the same command trains what is missing, also with more --shadows.
    """
    recipe = {
        "steps_per_epoch": steps_per_epoch, "epochs": epochs, "learning_rate": learning_rate,
        "noise_multiplier": noise_multiplier, "clipping_norm": clipping_norm, "sampler": sampler, "momentum": momentum,
        "augmentation": augmentation,
    }  # fmt: skip
    unused = [f"--{name.replace('_', '-')}" for name, value in recipe.items() if value is not None]
    if (arrays or folder) and sum(g is not None for g in (arrays, folder, train or model or target)) > 1:
        raise InputError("--arrays, --folder and training (--model, --train, --target) exclude each other: give one")
    if attack not in ATTACKS:
        raise InputError(f"--attack must be one of {', '.join(ATTACKS)}, got {attack!r}")
    model_options.check_views(views)
    if folder is not None and layout not in LAYOUTS:
        raise InputError(f"--folder needs --layout, one of {', '.join(LAYOUTS)}, got {layout!r}")
    if train is not None and unused:
        raise InputError(f"--train trains by your own function: drop {', '.join(unused)}")
    if coins is not None and (canaries is None or target is None):
        raise InputError("--coins tells which --canaries are members of --target: give all three, or no coins")
    if target_members is not None and (target is None or canaries is not None):
        raise InputError("--target-members goes with --target and without --canaries: drop it, or give --target")
    model_options.check_target(target)
    model_options.check_paths(
        arrays=arrays, folder=folder, canaries=canaries, coins=coins, target_members=target_members, about=about
    )
    from ..attack.output import check_folder, summary, table_of_examples, write_result
    from ..verdict.score_record import ScoreRecord
    from .shadow_flows import Flow, collected, trained

    check_folder(output, ScoreRecord(attack), compared=("score",))
    flow = Flow.of(ctx.params, recipe)
    found = collected(flow) if arrays is not None or folder is not None else trained(flow)
    if found is None:
        typer.echo(f"the shadows of --span {span} are done; run without --span when all are, to attack")
        return
    files = write_result(output, found.conclusion, found.record)
    result = found.conclusion.result
    for line in result.warnings:
        remark(f"warning: {line}")
    if json:
        print_json(result.to_json())
        return
    typer.echo(summary(result))
    if found.told:
        typer.echo(found.told)
    if table := table_of_examples(result, top):
        typer.echo(table)
    typer.echo(f"files: {', '.join(str(f) for f in files)}")
    if not quiet:
        typer.echo(f"page: coalmine report {files[-1]}")
        typer.echo(result.not_a_bound)
