"""Proactive DP: parameters before training (van Dijk, Nguyen, Nguyen, Nguyen and Nguyen, ICML 2024, arXiv:2102.09030).

A closed form for DP-SGD with sampled batches, here as its authors' programs state it. N records, k epochs (K = kN
gradients), T rounds, mean sample size s = kN/T, θ = largest over mean sample size, σ the noise's standard deviation
over the *sensitivity* (C under add/remove, 2C under replace-one):

    σ = √(2(ε + ln(1/δ))/ε)
    F(a, σ) = 2/(1−a) + (16a/(1−a))·[σ/(1−√a)² + e³/(σ(σ(1−a) − 2e√a))]·e^{3/σ²},   +∞ unless σ(1−a) > 2e√a
    γ = the smallest number with γ ≥ F(ε/(γk), σ)

and DP-SGD is (ε, δ)-DP if all four hold (which of them belong to which statement of the theorem is not certain, so all
are asked for):

    (rounds)   T ≥ γθ²k²/ε                           (epochs)  k ≥ (e/(γθ))·√(2ε ln(1/δ))
    (epsilon)  ε ≤ γ·h(σ)·k                          (sample)  s ≤ N·g(√(2 ln(1/δ)/ε))/θ
    h(x) = (√(1 + (e/x)²) − e/x)²,  g(x) = min(1/(e x), h(x))

The guarantee is for sampled batches (Poisson or fixed size), not for random allocation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...foundation import InputError
from .parameters import positive, real_number, whole_number, within

E = math.e


class Infeasible(InputError):
    """The theorem promises nothing for these parameters: no mistake of the user's, but no answer either."""


def noise_multiplier_of_epsilon(epsilon: float, delta: float) -> float:
    """σ = √(2(ε + ln(1/δ))/ε)."""
    epsilon, delta = positive("epsilon", epsilon), within("delta", delta, 0, 1, "commonly 1/records")
    return math.sqrt(2 * (epsilon - math.log(delta)) / epsilon)


def epsilon_of_noise_multiplier(noise_multiplier: float, delta: float) -> float:
    """ε = 2 ln(1/δ)/(σ² − 2), for σ > √2."""
    sigma, delta = positive("noise_multiplier", noise_multiplier), within("delta", delta, 0, 1, "commonly 1/records")
    if sigma <= math.sqrt(2):
        raise Infeasible(f"noise_multiplier must exceed √2 = 1.41421 for this closed form, got {noise_multiplier!r}")
    return -2 * math.log(delta) / (sigma * sigma - 2)


def growth(rate: float, sigma: float) -> float:
    """F(a, σ)."""
    if not 0 <= rate < 1:
        return math.inf
    root, rest = math.sqrt(rate), 1 - rate
    margin = sigma * rest - 2 * E * root
    if margin <= 0:
        return math.inf
    bracket = sigma / (1 - root) ** 2 + E**3 / (sigma * margin)
    return 2 / rest + 16 * rate / rest * bracket * math.exp(3 / sigma**2)


def smallest_gamma(epsilon: float, epochs: float, sigma: float) -> float:
    """The unique fixed point of γ ↦ F(ε/(γk), σ), by bisection: F falls in γ, so iterating it would swing."""

    def enough(gamma: float) -> bool:
        return growth(epsilon / (gamma * epochs), sigma) <= gamma

    low, high = 2.0, 4.0
    while not enough(high):
        low, high = high, 2 * high
        if high > 1e12:
            raise Infeasible(f"no gamma exists for epsilon {epsilon:g} and epochs {epochs:g}: raise the epochs")
    return _bisect(enough, low, high)


def _bisect(enough: Callable[[float], bool], low: float, high: float) -> float:
    """The point where `enough` becomes true, from above."""
    while True:
        middle = low + (high - low) / 2
        if not low < middle < high:
            return high
        low, high = (low, middle) if enough(middle) else (middle, high)


def h(x: float) -> float:
    ratio = E / x
    return 1.0 / (math.hypot(1.0, ratio) + ratio) ** 2  # (√(1+r²) − r)², without cancellation


def g(x: float) -> float:
    return min(1 / (E * x), h(x))


@dataclass(frozen=True)
class Condition:
    """`left` must be at least `right` (at_least) or at most `right`; `remedy` says what to change if it fails."""

    name: str
    left: float
    right: float
    at_least: bool
    remedy: str

    @property
    def holds(self) -> bool:
        slack = 1e-9 * abs(self.right)  # T at its own bound must not fail by rounding
        return self.left >= self.right - slack if self.at_least else self.left <= self.right + slack

    def record(self) -> dict[str, Any]:
        relation = ">=" if self.at_least else "<="
        return {
            "name": self.name,
            "left": _plain(self.left),
            "relation": relation,
            "right": _plain(self.right),
            "holds": self.holds,
            "remedy": None if self.holds else self.remedy,
        }


@dataclass(frozen=True)
class Plan:
    """Parameters, and whether the closed form promises (epsilon, delta) for them: `feasible` if all conditions hold."""

    records: int
    epochs: float
    epsilon: float
    delta: float
    gamma: float
    noise_multiplier: float
    rounds: float
    sample_size: float
    theta: float
    conditions: tuple[Condition, ...]

    @property
    def feasible(self) -> bool:
        return all(condition.holds for condition in self.conditions)

    @property
    def sampling_rate(self) -> float:
        return self.sample_size / self.records

    @property
    def published_gamma(self) -> float:
        """F(2), where the authors' program stops: valid where finite, up to a hundred times larger."""
        return growth(self.epsilon / (2 * self.epochs), self.noise_multiplier)

    def record(self) -> dict[str, Any]:
        return {
            "records": self.records,
            "epochs": self.epochs,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "gamma": self.gamma,
            "published_gamma": _plain(self.published_gamma),
            "noise_multiplier": self.noise_multiplier,
            "rounds": self.rounds,
            "sample_size": self.sample_size,
            "sampling_rate": self.sampling_rate,
            "theta": self.theta,
            "feasible": self.feasible,
            "conditions": [condition.record() for condition in self.conditions],
        }


def plan_from_budget(
    records: int, epochs: float, epsilon: float, delta: float | None = None, theta: float = 1.0
) -> Plan:
    """Budget first: σ, γ, the fewest rounds and the largest sample size. delta defaults to 1/records."""
    n, k, delta, theta = _common(records, epochs, delta, theta)
    epsilon = positive("epsilon", epsilon)
    sigma = noise_multiplier_of_epsilon(epsilon, delta)
    gamma = smallest_gamma(epsilon, k, sigma)
    rounds = gamma * theta * theta * k * k / epsilon
    return _plan(n, k, epsilon, delta, gamma, sigma, rounds, theta)


def plan_at_rounds(
    records: int, epochs: float, epsilon: float, rounds: int, delta: float | None = None, theta: float = 1.0
) -> Plan:
    """A run given in whole, judged for a budget: the same σ, whether or not the rounds stand at their bound."""
    n, k, delta, theta = _common(records, epochs, delta, theta)
    epsilon = positive("epsilon", epsilon)
    sigma = noise_multiplier_of_epsilon(epsilon, delta)
    steps = whole_number("rounds", rounds)
    return _plan(n, k, epsilon, delta, smallest_gamma(epsilon, k, sigma), sigma, steps, theta)


def plan_from_run(
    records: int, epochs: float, sample_size: float, delta: float | None = None, theta: float = 1.0
) -> Plan:
    """Run first: the (ε, σ) that these rounds allow, ε = γ c₀ with γ the smallest root ≥ 2 of γ = F(a, σ(γ))."""
    n, k, delta, theta = _common(records, epochs, delta, theta)
    size = positive("sample_size", sample_size)
    if size > n:
        raise InputError(f"sample_size {size:g} exceeds records {n}: a sample is a part of the data")
    rate = theta * theta * size / n
    unit = theta * theta * k * size / n

    def enough(gamma: float) -> bool:
        return growth(rate, noise_multiplier_of_epsilon(gamma * unit, delta)) <= gamma

    # F(a, σ(γ)) is not monotone in γ: scan upwards in small ratios, then bisect inside the first success
    low = high = 2.0
    while not enough(high):
        low, high = high, high * 1.005
        if high > 1e6:
            raise Infeasible(
                f"no gamma exists for sample_size {size:g} of {n} records: the sampling rate {rate:g} is too large; "
                "lower sample_size"
            )
    gamma = _bisect(enough, low, high) if high > 2.0 else 2.0
    epsilon = gamma * unit
    sigma = noise_multiplier_of_epsilon(epsilon, delta)
    return _plan(n, k, epsilon, delta, gamma, sigma, k * n / size, theta)


def plan_from_noise(
    records: int,
    epochs: float,
    sample_size: float,
    noise_multiplier: float,
    delta: float | None = None,
    theta: float = 1.0,
) -> Plan:
    """Noise first: the ε that both the noise and the rounds allow."""
    n, k, delta, theta = _common(records, epochs, delta, theta)
    size, sigma = positive("sample_size", sample_size), positive("noise_multiplier", noise_multiplier)
    if size > n:
        raise InputError(f"sample_size {size:g} exceeds records {n}: a sample is a part of the data")
    rate, unit = theta * theta * size / n, theta * theta * k * size / n
    gamma = growth(rate, sigma)
    if gamma == math.inf:
        raise Infeasible(
            f"noise_multiplier {sigma:g} is too small for sampling rate {rate:g}: raise it or lower sample_size"
        )
    epsilon = max(epsilon_of_noise_multiplier(sigma, delta), gamma * unit)
    # with ε fixed by the noise, γ may be anything between F and ε/c₀; T stands at its bound for the latter
    return _plan(n, k, epsilon, delta, epsilon / unit, sigma, k * n / size, theta)


def _plan(
    n: int, k: float, epsilon: float, delta: float, gamma: float, sigma: float, rounds: float, theta: float
) -> Plan:
    log_delta = -math.log(delta)
    size = k * n / rounds
    conditions = (
        Condition(
            "rounds",
            rounds,
            gamma * theta * theta * k * k / epsilon,
            True,
            "more rounds (a smaller sample size), or a larger epsilon",
        ),
        Condition("epochs", k, E / (gamma * theta) * math.sqrt(2 * epsilon * log_delta), True, "more epochs"),
        Condition("epsilon", epsilon, gamma * h(sigma) * k, False, "a smaller epsilon (more noise), or more epochs"),
        Condition(
            "sample",
            size,
            n * g(math.sqrt(2 * log_delta / epsilon)) / theta,
            False,
            "a smaller sample size, that is more rounds",
        ),
    )
    return Plan(n, k, epsilon, delta, gamma, sigma, rounds, size, theta, conditions)


def within_reach(name: str, value: float) -> float:
    if value > 1e9:
        raise InputError(f"{name} must be at most 1e9, got {value:g}: that many cannot have been meant")
    return value


def _common(records: Any, epochs: Any, delta: Any, theta: Any) -> tuple[int, float, float, float]:
    n = whole_number("records", records, at_least=2)
    k = within_reach("epochs", positive("epochs", epochs))
    probability = 1.0 / n if delta is None else within("delta", delta, 0, 1, "commonly 1/records")
    ratio = within_reach("theta", real_number("theta", theta))
    if not 1 <= ratio < math.inf:
        raise InputError(f"theta is the largest over the mean sample size, at least 1, got {theta!r}")
    return n, k, probability, ratio


def noise_standard_deviation(
    noise_multiplier: float, clipping_norm: float, adjacency: str = "add_remove"
) -> tuple[float, float]:
    """(standard deviation of the noise on the sum, sensitivity). The sensitivity is C under add/remove, 2C under
    replace-one; with C under replace-one the claimed (ε, δ) is violated (ε up to 1.17 times the claim was measured).
    """
    norm = positive("clipping_norm", clipping_norm)
    if adjacency not in ("add_remove", "replace_one"):
        raise InputError(f"adjacency must be 'add_remove' or 'replace_one', got {adjacency!r}")
    sensitivity = norm if adjacency == "add_remove" else 2 * norm
    return noise_multiplier * sensitivity, sensitivity


def check_noise(standard_deviation: float, noise_multiplier: float, clipping_norm: float, adjacency: str) -> None:
    """Refuse to call a run (ε, δ)-DP whose noise is below σ·sensitivity."""
    needed, sensitivity = noise_standard_deviation(noise_multiplier, clipping_norm, adjacency)
    if positive("standard_deviation", standard_deviation) < needed * (1 - 1e-12):
        raise InputError(
            f"standard_deviation {standard_deviation:g} is below noise_multiplier x sensitivity = {needed:g} "
            f"(sensitivity {sensitivity:g} under {adjacency}): the guarantee does not hold; under replace_one the "
            "sensitivity of a sum of clipped gradients is 2C, not C"
        )


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
