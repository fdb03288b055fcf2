"""`coalmine repeat`: train many times with fresh coins and judge all runs together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...foundation import InputError, read_json
from ..choices import SCORES
from .claim_options import ClaimFile
from .options import Device, Json, Quiet, print_json, remark, stepper, torch_device
from .replacing import REPEAT_FOLDER, replacing

app = typer.Typer(add_completion=False)


@app.command(
    epilog="Example: coalmine repeat --canaries canaries.safetensors --claim claim.json --runs 32 --model mlp "
    "--steps-per-epoch 10 --epochs 20 --noise-multiplier 3 --clipping-norm 1 --learning-rate 0.5 --output runs/repeat"
)
def repeat(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", callback=replacing(REPEAT_FOLDER), help="Folder; the same command resumes it."),
    ],
    canaries: Annotated[Path, typer.Option(help="canaries.safetensors")],
    runs: Annotated[int, typer.Option(help="R: independent trainings.")],
    claim: ClaimFile = None,
    data: Annotated[str, typer.Option(help="The data that the canaries belong to.")] = "digits",
    one_canary: Annotated[
        bool, typer.Option("--one-canary", help="One coin a run, for canary r mod m: class C holds, one guess a run.")
    ] = False,
    train: Annotated[
        str | None, typer.Option(help="Your own training, package.module:function(indices, seed) -> module.")
    ] = None,
    model: Annotated[str, typer.Option(help="mlp, cnn, cnn-137k, wrn16-4, torchvision:NAME …")] = "mlp",
    steps_per_epoch: Annotated[int | None, typer.Option(help="M: optimiser steps in one epoch.")] = None,
    epochs: Annotated[int | None, typer.Option(help="E: epochs.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Step size of SGD.")] = None,
    noise_multiplier: Annotated[float, typer.Option(help="Noise on the sum, divided by --clipping-norm.")] = 0.0,
    clipping_norm: Annotated[float | None, typer.Option(help="Left out: plain SGD, not private.")] = None,
    sampler: Annotated[str, typer.Option(help="As in `coalmine train`.")] = "random_allocation",
    momentum: Annotated[float, typer.Option(help="Momentum of SGD.")] = 0.0,
    score: Annotated[str, typer.Option(help="phi, loss or hinge: fixed before any coin is opened.")] = "phi",
    chunk: Annotated[int, typer.Option(min=1, help="Models trained side by side, and a shard on disk.")] = 8,
    jobs: Annotated[int, typer.Option(min=1, help="Processes on this machine.")] = 1,
    alpha: Annotated[float, typer.Option(help="Error of the verdict: rejected if p-value < alpha.")] = 0.05,
    fail_on_rejection: Annotated[
        bool, typer.Option("--fail-on-rejection", help="Exit with code 1 when the claim is rejected.")
    ] = False,
    label: Annotated[str, typer.Option(help="A name for this audit in reports.")] = "",
    seed: Annotated[
        int,
        typer.Option(
            min=0,
            help="Of the coins, and of the seed that each training is given: the auditor's own runs, on which no "
            "privacy rests. The same seed repeats them, another one is another audit.",
        ),
    ] = 0,
    device: Device = "cpu",
    json_output: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train R models with fresh coins, and judge the claim by all of them together.

    All canaries in every run: the accuracy of the runs is tested against the claim's bound, whatever canaries of
    one run do to each other. With --one-canary: one canary a run, so that errors are independent and Clopper-Pearson
    applies.
    """
    from ..verdict.settings import AuditSettings

    if runs < 2:
        raise InputError(f"--runs must be at least 2, got {runs}")
    AuditSettings(alpha=alpha)  # an impossible alpha is told before anything is trained
    if score not in SCORES[:3]:  # the difference needs a model before each training, which is not kept
        raise InputError(f"--score must be one of {', '.join(SCORES[:3])}, got {score!r}")
    if train is None and None in (steps_per_epoch, epochs, learning_rate):
        raise InputError("--steps-per-epoch, --epochs and --learning-rate are needed, or --train for your own training")
    for option, path in {"--canaries": canaries, "--claim": claim}.items():
        if path is not None and not path.exists():
            raise InputError(f"{option} {str(path)!r} does not exist: check the path")
    _refuse_another_look(output, runs)
    from ...canaries import CanarySet
    from ..training.data import load_data
    from ..verdict.claim import check_claim_against_run, load_claim

    canary_set = CanarySet.load(canaries)
    claimed = load_claim(claim) if claim is not None else None
    own = None
    if train is not None:  # first of all: nothing else matters while the function cannot be called
        from ..recipe import user_recipe

        own = user_recipe(train, "")
    source = load_data(data)
    from ...reports.terminal import audit_lines
    from ..recipe import engine_recipe
    from ..repeat import repeat_training
    from ..rows import universe
    from ..training.run_record import RunRecord
    from ..training.settings import TrainingSettings
    from ..verdict.facts import ThreatModel
    from ..verdict.provenance import Provenance
    from ..verdict.repeated import Circumstances, judge_repeated
    from ..work import Work

    ran = None
    rows = universe(source, canary_set)
    where = str(torch_device(device))
    if own is not None:
        recipe = own
    else:
        assert steps_per_epoch is not None and epochs is not None and learning_rate is not None
        members = 0.5 if one_canary else len(canary_set) / 2
        settings = TrainingSettings(
            steps_per_epoch=steps_per_epoch,
            epochs=epochs,
            learning_rate=learning_rate,
            public_size=float(rows.always.sum()) + members,
            noise_multiplier=noise_multiplier,
            clipping_norm=clipping_norm,
            sampler=sampler,
            momentum=momentum,
        )
        ran = RunRecord(
            settings.mechanism(), clipping_norm, settings.divisor, True, settings=settings.record(),
            data_fingerprint=source.fingerprint, canaries_sha256=canary_set.sha256,
        )  # fmt: skip
        if claimed is not None:
            check_claim_against_run(claimed, ran)
        recipe = engine_recipe(rows, model, settings, chunk, where)
    with stepper(-(-runs // chunk), "training", quiet) as advance:
        work = Work(output, seed, chunk, jobs, advance=advance)
        done = repeat_training(rows, canary_set, recipe, work, runs, score=score, one_canary=one_canary, device=where)
    result = judge_repeated(
        done,
        claimed,
        AuditSettings(alpha=alpha),
        Circumstances(
            ran,
            ThreatModel(score=score, canary_method=canary_set.method),
            Provenance(canaries_sha256=canary_set.sha256),
            label,
        ),
    )
    result.save(output / "audit.json")
    rejected = fail_on_rejection and result.verdict == "rejected"
    if json_output:
        print_json(result.to_json())
        raise typer.Exit(int(rejected))
    for line in audit_lines(result):
        typer.echo(line)
    spread = result.repeated
    if spread is not None and spread.over_dispersion is not None:
        typer.echo(
            f"  variance between runs over the binomial one: {spread.over_dispersion:.3g} "
            f"(p = {spread.over_dispersion_p_value:.2g} for independent canaries)"
        )
    remark(f"written: {output / 'audit.json'}", quiet)
    raise typer.Exit(int(rejected))


def _refuse_another_look(output: Path, runs: int) -> None:
    """A verdict over these runs stands: fewer would replace it, more after it was seen are a second look."""
    file = output / "audit.json"
    if not file.exists():
        return
    earlier = read_json(file, "audit file")
    repeated = earlier.get("repeated") if isinstance(earlier, dict) else None
    judged = repeated.get("runs") if isinstance(repeated, dict) else None
    if judged != runs:
        raise InputError(
            f"--output {str(output)!r} holds a verdict over {judged} runs, --runs {runs} would judge again with that "
            "verdict seen, and replace it: name another folder, with another --seed, for a fresh audit"
        )
