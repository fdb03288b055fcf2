"""The calculator of Proactive DP as a run that can be carried out, next to what certified accounting needs.

The theorem (`bounds.proactive`) speaks of real numbers. Here rounds and sample size are whole, rounded to the side that
keeps its conditions, which are then checked again for exactly that run: T rounds of Poisson sampling at the rate
s/records. Beside the closed form's noise stand the certified noise of the same rounds and sample size, and that of
random allocation with as many passes: the price of the closed form.

Units: noise_multiplier is the standard deviation over the clipping norm C, as everywhere in this package. The theorem's
own σ is the standard deviation over the sensitivity, C under add_remove and 2C under replace_one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ...foundation import InputError
from ..bounds import PoissonSampling, RandomAllocation
from ..bounds.calibration import Target, calibrate, make_target
from ..bounds.interval import Interval
from ..bounds.mechanism import Mechanism
from ..bounds.parameters import positive, whole_number
from ..bounds.proactive import (
    Infeasible,
    Plan,
    noise_standard_deviation,
    plan_at_rounds,
    plan_from_budget,
    plan_from_noise,
    plan_from_run,
)
from ..bounds.replace_one import replace_one_epsilon

TOLERANCE = 1e-3  # relative, of the certified noise


@dataclass(frozen=True)
class Question:
    """What is given: epsilon (budget first; with sample_size where the largest that holds is not wanted), sample_size
    alone (run first), or sample_size and noise_multiplier (noise first).

    delta None means 1/records; noise_multiplier is the standard deviation over clipping_norm.
    """

    records: int
    epochs: float
    epsilon: float | None = None
    sample_size: int | None = None
    noise_multiplier: float | None = None
    delta: float | None = None
    theta: float = 1.0
    adjacency: str = "add_remove"
    clipping_norm: float = 1.0

    def __post_init__(self) -> None:
        noise_standard_deviation(1.0, self.clipping_norm, self.adjacency)  # checks both
        given = (self.epsilon is not None, self.sample_size is not None, self.noise_multiplier is not None)
        if given not in ((True, False, False), (True, True, False), (False, True, False), (False, True, True)):
            raise InputError(
                "give epsilon (budget first), or sample_size (run first), or sample_size with noise_multiplier "
                "(noise first), and no more"
            )

    @property
    def units(self) -> float:
        """Sensitivity over clipping norm."""
        return noise_standard_deviation(1.0, 1.0, self.adjacency)[1]


@dataclass(frozen=True)
class Noise:
    """A mechanism that meets (or, for the closed form, is promised to meet) the budget, and its certified epsilon."""

    name: str
    mechanism: Mechanism
    noise_multiplier: float
    epsilon: Interval

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "mechanism": self.mechanism.record(),
            "noise_multiplier": self.noise_multiplier,
            "epsilon": {
                "lower": self.epsilon.lower,
                "upper": None if math.isinf(float(self.epsilon.upper)) else self.epsilon.upper,
            },
        }


@dataclass(frozen=True)
class Shrinking:
    """How far the rounds may fall, passes and noise unchanged: certified to hold at `holds_at`, to break at `breaks_at`
    (None where it never breaks, or where nothing certifies that it does). Factors are rounds over `holds_at`."""

    rounds: int
    rounds_of_the_abstract: float
    holds_at: int
    breaks_at: int | None

    def to_json(self) -> dict[str, Any]:
        return {
            "factor": self.rounds / self.holds_at,
            "factor_from_2k2_over_epsilon": self.rounds_of_the_abstract / self.holds_at,
            "holds_at": self.holds_at,
            "breaks_at": self.breaks_at,
        }


@dataclass(frozen=True)
class Answer:
    """A run in whole numbers for which the theorem holds, and the noise of three ways of accounting."""

    question: Question
    plan: Plan
    rounds: int
    sample_size: int
    steps_per_epoch: int
    passes: int
    noises: tuple[Noise, ...]  # closed_form, poisson, random_allocation
    shrinking: Shrinking | None

    def noise(self, name: str) -> Noise:
        return next(one for one in self.noises if one.name == name)

    def to_json(self) -> dict[str, Any]:
        q, closed = self.question, self.noise("closed_form")
        deviation, sensitivity = noise_standard_deviation(
            self.plan.noise_multiplier, self.question.clipping_norm, q.adjacency
        )
        return {
            "feasible": True,
            "records": q.records,
            "epochs": self.plan.epochs,
            "epochs_asked": q.epochs,
            "epsilon": self.plan.epsilon,
            "delta": self.plan.delta,
            "theta": q.theta,
            "rounds": self.rounds,
            "sample_size": self.sample_size,
            "sampling_rate": self.sample_size / q.records,
            "gamma": self.plan.gamma,
            "published_gamma": _finite(self.plan.published_gamma),
            "adjacency": q.adjacency,
            "clipping_norm": q.clipping_norm,
            "sensitivity": sensitivity,
            "noise_over_sensitivity": self.plan.noise_multiplier,
            "noise_multiplier": closed.noise_multiplier,
            "noise_standard_deviation": deviation,
            "conditions": [condition.record() for condition in self.plan.conditions],
            "accountant": closed.to_json() | {"delta": self.plan.delta, "adjacency": q.adjacency},
            "noise": {one.name: one.to_json() for one in self.noises},
            "price_of_the_closed_form": {
                one.name: closed.noise_multiplier / one.noise_multiplier for one in self.noises[1:]
            },
            "rounds_may_shrink": None if self.shrinking is None else self.shrinking.to_json(),
        }


def whole_run(question: Question) -> tuple[Plan, int, int]:
    """(the theorem for the run in whole numbers, rounds, sample size). The plan's conditions may fail: look at
    `feasible`. Errors: Infeasible where the theorem has no answer at all, InputError for bad input."""
    q = question
    n = whole_number("records", q.records, at_least=2)
    k = positive("epochs", q.epochs)
    if q.epsilon is not None and q.sample_size is None:
        real = plan_from_budget(n, k, q.epsilon, q.delta, q.theta)
        if not real.feasible:
            return real, math.ceil(real.rounds), math.floor(real.sample_size)
        least = real.rounds * (1 - 1e-12)
        passes = int(k) if k == int(k) else 1
        rounds = passes * max(1, math.ceil(least / passes))
        size = math.floor(k * n / rounds * (1 + 1e-12))
        if size < 1:
            raise Infeasible(f"{rounds} rounds of {k:g} passes over {n} records leave less than one record a round")
        return plan_at_rounds(n, rounds * size / n, q.epsilon, rounds, q.delta, q.theta), rounds, size
    size = whole_number("sample_size", q.sample_size)
    if size > n:
        raise InputError(f"sample_size {size} exceeds records {n}: a sample is a part of the data")
    rounds = math.ceil(k * n / size * (1 - 1e-12))  # at least the passes asked for: the side that costs more epsilon
    done = rounds * size / n
    if q.epsilon is not None:
        return plan_at_rounds(n, done, q.epsilon, rounds, q.delta, q.theta), rounds, size
    if q.noise_multiplier is None:
        return plan_from_run(n, done, size, q.delta, q.theta), rounds, size
    sigma = positive("noise_multiplier", q.noise_multiplier) / q.units
    return plan_from_noise(n, done, size, sigma, q.delta, q.theta), rounds, size


def feasible(question: Question) -> bool:
    try:
        return whole_run(question)[0].feasible
    except InputError:
        return False


def answer(question: Question, certify: bool = True) -> Answer:
    """Errors: Infeasible, which names the condition and its remedy; InputError for bad input.

    certify: also the certified noises and how far the rounds may shrink, some seconds of work.
    """
    plan, rounds, size = whole_run(question)
    failing = [c for c in plan.conditions if not c.holds]
    if failing:
        raise Infeasible(
            "; ".join(
                f"condition {c.name} asks for {c.left:.5g} {'>=' if c.at_least else '<='} {c.right:.5g}: {c.remedy}"
                for c in failing
            )
        )
    rate = min(1.0, question.theta * size / question.records)  # every round at the largest sample: the safe side
    k = question.epochs
    passes = int(k) if k == int(k) else math.ceil(k)
    steps = rounds // passes if rounds % passes == 0 else max(1, question.records // size)

    def poisson(sigma: float) -> Mechanism:
        return PoissonSampling(rate, rounds, sigma)

    measure = epsilon_measure(question.adjacency, plan.delta)
    sigma = plan.noise_multiplier * question.units
    noises = [Noise("closed_form", poisson(sigma), sigma, measure(poisson(sigma)))]
    shrinking = None
    if certify:
        target = budget_target(question.adjacency, plan.epsilon, plan.delta)
        families: tuple[tuple[str, Callable[[float], Mechanism]], ...] = (
            ("poisson", poisson),
            ("random_allocation", lambda s: RandomAllocation(steps, passes, s)),
        )
        for name, family in families:
            found = calibrate(family, target, TOLERANCE)
            noises.append(Noise(name, family(found.noise_multiplier), found.noise_multiplier, found.certificate))
        shrinking = _shrinking(question, plan, rounds, sigma)
    return Answer(question, plan, rounds, size, steps, passes, tuple(noises), shrinking)


def epsilon_measure(adjacency: str, delta: float) -> Callable[[Mechanism], Interval]:
    """What (ε, δ) says under that adjacency, certified from above."""
    if adjacency == "replace_one":
        return lambda mechanism: replace_one_epsilon(mechanism, delta)
    return lambda mechanism: mechanism.epsilon(delta)


def budget_target(adjacency: str, epsilon: float, delta: float) -> Target:
    target = make_target(epsilon=epsilon, delta=delta)
    if adjacency == "add_remove":
        return target
    return replace(target, measure=lambda mechanism, _: replace_one_epsilon(mechanism, delta))


def _shrinking(question: Question, plan: Plan, rounds: int, sigma: float) -> Shrinking:
    """Bisection over whole rounds at fixed passes and noise: the sampling rate grows as they fall."""
    measure = epsilon_measure(question.adjacency, plan.delta)
    fewest = max(1, math.ceil(plan.epochs * question.theta))

    def epsilon(steps: int) -> Interval:
        return measure(PoissonSampling(min(1.0, question.theta * plan.epochs / steps), steps, sigma))

    holds, breaks = rounds, None
    if fewest < rounds:
        low, high = fewest, rounds
        if epsilon(fewest).upper <= plan.epsilon:
            low = high = fewest
        while high - low > max(1, 0.005 * high):
            middle = math.isqrt(low * high) if high > 2 * low else (low + high) // 2
            found = epsilon(middle)
            low, high = (low, middle) if found.upper <= plan.epsilon else (middle, high)
        holds = high
        if low < high and question.adjacency == "add_remove" and epsilon(low).lower > plan.epsilon:
            breaks = low
    return Shrinking(rounds, 2 * (question.theta * plan.epochs) ** 2 / plan.epsilon, holds, breaks)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
