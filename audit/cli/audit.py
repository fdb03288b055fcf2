"""coalmine audit: scores + coins + claim -> verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

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
from .options import Json, Quiet, print_json, remark, writable_file

app = typer.Typer(add_completion=False)


@app.command()
def audit(
    scores: Annotated[
        Path, typer.Option("--scores", help="csv, parquet or npz with canary_id, score, optional view and member.")
    ],
    coins: Annotated[Path | None, typer.Option("--coins", help="coins.json: who was a member, by fair coins.")] = None,
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
    delta: Annotated[float, typer.Option("--delta", help="delta of the bound on epsilon and of a bare claim.")] = 1e-5,
    run: Annotated[
        Path | None, typer.Option("--run", help="run.json: what was run; a claim must not contradict it.")
    ] = None,
    guess_rule: Annotated[
        str | None,
        typer.Option("--guess-rule", help="grid (default), fixed, all, sign, split, calibrated; before coins open."),
    ] = None,
    guesses: Annotated[
        str | None,
        typer.Option(
            "--guesses", help='A number fixed in advance: "100" (half each way) or "60,40" (member, non-member).'
        ),
    ] = None,
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
    label: Annotated[str, typer.Option("--label", help="A name for this audit in reports.")] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", callback=writable_file, help="Write audit.json here.")
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
    from ..claims import load_run
    from ..membership import check_coins_against_run, join, load_coins
    from ..scores_input import load_scores, score_record_beside
    from ..verdict import AuditSettings
    from ..verdict import audit as judge

    settings = AuditSettings(
        guess_rule=guess_rule_from_options(guess_rule, guesses),
        delta=delta,
        confidence=confidence,
        alpha=alpha,
        looks=looks,
        sign=sign,
        independence=independence,
    )
    if access not in ("black_box", "white_box"):
        raise InputError(f"--access {access!r} is not known: choose black_box or white_box")
    if canary_kind not in ("example", "gradient"):
        raise InputError(f"--canary-kind {canary_kind!r} is not known: choose example or gradient")
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
    run_record = load_run(run) if run is not None else None
    declared = membership or ("coins" if coins is not None or claimed is None else claimed.membership)
    coins_file = load_coins(coins) if coins is not None else None
    read, record = load_scores(scores, infinite), score_record_beside(scores)
    scored, drawn = record.get("canaries_sha256"), coins_file.canaries_sha256 if coins_file else None
    if scored and drawn and scored != drawn:
        raise InputError(
            f"the scores in {str(scores)!r} are of the canary set {str(scored)[:12]}…, the coins of {drawn[:12]}…: "
            "give the coins that were drawn for the scored set"
        )
    values, members = join(read, coins_file, declared)
    if coins is not None and run_record is not None:
        check_coins_against_run(coins, run_record)
    result = judge(
        values,
        members,
        claimed,
        settings,
        membership=declared,
        run=run_record,
        threat_model={
            "access": access,
            "score": score_name or record.get("score"),
            "views": record.get("views", read.views),
            "canary_kind": canary_kind,
            "canary_method": canary_method or record.get("canary_method"),
        },
        label=label,
    )
    if output is not None:
        write_json(output, result)
    if json:
        print_json(result)
    else:
        for line in summary(result):
            typer.echo(line)
        if output is not None:
            remark(f"written: {output}", quiet)
    if fail_on_rejection and result["verdict"] == "rejected":
        raise typer.Exit(1)


def guess_rule_from_options(name: str | None, guesses: str | None) -> Any:
    """The grid, unless a rule is named; `--guesses 100` or `60,40` alone is the rule fixed. Errors: InputError."""
    from ..estimators.guess_rules import GuessRule

    if guesses is None:
        return GuessRule(name or "grid")
    parts = guesses.split(",")
    if not 1 <= len(parts) <= 2 or not all(part.strip().isdecimal() for part in parts):
        raise InputError(f'--guesses {guesses!r} must be one whole number, or two as in "60,40"')
    numbers = [int(part) for part in parts]
    highest, lowest = numbers if len(numbers) == 2 else ((numbers[0] + 1) // 2, numbers[0] // 2)
    return GuessRule(name or "fixed", highest, lowest)


def summary(result: dict[str, Any]) -> list[str]:
    """What a person reads: verdict first, then every number with its class."""
    counts = result["counts"]
    lines = [
        result["verdict_text"],
        f"{counts['canaries']} canaries ({counts['members']} members), {counts['correct']} of {counts['guesses']} "
        f"guesses right, {counts['undefined']} undefined, {counts['ties']} tied; rule {result['guess_rule']['name']}",
    ]
    lines += [_estimate_line(estimate) for estimate in result["estimates"]]
    for point in result["roc"]["tpr_at_fpr"]:
        at = f"TPR at FPR {point['false_positive_rate']:g}"
        if point["refused"]:
            lines.append(f"  {at}: refused ({point['refused']})")
        else:
            low, high = point["interval"]
            lines.append(
                f"  {at}: {point['true_positive_rate']:.4g} [{low:.4g}, {high:.4g}] "
                f"(tp {point['tp']}, fp {point['fp']}; class {result['roc']['class']})"
            )
    lines += [f"remark: {text}" for text in result["remarks"]]
    return lines


def _estimate_line(estimate: dict[str, Any]) -> str:
    value = "none" if estimate["value"] is None else f"{estimate['value']:.4g}"
    interval = estimate["interval"]
    within = "" if interval is None else f" [{interval[0]:.4g}, {interval[1]:.4g}]"
    at = "" if estimate["delta"] is None else f" at delta {estimate['delta']:g}"
    confidence = "" if estimate["confidence"] is None else f", {estimate['confidence']:g} confidence"
    name, quantity = (estimate[key].replace("_", " ") for key in ("name", "quantity"))
    named = name if name == quantity else f"{quantity}, {name}"
    return f"  {named}: {value}{within}{at} (class {estimate['class']}{confidence})"
