"""coalmine audit: scores + coins + claim -> verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from .options import Json, Quiet, print_json, remark
from .replacing import replacing_audit

if TYPE_CHECKING:
    from ..verdict.estimate import Estimate
    from ..verdict.result import AuditResult

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
        for line in [*summary(result), *delta_remark(epsilon, delta)]:
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


def guess_rule_from_options(name: str | None, guesses: str | None) -> Any:
    """The grid, unless a rule is named; `--guesses 100` or `60,40` alone is the rule fixed. Errors: InputError."""
    from ..estimators.guess_rules import guess_rule

    if name == "fixed" and guesses is None:
        raise InputError("--guess-rule fixed needs the number of guesses: add --guesses 100, or --guesses 60,40")
    if guesses is None:
        return guess_rule(name or "grid")
    parts = guesses.split(",")
    if not 1 <= len(parts) <= 2 or not all(part.strip().isdecimal() for part in parts):
        raise InputError(f'--guesses {guesses!r} must be one whole number, or two as in "60,40"')
    numbers = [int(part) for part in parts]
    highest, lowest = numbers if len(numbers) == 2 else ((numbers[0] + 1) // 2, numbers[0] // 2)
    return guess_rule(name or "fixed", highest, lowest)


def summary(result: AuditResult) -> list[str]:
    """What a person reads: verdict first, then every number with its class; bounds rounded to the safe side."""
    from ...reports.rounding import at_least, at_most, number, plain
    from ...reports.summary import canaries_in_words, guessed

    counts = result.counts
    lines = [
        result.verdict_text,
        *(one.replace("ε", "epsilon") for one in guessed(result)),
        f"{canaries_in_words(result).replace('×', 'x')} ({counts.members} members, {counts.non_members} "
        f"non-members), {counts.undefined} undefined, {counts.ties} tied; rule {result.guess_rule.name}",
    ]
    if result.fair_coins:
        lines.append(f"commitment: {result.provenance.commitment}")
    lines += [_estimate_line(result, estimate) for estimate in result.estimates]
    for point in result.roc.operating_points if result.roc is not None else ():
        at = f"TPR at FPR {point.false_positive_rate:g}"
        if point.refused or point.interval is None or point.counts is None:
            lines.append(f"  {at}: refused ({point.refused})")
        else:
            low, high = point.interval
            tp, fp, _, _ = point.counts
            lines.append(
                f"  {at}: {number(point.true_positive_rate)} [{at_least(low)}, {at_most(high)}] "
                f"(tp {tp}, fp {fp}; class {result.roc.validity if result.roc else 'none'})"
            )
    lines += [f"remark: {text}" for text in result.remarks]
    return [plain(line) for line in lines]


def _estimate_line(audit: AuditResult, estimate: Estimate) -> str:
    from ...reports.rounding import UP, at_least, at_most, number, p_value, percent
    from ...reports.summary import informative

    name, quantity = (text.replace("_", " ") for text in (estimate.name, estimate.quantity))
    named = name if name == quantity else f"{quantity}, {name}"
    if estimate.value is None:
        value = "none"
    elif not informative(audit, estimate):
        value = "not informative, no bound below the claimed one"
    elif quantity == "noise multiplier":
        value = f"at most {at_most(estimate.value)}"
    elif quantity == "epsilon":
        value = f"at least {at_least(estimate.value)}"
    else:
        value = p_value(estimate.value) if quantity == "p value" else number(estimate.value)
    interval = estimate.interval
    within = "" if interval is None else f" [{at_least(interval[0])}, {at_most(interval[1])}]"
    at = "" if estimate.delta is None else f" at delta {estimate.delta:g}"
    confidence = "" if estimate.confidence is None else f", {estimate.confidence:g} confidence"
    line = f"  {named}: {value}{within}{at} (class {estimate.validity}{confidence})"
    allowed = audit.claim.accuracy.promised if audit.claim and audit.claim.accuracy else None
    if quantity == "attack accuracy" and allowed is not None:
        line += f"; the claim allows at most {percent(allowed, UP)}"
    return line
