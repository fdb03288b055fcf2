"""coalmine canaries: make canary sets, look at them, measure how detectable they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...foundation import InputError
from .options import Device, Json, Quiet, Seed, print_json, remark, stepper, torch_device, writable_file

if TYPE_CHECKING:
    from ..crafting import Trainer
    from ..training.data import Data as LoadedData

app = typer.Typer(no_args_is_help=True, add_completion=False)

Data = Annotated[str, typer.Option("--data", help="digits, cifar10:ROOT, imagefolder:DIR, table.csv, arrays.npz …")]
CanariesFile = Annotated[Path, typer.Argument(help="A canary set written by `coalmine canaries craft`.")]
# the recipe of the audit to come: what base models, replicas and evaluated models are trained by
Model = Annotated[
    str, typer.Option("--model", help="mlp, cnn, cnn-137k, wrn16-4, torchvision:NAME or package:function.")
]
StepsPerEpoch = Annotated[int | None, typer.Option(help="M of the recipe; left out: batches of about 100.")]
Epochs = Annotated[int, typer.Option(help="E of the recipe.")]
LearningRate = Annotated[float, typer.Option(help="Step size of the recipe.")]
Momentum = Annotated[float, typer.Option(help="Momentum of the recipe.")]
NoiseMultiplier = Annotated[float, typer.Option(help="Noise of the recipe; needs --clipping-norm.")]
ClippingNorm = Annotated[float | None, typer.Option(help="Clipping norm of the recipe; left out: plain SGD.")]


@app.callback()
def _group() -> None:
    """Make canary sets, look at them, measure how detectable they are."""


@app.command("craft")
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
    out: Annotated[Path, typer.Option("--output", "-o", callback=writable_file, help="Where to write the set.")] = Path(
        "canaries.safetensors"
    ),
    start: Annotated[
        str, typer.Option(help="ibis, clipped_influence, metagradient: the set whose inputs are moved.")
    ] = "binary_noise",
    restarts: Annotated[int, typer.Option(help="ibis: how often the replicas are trained afresh.")] = 12,
    regulariser: Annotated[float, typer.Option(help="ibis: λ of the embeddings' mean squared cosine.")] = 0.0,
    regulariser_form: Annotated[str, typer.Option(help="ibis: unit, or raw as the paper writes it.")] = "unit",
    step_size: Annotated[float, typer.Option(help="ibis: first step, in units of the valid range.")] = 0.08,
    embedding: Annotated[str | None, typer.Option(help="ibis: the layer of the regulariser's embedding.")] = None,
    canary_batch: Annotated[
        int | None, typer.Option(help="ibis: canaries a replica looks at in a step, for large sets; left out: all.")
    ] = None,
    round_8_bits: Annotated[bool, typer.Option(help="ibis: values that an 8-bit image can hold.")] = False,
    model: Model = "mlp",
    steps_per_epoch: StepsPerEpoch = None,
    epochs: Epochs = 20,
    learning_rate: LearningRate = 0.05,
    momentum: Momentum = 0.9,
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
    from ...canaries.crafting import METHODS, PLAIN
    from ...foundation import fresh_seed
    from ..crafting import craft_for
    from ..training.data import load_data

    if out.exists() and not force:
        raise InputError(
            f"--output {str(out)!r} exists: coins or a run may depend on it; name another file or use --force"
        )
    if method not in METHODS:
        raise InputError(f"--method {method!r} is unknown: use one of {', '.join(METHODS)}")
    source = load_data(data)
    used_seed = fresh_seed() if seed is None else seed
    trainer, refinement, steps = None, None, 1
    options: dict[str, Any] = {}
    if method not in PLAIN:
        trainer = _trainer(
            source, model, steps_per_epoch, epochs, learning_rate, momentum, noise_multiplier, clipping_norm, device
        )
    if method == "metagradient":
        options = {"start": start}
    if method == "clipped_influence":
        from ...canaries.clipped_influence import ClippedInfluence

        defaults = ClippedInfluence()
        options, steps = {"start": start}, defaults.rounds * defaults.steps
    if method == "ibis":
        from ...canaries.refine import Refinement

        refinement = Refinement(
            restarts=restarts,
            regulariser=regulariser,
            regulariser_form=regulariser_form,
            step_size=step_size,
            embedding=embedding,
            canary_batch=canary_batch,
        )
        options, steps = {"start": start, "round_8_bits": round_8_bits}, restarts
        if seed is not None:
            options["checkpoint"] = out.with_name(out.name + ".progress")
    with stepper(steps, f"crafting {method}", quiet) as advance:
        if method == "clipped_influence":
            options["on_step"] = lambda _: advance()
        if method == "ibis":
            options["on_restart"] = lambda record: (advance(), log.append(record))
        log: list[dict[str, Any]] = []
        canaries = craft_for(source, method, count, used_seed, trainer, refinement, **options)
    canaries.save(out)
    if "checkpoint" in options:
        options["checkpoint"].unlink(missing_ok=True)
    record = {"canaries": str(out), "method": method, "count": len(canaries), "sha256": canaries.sha256}
    if log:
        record["log"] = log
    if json:
        print_json(record)
        return
    for entry in log:
        typer.echo(
            f"restart {entry['restart']}: AUC on fresh replicas {entry['auc']:.3f}, objective {entry['outer']:.3f}, "
            f"moved {entry['moved']:.3f}"
        )
    typer.echo(f"{out}: {len(canaries)} canaries by {method}, sha256 {canaries.sha256}")
    remark("Next: coalmine coins draws which of them are members.", quiet)


@app.command("show")
def show_command(
    canaries: CanariesFile,
    out: Annotated[Path, typer.Option("--output", "-o", callback=writable_file, help="The picture.")] = Path(
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

            base = base_models(pool, _trainer(source, model), 0, 1)
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
    learning_rate: LearningRate = 0.05,
    momentum: Momentum = 0.9,
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
    from ...canaries.diagnosis import diagnose
    from ..training.data import load_data

    frozen, source = CanarySet.load(canaries), load_data(data)
    _same_data(frozen, source)
    pool = _pool(source)
    trainer = _trainer(source, model, steps_per_epoch, epochs, learning_rate, momentum, device=device)
    remark("training 4 base models", quiet)
    record = diagnose(frozen, base_models(pool, trainer, 0), pool, embedding)
    if json:
        print_json(record)
        return
    typer.echo(f"{len(frozen)} canaries by {frozen.method}, through 4 models of {model}")
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
    learning_rate: LearningRate = 0.05,
    momentum: Momentum = 0.9,
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
    from ..canary_evaluation import evaluate_canaries, summary
    from ..training.data import load_data

    frozen, source = CanarySet.load(canaries), load_data(data)
    trainer = _trainer(
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
    record = {"canaries_sha256": frozen.sha256, "delta": delta} | summary(results)
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


def _trainer(
    source: LoadedData,
    model: str,
    steps_per_epoch: int | None = None,
    epochs: int = 20,
    learning_rate: float = 0.05,
    momentum: float = 0.9,
    noise_multiplier: float = 0.0,
    clipping_norm: float | None = None,
    device: str = "cpu",
) -> Trainer:
    from ..crafting import recipe

    steps = max(1, round(len(source.y) / 100)) if steps_per_epoch is None else steps_per_epoch
    where = torch_device(device)
    return recipe(
        source,
        model,
        steps,
        epochs,
        learning_rate,
        momentum,
        noise_multiplier=noise_multiplier,
        clipping_norm=clipping_norm,
        device=where,
    )


def _pool(source: LoadedData) -> Any:
    from ...canaries.pool import Pool

    return Pool(source.x, source.y, len(source.classes), source.value_range, source.fingerprint)


def _same_data(frozen: Any, source: LoadedData) -> None:
    if frozen.data_fingerprint and frozen.data_fingerprint != source.fingerprint:
        raise InputError(f"the canaries were crafted from other data than {source.name}: name the data they came from")
