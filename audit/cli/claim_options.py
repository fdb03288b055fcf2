"""A claim on the command line: a file, a mechanism with its parameters, or a bare (epsilon, delta)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...foundation import InputError

if TYPE_CHECKING:
    from ..verdict.claim import Claim

ClaimFile = Annotated[Path | None, typer.Option("--claim", help="claim.json, from `coalmine claim` or by hand.")]
Mechanism = Annotated[
    str | None,
    typer.Option("--mechanism", help="random_allocation, fixed_bins, poisson or full_batch; instead of --claim."),
]
StepsPerEpoch = Annotated[int | None, typer.Option("--steps-per-epoch", help="M: optimiser steps in one epoch.")]
Epochs = Annotated[int | None, typer.Option("--epochs", help="E.")]
NoiseMultiplier = Annotated[
    float | None,
    typer.Option("--noise-multiplier", help="Noise on the sum of clipped gradients, divided by the clipping norm."),
]
SamplingRate = Annotated[float | None, typer.Option("--sampling-rate", help="Of Poisson sampling.")]
Steps = Annotated[int | None, typer.Option("--steps", help="Of Poisson sampling or full batch.")]
Epsilon = Annotated[
    float | None, typer.Option("--epsilon", help="A bare claim: (epsilon, delta)-DP with --delta; instead of --claim.")
]


DELTA = 1e-5  # of bounds on epsilon, where none is named


def delta_remark(epsilon: float | None, delta: float | None) -> list[str]:
    """A line that tells the delta of a bare claim that named none."""
    if epsilon is None or delta is not None:
        return []
    return [f"The claim is epsilon {epsilon:g} at delta {DELTA:g}: --delta names another."]


def claim_from_options(
    *,
    claim: Path | None = None,
    mechanism: str | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    adjacency: str | None = None,
    membership: str | None = None,
    **parameters: Any,
) -> Claim | None:
    """The claim that the options name, None if they name none. Errors: InputError where they name two."""
    from ..verdict.claim import Claim, load_claim

    given = {key: value for key, value in parameters.items() if value is not None}
    ways = [
        name
        for name, there in (("--claim", claim), ("--mechanism", mechanism), ("--epsilon", epsilon))
        if there is not None
    ]
    if len(ways) > 1:
        raise InputError(f"{' and '.join(ways)} name two claims: give one of them")
    if given and mechanism is None:
        names = ", ".join("--" + name.replace("_", "-") for name in given)
        raise InputError(f"{names} describe a mechanism: give --mechanism too")
    if claim is not None:
        return load_claim(claim)
    if epsilon is not None and delta is None:
        raise InputError(
            f"--epsilon {epsilon:g} needs its delta: add --delta 1e-5, or --delta 0 for a claim of pure epsilon-DP"
        )
    if not ways:
        return None
    record = {"name": mechanism} | given if mechanism is not None else {"epsilon": epsilon, "delta": delta}
    content: dict[str, Any] = {"mechanism": record}
    if adjacency is not None:
        content["adjacency"] = adjacency
    if membership is not None:
        content["membership"] = membership
    return Claim.from_json(content)
