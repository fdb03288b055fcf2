"""coalmine audit: scores + coins + claim -> verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...foundation import InputError
from .claim_options import (
    DELTA,
    ClaimFile,
    Epochs,
    Epsilon,
    Mechanism,
    NoiseMultiplier,
    SamplingRate,
    Steps,
    StepsPerEpoch,
    claim_from_options,
    delta_remark,
)
from .guess_options import Guesses, GuessRule, guess_rule_from_options
from .options import Json, Quiet, print_json, remark
from .replacing import replacing_audit

app = typer.Typer(add_completion=False)


@app.command()
def audit(
    scores: Annotated[
        Path, typer.Option("--scores", help="csv, parquet or npz with canary_id, score, optional view and member.")
    ],
    coins: Annotated[Path | None, typer.Option("--coins", help="coins.json: who was a member, by fair coins.")] = None,
    commitment: Annotated[
        Path | None,
        typer.Option("--commitment", help="commitment.json, published before training: the coins must be its."),
    ] = None,
    membership: Annotated[
        str | None,
        typer.Option("--membership", help="coins, random_split or unknown; coins where --coins is given."),
    ] = None,
    claim: ClaimFile = None,
    mechanism: Mechanism = None,
    steps_per_epoch: StepsPerEpoch = None,
    epochs: Epochs = None,
    noise_multiplier: NoiseMultiplier = None,
    sampling_rate: SamplingRate = None,
    steps: Steps = None,
    epsilon: Epsilon = None,
    delta: Annotated[
        float | None, typer.Option("--delta", help="Of the bound on epsilon and of a bare claim; 1e-5 if not named.")
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", help="run.json or its folder: what was run; a claim must not contradict it."),
    ] = None,
    guess_rule: GuessRule = None,
    guesses: Guesses = None,
    confidence: Annotated[float, typer.Option("--confidence", help="Of the estimates, one-sided for bounds.")] = 0.95,
    alpha: Annotated[float, typer.Option("--alpha", help="Error of the verdict: rejected if p-value < alpha.")] = 0.05,
    looks: Annotated[
        int,
        typer.Option("--looks", help="Scores or thresholds tried with the coins open; the errors are divided by it."),
    ] = 1,
    sign: Annotated[
        str, typer.Option("--sign", help="check: refuse upside-down scores; keep: do not; flip: negate, a second look.")
    ] = "check",
    infinite: Annotated[
        str, typer.Option("--infinite", help="refuse infinite scores, or take them as the extreme ones.")
    ] = "refuse",
    independence: Annotated[
        str,
        typer.Option(
            "--independence",
            help="one_run; runs: one canary per training; declared: by your word, canaries of one run err "
            "independently. The last two use class C.",
        ),
    ] = "one_run",
    access: Annotated[str, typer.Option("--access", help="black_box or white_box, for the record.")] = "black_box",
    score_name: Annotated[str | None, typer.Option("--score-name", help="What the score is, for the record.")] = None,
    canary_method: Annotated[
        str | None, typer.Option("--canary-method", help="How the canaries were made, for the record.")
    ] = None,
    canary_kind: Annotated[str, typer.Option("--canary-kind", help="example or gradient, for the record.")] = "example",
    insertion: Annotated[
        str,
        typer.Option(
            "--insertion",
            help="What a coin decided: add_remove, whether a record is in; replace_one, which of two records is in.",
        ),
    ] = "add_remove",
    label: Annotated[str, typer.Option("--label", help="A name for this audit in reports.")] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", callback=replacing_audit, help="Write audit.json here.")
    ] = None,
    fail_on_rejection: Annotated[
        bool, typer.Option("--fail-on-rejection", help="Exit with code 1 when the claim is rejected.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Judge a claim by the scores of canaries: rejected, not rejected, or no power; and bound what leaked.

    Example: coalmine audit --scores scores.csv --coins coins.json --claim claim.json --output runs/x/audit.json
    """
    from ...reports.terminal import audit_lines
    from ..verdict.facts import ThreatModel
    from ..verdict.input import AuditInput, read_evidence
    from ..verdict.judge import judge
    from ..verdict.settings import AuditSettings

    settings = AuditSettings(
        guess_rule=guess_rule_from_options(guess_rule, guesses),
        delta=DELTA if delta is None else delta,
        confidence=confidence,
        alpha=alpha,
        looks=looks,
        sign=sign,
        independence=independence,
    )
    _check_words(access, canary_kind, insertion)
    claimed = claim_from_options(
        claim=claim,
        mechanism=mechanism,
        epsilon=epsilon,
        delta=settings.delta,
        steps_per_epoch=steps_per_epoch,
        epochs=epochs,
        noise_multiplier=noise_multiplier,
        sampling_rate=sampling_rate,
        steps=steps,
    )
    declared = membership or ("coins" if coins is not None or claimed is None else claimed.membership)
    evidence = read_evidence(
        AuditInput(scores, coins, commitment, run, claim, infinite),
        declared,
        ThreatModel(access, score_name, 1, canary_kind, canary_method, insertion),
        label,
    )
    result = judge(evidence, claimed, settings)
    if output is not None:
        result.save(output)
    if json:
        print_json(result.to_json())
    else:
        for line in [*audit_lines(result), *delta_remark(epsilon, delta)]:
            typer.echo(line)
        if output is not None:
            remark(f"written: {output}", quiet)
    if fail_on_rejection and result.verdict == "rejected":
        raise typer.Exit(1)


def _check_words(access: str, canary_kind: str, insertion: str) -> None:
    for option, given, words in (
        ("--access", access, ("black_box", "white_box")),
        ("--canary-kind", canary_kind, ("example", "gradient")),
        ("--insertion", insertion, ("add_remove", "replace_one")),
    ):
        if given not in words:
            raise InputError(f"{option} {given!r} is not known: choose {' or '.join(words)}")
