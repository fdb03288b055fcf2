"""coalmine canaries: look at canary sets, measure how detectable they are; `craft` lives in craft.py."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...foundation import InputError
from .craft import craft_command
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
from .replacing import FIGURE, replacing

if TYPE_CHECKING:
    from ..training.data import Data as LoadedData

app = typer.Typer(no_args_is_help=True, add_completion=False)

CanariesFile = Annotated[Path, typer.Argument(help="A canary set written by `coalmine canaries craft`.")]


@app.callback()
def _group() -> None:
    """Make canary sets, look at them, measure how detectable they are."""


app.command("craft")(craft_command)


@app.command("show")
def show_command(
    canaries: CanariesFile,
    out: Annotated[Path, typer.Option("--output", "-o", callback=replacing(FIGURE), help="The picture.")] = Path(
        "canaries.png"
    ),
    data: Annotated[str | None, typer.Option("--data", help="Shows the rows that canaries came from.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="With --data: gradients and influence through one such model.")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Draw a canary set: contact sheet with sources, cosines of inputs and, with a model, gradients and influence.

    Example: coalmine canaries show canaries.safetensors --data digits --output canaries.png
    """
    from ...canaries import CanarySet
    from ...canaries.picture import picture

    frozen = CanarySet.load(canaries)
    pool, cosines, among = None, None, None
    if data is not None:
        from ..training.data import load_data

        source = load_data(data)
        pool = _pool(source)
        _same_data(frozen, source)
        if model is not None:
            from ...canaries.base_models import base_models
            from ...canaries.diagnosis import influence_among, unit_gram

            base = base_models(pool, trainer_of(source, model), 0, 1)
            cosines, among = unit_gram(base[0], frozen), influence_among(base, frozen, pool)
    elif model is not None:
        raise InputError("--model needs --data, on which it is trained")
    picture(frozen, out, pool, cosines, among)
    if json:
        print_json({"picture": str(out), "canaries": len(frozen), "method": frozen.method, "sha256": frozen.sha256})
    else:
        typer.echo(f"{out}: {len(frozen)} canaries by {frozen.method}")


@app.command("diagnose")
def diagnose_command(
    canaries: CanariesFile,
    data: Data,
    model: Model = "mlp",
    steps_per_epoch: StepsPerEpoch = None,
    epochs: Epochs = 20,
    learning_rate: LearningRate = 0.5,
    momentum: Momentum = 0.0,
    noise_multiplier: NoiseMultiplier = 0.0,
    clipping_norm: ClippingNorm = None,
    embedding: Annotated[str | None, typer.Option(help="Layer whose output is the embedding.")] = None,
    device: Device = "cpu",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Tell what stands in a set's way before any audited training: interference, rank, duplicates, ties.

    Example: coalmine canaries diagnose canaries.safetensors --data digits --model mlp
    """
    from ...canaries import CanarySet
    from ...canaries.base_models import base_models
    from ...canaries.diagnosis import complementary_pair, diagnose
    from ..training.data import load_data

    frozen, source = CanarySet.load(canaries), load_data(data)
    _same_data(frozen, source)
    pool = _pool(source)
    trainer = trainer_of(
        source, model, steps_per_epoch, epochs, learning_rate, momentum, noise_multiplier, clipping_norm, device
    )
    remark("training 4 base models and a pair with one half of the canaries each", quiet)
    pair = complementary_pair(frozen, pool, trainer)
    record = diagnose(frozen, base_models(pool, trainer, 0), pool, embedding, pair)
    if json:
        print_json(record)
        return
    typer.echo(f"{len(frozen)} canaries by {frozen.method}, through 4 models of {model}")
    typer.echo(
        f"margin, once in and once out                gap {record['margin_gap']:.2f}, "
        f"{record['margin_separation']:.2f} standard deviations"
    )
    typer.echo(f"self over largest cross influence, median   {record['self_over_cross']:.3g}")
    typer.echo(f"mean squared cosine of gradients            {record['gradient_cosine']:.4f}")
    if record["embedding_cosine"] is not None:
        typer.echo(f"mean squared cosine of embeddings           {record['embedding_cosine']:.4f}")
    else:
        typer.echo(f"no embedding: {record['embedding_reason']}")
    rank = f"{record['effective_rank']:.1f} of {len(frozen)}"
    typer.echo(f"effective rank of the gradients             {rank}: about as many can be told apart")
    typer.echo(f"duplicates {record['duplicates']} (with another label: {record['conflicting']})")
    typer.echo(f"inputs that also stand in the data          {record['in_data']}")
    typer.echo(f"tied float32 losses                         {record['tied_losses']:.3f}")


@app.command("evaluate")
def evaluate_command(
    canaries: CanariesFile,
    data: Data,
    runs: Annotated[int, typer.Option(help="Independent small trainings, fresh coins and weights each.")] = 16,
    model: Model = "mlp",
    steps_per_epoch: StepsPerEpoch = None,
    epochs: Epochs = 20,
    learning_rate: LearningRate = 0.5,
    momentum: Momentum = 0.0,
    noise_multiplier: NoiseMultiplier = 0.0,
    clipping_norm: ClippingNorm = None,
    delta: Annotated[float, typer.Option(help="δ of the one-run ε.")] = 1e-5,
    seed: Seed = None,
    device: Device = "cpu",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Measure how detectable a set is: one-run audits on small trainings, for choosing a set, never for reporting one.

    Example: coalmine canaries evaluate canaries.safetensors --data digits --model mlp --runs 16
    """
    from ...canaries import CanarySet
    from ...foundation import fresh_seed
    from ..evaluate import evaluate_canaries, summary
    from ..training.data import load_data

    frozen, source = CanarySet.load(canaries), load_data(data)
    trainer = trainer_of(
        source, model, steps_per_epoch, epochs, learning_rate, momentum, noise_multiplier, clipping_norm, device
    )
    done = 0
    with stepper(runs, "training", quiet) as advance:

        def on_runs(count: int) -> None:
            nonlocal done
            for _ in range(count - done):
                advance()
            done = count

        used_seed = fresh_seed() if seed is None else seed
        results = evaluate_canaries(frozen, source, trainer, runs, used_seed, delta, on_runs=on_runs)
    each = [asdict(result) for result in results]  # the same --seed shares coins between sets: compare them run by run
    record: dict[str, Any] = {"canaries_sha256": frozen.sha256, "delta": delta, **summary(results), "each": each}
    if json:
        print_json(record)
        return
    typer.echo(f"{len(frozen)} canaries by {frozen.method}, {runs} trainings of {model}; mean ± 95 % over trainings")
    for name, text in (
        ("true_positive_rate", "TPR at FPR 0.05"),
        ("auc", "AUC"),
        ("loss_true_positive_rate", "TPR at FPR 0.05, by loss"),
        ("test_accuracy", "test accuracy"),
    ):
        half = record[name]["half_width"]
        typer.echo(f"{text:<26}{record[name]['mean']:.3f}" + (f" ± {half:.3f}" if half is not None else ""))
    e = record["epsilon"]
    typer.echo(
        f"{'ε at δ = ' + format(delta, 'g'):<26}median {e['median']:.2f}, {e['min']:.2f} to {e['max']:.2f} (class A)"
    )
    remark("For choosing a set: an audit needs a fresh run of its own.", quiet)


def _pool(source: LoadedData) -> Any:
    from ...canaries.pool import Pool

    return Pool(source.x, source.y, len(source.classes), source.value_range, source.fingerprint)


def _same_data(frozen: Any, source: LoadedData) -> None:
    if frozen.data_fingerprint and frozen.data_fingerprint != source.fingerprint:
        raise InputError(f"the canaries were crafted from other data than {source.name}: name the data they came from")
