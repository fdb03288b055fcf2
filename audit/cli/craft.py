"""coalmine canaries craft: make a canary set and freeze it in a file."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from ...foundation import InputError, in_use
from .options import Device, Json, Quiet, Seed, print_json, remark, stepper
from .recipe_options import (
    ClippingNorm,
    Data,
    Epochs,
    LearningRate,
    Model,
    Momentum,
    NoiseMultiplier,
    StepsPerEpoch,
    trainer_of,
)
from .replacing import CANARIES, replacing


def craft_command(
    data: Data,
    method: Annotated[
        str,
        typer.Option(
            help="random, mislabelled, noise, binary_noise, blank; through trained models: highest_loss, "
            "highest_self_influence, greedy, clipbkd, canife, metagradient, ibis; for DP-SGD: clipped_influence."
        ),
    ] = "binary_noise",
    count: Annotated[int, typer.Option(help="How many canaries.")] = 200,
    out: Annotated[
        Path, typer.Option("--output", "-o", callback=replacing(CANARIES), help="Where to write the set.")
    ] = Path("canaries.safetensors"),
    start: Annotated[
        str | None,
        typer.Option(
            help="The set whose inputs are moved: of ibis greedy if left out, of clipped_influence and metagradient "
            "binary_noise."
        ),
    ] = None,
    restarts: Annotated[int, typer.Option(help="ibis: how often the replicas are trained afresh.")] = 12,
    regulariser: Annotated[float, typer.Option(help="ibis: λ of the embeddings' mean squared cosine.")] = 0.0,
    regulariser_form: Annotated[str, typer.Option(help="ibis: unit, or raw as the paper writes it.")] = "unit",
    step_size: Annotated[float, typer.Option(help="ibis: first step, in units of the valid range.")] = 0.08,
    embedding: Annotated[str | None, typer.Option(help="ibis: the layer of the regulariser's embedding.")] = None,
    canary_batch: Annotated[
        int | None, typer.Option(help="ibis: canaries a replica looks at in a step, for large sets; left out: all.")
    ] = None,
    direction: Annotated[
        str,
        typer.Option(help="ibis: soba, or reverse: the derivative through the last half of the replicas' training."),
    ] = "soba",
    replica_epochs: Annotated[
        int | None, typer.Option(help="ibis: train replicas for fewer epochs while canaries move; left out: all.")
    ] = None,
    round_8_bits: Annotated[bool, typer.Option(help="ibis: values that an 8-bit image can hold.")] = False,
    fixed_columns: Annotated[
        str | None,
        typer.Option(help="Columns that no canary changes, as 0,3,5-8; of images those of the flattened row."),
    ] = None,
    model: Model = "mlp",
    steps_per_epoch: StepsPerEpoch = None,
    epochs: Epochs = 20,
    learning_rate: LearningRate = 0.5,
    momentum: Momentum = 0.0,
    noise_multiplier: NoiseMultiplier = 0.0,
    clipping_norm: ClippingNorm = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    seed: Seed = None,
    device: Device = "cpu",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Make a canary set from training data and freeze it in a file.

    Methods that look through models train them by the recipe of the options, which should be that of the audit to come.
    `ibis` writes its progress beside --output and resumes from it when called again with the same --seed.

    Example: coalmine canaries craft --data digits --method ibis --model mlp --count 200 --output canaries.safetensors
    """
    from ...canaries.crafting import DEFAULT_START, METHODS, MOVED, PLAIN
    from ...canaries.refinement import Refinement
    from ...foundation import fresh_seed
    from ..craft import craft_for, craft_warnings
    from ..training.data import load_data

    if method not in METHODS:
        raise InputError(f"--method {method!r} is unknown: use one of {', '.join(METHODS)}")
    if start is not None and method not in MOVED:
        raise InputError(f"--start belongs to --method {', '.join(MOVED)}: drop it for {method}")
    refined_by: dict[str, Any] = {
        "restarts": restarts,
        "regulariser": regulariser,
        "regulariser_form": regulariser_form,
        "step_size": step_size,
        "embedding": embedding,
        "canary_batch": canary_batch,
        "direction": direction,
        "replica_epochs": replica_epochs,
    }
    if method != "ibis":
        unused = [name for name, value in refined_by.items() if value != getattr(Refinement, name)]
        unused += ["round_8_bits"] if round_8_bits else []
        if unused:
            named = ", ".join(f"--{name.replace('_', '-')}" for name in unused)
            raise InputError(f"{named} belongs to --method ibis: drop it for {method}")
    source = load_data(data)
    used_seed = fresh_seed() if seed is None else seed
    trainer, refinement, steps = None, None, 1
    options: dict[str, Any] = {}
    if method not in PLAIN:
        trainer = trainer_of(
            source, model, steps_per_epoch, epochs, learning_rate, momentum, noise_multiplier, clipping_norm, device
        )
    for warning in craft_warnings(source, count):
        remark(f"warning: {warning}", quiet)
    start = DEFAULT_START.get(method, "") if start is None else start
    if method == "metagradient":
        options = {"start": start}
    if method == "clipped_influence":
        from ...canaries.clipped_influence import ClippedInfluence

        defaults = ClippedInfluence()
        options, steps = {"start": start}, defaults.rounds * defaults.steps
    if method == "ibis":
        refinement = Refinement(**refined_by)
        options, steps = {"start": start, "round_8_bits": round_8_bits}, restarts + 1  # the end is measured too
        if seed is not None:
            options["checkpoint"] = out.with_name(out.name + ".progress")
    if fixed_columns is not None:
        options["fixed_columns"] = _numbers(fixed_columns)
    progress = options.get("checkpoint")
    held = nullcontext() if progress is None else in_use(progress, "progress of --output", file=True)
    with held, stepper(steps, f"crafting {method}", quiet) as advance:
        if method == "clipped_influence":
            options["on_step"] = lambda _: advance()
        if method == "ibis":
            options["on_restart"] = lambda record: (advance(), log.append(record))
        log: list[dict[str, Any]] = []
        canaries = craft_for(source, method, count, used_seed, trainer, refinement, **options)
        canaries.save(out)
        if progress is not None:
            progress.unlink(missing_ok=True)
    record = {"canaries": str(out), "method": method, "count": len(canaries), "sha256": canaries.sha256}
    choice = canaries.parameters.get("choice") if method == "ibis" else None
    if log:
        record["log"] = log
    if choice:
        record["choice"] = choice
        _remark_on(choice, log, start, quiet)
    if json:
        print_json(record)
        return
    for entry in log:
        name = f"restart {entry['restart']}" if entry["restart"] < restarts else "end"
        typer.echo(
            f"{name}: AUC on fresh replicas {entry['auc']:.3f}, objective {entry['outer']:.3f}, "
            f"moved {entry['moved']:.3f}"
        )
    if choice:
        typer.echo(_chosen(choice, start))
    typer.echo(f"{out}: {len(canaries)} canaries by {method}, sha256 {canaries.sha256}")
    remark("Next: coalmine coins draws which of them are members.", quiet)


def _figures(figures: dict[str, float]) -> str:
    return f"AUC {figures['auc']:.3f}, TPR at FPR 0.05 {figures['true_positive_rate']:.3f}"


def _chosen(choice: dict[str, Any], start: str) -> str:
    which = "the start itself" if choice["returned"] == "start" else f"the iterate of restart {choice['restart']}"
    which += ", its values at the ends of the range" if choice["corners"] and choice["returned"] != "start" else ""
    return (
        f"kept {which}; on replicas that chose nothing: {_figures(choice['refined_figures'])} refined, "
        f"{_figures(choice['start_figures'])} at the start ({start})"
    )


def _remark_on(choice: dict[str, Any], log: list[dict[str, Any]], start: str, quiet: bool) -> None:
    """What must not be silent: a set no better than its start, an implicit term that is not there."""
    if choice["returned"] == "start":
        remark(
            f"warning: refinement did not help: {_figures(choice['refined_figures'])} against "
            f"{_figures(choice['start_figures'])} of its start ({start}) on fresh replicas. The set written is the "
            "start: take fewer canaries, another --start, or metagradient",
            quiet,
        )
    residuals = [record["residual"] for record in log if "residual" in record]
    if residuals and max(residuals) > 0.5:
        remark(
            f"the implicit term is not solved: its residual is {max(residuals):.2f} of what it was at v = 0, so that "
            "the explicit gradient did the work",
            quiet,
        )
    agreements = [record["agreement"] for record in log if "agreement" in record]
    if agreements and min(agreements) < 0.1:
        remark(
            f"warning: the two halves of the replicas hardly agree on a direction (cosine {min(agreements):.2f}): this "
            "recipe trains near the edge of stability; take --direction soba, or a lower learning rate",
            quiet,
        )


def _numbers(text: str) -> tuple[int, ...]:
    """ "0,3,5-8" -> (0, 3, 5, 6, 7, 8)."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()) or (dash and int(last) < int(first)):
            raise InputError(f"--fixed-columns {text!r} is no list of column numbers: write 0,3,5-8")
        found += range(int(first), int(last) + 1 if dash else int(first) + 1)
    return tuple(dict.fromkeys(found))
