"""`coalmine check`: look inside a DP trainer and say what contradicts its claim."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...foundation import InputError, write_json
from .claim_options import (
    ClaimFile,
    Epochs,
    Epsilon,
    Mechanism,
    NoiseMultiplier,
    SamplingRate,
    Steps,
    StepsPerEpoch,
    claim_from_options,
)
from .options import Json, Quiet, print_json, remark, stepper
from .replacing import CHECK, replacing

app = typer.Typer(add_completion=False)
RUNS = 11  # main, coins, few, again, silent, neighbour, not finite, and two each with special models


@app.command(
    epilog="Example: coalmine check my_library:train --mechanism poisson --sampling-rate 0.1 --steps 100 "
    "--noise-multiplier 1 --output check.json"
)
def check(
    train: Annotated[
        str, typer.Argument(help="package.module:function(model, dataset), your training with its settings bound.")
    ],
    claim: ClaimFile = None,
    mechanism: Mechanism = None,
    steps_per_epoch: StepsPerEpoch = None,
    epochs: Epochs = None,
    noise_multiplier: NoiseMultiplier = None,
    sampling_rate: SamplingRate = None,
    steps: Steps = None,
    epsilon: Epsilon = None,
    delta: Annotated[float | None, typer.Option("--delta", help="Of --epsilon.")] = None,
    records: Annotated[int, typer.Option(help="Rows of the probe; a fixed batch size may ask for more.")] = 200,
    shape: Annotated[str | None, typer.Option(help="Of a row, for example 3,32,32; left out: a vector.")] = None,
    classes: Annotated[int, typer.Option(help="Outputs of the probe model.")] = 2,
    replays: Annotated[bool, typer.Option(help="Run again on neighbours with the same seed.")] = True,
    supports: Annotated[
        list[str] | None,
        typer.Option(help="shared_layers, batch_normalisation: models that the trainer is said to train rightly."),
    ] = None,
    alpha: Annotated[float, typer.Option(help="Chance of a false alarm over all findings.")] = 0.01,
    seed: Annotated[int, typer.Option(min=0, help="Of the probe, the coins and the trainer's global generators.")] = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", callback=replacing(CHECK), help="check.json, for coalmine report.")
    ] = None,
    fail_on_violation: Annotated[
        bool, typer.Option("--fail-on-violation", help="Exit with 1 where the claim is violated: for CI.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Show the findings that passed, too.")] = False,
    json_output: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run your training function on a probe and look inside: noise, clipping, divisor, sampler, and the whole.

    The function trains the model that it is given on the data set that it is given; nothing else is asked of it.
    """
    claimed = claim_from_options(
        claim=claim,
        mechanism=mechanism,
        epsilon=epsilon,
        delta=delta,
        steps_per_epoch=steps_per_epoch,
        epochs=epochs,
        noise_multiplier=noise_multiplier,
        sampling_rate=sampling_rate,
        steps=steps,
    )
    if claimed is None:
        raise InputError(
            "a claim is needed: --claim claim.json, --mechanism with its parameters, or --epsilon and --delta"
        )
    from ..white_box import CheckSettings
    from ..white_box import check as run
    from ..white_box.named import find_trainer
    from ..white_box.text import lines

    settings = CheckSettings(
        records, seed, alpha, _shape(shape), classes, replays=replays, supports=tuple(supports or ())
    )
    trainer = find_trainer(train)
    with stepper(RUNS if replays else RUNS - 7, "runs of the trainer", quiet or json_output) as advance:
        result = run(trainer, claimed, settings, advance)
    if output is not None:
        write_json(output, result.to_json())
    if json_output:
        print_json(result.to_json())
    else:
        for line in lines(result, everything):
            typer.echo(line)
        if output is not None:
            remark(f"written: {output}", quiet)
    if fail_on_violation and result.verdict == "violated":
        raise typer.Exit(1)


def _shape(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        shape = tuple(int(part) for part in text.split(","))
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise InputError(f"--shape must be whole numbers with commas between, such as 3,32,32, got {text!r}")
    return shape
