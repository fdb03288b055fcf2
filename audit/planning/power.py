"""What an audit could show, before anything is trained.

Two questions. What can m canaries report at most (every guess right)? If that does not reach the claim, the audit has
no power and training for it is wasted. And with what probability does an audit of m canaries reject a claim that is
violated by a factor x? That is simulated for the strongest attack on the violated mechanism and independent canaries
(`simulated_scores`): a real attack, or canaries that get into each other's way, need more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...foundation import InputError, numpy_stream
from ..bounds import EpsilonDelta, Mechanism, with_noise_multiplier
from ..estimators.f_dp import epsilon_delta_of, trade_off_curve
from ..estimators.guess_rules import All, Grid, GuessRule
from ..estimators.rates import binomial_tail, clopper_pearson
from ..estimators.run_bets import RunsPower, runs_needed, runs_power
from ..estimators.tallies import Tally, critical_counts, tally_epsilon, tally_p_value
from ..verdict.claim import Claim
from ..verdict.repeated import planned_bet
from .simulated_scores import attack_scores

FINENESS = 1.02  # of the number of canaries: finer than the simulation can tell
FEWEST_CANARIES = 20
MOST_CANARIES = 1_000_000


@dataclass(frozen=True)
class Reach:
    """What m canaries can report at most under a guess rule."""

    canaries: int
    largest_reportable_epsilon: float
    smallest_reportable_p_value: float | None
    can_reject: bool | None
    smallest_rejecting_accuracy: float | None  # of all guesses, one run; None where no accuracy rejects


@dataclass(frozen=True)
class DetectionPower:
    """How often m canaries reject the claim when the violated mechanism runs, by simulation."""

    canaries: int
    power: float
    interval: tuple[float, float]  # Clopper-Pearson, 95 %
    repeats: int


def reach(
    canaries: int,
    claim: Claim | None = None,
    rule: GuessRule | None = None,
    delta: float = 1e-5,
    confidence: float = 0.95,
    alpha: float = 0.05,
) -> Reach:
    """Errors: InputError."""
    counts = perfect_tally(rule or Grid(), canaries, alpha)
    epsilon = tally_epsilon(counts, delta, confidence).value
    if claim is None:
        return Reach(canaries, epsilon, None, None, None)
    p_value = tally_p_value(counts, _target(claim), alpha).value
    critical = int(critical_counts(_target(claim), All().perfect(canaries), alpha)[0])
    accuracy = critical / canaries if critical <= canaries else None
    return Reach(canaries, epsilon, p_value, p_value < alpha, accuracy)


def perfect_tally(rule: GuessRule, canaries: int, alpha: float) -> Tally:
    """The guess counts of the rule with every guess right."""
    if isinstance(canaries, bool) or canaries != int(canaries) or canaries < 2:
        raise InputError(f"canaries must be a whole number of at least 2, got {canaries!r}")
    return rule.perfect(canaries, alpha)


def violated(claim: Claim, factor: float) -> Mechanism:
    """The mechanism that runs when the claim is violated by `factor`: its noise divided by it; a bare epsilon times it.

    Errors: InputError for a claim that has neither.
    """
    if not (math.isfinite(factor) and factor > 0):
        raise InputError(f"violation must be a positive number, got {factor!r}")
    match claim.mechanism:
        case EpsilonDelta() as bare:
            return EpsilonDelta(bare.epsilon_value * factor, bare.delta_value)
        case mechanism:
            return with_noise_multiplier(mechanism, claim.record["noise_multiplier"] / factor)


def detection_power(
    canaries: int,
    claim: Claim,
    factor: float,
    rule: GuessRule | None = None,
    alpha: float = 0.05,
    repeats: int = 200,
    seed: int = 0,
) -> DetectionPower:
    """The share of simulated audits that reject. Errors: InputError."""
    rule = rule or Grid()
    if repeats < 1:
        raise InputError(f"repeats must be at least 1, got {repeats!r}")
    return _simulated(canaries, claim, _leaking(claim, factor, seed), rule, alpha, repeats, seed)


def _leaking(claim: Claim, factor: float, seed: int) -> Any:
    """The scores of the strongest attack on the violated mechanism: drawn once, used for every number of canaries."""
    return attack_scores(violated(claim, factor), numpy_stream(seed, "power/pool"))


def _simulated(
    canaries: int, claim: Claim, leaking: Any, rule: GuessRule, alpha: float, repeats: int, seed: int
) -> DetectionPower:
    perfect = perfect_tally(rule, canaries, alpha)
    critical = critical_counts(_target(claim), perfect, alpha)
    rejected = 0
    for repeat in range(repeats):
        stream = numpy_stream(seed, f"power/{canaries}/{repeat}")
        members = stream.random(canaries) < 0.5
        if not 0 < members.sum() < canaries:
            continue
        found = rule.tally(leaking.draw(members, stream), members, alpha)
        if not np.array_equal(found.guesses, perfect.guesses):  # a count chosen on half of these canaries
            critical = critical_counts(_target(claim), found, alpha)
        if found.calibrated and epsilon_delta_of(claim.mechanism):
            rejected += tally_p_value(found, _target(claim), alpha).value < alpha
        else:
            rejected += bool(np.any(found.correct >= critical))
    low, high = clopper_pearson(rejected, repeats, 0.95)
    return DetectionPower(canaries, rejected / repeats, (float(low), float(high)), repeats)


def canaries_needed(
    claim: Claim,
    factor: float,
    rule: GuessRule | None = None,
    power: float = 0.8,
    alpha: float = 0.05,
    repeats: int = 200,
    seed: int = 0,
    most: int = 100_000,
    advance: Callable[[], None] = lambda: None,
) -> DetectionPower | None:
    """The smallest number found whose simulated power is enough, within 2 %; None if none up to `most` is.

    Bisection, in the logarithm: power grows with the canaries, but for the chance in the simulation, so the number is
    as sure as `interval` at it is narrow. `advance` is called after each number tried, about `numbers_tried` times.
    """
    rule = rule or Grid()
    if repeats < 1:
        raise InputError(f"repeats must be at least 1, got {repeats!r}")
    if not 0 < power < 1:
        raise InputError(f"power must lie strictly between 0 and 1, got {power!r}")
    if not FEWEST_CANARIES <= most <= MOST_CANARIES:
        raise InputError(f"most must lie between {FEWEST_CANARIES} and {MOST_CANARIES}, got {most!r}")
    leaking = _leaking(claim, factor, seed)

    def simulated(canaries: int) -> DetectionPower:
        found = _simulated(canaries, claim, leaking, rule, alpha, repeats, seed)
        advance()
        return found

    low, best = FEWEST_CANARIES - 1, simulated(most)
    if best.power < power:
        return None
    while best.canaries > max(low + 1, low * FINENESS):
        found = simulated(max(low + 1, round(math.sqrt(low * best.canaries))))
        if found.power >= power:
            best = found
        else:
            low = found.canaries
    return best


def numbers_tried(most: int) -> int:
    """How many numbers of canaries `canaries_needed` simulates at most, roughly."""
    return 2 + math.ceil(math.log2(max(1.0, math.log(most / FEWEST_CANARIES) / math.log(FINENESS))))


def trainings_needed(
    claim: Claim, factor: float, power: float = 0.8, alpha: float = 0.05, most: int = 1_000_000
) -> int | None:
    """Independent trainings, one canary each, whose accuracy detects the violation (class C); None beyond `most`.

    Exact binomial: the smallest power of two times 1, 1.25, 1.5 or 1.75 whose test against the claim's accuracy bound
    has the power at the violated mechanism's accuracy.
    """
    claimed = float(claim.mechanism.accuracy().upper)
    reached = _reached(violated(claim, factor))
    if reached <= claimed:
        return None
    sizes = sorted({int(2**k * step) for k in range(3, 20) for step in (1, 1.25, 1.5, 1.75)})
    for trainings in (size for size in sizes if size <= most):
        counts = np.arange(trainings + 1)
        rejecting = np.flatnonzero(binomial_tail(counts, trainings, claimed) < alpha)
        if rejecting.size and binomial_tail(rejecting[0], trainings, reached) >= power:
            return trainings
    return None


def power_over_runs(canaries: int, claim: Claim, factor: float, runs: int, alpha: float = 0.05) -> RunsPower:
    """How often R runs of `repeat`, m canaries each, reject when the violated mechanism runs: simulated, for the
    strongest attack and canaries that err independently. Errors: InputError."""
    return runs_power(planned_bet(claim, canaries, runs, alpha), _reached(violated(claim, factor)), runs, alpha)


def runs_for_power(
    canaries: int, claim: Claim, factor: float, power: float = 0.8, alpha: float = 0.05
) -> tuple[int, RunsPower] | None:
    """The smallest number of runs found whose power is enough, with its power; None beyond 4,096."""
    accuracy = _reached(violated(claim, factor))
    return runs_needed(lambda runs: planned_bet(claim, canaries, runs, alpha), accuracy, power, alpha)


def _reached(ran: Mechanism) -> float:
    """The strongest attack's accuracy against what ran, its lower end; of a bare claim, the worst mechanism's."""
    return float(ran.accuracy_bound()) if epsilon_delta_of(ran) else float(ran.accuracy().lower)


def _target(claim: Claim) -> Any:
    return claim.mechanism if epsilon_delta_of(claim.mechanism) else trade_off_curve(claim.mechanism)
