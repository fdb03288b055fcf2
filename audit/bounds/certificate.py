"""The certificate file: a statement about a mechanism that a reader can check without this package.

`verifier.py` (200 lines, exact and interval arithmetic, no code of the accountant) proves both ends of a claim again,
in about a second. The ends written are those that it can prove on the grid that is written with them: somewhat wider
than the accountant's own. The two computations have nothing in common, so they are held against each other here.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...foundation import InputError, write_json
from .allocation_law import ratio_scale
from .composition import Composition
from .mechanism import Mechanism
from .random_allocation import RandomAllocation

RESOLUTION = 0.035  # of the verifier's lattices: about a second's work
RANGE = 24.0  # of the bottom level of X, in units of its scale
LARGEST_EPSILON = 300.0


def make_certificate(mechanism: Mechanism, delta: float = 1e-5) -> dict[str, Any]:
    """Accuracy, and ε at δ in both directions, each with two ends. Errors: InputError where the verifier's library is
    missing, for mechanisms without an exact pair, and where nothing can be proved within the verifier's means.
    """
    try:
        from . import verifier
    except ImportError:
        raise InputError(
            "a certificate needs python-flint, with which its verifier computes: pip install 'coalmine[verify]'"
        ) from None
    grid = _grid(mechanism)
    proof = verifier.Proof(mechanism.record(), grid)
    accuracy = mechanism.accuracy()
    lower, upper = 0.5 + float(proof.below(0, "add")) / 2, min(1.0, 0.5 + float(proof.above(0, "add")) / 2)
    claims: list[dict[str, Any]] = [{"quantity": "accuracy", "lower": _less(lower), "upper": _more(upper)}]
    _check_agreement("accuracy", accuracy.lower, accuracy.upper, lower, upper)
    for direction in ("remove", "add"):
        found = mechanism.epsilon(delta, direction)
        if not found.upper < LARGEST_EPSILON:
            continue
        above = _first(lambda e, d=direction: bool(proof.above(e, d) <= delta), float(found.upper), 1)
        below = _first(lambda e, d=direction: bool(proof.below(e, d) > delta), float(found.lower), -1)
        if above is None:
            continue
        _check_agreement("epsilon", found.lower, found.upper, below or 0.0, above)
        claims.append(
            {"quantity": "epsilon", "delta": delta, "direction": direction, "lower": below or 0.0, "upper": above}
        )
    content = {
        "format": verifier.FORMAT,
        "mechanism": mechanism.record(),
        "adjacency": "add_remove",
        "claims": claims,
        "grid": grid,
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    certificate = json.loads(text) | {"sha256": hashlib.sha256(text.encode()).hexdigest()}
    problem = verifier.verify(certificate)
    if problem is not None:
        raise InputError(f"no certificate for {mechanism.name}: {problem}")
    return certificate


def write_certificate(path: str | Path, mechanism: Mechanism, delta: float = 1e-5) -> dict[str, Any]:
    """make_certificate, to a file. Atomic."""
    certificate = make_certificate(mechanism, delta)
    write_json(path, certificate)
    return certificate


def _grid(mechanism: Mechanism) -> dict[str, Any]:
    """The lattice steps for the verifier: one log lattice, and for each random allocation its cells of X."""
    try:
        run = mechanism if isinstance(mechanism, Composition) else Composition([mechanism])
    except InputError:
        raise InputError(f"no certificate for {mechanism.name}: its verifier knows no exact pair for it") from None
    cells: list[list[Any]] = []
    for phase in run.phases:
        one = next(iter(Composition([phase]).terms))
        if isinstance(one, RandomAllocation):
            scale = ratio_scale(one.steps_per_epoch, one.noise_multiplier)
            cells.append([RESOLUTION * scale, math.ceil(RANGE / RESOLUTION / 8)])
        else:
            cells.append([1.0, 1])
    terms = run.terms
    number = sum(terms.values())
    squares = sum(copies * term.log_step(RESOLUTION) ** 2 for term, copies in terms.items())
    return {"log_step": math.sqrt(squares / number), "cells": cells}


def _first(proved: Callable[[float], bool], start: float, sign: int) -> float | None:
    """The nearest ε to `start`, outwards by ever larger shares of it, that is proved; None where there is none."""
    for exponent in range(-16, 1):
        tried = start * (1 + sign * 2.0**exponent)
        if tried > 0 and proved(tried):
            return tried
    return None


def _check_agreement(name: str, lower: Any, upper: Any, proved_lower: float, proved_upper: float) -> None:
    if proved_lower > upper or proved_upper < lower:
        raise ArithmeticError(
            f"two independent computations of {name} exclude each other: [{lower}, {upper}] and "
            f"[{proved_lower}, {proved_upper}]; please report the mechanism"
        )


def _less(value: float) -> float:
    return math.floor(value * 1e9) / 1e9 - 1e-9


def _more(value: float) -> float:
    return min(1.0, math.ceil(value * 1e9) / 1e9 + 1e-9)
