"""`coalmine lira`: the likelihood ratio attack and its successors with shadow models, resumable."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ...foundation import InputError, sha256_of_file
from ..choices import ATTACKS, LAYOUTS, VIEWS
from .options import Device, Json, Quiet, print_json, remark, stepper, torch_device, writable_folder

app = typer.Typer(add_completion=False)

EXAMPLE = (
    "Examples: coalmine lira --data digits --model mlp --shadows 16 --targets 4 --steps-per-epoch 12 --epochs 40 "
    "--learning-rate 0.1 --momentum 0.9 --output runs/lira   |   coalmine lira --target runs/a --canaries "
    "canaries.safetensors --output runs/lira   |   coalmine lira --arrays logits_and_keep.npz --output runs/lira"
)


@app.command(epilog=EXAMPLE)
def lira(
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", callback=writable_folder, help="Folder of the run; the same command resumes it."
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
    target: Annotated[
        Path | None,
        typer.Option(help="Your trained model: a checkpoint, or the folder of a `coalmine train` run."),
    ] = None,
    target_members: Annotated[
        Path | None,
        typer.Option(
            help="A .npy with the rows of --data that the target was trained on: true/false for each, or row numbers. "
            "Left out: all training rows, and the test rows are the non-members."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="mlp, cnn, cnn-137k, wrn16-4, torchvision:NAME or package.module:function.")
    ] = None,
    train: Annotated[
        str | None,
        typer.Option(help="Your own training, package.module:function(indices, seed) -> module, one model a call."),
    ] = None,
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
    fraction: Annotated[float, typer.Option(help="Probability that a shadow is trained on an example.")] = 0.5,
    attack: Annotated[
        str, typer.Option(help=f"Whose scores are written, chosen before you see any coins: {', '.join(ATTACKS)}.")
    ] = "lira_online",
    views: Annotated[int, typer.Option(help="1, 2 (mirror), 9, 18, 25 or 50 (shifts, mirrored).")] = 1,
    steps_per_epoch: Annotated[int | None, typer.Option(help="M: optimiser steps in one epoch.")] = None,
    epochs: Annotated[int | None, typer.Option(help="E: epochs.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Step size of SGD.")] = None,
    noise_multiplier: Annotated[float | None, typer.Option(help="DP-SGD shadows; with --clipping-norm.")] = None,
    clipping_norm: Annotated[float | None, typer.Option(help="Left out: plain SGD.")] = None,
    sampler: Annotated[
        str | None, typer.Option(help="random_allocation, fixed_bins, poisson, fixed_size or full_batch.")
    ] = None,
    momentum: Annotated[float | None, typer.Option(help="Momentum of SGD.")] = None,
    augmentation: Annotated[str | None, typer.Option(help="none or flip_shift (images).")] = None,
    chunk: Annotated[
        int | None,
        typer.Option(min=1, help="Models trained side by side, and a shard on disk: 8 if left out, 1 with --train."),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Processes on this machine; they pay once training takes minutes.")
    ] = 1,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a dask scheduler that shares --output (extra dask).")
    ] = None,
    span: Annotated[
        str | None, typer.Option(help="first:last, only shadows of that range: one job of a cluster array.")
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            min=0,
            help="Of the shadow models, and of targets of the recipe: the auditor's own models, on which no privacy "
            "rests. The same seed trains the same models; --target is not touched by it.",
        ),
    ] = 0,
    device: Device = "cpu",
    json_output: Json = False,
    quiet: Quiet = False,
) -> None:
    """Attack membership with shadow models: LiRA, BASE, RMIA and simpler scores, with intervals.

    Metrics, not a bound on epsilon: a model trained before any coins were drawn gets metrics only. Writes scores.csv,
    scores.json with what was chosen, and lira.json into --output. Every finished chunk of shadows is on disk: the same
    command trains what is missing, also with more --shadows.
    """
    trained = {
        "steps_per_epoch": steps_per_epoch,
        "epochs": epochs,
        "learning_rate": learning_rate,
        "noise_multiplier": noise_multiplier,
        "clipping_norm": clipping_norm,
        "sampler": sampler,
        "momentum": momentum,
        "augmentation": augmentation,
    }
    if sum(given is not None for given in (arrays, folder, train or model or target)) > 1 and (arrays or folder):
        raise InputError("--arrays, --folder and training (--model, --train, --target) exclude each other: give one")
    from ..lira.output import check_folder, summary, write_result
    from ..verdict.score_record import ScoreRecord

    _check_choices(attack, views, folder, layout)
    unused = [f"--{name.replace('_', '-')}" for name, value in trained.items() if value is not None]
    if train is not None and unused:
        raise InputError(f"--train trains by your own function: drop {', '.join(unused)}")
    if coins is not None and (canaries is None or target is None):
        raise InputError("--coins tells which --canaries are members of --target: give all three, or no coins")
    if target_members is not None and (target is None or canaries is not None):
        raise InputError("--target-members goes with --target and without --canaries: drop it, or give --target")
    for option, path in {
        "--arrays": arrays, "--folder": folder, "--canaries": canaries, "--coins": coins, "--target": target,
        "--target-members": target_members,
    }.items():  # fmt: skip
        if path is not None and not path.exists():
            raise InputError(f"{option} {str(path)!r} does not exist: check the path")
    check_folder(output, ScoreRecord(attack), compared=("score",))
    inputs, facts = None, {}
    if arrays is not None or folder is not None:
        collected = _collected(arrays, folder, layout, target_index)
        collected = collected if shadows is None else collected.first(shadows)
        facts = {} if arrays is None else {"arrays_sha256": sha256_of_file(arrays)}
    else:
        collected, inputs, facts = _trained(
            output, attack, data, canaries, coins, target, target_members, model, train, trained,
            16 if shadows is None else shadows,
            targets, fraction, views, chunk or (1 if train else 8), jobs, scheduler, span, seed, device, quiet,
        )  # fmt: skip
        if collected is None:
            typer.echo(f"the shadows of --span {span} are done; run without --span when all are, to attack")
            return
    from ..lira.conclude import DRAW_COINS, conclude

    next_step = DRAW_COINS
    if canaries is not None and target is not None:
        next_step = (
            f"Next: coalmine audit --scores {output / 'scores.csv'} --coins {coins or 'coins.json'} --claim claim.json"
        )
    result = conclude(collected, attack, inputs, seed, next_step)
    facts = {"views": collected.shadow_phi.shape[2], "shadows": collected.shadows, "seed": seed} | facts
    files = write_result(output, result, ScoreRecord(attack, **facts))
    if json_output:
        print_json(result.record)
        return
    for line in result.warnings:
        remark(f"warning: {line}", quiet)
    typer.echo(summary(result.record))
    typer.echo(f"files: {', '.join(str(f) for f in files)}")
    if not quiet:
        typer.echo(result.record["not_a_bound"])


def _check_choices(attack: str, views: int, folder: Path | None, layout: str | None) -> None:
    if attack not in ATTACKS:
        raise InputError(f"--attack must be one of {', '.join(ATTACKS)}, got {attack!r}")
    if views not in VIEWS:
        raise InputError(f"--views must be one of {', '.join(map(str, VIEWS))}, got {views}")
    if folder is not None and layout not in LAYOUTS:
        raise InputError(f"--folder needs --layout, one of {', '.join(LAYOUTS)}, got {layout!r}")


def _collected(arrays: Path | None, folder: Path | None, layout: str | None, target_index: int | None) -> Any:
    if arrays is not None:
        from ...attacks.shadow_arrays import read_arrays

        return read_arrays(arrays)
    assert folder is not None and layout is not None
    from ...attacks.import_lira_analysis import import_lira_analysis
    from ...attacks.import_lira_pytorch import import_lira_pytorch
    from ...attacks.import_mi_lira import import_mi_lira
    from ...attacks.import_ml_privacy_meter import import_ml_privacy_meter

    importers = (import_mi_lira, import_lira_pytorch, import_lira_analysis, import_ml_privacy_meter)
    return importers[LAYOUTS.index(layout)](folder, target_index)


def _trained(
    output: Path, attack: str, data: str, canaries: Path | None, coins: Path | None, target: Path | None,
    target_members: Path | None, model: str | None, train: str | None, trained: dict[str, Any],
    shadows: int, targets: int, fraction: float, views: int, chunk: int, jobs: int,
    scheduler: str | None, span: str | None, seed: int, device: str, quiet: bool,
) -> tuple[Any, Any, dict[str, Any]]:  # fmt: skip
    """(arrays, inputs of the blind baseline, facts of the score record); arrays is None where a span is not all."""
    from ..lira.target import recipe_of_run, target_members_of

    model, trained, run = recipe_of_run(target, model, trained)
    if train is None:
        _check_given(trained)
    part = _span(span)
    recipe = None
    if train is not None:  # first of all: nothing else matters while the function cannot be called
        from ..recipe import user_recipe

        recipe = user_recipe(train, str(Path.cwd()))
    from ...canaries import CanarySet, Coins
    from ..lira.output import check_folder
    from ..training.data import load_data
    from ..verdict.score_record import ScoreRecord

    source = load_data(data)
    canary_set = CanarySet.load(canaries) if canaries else None
    drawn = Coins.load(coins) if coins else None
    facts: dict[str, Any] = {"views": views, "shadows": shadows, "seed": seed}
    member = None
    if canary_set is not None:
        facts |= {
            "canaries": len(canary_set),
            "canaries_sha256": canary_set.sha256,
            "canary_method": canary_set.method,
            "coins_opened": drawn is not None,
        }
        if drawn is not None:
            drawn.check(canary_set)
            member = drawn.member
    elif target is not None:
        member = target_members_of(target_members, data, len(source.y), len(source.y_test))
        if member.all() or not member.any():
            raise InputError(
                f"{int(member.sum())} of {member.size} rows are members of --target: members and non-members are needed"
            )

    from ...attacks.query import view_list
    from ..lira.shadows import shadow_arrays
    from ..recipe import engine_recipe
    from ..rows import universe
    from ..score import sha256_of_checkpoint
    from ..training.checkpoint import open_model
    from ..work import Work
    from .score import check_run

    where = str(torch_device(device))
    rows = universe(source, canary_set, test_rows_too=target is not None and canaries is None and not target_members)
    if attack == "rmia_offline" and len(rows.population_y) == 0:
        raise InputError(
            "--attack rmia_offline needs rows that no model was trained on and nobody asks about, the test rows: here "
            "they are the non-members, or the data has none. Give data with test rows and --target-members, or choose "
            "another attack"
        )
    if recipe is None:
        recipe = engine_recipe(rows, model or "mlp", _settings(trained, rows.expected_size(fraction)), chunk, where)
    attacked = None
    if target is not None:
        weights = target
        if run is not None:
            weights = target / "checkpoint.safetensors"
            check_run(run, target, None if canary_set is None else canary_set.sha256)
        attacked = open_model(weights, model, source.input_shape, source.classes)
        facts |= {"checkpoint": str(weights), "checkpoint_sha256": sha256_of_checkpoint(weights), "model": model}
    check_folder(output, ScoreRecord(attack, **facts))
    names = VIEWS[views]
    total = -(-shadows // chunk) + (0 if target is not None else -(-targets // chunk))
    with _cluster(scheduler), stepper(total, "shadow models", quiet) as advance:
        work = Work(
            output / "shadows", seed, chunk, max(jobs, 2) if scheduler else jobs, "dask" if scheduler else "loky",
            part, advance,
        )  # fmt: skip
        collected = shadow_arrays(
            rows, recipe, work, shadows,
            targets=targets, target=attacked, target_member=member, fraction=fraction,
            views=view_list(names), device=where,
        )  # fmt: skip
    inputs = None if canary_set is not None else (rows.x[rows.audited], rows.y[rows.audited])
    return collected, inputs, facts


def _check_given(trained: dict[str, Any]) -> None:
    for name in ("steps_per_epoch", "epochs", "learning_rate"):
        if trained[name] is None:
            raise InputError(f"--{name.replace('_', '-')} is needed to train shadow models like the target")


def _settings(given: dict[str, Any], public_size: float) -> Any:
    from ..training.settings import TrainingSettings

    return TrainingSettings(public_size=public_size, **{k: v for k, v in given.items() if v is not None})


def _span(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    first, separator, last = text.partition(":")
    if not separator or not first.isdigit() or not last.isdigit():
        raise InputError(f"--span {text!r} must be first:last, as 0:16")
    return int(first), int(last)


def _cluster(address: str | None) -> Any:
    from contextlib import nullcontext

    if address is None:
        return nullcontext()
    try:
        from distributed import Client  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError("--scheduler needs dask: install the extra, pip install 'coalmine[dask]'") from None
    try:
        return Client(address, timeout="10s")
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"--scheduler {address!r} does not answer: {error}") from None
