"""coalmine claim: write claim.json, and run.json for those with their own trainer."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...foundation import InputError, write_json
from .claim_options import (
    DELTA,
    Epochs,
    Epsilon,
    Mechanism,
    NoiseMultiplier,
    SamplingRate,
    Steps,
    StepsPerEpoch,
    claim_from_options,
)
from .options import Json, Quiet, print_json, remark
from .phases import Phases, mechanism_of_phases
from .replacing import HAND_WRITTEN_RUN, replacing, replacing_claim

if TYPE_CHECKING:
    from ..training.run_record import RunRecord
    from ..verdict.claim import Claim

app = typer.Typer(add_completion=False)

DIVISORS = ("public", "realised")


@app.command()
def claim(
    output: Annotated[Path, typer.Option("--output", "-o", callback=replacing_claim, help="claim.json")] = Path(
        "claim.json"
    ),
    mechanism: Mechanism = None,
    steps_per_epoch: StepsPerEpoch = None,
    epochs: Epochs = None,
    noise_multiplier: NoiseMultiplier = None,
    sampling_rate: SamplingRate = None,
    steps: Steps = None,
    phase: Phases = None,
    epsilon: Epsilon = None,
    delta: Annotated[
        float | None,
        typer.Option("--delta", help="Of a bare claim, which needs it; for a mechanism, of the epsilon that is shown."),
    ] = None,
    adjacency: Annotated[str, typer.Option("--adjacency", help="add_remove or replace_one.")] = "add_remove",
    membership: Annotated[str, typer.Option("--membership", help="coins, random_split or unknown.")] = "coins",
    run_output: Annotated[
        Path | None,
        typer.Option(
            "--run-output",
            callback=replacing(HAND_WRITTEN_RUN),
            help="Also write run.json: what your own trainer ran.",
        ),
    ] = None,
    ran: Annotated[
        str | None, typer.Option("--ran", help="With --run-output: the mechanism that ran, if not the claimed one.")
    ] = None,
    clipping_norm: Annotated[float | None, typer.Option("--clipping-norm", help="For run.json.")] = None,
    divisor: Annotated[
        str | None,
        typer.Option(
            "--divisor",
            help="public or realised, for run.json: the gradient sum was divided by a public constant, or by the "
            "realised batch size.",
        ),
    ] = None,
    canaries: Annotated[
        Path | None, typer.Option("--canaries", help="The canary set that was used, for run.json.")
    ] = None,
    commitment: Annotated[Path | None, typer.Option("--commitment", help="commitment.json, for run.json.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write down what theory promises of a training run, and what was run, for `coalmine audit`.

    Example: coalmine claim --mechanism random_allocation --steps-per-epoch 100 --epochs 10 --noise-multiplier 1.43
    """
    claimed = _claim_of_phases(phase, mechanism, epsilon, adjacency, membership) or claim_from_options(
        mechanism=mechanism,
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        membership=membership,
        steps_per_epoch=steps_per_epoch,
        epochs=epochs,
        noise_multiplier=noise_multiplier,
        sampling_rate=sampling_rate,
        steps=steps,
    )
    if claimed is None:
        raise InputError("claim nothing: give --mechanism with its parameters, --phase, or --epsilon and --delta")
    of_the_run = {"--ran": ran, "--clipping-norm": clipping_norm, "--divisor": divisor, "--canaries": canaries}
    stray = [name for name, value in (of_the_run | {"--commitment": commitment}).items() if value is not None]
    if run_output is None and stray:
        raise InputError(f"{', '.join(stray)} describe the run: add --run-output run.json to record it")
    written: dict[str, Any] = {"claim": claimed.to_json()}
    if run_output is not None:
        if divisor not in DIVISORS:
            raise InputError(
                "--run-output needs --divisor: say public if gradient sums were divided by a public constant, realised "
                "if by the realised batch size" + ("" if divisor is None else f"; got {divisor!r}")
            )
        if "name" not in claimed.record and ran is None:
            raise InputError("--run-output with a bare epsilon needs --ran, the mechanism that ran")
        run = _run_record(claimed.record, ran, clipping_norm, divisor, canaries, commitment)
        written["run"] = run.to_json()
    write_json(output, written["claim"])
    if run_output is not None:
        write_json(run_output, written["run"])
    if json:
        print_json(written)
    else:
        if not quiet:
            for line in allowances(claimed, DELTA if delta is None else delta):
                typer.echo(line)
        remark(f"written: {output}" + (f", {run_output}" if run_output else ""), quiet)


def _claim_of_phases(
    phases: list[str] | None, mechanism: str | None, epsilon: float | None, adjacency: str, membership: str
) -> Claim | None:
    if not phases:
        return None
    if mechanism is not None or epsilon is not None:
        raise InputError("--phase names a whole mechanism: leave --mechanism and --epsilon out")
    from ..verdict.claim import Claim

    record = mechanism_of_phases(phases).record()
    return Claim.from_json({"mechanism": record, "adjacency": adjacency, "membership": membership}, "--phase")


def allowances(claim: Claim, delta: float) -> list[str]:
    """What the claim promises, upper ends rounded up."""
    from ...reports.rounding import UP, at_most, percent, plain

    mechanism = claim.mechanism
    accuracy = min(float(mechanism.accuracy_bound()), float(mechanism.accuracy().upper))
    lines = [f"Allowed by the claim: attack accuracy at most {percent(accuracy, UP)} (expected, a coin flip has 50 %)"]
    at, epsilon = claim.record.get("delta", delta), claim.record.get("epsilon")
    epsilon = float(mechanism.epsilon(delta).upper) if epsilon is None else epsilon
    finite = f"at most {at_most(epsilon)}" if math.isfinite(epsilon) else "without an upper bound"
    lines.append(f"                      epsilon at delta {at:g} {finite}")
    return [plain(line) for line in lines]


def _run_record(
    claimed: dict[str, Any],
    ran: str | None,
    clipping_norm: float | None,
    divisor: str,
    canaries: Path | None,
    commitment: Path | None,
) -> RunRecord:
    from ...canaries.commitment import Commitment
    from ..training.run_record import RunRecord

    mechanism = claimed if ran is None or ran == claimed.get("name") else {"name": ran}
    if ran is not None and ran != claimed.get("name"):
        mechanism |= {key: value for key, value in claimed.items() if key not in ("name", "epsilon", "delta")}
    digest = None
    if canaries is not None:
        from ...canaries import CanarySet

        digest = CanarySet.load(canaries).sha256
    return RunRecord(
        mechanism,
        clipping_norm,
        divisor,
        divisor_is_public=divisor == "public",
        epochs_done=claimed.get("epochs"),
        finished=True,
        canaries_sha256=digest,
        commitment=None if commitment is None else Commitment.load(commitment).coins_sha256,
        others={"written_by_hand": True},
    )
