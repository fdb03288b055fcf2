"""Refusing to mix what only looks alike: schemes, adjacency, and what the noise is measured in.

Every number of this package is for add/remove adjacency and for a noise multiplier that is the standard deviation on
the *sum* of clipped gradients divided by the clipping norm C. What is stated otherwise is converted here, explicitly,
or refused.
"""

from __future__ import annotations

from typing import Any

from ...foundation import InputError
from .epsilon_delta import EpsilonDelta
from .mechanism import Mechanism
from .parameters import positive
from .records import mechanism_from_record

_SCHEMES = {
    "random_allocation": "random allocation draws a fresh step for each record in every epoch",
    "fixed_bins": "fixed bins draw one step for each record and reuse it in every epoch, which reveals more",
    "poisson": "Poisson sampling draws each record independently in every step; its total variation was smaller than "
    "random allocation's in every cell tried, so its guarantee does not carry over",
    "full_batch": "full-batch training uses every record in every step",
    "fixed_size": "shuffled batches of fixed size have no known upper bound",
    "none": "no noise was added",
}


def check_same_scheme(claim: Mechanism, run: Mechanism | dict[str, Any]) -> None:
    """Refuse a claim about another scheme than the one that trained, or with parameters that promise less than it did.

    A bare (ε, δ) can be claimed of any run. Errors: InputError that says how the two differ.
    """
    if isinstance(claim, EpsilonDelta):
        return
    record = run.record() if isinstance(run, Mechanism) else run
    trained = record.get("name", "none") if isinstance(record, dict) else "none"
    if claim.name != trained:
        raise InputError(
            f"the claim is about {claim.name} but the run was trained with {trained}: "
            f"{_SCHEMES[claim.name]}; {_SCHEMES.get(trained, 'the run says nothing else')}. Claim what was run"
        )
    stated, ran = claim.record(), mechanism_from_record(record).record()
    different = [f"{key} {stated[key]} (run: {ran[key]})" for key in stated if stated[key] != ran[key]]
    if different:
        raise InputError(f"the claim differs from the run in {', '.join(different)}: claim what was run")


def check_adjacency(adjacency: str) -> None:
    """Only add/remove is exact here. Errors: InputError that names what is valid for replace-one."""
    if adjacency == "add_remove":
        return
    if adjacency in ("replace_one", "replace", "substitute"):
        raise InputError(
            "adjacency replace_one: the bounds here are for add_remove, where one record moves the sum by at most C. "
            "For replace-one only the triangle inequality is safe: total variation at most twice as large "
            "(replace_one_total_variation_bound), epsilon at delta at most that of a group of two"
        )
    raise InputError(f"adjacency must be 'add_remove', got {adjacency!r}")


def replace_one_total_variation_bound(total_variation: float) -> float:
    """TV under replace-one ≤ 2·TV under add/remove (triangle inequality through the run without either record)."""
    return min(1.0, 2 * total_variation)


def noise_multiplier_of(
    standard_deviation: float, clipping_norm: float, noise_is_on: str = "sum", divisor: float | None = None
) -> float:
    """The noise multiplier of this package, from the standard deviation of the noise that was added.

    noise_is_on: "sum" of clipped gradients, or "mean", which needs the public constant `divisor` of the sum.
    """
    deviation = positive("standard_deviation", standard_deviation)
    norm = positive("clipping_norm", clipping_norm)
    if noise_is_on == "sum":
        return deviation / norm
    if noise_is_on == "mean":
        if divisor is None:
            raise InputError("noise on the mean needs divisor: the public constant by which the sum was divided")
        return deviation * positive("divisor", divisor) / norm
    raise InputError(f"noise_is_on must be 'sum' or 'mean', got {noise_is_on!r}")


def noise_multiplier_of_sensitivity(noise_multiplier: float, sensitivity: str) -> float:
    """From a library's noise multiplier relative to "C" (add/remove) or "2C" (replace-one) to the one for C."""
    sigma = positive("noise_multiplier", noise_multiplier)
    if sensitivity not in ("C", "2C"):
        raise InputError(f"sensitivity must be 'C' (add/remove) or '2C' (replace-one), got {sensitivity!r}")
    return sigma if sensitivity == "C" else 2 * sigma
