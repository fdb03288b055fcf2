"""coalmine power: what an audit could show, before training."""

from __future__ import annotations

from typing import Annotated, Any

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
from .options import Json, Quiet, print_json, stepper

app = typer.Typer(add_completion=False)


@app.command()
def power(
    canaries: Annotated[int | None, typer.Option("--canaries", help="m; without it, only the number needed.")] = None,
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
    violation: Annotated[
        float | None,
        typer.Option(
            "--violation",
            help="Also: how often, and with how many canaries, a claim violated by this factor is rejected.",
        ),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option("--runs", min=2, help="With --violation: also the power of that many runs of `coalmine repeat`."),
    ] = None,
    target_power: Annotated[float, typer.Option("--power", help="The power that --violation asks for.")] = 0.8,
    guess_rule: GuessRule = None,
    guesses: Guesses = None,
    confidence: Annotated[float, typer.Option("--confidence")] = 0.95,
    alpha: Annotated[float, typer.Option("--alpha")] = 0.05,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Simulated audits per number of canaries.")] = 200,
    most: Annotated[int, typer.Option("--most", help="Look for up to this many canaries.")] = 100_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the simulation.")] = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say before training what an audit can report at most, and how many canaries detect a violated claim.

    Example: coalmine power --canaries 1000 --epsilon 3 --delta 1e-5 --violation 2
    """
    from ..planning.power import (
        canaries_needed,
        detection_power,
        numbers_tried,
        power_over_runs,
        reach,
        runs_for_power,
        trainings_needed,
    )

    named, delta = delta, DELTA if delta is None else delta
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
    rule = guess_rule_from_options(guess_rule, guesses)
    if canaries is None and violation is None:
        raise InputError("give --canaries, or --violation with a claim, or both")
    if violation is not None and not violation > 1:
        raise InputError(f"--violation must be above 1, got {violation:g}: at 1 or below nothing is violated")
    if runs is not None and (violation is None or canaries is None):
        raise InputError("--runs needs --violation and --canaries: of what, and with how many canaries in each run")
    if violation is not None and claimed is None:
        raise InputError("--violation needs a claim: --claim, --mechanism or --epsilon")
    result: dict[str, Any] = {"guess_rule": rule.record(), "delta": delta, "confidence": confidence, "alpha": alpha}
    result["claim"] = None if claimed is None else claimed.record
    if canaries is not None:
        found = reach(canaries, claimed, rule, delta, confidence, alpha)
        result |= {
            "canaries": canaries,
            "largest_reportable_epsilon": found.largest_reportable_epsilon,
            "smallest_reportable_p_value": found.smallest_reportable_p_value,
            "can_reject": found.can_reject,
            "smallest_rejecting_accuracy": found.smallest_rejecting_accuracy,
        }
    if violation is not None and claimed is not None:
        result["violation"] = {"factor": violation, "repeats": repeats, "target_power": target_power}
        if canaries is not None:
            rate = detection_power(canaries, claimed, violation, rule, alpha, repeats, seed)
            result["violation"] |= {"power": rate.power, "power_interval": list(rate.interval)}
        if canaries is not None and runs is not None:
            over, enough = (
                power_over_runs(canaries, claimed, violation, runs, alpha),
                runs_for_power(canaries, claimed, violation, target_power, alpha),
            )
            result["violation"]["over_runs"] = {
                "runs": runs,
                "power": over.power,
                "power_interval": list(over.interval),
                "runs_needed": None if enough is None else enough[0],
            }
        with stepper(numbers_tried(most), "numbers of canaries tried", quiet or json) as advance:
            needed = canaries_needed(claimed, violation, rule, target_power, alpha, repeats, seed, most, advance)
        result["violation"] |= {
            "canaries_needed": None if needed is None else needed.canaries,
            "canaries_needed_power": None if needed is None else needed.power,
            "canaries_needed_power_interval": None if needed is None else list(needed.interval),
            "searched_up_to": most,
            "independent_trainings_needed": trainings_needed(claimed, violation, target_power, alpha),
        }
    if json:
        print_json(result)
        return
    for line in [*delta_remark(epsilon, named), *_lines(result)]:
        typer.echo(line)


def _lines(result: dict[str, Any]) -> list[str]:
    from ...reports.rounding import at_most

    lines = []
    if "canaries" in result:
        lines.append(
            f"{result['canaries']} canaries can report at most epsilon "
            f"{at_most(result['largest_reportable_epsilon'])} at delta {result['delta']:g} (class A, "
            f"{result['confidence']:g} confidence, rule {result['guess_rule']['name']}, every guess right)."
        )
    if result.get("can_reject") is not None:
        p_value = result["smallest_reportable_p_value"]
        lines.append(
            f"The smallest p-value they can report against the claim is {p_value:.3g}: the claim "
            + ("can be rejected." if result["can_reject"] else "can never be rejected. This audit would have no power.")
        )
    if result.get("smallest_rejecting_accuracy") is not None:
        lines.append(
            "With every canary guessed in one run, accuracy "
            f"{at_most(result['smallest_rejecting_accuracy'])} rejects it."
        )
    if "violation" in result:
        violation = result["violation"]
        if "power" in violation:
            low, high = violation["power_interval"]
            lines.append(
                f"If the claim is violated by a factor {violation['factor']:g}, the strongest attack on independent "
                f"canaries rejects it with power {violation['power']:.3g} [{low:.3g}, {high:.3g}] "
                f"({violation['repeats']} simulated audits)."
            )
        if violation["canaries_needed"] is None:
            lines.append(
                f"Up to {violation['searched_up_to']} canaries, power {violation['target_power']:g} is not reached."
            )
        else:
            low, high = violation["canaries_needed_power_interval"]
            lines.append(
                f"Power {violation['target_power']:g} needs about {violation['canaries_needed']} canaries "
                f"(power {violation['canaries_needed_power']:.3g} [{low:.3g}, {high:.3g}] there); a weaker attack "
                "needs more."
            )
        if over := violation.get("over_runs"):
            low, high = over["power_interval"]
            enough = "more than 4096" if over["runs_needed"] is None else f"about {over['runs_needed']}"
            lines.append(
                f"{over['runs']} runs of {result['canaries']} canaries each reject it with power {over['power']:.3g} "
                f"[{low:.3g}, {high:.3g}]; power {violation['target_power']:g} needs {enough} runs."
            )
        trainings = violation["independent_trainings_needed"]
        if trainings is not None:
            lines.append(f"Instead, about {trainings} independent trainings with one canary each would do (class C).")
    return lines
