"""A test over independent runs, whatever the canaries inside one run do to each other. Proof in docs/statistics.md.

In each of R runs all m canaries are guessed and v of them rightly. A *bet* is a table over v, fixed before looking,
whose expectation is at most 1 under the claim; runs are independent, so the product of what the bets pay is a
nonnegative supermartingale, and by Ville's inequality the p-value is 1/(largest product so far): one may stop early,
or add runs, with the bet that was made first.

accuracy bet   pays 1 + s (v/(m A) - 1), 0 < s < 1. Needs E[v/m] <= A in every run and nothing else: class "runs".
               The best that this assumption allows: no test of it can have a p-value below prod min(1, A m/v_k).
curve bet      uses the claimed trade-off curve as well, by which v or more right guesses are no more probable than
               tau(v) (the one-run p-value), and so are v or more wrong ones. It may stake more than it has, because
               runs with few right guesses are rare, and pays extra for many. Class B (A for a bare (epsilon, delta)).

Stakes grow the capital fastest where R runs of independent canaries are just enough to reject at alpha.
Waudby-Smith and Ramdas 2024, arXiv:2010.09686; Cover 1984 for the log-optimal portfolio.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln, gammaln

from ...foundation import InputError, numpy_stream
from .class_a import class_a_p_values
from .f_dp import epsilon_delta_of, f_dp_p_values
from .rates import clopper_pearson

DISPERSION = 1.5  # of right guesses in the runs that stakes are made for, over independent canaries: hedges a bad run
SAFETY = 1 - 1e-9  # of every payoff: rounding never lifts an expectation above 1
_MARGIN = 1.25  # capital that the planned runs are to reach, in units of log(1/alpha): about 70 % power there
_MOST_TAILS = 200
_RAREST = 1e-6  # no bet on rarer counts: one run multiplies the capital by at most a million


@dataclass(frozen=True, eq=False)
class RunBet:
    """payoff[v] (m + 1,): what v right guesses pay for one; rises with v. `validity` is the class of the p-value."""

    payoff: np.ndarray
    validity: str

    @property
    def guesses(self) -> int:
        return self.payoff.size - 1

    def smallest_p_value(self, runs: int) -> float:
        """With every guess right in every run: whether that many runs can reject at all."""
        return min(1.0, math.exp(-runs * math.log(self.payoff[-1])))


@dataclass(frozen=True)
class RunsFinding:
    """`capital` (R,) after each run, from 1; `p_value` is 1 over the largest; `smallest_p_value` had all been right."""

    p_value: float
    capital: tuple[float, ...]
    smallest_p_value: float
    validity: str


@dataclass(frozen=True)
class RunsPower:
    """The share of simulated sets of runs that reject, with a Clopper-Pearson interval."""

    power: float
    interval: tuple[float, float]
    repeats: int


def accuracy_bet(guesses: int, accuracy_upper_bound: float, runs: int, alpha: float = 0.05) -> RunBet:
    """The bet that needs only an upper bound on each run's expected accuracy. Errors: InputError."""
    _check(guesses, accuracy_upper_bound, runs, alpha)
    if accuracy_upper_bound == 1:
        return RunBet(np.full(guesses + 1, SAFETY), "runs")
    rate = np.arange(guesses + 1) / guesses
    basis = np.stack([np.ones(guesses + 1), rate / accuracy_upper_bound])
    return RunBet(SAFETY * _planned(basis, accuracy_upper_bound, runs, alpha), "runs")


def curve_bet(claim: Any, guesses: int, accuracy_upper_bound: float, runs: int, alpha: float = 0.05) -> RunBet:
    """The bet against a claimed mechanism, curve, or bare (epsilon, delta), when all canaries are guessed.

    accuracy_upper_bound: the claim's, its upper end. Errors: InputError.
    """
    _check(guesses, accuracy_upper_bound, runs, alpha)
    pair = epsilon_delta_of(claim)
    tail = right_guess_tails(claim, guesses, alpha)
    rate = np.arange(guesses + 1) / guesses
    bets = [np.ones(guesses + 1)]
    for leverage in np.geomspace(0.25, 8 * math.sqrt(guesses), 32):
        ruin = accuracy_upper_bound - 1 / leverage  # below that accuracy the bet has nothing left to pay
        # E[(ruin - v/m)_+] = the integral over x < ruin of P[v/m <= x], and v or fewer right are m - v or more wrong.
        below = np.clip(ruin - rate[:-1], 0, 1 / guesses)
        debt = leverage * float(np.sum(below * tail[::-1][:-1]))
        bets.append(np.maximum(0.0, 1 + leverage * (rate - accuracy_upper_bound)) / (1 + debt))
    steps = np.unique(tail[(tail < 0.9) & (tail > _RAREST)])
    kept = np.unique(np.linspace(0, steps.size - 1, 60).astype(int)) if steps.size else []
    bets += [(tail <= level) / level for level in steps[kept]]
    return RunBet(SAFETY * _planned(np.stack(bets), accuracy_upper_bound, runs, alpha), "A" if pair else "B")


def right_guess_tails(claim: Any, guesses: int, alpha: float = 0.05) -> np.ndarray:
    """(m + 1,) upper bounds on P[v or more of m guesses right] in one run under the claim, from v = 0."""
    half = (guesses + 1) // 2
    points = np.unique(np.round(half + (guesses - half) * np.linspace(0, 1, _MOST_TAILS) ** 1.5).astype(int))
    points = points[points >= 1]
    pair = epsilon_delta_of(claim)
    if pair:
        found = class_a_p_values(*pair, points, np.full(points.size, guesses), guesses, alpha)
    else:
        found = f_dp_p_values(claim, points, np.full(points.size, guesses), guesses, tolerance=1e-4)
    found = np.minimum.accumulate(np.minimum(found, 1.0))
    # Between two points the tail of the lower one holds.
    known = np.searchsorted(points, np.arange(guesses + 1), side="right") - 1
    return np.where(known < 0, 1.0, found[np.maximum(known, 0)])


def runs_p_value(bet: RunBet | Sequence[RunBet], correct: ArrayLike) -> RunsFinding:
    """(R,) right guesses, runs in the order in which they were trained -> the p-value of the claim.

    Every canary of every run is guessed; an undefined score counts as a wrong guess. `bet`: one for all runs, or one
    a run where their numbers of guesses differ. Errors: InputError.
    """
    counts = np.asarray(correct)
    bets = [bet] * counts.size if isinstance(bet, RunBet) else list(bet)
    if counts.ndim != 1 or counts.size == 0 or len(bets) != counts.size:
        raise InputError(f"correct must hold one count for each of {len(bets)} bets, got {counts.shape}")
    if any(v != int(v) or not 0 <= v <= each.guesses for v, each in zip(counts.tolist(), bets, strict=True)):
        raise InputError(f"correct must hold whole numbers from 0 to the guesses of a run, got {counts.tolist()}")
    with np.errstate(divide="ignore"):
        paid = np.log([each.payoff[int(v)] for v, each in zip(counts.tolist(), bets, strict=True)])
    capital = np.cumsum(paid)
    smallest = math.exp(-min(700.0, sum(math.log(each.payoff[-1]) for each in bets)))
    return RunsFinding(
        p_value=math.exp(-float(np.clip(capital.max(), 0.0, 700.0))),
        capital=tuple(np.exp(np.minimum(capital, 700.0)).tolist()),
        smallest_p_value=min(1.0, smallest),
        validity=bets[0].validity,
    )


def runs_reject(bet: RunBet, correct: ArrayLike, alpha: float = 0.05) -> np.ndarray:
    """(…, R) right guesses -> (…) whether the claim is rejected at alpha: many sets of runs at once."""
    with np.errstate(divide="ignore"):
        capital = np.cumsum(np.log(bet.payoff)[np.asarray(correct, int)], axis=-1)
    return capital.max(axis=-1) > -math.log(alpha)


def runs_power(
    bet: RunBet, accuracy: float, runs: int, alpha: float = 0.05, repeats: int = 10_000, seed: int = 0
) -> RunsPower:
    """How often R runs reject when every guess is right with probability `accuracy`, canaries independent."""
    stream = numpy_stream(seed, f"runs_power/{runs}/{bet.guesses}")
    rejected = int(runs_reject(bet, stream.binomial(bet.guesses, accuracy, (repeats, runs)), alpha).sum())
    low, high = clopper_pearson(rejected, repeats, 0.95)
    return RunsPower(rejected / repeats, (float(low), float(high)), repeats)


def runs_needed(
    bet: Callable[[int], RunBet], accuracy: float, power: float = 0.8, alpha: float = 0.05, most: int = 4096
) -> tuple[int, RunsPower] | None:
    """The smallest number of runs found whose simulated power is enough, with its power; None beyond `most`.

    bet(runs) makes the bet for that many runs; every guess is right with probability `accuracy`. By doubling, then
    bisection, each number with its own bet.
    """
    if not 0 < power < 1:
        raise InputError(f"power must lie strictly between 0 and 1, got {power!r}")

    def found(runs: int) -> RunsPower:
        return runs_power(bet(runs), accuracy, runs, alpha, repeats=2000)

    enough, low = 1, 0
    while (best := found(enough)).power < power:
        low, enough = enough, 2 * enough
        if enough > most:
            return None
    while enough - low > 1:
        middle = (low + enough) // 2
        there = found(middle)
        if there.power >= power:
            enough, best = middle, there
        else:
            low = middle
    return enough, best


def _planned(basis: np.ndarray, null_accuracy: float, runs: int, alpha: float) -> np.ndarray:
    """The mixture of bets that grows fastest at the smallest accuracy at which R runs reach alpha with a margin."""
    wanted = _MARGIN * math.log(1 / alpha) / runs
    low, high = null_accuracy, 1 - 0.25 / basis.shape[1]
    for _ in range(14):
        middle = (low + high) / 2
        law = _right_guesses(basis.shape[1] - 1, middle)
        reached = float(law @ np.log(_fastest(basis, law, 60))) >= wanted
        low, high = (low, middle) if reached else (middle, high)
    return _fastest(basis, _right_guesses(basis.shape[1] - 1, high), 600)


def _fastest(basis: np.ndarray, law: np.ndarray, rounds: int) -> np.ndarray:
    """The log-optimal mixture of the rows of `basis`, by Cover's multiplicative steps; not ruined by what is likely."""
    likely = law > 1e-12
    paid, chance = basis[:, likely], law[likely]
    weight = np.full(len(basis), 1 / len(basis))
    for _ in range(rounds):
        weight = weight * ((paid / (weight @ paid)) @ chance)
    return (weight / weight.sum()) @ basis


def _right_guesses(guesses: int, accuracy: float) -> np.ndarray:
    """Beta-binomial law of the right guesses of one run, its variance DISPERSION times that of independent canaries."""
    if guesses == 1:
        return np.array([1 - accuracy, accuracy])
    excess = min(DISPERSION, (guesses + 1) / 2) - 1
    size = (guesses - 1) / excess - 1
    v, a, b = np.arange(guesses + 1), accuracy * size, (1 - accuracy) * size
    log = (
        gammaln(guesses + 1) - gammaln(v + 1) - gammaln(guesses - v + 1) + betaln(v + a, guesses - v + b) - betaln(a, b)
    )
    law = np.exp(log)
    return law / law.sum()


def _check(guesses: int, accuracy_upper_bound: float, runs: int, alpha: float) -> None:
    for name, value in (("guesses", guesses), ("runs", runs)):
        if isinstance(value, bool) or value != int(value) or value < 1:
            raise InputError(f"{name} must be a whole number of at least 1, got {value!r}")
    if not 0.5 <= accuracy_upper_bound <= 1:
        raise InputError(f"accuracy_upper_bound must lie between 0.5 and 1, got {accuracy_upper_bound!r}")
    if not 0 < alpha < 0.5:
        raise InputError(f"alpha must lie strictly between 0 and 0.5, got {alpha!r}")
