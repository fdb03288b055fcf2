"""A claim as the options of `coalmine train`: what theory was asked about is what is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...foundation import InputError


def training_options(path: Path | None, given: dict[str, Any]) -> dict[str, Any]:
    """`given` completed from the claim file: steps_per_epoch, epochs, noise_multiplier, sampler, sampling_rate.

    Errors: InputError where an option contradicts the claim, where the claim names no mechanism to train, or where
    without a claim steps_per_epoch or epochs is missing.
    """
    claimed = {} if path is None else _options_of(path)
    for name, value in claimed.items():
        if given.get(name) is not None and given[name] != value:
            option = "--" + name.replace("_", "-")
            raise InputError(f"{option} {given[name]} contradicts --claim {str(path)!r}, which says {value}: drop one")
    told = {"noise_multiplier": 0.0, "sampler": "random_allocation", "sampling_rate": None}
    told |= {name: value for name, value in given.items() if value is not None} | claimed
    missing = ["--" + name.replace("_", "-") for name in ("steps_per_epoch", "epochs") if name not in told]
    if missing:
        raise InputError(f"{' and '.join(missing)} missing: give both, or --claim claim.json")
    return told


def _options_of(path: Path) -> dict[str, Any]:
    from ..verdict.claim import load_claim

    record = load_claim(path).record
    name = record.get("name")
    if name in ("random_allocation", "fixed_bins"):
        shape = {key: record[key] for key in ("steps_per_epoch", "epochs", "noise_multiplier")}
        return {"sampler": name} | shape
    if name == "full_batch":
        return {
            "sampler": name,
            "steps_per_epoch": 1,
            "epochs": record["steps"],
            "noise_multiplier": record["noise_multiplier"],
        }
    if name == "poisson":
        steps, rate = record["steps"], record["sampling_rate"]
        per_epoch = min((m for m in range(1, steps + 1) if steps % m == 0), key=lambda m: abs(m - 1 / rate))
        exact = abs(per_epoch * rate - 1) < 1e-12
        return {
            "sampler": name,
            "steps_per_epoch": per_epoch,
            "epochs": steps // per_epoch,
            "noise_multiplier": record["noise_multiplier"],
            "sampling_rate": None if exact else rate,
        }
    raise InputError(
        f"--claim {str(path)!r} names no mechanism that can be trained ({name or 'a bare epsilon'}): give "
        "--sampler, --steps-per-epoch, --epochs and --noise-multiplier"
    )
