"""Mechanisms as they stand in files: {"name": "random_allocation", "steps_per_epoch": …}, or {"epsilon", "delta"}."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from ...foundation import InputError
from .balanced import BalancedAllocation
from .composition import Composition
from .epsilon_delta import EpsilonDelta
from .fixed_bins import FixedBins
from .fixed_size_sampling import FixedSizeSampling
from .gaussian import Gaussian
from .group import GroupPrivacy
from .mechanism import Mechanism
from .names import EPSILON_DELTA, FIXED_SIZE, MECHANISM_NAMES, NO_NOISE, canonical_name
from .poisson import PoissonSampling
from .random_allocation import RandomAllocation
from .shuffled import ShuffledBatches
from .truncated_poisson import TruncatedPoisson

_KINDS: dict[str, type[Mechanism]] = {
    kind.name: kind for kind in (RandomAllocation, FixedBins, PoissonSampling, Gaussian)
}
_FIELDS = {name: tuple(field.name for field in fields(_KINDS[name])) for name in MECHANISM_NAMES}  # type: ignore[arg-type]

# schemes with two ends of different origin: named in claims and for `bound`, not trained here
_BRACKETED: dict[str, type[Mechanism]] = {
    kind.name: kind for kind in (BalancedAllocation, TruncatedPoisson, FixedSizeSampling, ShuffledBatches)
}

_NO_BOUND = {
    FIXED_SIZE: "batches of fixed size from a shuffled order have no known upper bound (only lower bounds, "
    "Chua et al. 2024): train with random_allocation or poisson, or claim a bare (epsilon, delta)",
    NO_NOISE: "no noise was added, so theory promises nothing: claim a bare (epsilon, delta) to test one",
}


def mechanism_from_record(record: dict[str, Any]) -> Mechanism:
    """The mechanism of a `record()`, in today's or an older spelling of its name.

    Errors: InputError naming the field, also for schemes without an upper bound.
    """
    if not isinstance(record, dict):
        raise InputError(f"mechanism must be an object with a name or with epsilon and delta, got {record!r}")
    name = record.get("name")
    name = canonical_name(name) if isinstance(name, str) else name
    if name is None or name == EPSILON_DELTA:
        extra = set(record) - {"epsilon", "delta", "name"}
        if "epsilon" not in record or extra:
            raise InputError(
                f"mechanism needs a name (one of {', '.join(_FIELDS)}) or epsilon and delta, "
                f"got {sorted(map(str, record))}"
            )
        return EpsilonDelta(record["epsilon"], record.get("delta", 0.0))
    if isinstance(name, str) and name in _NO_BOUND:
        raise InputError(f"mechanism {name!r}: {_NO_BOUND[name]}")
    if name == Composition.name:
        return _composition(record)
    if name == GroupPrivacy.name:
        if not isinstance(record.get("mechanism"), dict):
            raise InputError(f"mechanism 'group' needs mechanism, that of one record, got {record.get('mechanism')!r}")
        one = mechanism_from_record(record["mechanism"])
        return GroupPrivacy(one, record.get("records", 1), record.get("adjacency", "add_remove"))
    if isinstance(name, str) and name in _BRACKETED:
        kind = _BRACKETED[name]
        return kind(**_values(name, record, tuple(field.name for field in fields(kind))))  # type: ignore[arg-type]
    if not isinstance(name, str) or name not in _FIELDS:
        known = (*_FIELDS, *_BRACKETED, Composition.name, GroupPrivacy.name)
        raise InputError(f"mechanism name must be one of {', '.join(known)}, got {name!r}")
    return mechanism_kind(name)(**_values(name, record, mechanism_fields(name)))


def _values(name: str, record: dict[str, Any], wanted: tuple[str, ...]) -> dict[str, Any]:
    missing = [f for f in wanted if f not in record]
    if missing:
        raise InputError(f"mechanism {name!r} needs {', '.join(wanted)}: {', '.join(missing)} is missing")
    return {f: record[f] for f in wanted}


def mechanism_kind(name: str) -> type[Mechanism]:
    """The class of a mechanism by its name, one of MECHANISM_NAMES."""
    return _KINDS[name]


def mechanism_fields(name: str) -> tuple[str, ...]:
    """What a mechanism's record holds beside its name: the parameters of its class, in their order."""
    return _FIELDS[name]


def _composition(record: dict[str, Any]) -> Composition:
    phases = record.get("phases")
    if not isinstance(phases, list) or not phases:
        raise InputError(
            f"mechanism 'composition' needs phases, a list of mechanisms with at least one, got {phases!r}"
        )
    built = []
    for number, phase in enumerate(phases):
        try:
            built.append(mechanism_from_record(phase))
        except InputError as error:
            raise InputError(f"phase {number}: {error}") from None
    return Composition(built)


def with_noise_multiplier(mechanism: Mechanism, noise_multiplier: float) -> Mechanism:
    """The same mechanism with other noise. Errors: InputError for a bare (epsilon, delta), which has none."""
    if not hasattr(mechanism, "noise_multiplier"):
        raise InputError(f"the claim {mechanism.record()} has no noise multiplier: claim a mechanism")
    return replace(mechanism, noise_multiplier=noise_multiplier)  # type: ignore[type-var]
