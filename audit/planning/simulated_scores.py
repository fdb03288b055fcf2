"""Scores of the strongest attack, drawn from the mechanism itself: what `coalmine power` expects of a violated claim.

For the mechanisms of DP-SGD the strongest attack on one canary is its log-likelihood ratio, a sum over epochs or steps
of functions of the noisy coordinate along the canary's direction (in units of the clipping norm, noise sigma):

    random allocation   sum_e log mean_t exp((x_{e,t} - 1/2)/sigma^2)
    fixed bins          log mean_t exp((sum_e x_{e,t} - E/2)/sigma^2)
    Poisson             sum_t log(1 - q + q exp((x_t - 1/2)/sigma^2))
    full batch          (sum_t x_t - T/2)/sigma^2

A pool of such scores is drawn once and resampled. A bare (epsilon, delta) has no mechanism; its scores come from its
trade-off curve.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..estimators.f_dp import trade_off_curve

MOST_NORMALS = 100_000_000  # drawn for one pool: a few seconds
LARGEST_POOL = 50_000
_CHUNK = 4_000_000


@dataclass(frozen=True)
class ScorePool:
    """Independent scores of members and of non-members, resampled with replacement."""

    members: np.ndarray
    non_members: np.ndarray

    def draw(self, members: np.ndarray, stream: np.random.Generator) -> np.ndarray:
        index = stream.integers(0, self.members.size, members.size)
        return np.where(members, self.members[index], self.non_members[index])


@dataclass(frozen=True)
class CurveScores:
    """Scores whose best attack has exactly the symmetric trade-off curve f, drawn afresh each time."""

    curve: Any

    def draw(self, members: np.ndarray, stream: np.random.Generator) -> np.ndarray:
        return draw_scores(self.curve, members, stream)


def attack_scores(mechanism: Any, stream: np.random.Generator) -> ScorePool | CurveScores:
    """The strongest attack's scores against a mechanism of coalmine.audit.bounds."""
    record = mechanism.record()
    name = record.get("name")
    if name in ("random_allocation", "fixed_bins"):
        steps, epochs, sigma = record["steps_per_epoch"], record["epochs"], record["noise_multiplier"]
        if name == "fixed_bins":  # the mean over epochs is a sufficient statistic
            epochs, sigma = 1, sigma / math.sqrt(record["epochs"])
        return _pool(steps * epochs, lambda n, inside: _allocation(n, inside, steps, epochs, sigma, stream))
    if name == "poisson":
        steps, rate, sigma = record["steps"], record["sampling_rate"], record["noise_multiplier"]
        return _pool(steps, lambda n, inside: _poisson(n, inside, steps, rate, sigma, stream))
    if name == "full_batch":
        mu = math.sqrt(record["steps"]) / record["noise_multiplier"]
        return _pool(1, lambda n, inside: mu * (stream.standard_normal(n) + mu * (inside - 0.5)))
    return CurveScores(trade_off_curve(mechanism))


def draw_scores(curve: Any, members: np.ndarray, stream: np.random.Generator) -> np.ndarray:
    """Independent scores whose best attack has exactly the trade-off curve f: higher means member.

    A non-member's level a is uniform on [0, 1]; a member's has P[a <= x] = 1 - f(x), drawn as a = f(1 - u) with u
    uniform because f is its own inverse. The score is log(1 - a) - log a.
    """
    u = stream.random(members.size)
    level = np.where(members, trade_off_curve(curve).inverse_complement(u), u)
    return np.log1p(-np.minimum(level, 1 - 1e-16)) - np.log(np.maximum(level, 1e-300))


def _pool(normals: int, scores: Callable[[int, bool], np.ndarray]) -> ScorePool:
    size = int(min(LARGEST_POOL, max(1000, MOST_NORMALS // (2 * normals))))
    chunk = max(1, min(size, _CHUNK // normals))

    def filled(inside: bool) -> np.ndarray:
        return np.concatenate([scores(min(chunk, size - start), inside) for start in range(0, size, chunk)])

    return ScorePool(filled(True), filled(False))


def _allocation(n: int, inside: bool, steps: int, epochs: int, sigma: float, stream: np.random.Generator) -> np.ndarray:
    x = sigma * stream.standard_normal((n, epochs, steps))
    if inside:
        used = stream.integers(0, steps, (n, epochs))
        x[np.arange(n)[:, None], np.arange(epochs)[None, :], used] += 1
    return np.sum(_log_mean_exp((x - 0.5) / sigma**2), axis=1)


def _poisson(n: int, inside: bool, steps: int, rate: float, sigma: float, stream: np.random.Generator) -> np.ndarray:
    x = sigma * stream.standard_normal((n, steps))
    if inside:
        x += stream.random((n, steps)) < rate
    if rate >= 1:
        return np.sum((x - 0.5) / sigma**2, axis=1)
    return np.sum(np.logaddexp(math.log1p(-rate), math.log(rate) + (x - 0.5) / sigma**2), axis=1)


def _log_mean_exp(a: np.ndarray) -> np.ndarray:
    top = a.max(axis=-1)
    return top + np.log(np.mean(np.exp(a - top[..., None]), axis=-1))
