"""Mechanisms as they stand in files: {"name": "random_allocation", "steps_per_epoch": …}, or {"epsilon", "delta"}."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...foundation import InputError
from .epsilon_delta import EpsilonDelta
from .fixed_bins import FixedBins
from .gaussian import Gaussian
from .mechanism import Mechanism
from .poisson import PoissonSampling
from .random_allocation import RandomAllocation

_FIELDS: dict[str, tuple[Callable[..., Mechanism], tuple[str, ...]]] = {
    "random_allocation": (RandomAllocation, ("steps_per_epoch", "epochs", "noise_multiplier")),
    "fixed_bins": (FixedBins, ("steps_per_epoch", "epochs", "noise_multiplier")),
    "poisson": (PoissonSampling, ("sampling_rate", "steps", "noise_multiplier")),
    "full_batch": (Gaussian, ("noise_multiplier", "steps")),
}

_NO_BOUND = {
    "fixed_size": "batches of fixed size from a shuffled order have no known upper bound (only lower bounds, "
    "Chua et al. 2024): train with random_allocation or poisson, or claim a bare (epsilon, delta)",
    "none": "no noise was added, so theory promises nothing: claim a bare (epsilon, delta) to test one",
}


def mechanism_from_record(record: dict[str, Any]) -> Mechanism:
    """The mechanism of a `record()`. Errors: InputError naming the field, also for schemes without an upper bound."""
    if not isinstance(record, dict):
        raise InputError(f"mechanism must be an object with a name or with epsilon and delta, got {record!r}")
    name = record.get("name")
    if name is None or name == "epsilon_delta":
        extra = set(record) - {"epsilon", "delta", "name"}
        if "epsilon" not in record or extra:
            raise InputError(
                f"mechanism needs a name (one of {', '.join(_FIELDS)}) or epsilon and delta, "
                f"got {sorted(map(str, record))}"
            )
        return EpsilonDelta(record["epsilon"], record.get("delta", 0.0))
    if isinstance(name, str) and name in _NO_BOUND:
        raise InputError(f"mechanism {name!r}: {_NO_BOUND[name]}")
    if not isinstance(name, str) or name not in _FIELDS:
        raise InputError(f"mechanism name must be one of {', '.join(_FIELDS)}, got {name!r}")
    kind, fields = _FIELDS[name]
    missing = [f for f in fields if f not in record]
    if missing:
        raise InputError(f"mechanism {name!r} needs {', '.join(fields)}: {', '.join(missing)} is missing")
    return kind(**{f: record[f] for f in fields})


def with_noise_multiplier(mechanism: Mechanism, noise_multiplier: float) -> Mechanism:
    """The same mechanism with other noise. Errors: InputError for a bare (epsilon, delta), which has none."""
    if not hasattr(mechanism, "noise_multiplier"):
        raise InputError(f"the claim {mechanism.record()} has no noise multiplier: claim a mechanism")
    return replace(mechanism, noise_multiplier=noise_multiplier)  # type: ignore[type-var]
