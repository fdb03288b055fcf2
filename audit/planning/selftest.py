"""A self-test for estimators of epsilon, ours or a user's: coverage and power where the truth is known, and traps.

An estimator is called as f(scores, members, delta=…, confidence=…) and returns a lower bound on epsilon. It fails a
scenario when its bound exceeds the truth so often that a valid estimator would do so with probability below 1e-3
divided by the number of scenarios. A ValueError is a refusal: it passes the traps and is counted.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...foundation import InputError, numpy_stream
from ..estimators import clopper_pearson_epsilon, exact_tail_epsilon, gaussian_mu_epsilon, grid_gaussian_epsilon
from ..estimators.error_counts import errors_at_the_middle
from ..estimators.guess_rules import All, Calibrated, Grid, GuessRule, Split
from ..estimators.guesses import order_guesses
from ..estimators.rates import binomial_tail
from ..estimators.tallies import tally_epsilon
from .scenarios import Scenario, gaussian, no_signal, randomised_response, shared_coin

Estimator = Callable[..., float]
FALSE_ALARM = 1e-3
SLACK = 1e-6  # a bound counts as above the truth beyond this


@dataclass(frozen=True)
class Row:
    """One scenario: how often the bound exceeded the truth, and what it showed on average."""

    scenario: str
    truth: float
    repeats: int
    above: int
    share_above: float
    tail_probability: float
    mean_bound: float | None
    refused: int
    passed: bool
    note: str


def rule_estimator(rule: GuessRule) -> Estimator:
    """The class A bound of a guess rule as an estimator."""

    def estimate(scores: Any, members: Any, delta: float = 0.0, confidence: float = 0.95) -> float:
        return tally_epsilon(rule.tally(scores, members, 1 - confidence), delta, confidence).value

    return estimate


def _rates(scores: Any, members: Any, delta: float = 0.0, confidence: float = 0.95) -> float:
    return clopper_pearson_epsilon(*errors_at_the_middle(scores, members).counts, delta, confidence)


def _mu(scores: Any, members: Any, delta: float = 0.0, confidence: float = 0.95) -> float:
    return gaussian_mu_epsilon(*errors_at_the_middle(scores, members).counts, delta, confidence)


def _exact_tail(scores: Any, members: Any, delta: float = 0.0, confidence: float = 0.95) -> float:
    ordered = order_guesses(scores, members)
    return exact_tail_epsilon(
        int(ordered.correct(ordered.canaries)), ordered.canaries, ordered.canaries, delta, confidence
    )


# What assumes more than fair coins is here to be seen failing where its assumption does.
OURS: dict[str, Estimator] = {
    "grid": rule_estimator(Grid()),
    "calibrated": rule_estimator(Calibrated()),
    "split": rule_estimator(Split()),
    "all": rule_estimator(All()),
    "grid_gaussian": grid_gaussian_epsilon,
    "clopper_pearson": _rates,
    "gaussian_mu": _mu,
    "exact_tail": _exact_tail,
}


def find_estimator(name: str) -> Any:
    """One of ours by name, or package.module:function, also from the current directory. Errors: InputError."""
    if name in OURS:
        return OURS[name]
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise InputError(f"estimator {name!r} is not known: use {', '.join(OURS)}, or package.module:function")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise InputError(f"estimator {name!r}: module {module_name!r} cannot be imported: {error}") from None
    function = getattr(module, attribute, None)
    if not callable(function):
        raise InputError(f"estimator {name!r}: {module_name!r} has no function {attribute!r}")
    return function


def selftest(
    estimator: Estimator,
    canaries: int = 200,
    repeats: int = 200,
    delta: float = 1e-5,
    confidence: float = 0.95,
    seed: int = 0,
    on_row: Callable[[Row], None] | None = None,
) -> list[Row]:
    """Every scenario in turn. Errors: InputError for settings; whatever else the estimator raises."""
    if canaries < 20:
        raise InputError(f"canaries must be at least 20 for a self-test, got {canaries!r}")
    if repeats < 1:
        raise InputError(f"repeats must be at least 1, got {repeats!r}")
    scenarios = _scenarios()
    rows = []
    for scenario, note in scenarios:
        row = _run(estimator, scenario, note, canaries, repeats, delta, confidence, seed, len(scenarios))
        rows.append(row)
        if on_row:
            on_row(row)
    return rows


def record(rows: list[Row], **settings: Any) -> dict[str, Any]:
    return settings | {"passed": all(row.passed for row in rows), "scenarios": [asdict(row) for row in rows]}


def _scenarios() -> list[tuple[Scenario, str]]:
    return [
        (no_signal(), "coverage"),
        (randomised_response(1.0), "coverage, ties"),
        (randomised_response(1.0, jitter=True), "coverage"),
        (randomised_response(3.0), "coverage, ties"),
        (randomised_response(3.0, jitter=True), "coverage"),
        (gaussian(1.0), "coverage, power"),
        (gaussian(2.0), "coverage, power"),
        (shared_coin(), "coverage, dependent canaries"),
        (_arranged("all scores tied, members first", True), "array order must not decide"),
        (_arranged("all scores tied, members last", False), "array order must not decide"),
        (_spoiled("no signal, 5 % NaN", np.nan), "abstentions, or a refusal"),
        (_spoiled("no signal, 5 % +inf", np.inf), "extreme scores, or a refusal"),
        (_spoiled("no signal, 5 % -inf", -np.inf), "extreme scores, or a refusal"),
        (_flipped(), "at most the truth, or a refusal"),
    ]


def _arranged(name: str, members_first: bool) -> Scenario:
    base = no_signal()

    def draw(canaries: int, stream: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        members = np.sort(stream.random(canaries) < 0.5)
        return np.zeros(canaries), members[::-1].copy() if members_first else members

    return Scenario(name, draw, base.epsilon, base.curve)


def _spoiled(name: str, value: float) -> Scenario:
    base = no_signal()

    def draw(canaries: int, stream: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        scores, members = base.draw(canaries, stream)
        return np.where(stream.random(canaries) < 0.05, value, scores), members

    return Scenario(name, draw, base.epsilon, base.curve)


def _flipped() -> Scenario:
    base = gaussian(2.0)

    def draw(canaries: int, stream: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        scores, members = base.draw(canaries, stream)
        return -scores, members

    return Scenario("Gaussian 2, flipped sign", draw, base.epsilon, base.curve)


def _run(
    estimator: Estimator,
    scenario: Scenario,
    note: str,
    canaries: int,
    repeats: int,
    delta: float,
    confidence: float,
    seed: int,
    cells: int,
) -> Row:
    truth = scenario.epsilon(delta)
    bounds, refused, undefined = [], 0, 0
    for repeat in range(repeats):
        stream = numpy_stream(seed, f"selftest/{scenario.name}/{repeat}")
        scores, members = scenario.draw(canaries, stream)
        try:
            bound = float(estimator(scores, members, delta=delta, confidence=confidence))
        except ValueError:
            refused += 1
            continue
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise InputError(
                f"the estimator failed on {scenario.name!r} (a refusal is a ValueError): {reason}"
            ) from error
        undefined += math.isnan(bound)
        bounds.append(bound)
    # A bound that is not a number says nothing that could be right: it counts as above the truth.
    above = sum(not bound <= truth + SLACK for bound in bounds)
    tail = float(binomial_tail(above, repeats, 1 - confidence))
    finite = [bound for bound in bounds if math.isfinite(bound)]
    negative = sum(bound < 0 for bound in finite)
    remarks = [note]
    if undefined:
        remarks.append(f"{undefined} bounds are NaN")
    if negative:
        remarks.append(f"{negative} bounds are negative")
    trap = "refusal" in note
    everything_refused = refused == repeats and not trap
    if everything_refused:
        remarks.append("every draw refused")
    return Row(
        scenario=scenario.name,
        truth=truth,
        repeats=repeats,
        above=above,
        share_above=above / repeats,
        tail_probability=tail,
        mean_bound=float(np.mean(finite)) if finite else None,
        refused=refused,
        passed=tail >= FALSE_ALARM / cells and not everything_refused and undefined == 0,
        note=", ".join(remarks),
    )
