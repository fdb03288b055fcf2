"""What the runs of one cell show: rows of the table, each with n, an interval or a bound, and its validity class.

| access | together | accuracy | epsilon | p-value of the mechanism |
|---|---|---|---|---|
| black_box | one_run | Clopper-Pearson, C: takes canaries of a run as independent | grid, A | grid, B |
| black_box | all_runs | over independent runs, "runs" | from that accuracy, "runs" | planned bet, "runs" or B |
| white_box | one_run | Clopper-Pearson, C: independent by construction | grid, A | grid, B |
| white_box | all_runs | Clopper-Pearson, C: independent by construction | from that accuracy, C | binomial tail, C |

Every canary is guessed for accuracy: by the sign of the log-likelihood ratio in the white box, else the upper half
"member". Bounds on epsilon are one-sided. No threshold, sign or score is chosen with the coins open.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..bounds import Mechanism
from ..estimators.attack_accuracy import accuracy_epsilon, accuracy_p_value
from ..estimators.class_a import class_a_epsilons
from ..estimators.f_dp import f_dp_p_values
from ..estimators.guess_rules import All, GuessRule, Sign
from ..estimators.guess_rules import Grid as GridRule
from ..estimators.rates import clopper_pearson
from ..estimators.run_bets import runs_p_value
from ..estimators.runs_accuracy import runs_accuracy
from ..verdict.claim import Claim
from ..verdict.repeated import planned_bet
from .grid import Cell, Grid

ALPHA = 0.05


@dataclass(frozen=True, eq=False)
class Attacked:
    """scores (R, m) and members (R, m) bool of R runs of a cell; `score` names the attack."""

    access: str
    score: str
    scores: np.ndarray
    members: np.ndarray

    @property
    def rule(self) -> GuessRule:
        return Sign() if self.access == "white_box" else All()


@dataclass(frozen=True)
class Allowed:
    """What theory promises for a cell: closed form and certified interval, of accuracy and of epsilon at delta."""

    accuracy: tuple[float | None, float, float]
    epsilon: tuple[float | None, float, float]


def allowed(mechanism: Mechanism, delta: float) -> Allowed:
    exact, epsilon = mechanism.accuracy(), mechanism.epsilon(delta)
    return Allowed(
        (float(mechanism.accuracy_bound()), float(exact.lower), float(exact.upper)),
        (None, float(epsilon.lower), float(epsilon.upper)),
    )


def conclude(cell: Cell, grid: Grid, attacked: list[Attacked], test_accuracy: np.ndarray) -> Iterator[dict[str, Any]]:
    """Rows of the table, each run of its own before all together; every attack on every run."""
    theory = allowed(cell.mechanism, grid.delta)
    for one in attacked:
        common = {
            **asdict(cell),
            "clipping_norm": grid.clipping_norm,
            "test_accuracy": float(test_accuracy.mean()),
            "canaries": one.scores.shape[1],
            "runs": len(one.scores),
            "access": one.access,
            "score": one.score,
        }
        for found in (*_each_run(one, cell, grid), *_all_runs(one, cell, grid, theory)):
            yield {**common, **found, **_beside(found, theory)}


def _each_run(one: Attacked, cell: Cell, grid: Grid) -> Iterator[dict[str, Any]]:
    runs, m = one.scores.shape
    tallies = [GridRule().tally(s, k, ALPHA) for s, k in zip(one.scores, one.members, strict=True)]
    guesses = np.concatenate([t.guesses for t in tallies])
    correct = np.concatenate([t.correct for t in tallies])
    of_run = np.repeat(np.arange(runs), [t.guesses.size for t in tallies])
    pairs, back = np.unique(np.stack([correct, guesses]), axis=1, return_inverse=True)
    back = back.reshape(-1)
    p_values = f_dp_p_values(cell.mechanism.trade_off_curve(), pairs[0], pairs[1], m)[back]
    for r in range(runs):
        mine = of_run == r
        v, n = one.rule.all_guessed(one.scores[r], one.members[r])
        low, high = clopper_pearson(v, n, grid.confidence)
        head = {"together": "one_run", "run": r}
        yield {**head, **_accuracy(v / n, float(low), float(high), "C", v, n, grid)}
        epsilons = class_a_epsilons(correct[mine], guesses[mine], m, grid.delta, grid.confidence)
        best = int(np.argmax(epsilons))
        yield {**head, **_epsilon(float(epsilons[best]), "A", correct[mine][best], guesses[mine][best], grid)}
        best = int(np.argmin(p_values[mine]))
        p_value = min(1.0, float(mine.sum() * p_values[mine][best]))
        yield {**head, **_p_value(p_value, "B", correct[mine][best], guesses[mine][best])}


def _all_runs(one: Attacked, cell: Cell, grid: Grid, theory: Allowed) -> Iterator[dict[str, Any]]:
    runs, m = one.scores.shape
    head = {"together": "all_runs", "run": None}
    each = np.array([one.rule.all_guessed(s, k)[0] for s, k in zip(one.scores, one.members, strict=True)])
    v, n = int(each.sum()), runs * m
    if one.access == "white_box":
        low, high = clopper_pearson(v, n, grid.confidence)
        yield {**head, **_accuracy(v / n, float(low), float(high), "C", v, n, grid)}
        yield {**head, **_epsilon(accuracy_epsilon(v, n, grid.delta, grid.confidence), "C", v, n, grid)}
        yield {**head, **_p_value(accuracy_p_value(v, n, theory.accuracy[2]), "C", v, n)}
        return
    found = runs_accuracy(each, np.full(runs, m), grid.confidence)
    yield {**head, **_accuracy(found.accuracy, found.lower, found.upper, found.validity, v, n, grid)}
    # two-sided at 2c - 1 has a lower end that holds with confidence c
    sided = (
        runs_accuracy(each, np.full(runs, m), round(2 * grid.confidence - 1, 12)) if grid.confidence > 0.75 else found
    )
    yield {**head, **_epsilon(_epsilon_of(sided.lower, grid.delta), found.validity, v, n, grid)}
    test = runs_p_value(planned_bet(Claim(cell.mechanism), m, runs, ALPHA), each)
    yield {**head, **_p_value(test.p_value, test.validity, v, n)}


def _epsilon_of(accuracy: float, delta: float) -> float:
    """The least epsilon that allows that accuracy: A <= (e^epsilon + delta)/(1 + e^epsilon)."""
    return max(0.0, math.log((accuracy - delta) / (1 - accuracy))) if delta < accuracy < 1 else 0.0


def _accuracy(
    value: float, lower: float, upper: float, validity: str, correct: int, n: int, grid: Grid
) -> dict[str, Any]:
    return {"quantity": "attack_accuracy", "value": value, "lower": lower, "upper": upper, "class": validity,
            "confidence": grid.confidence, "delta": None, "correct": int(correct), "n": int(n)}  # fmt: skip


def _epsilon(value: float, validity: str, correct: int, n: int, grid: Grid) -> dict[str, Any]:
    return {"quantity": "epsilon", "value": value, "lower": value, "upper": None, "class": validity,
            "confidence": grid.confidence, "delta": grid.delta, "correct": int(correct), "n": int(n)}  # fmt: skip


def _p_value(value: float, validity: str, correct: int, n: int) -> dict[str, Any]:
    return {"quantity": "p_value", "value": value, "lower": None, "upper": None, "class": validity,
            "confidence": None, "delta": None, "correct": int(correct), "n": int(n)}  # fmt: skip


def _beside(found: Mapping[str, Any], theory: Allowed) -> dict[str, Any]:
    """The bound beside a measured number, and which share of what it allows beyond guessing was reached."""
    value, bound, nothing = found["value"], None, 0.0
    if found["quantity"] == "attack_accuracy":
        bound, nothing = theory.accuracy, 0.5
    elif found["quantity"] == "epsilon":
        bound = theory.epsilon
    if bound is None:
        return {"bound_closed_form": None, "bound_lower": None, "bound_upper": None, "share": None}
    room = bound[2] - nothing
    share = (value - nothing) / room if room > 0 and math.isfinite(room) else None
    return {"bound_closed_form": bound[0], "bound_lower": bound[1], "bound_upper": bound[2], "share": share}
