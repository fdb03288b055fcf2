"""Worlds with a known truth, to hold estimators against: no signal, randomised response, Gaussian, a shared coin.

Each draws scores and fair coins for m canaries, and knows the smallest epsilon at delta for which its mechanism is
(epsilon, delta)-DP in one canary. A valid lower bound exceeds that in at most a share 1 - confidence of the draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from ..estimators.class_a import EpsilonDeltaCurve
from ..estimators.f_dp import gaussian_inverse
from ..estimators.gaussian_dp import gaussian_epsilon

Draw = Callable[[int, np.random.Generator], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Scenario:
    """`curve` is the trade-off curve that the mechanism keeps in every canary; `independent` whether canaries are."""

    name: str
    draw: Draw
    epsilon: Callable[[float], float]
    curve: Any
    independent: bool = True


class GaussianCurve:
    """G_mu as the recursion wants it: g(y) = Phi(Phi^-1(y) - mu)."""

    def __init__(self, mu: float) -> None:
        self.mu = mu

    def inverse_complement(self, y: Any) -> Any:
        return gaussian_inverse(np.asarray(y, float), np.asarray(self.mu))


def no_signal() -> Scenario:
    def draw(canaries: int, stream: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        members = stream.random(canaries) < 0.5
        return stream.standard_normal(canaries), members

    return Scenario("no signal", draw, lambda delta: 0.0, EpsilonDeltaCurve(0.0, 0.0))


def randomised_response(epsilon: float, jitter: bool = False) -> Scenario:
    """The bit itself with probability e^epsilon/(1 + e^epsilon), else its opposite; jitter adds U(0, 1/2)."""
    q = float(expit(epsilon))

    def draw(canaries: int, stream: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        members = stream.random(canaries) < 0.5
        scores = np.where(stream.random(canaries) < q, members, ~members).astype(float)
        return scores + (stream.random(canaries) / 2 if jitter else 0.0), members

    def truth(delta: float) -> float:
        return max(0.0, math.log((q - delta) / (1 - q))) if q > delta else 0.0

    name = f"randomised response {epsilon:g}" + (" with jitter" if jitter else "")
    return Scenario(name, draw, truth, EpsilonDeltaCurve(epsilon, 0.0))


def gaussian(mu: float) -> Scenario:
    def draw(canaries: int, stream: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        members = stream.random(canaries) < 0.5
        return stream.standard_normal(canaries) + mu * members, members

    return Scenario(f"Gaussian {mu:g}", draw, lambda delta: gaussian_epsilon(mu, delta), GaussianCurve(mu))


def shared_coin(probability: float = 0.45, accuracy: float = 0.8) -> Scenario:
    """One coin for all: with that probability every canary passes through randomised response, otherwise no signal.

    Each canary sees an (ln 4, 0)-DP and 1-GDP mechanism; its exact curve is the mixture of the two, so that
    epsilon(delta) solves probability (q - e^epsilon (1 - q)) + (1 - probability)(1 - e^epsilon)_+ = delta.
    """

    def draw(canaries: int, stream: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        members = stream.random(canaries) < 0.5
        noise = stream.random(canaries)
        right = accuracy if stream.random() < probability else 0.5
        return np.where(noise < right, members, ~members).astype(float) + stream.random(canaries) / 2, members

    def truth(delta: float) -> float:
        return max(0.0, math.log((accuracy - delta / probability) / (1 - accuracy)))

    return Scenario("shared coin", draw, truth, GaussianCurve(1.0), independent=False)


def standard_scenarios() -> list[Scenario]:
    return [
        no_signal(),
        randomised_response(1.0),
        randomised_response(3.0),
        gaussian(1.0),
        gaussian(2.0),
        shared_coin(),
    ]
