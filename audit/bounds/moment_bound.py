"""What the moments of the likelihood ratio say: bounds that hold far below the lattice's numerical floor.

For an order a > 1 and a run's Rényi divergence D_a, with R = (a − 1)·D_a = ln E_null (alternative/null)^a,

    ε(δ)   ≤ (R − ln δ − ln a)/(a − 1) + ln(1 − 1/a)        (Canonne, Kamath and Steinke 2020, Proposition 12)
    δ(ε)   ≤ exp(R − (a − 1)ε)·(1 − 1/a)^{a−1}/a            (the same, read the other way)
    TPR(α) ≤ (e^R α^{a−1})^{1/a}                            (Hölder)

A run's R is the sum of its parts'. Random allocation, one epoch, S = (X_1 + … + X_M)/M as in `allocation_law`:

    "remove", whole a:  E S^a = a!·M^{−a}·[x^a] (Σ_k e^{k(k−1)/(2σ²)} x^k/k!)^M
    "add", a = b + 1:   E S^{−b} = 1/Γ(b) ∫ θ^{b−1} φ(θ/M)^M dθ,  φ(u) = E e^{−uX}

φ is convex in X, so the mean-preserving spread of `step_law` bounds it from above; φ^M is convex, so its chords do, and
powers of θ integrate exactly against them. Beyond the last node φ(u) ≤ (p/(eu))^p E X^{−p} for every p > 0. Also
S ≥ (Π X_i)^{1/M}, so that E S^{−b} ≤ exp(b(1 + b/M)/(2σ²)). Poisson sampling: E(1 − q + qX)^a is a binomial sum, and
"add" is never more than "remove" (Mironov, Talwar and Zhang 2019, Theorem 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from .rounding import UNIT
from .step_law import spread, step_cells

Array = NDArray[Any]

LARGEST_ORDER = 512
NODES = 2048  # of the integral over θ
CELLS = 1024  # of X


@dataclass(frozen=True)
class MomentBound:
    """orders (n,) above 1; log_moments (n,): upper bounds of R for the whole run, inf where there is none."""

    orders: Array
    log_moments: Array

    def composed(self, copies: int) -> MomentBound:
        return MomentBound(self.orders, self.log_moments * copies)

    def plus(self, other: MomentBound) -> MomentBound:
        """One run after the other. R is convex in a and 0 at a = 1, so chords between known orders bound it."""
        a, b = self.orders, other.orders
        orders = np.union1d(a, b)
        orders = orders[orders <= min(a[-1], b[-1])]
        parts = [
            np.interp(orders, np.append(1.0, known.orders), np.append(0.0, known.log_moments)) * (1 + 4 * UNIT)
            for known in (self, other)
        ]
        return MomentBound(orders, parts[0] + parts[1])

    def epsilon(self, delta: float) -> float:
        if delta <= 0:
            return math.inf
        a = self.orders
        found = (self.log_moments - math.log(delta) - np.log(a)) / (a - 1) + np.log1p(-1 / a)
        return max(0.0, _up(float(np.min(found))))

    def delta(self, epsilon: float) -> float:
        a = self.orders
        found = self.log_moments - (a - 1) * epsilon + (a - 1) * np.log1p(-1 / a) - np.log(a)
        return math.exp(min(0.0, _up(float(np.min(found)))))

    def true_positive_rate(self, alpha: float) -> float:
        if alpha <= 0:
            return 1.0
        a = self.orders
        return math.exp(min(0.0, _up(float(np.min((self.log_moments + (a - 1) * math.log(alpha)) / a)))))


@lru_cache(maxsize=32)
def allocation_remove(steps: int, noise_multiplier: float) -> MomentBound:
    """One epoch, the record present against absent; orders 2 … LARGEST_ORDER."""
    k = np.arange(LARGEST_ORDER + 1)
    base = k * (k - 1) * (0.5 / noise_multiplier / noise_multiplier) - gammaln(k + 1)
    power = base
    for bit in bin(steps)[3:]:
        power = _log_product(power, power)
        power = _log_product(power, base) if bit == "1" else power
    moments = power + gammaln(k + 1) - k * math.log(steps)
    # each product adds the rounding of its sums and of the exponents, and a power of M carries each one M times
    doubt = 4 * steps * (LARGEST_ORDER + 8 * np.abs(base) + 8 * np.abs(power) / steps + 64) * UNIT
    chosen = k >= 2
    return MomentBound(k[chosen].astype(float), (np.maximum(moments, 0.0) + doubt)[chosen])


@lru_cache(maxsize=32)
def allocation_add(steps: int, noise_multiplier: float) -> MomentBound:
    """One epoch, the record absent against present; a = b + 1 for b from 1/4 to LARGEST_ORDER."""
    shift = 1.0 / noise_multiplier
    b = np.geomspace(0.25, LARGEST_ORDER, 64)
    geometric = b * (1 + b / steps) * shift * shift / 2
    edges = np.concatenate(([0.0], np.exp(shift * np.linspace(-14, 14, CELLS) - shift * shift / 2)))
    if not 0 < edges[1] < edges[-1] < 1e300:
        return MomentBound(b + 1, geometric)
    cells = step_cells(edges, noise_multiplier)
    mass, raised = spread(cells)
    mass[-1] += max(0.0, 1.0 - float(mass.sum()))  # what lies above the last edge, at the last edge: φ rises
    log_theta = np.linspace(-8.0, math.log(steps) - math.log(edges[1]) + 2.0, NODES)
    gap = float(log_theta[1] - log_theta[0])
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        transform = np.exp(-np.exp(log_theta - math.log(steps))[:, None] * edges) @ mass
        # rounding of the masses and of the sums; a rise d of the mean at x costs at most d·max(u e^{−ux}) < d/x
        lost = 2 * cells.error + float(np.sum(raised / np.maximum(edges[1:], 1e-300)))
        transform = transform * (1 + CELLS * UNIT) + lost
        logs = steps * np.log(np.minimum(transform, 1.0))
    pieces = np.empty((len(b), NODES + 1))
    whole = np.expm1(b * gap) / b
    right = (np.expm1((b + 1) * gap) / (b + 1) - whole) / math.expm1(gap)
    with np.errstate(divide="ignore"):
        ends = np.logaddexp(
            np.log(np.maximum(whole - right, 0.0) + 1e-9 * whole)[:, None] + logs[:-1],
            np.log(np.maximum(right, 0.0) + 1e-9 * whole)[:, None] + logs[1:],
        )
    pieces[:, : NODES - 1] = ends + b[:, None] * log_theta[:-1]
    pieces[:, NODES - 1] = b * log_theta[0] - np.log(b)  # φ ≤ 1 before the first node
    pieces[:, NODES] = _beyond(b, float(log_theta[-1]), steps, shift)
    moments = logsumexp(pieces, axis=1) - gammaln(b)
    moments = moments + (64 + 8 * np.abs(b * log_theta[-1]) + 8 * gammaln(b + 2)) * UNIT
    return MomentBound(b + 1, np.minimum(np.maximum(moments, 0.0) + 1e-12, geometric * (1 + 1e-12)))


@lru_cache(maxsize=32)
def poisson_moments(sampling_rate: float, noise_multiplier: float) -> MomentBound:
    """One step, either direction; orders 2 … LARGEST_ORDER. 0 < sampling_rate < 1."""
    k = np.arange(LARGEST_ORDER + 1)
    terms = k * (k - 1) * (0.5 / noise_multiplier / noise_multiplier) + k * math.log(sampling_rate)
    rest = math.log1p(-sampling_rate)
    orders, moments = np.arange(2.0, LARGEST_ORDER + 1), []
    for a in range(2, LARGEST_ORDER + 1):
        parts = gammaln(a + 1) - gammaln(k[: a + 1] + 1) - gammaln(a - k[: a + 1] + 1) + terms[: a + 1]
        parts = parts + (a - k[: a + 1]) * rest
        largest = float(np.abs(parts).max()) + float(gammaln(a + 1))
        moments.append(max(0.0, float(logsumexp(parts))) + (8 * largest + a + 64) * UNIT)
    return MomentBound(orders, np.array(moments))


def gaussian_moments(mu: float) -> MomentBound:
    """N(0, 1) against N(μ, 1), either direction: R = a(a − 1)μ²/2."""
    orders = np.concatenate((1 + np.geomspace(0.01, 1.0, 40)[:-1], np.arange(2.0, LARGEST_ORDER + 1)))
    return MomentBound(orders, orders * (orders - 1) * (mu * mu / 2) * (1 + 8 * UNIT))


def _log_product(left: Array, right: Array) -> Array:
    """The logarithms of a product's coefficients, from those of two power series cut at the same order."""
    n = len(left)
    index = np.arange(n)[:, None] - np.arange(n)
    terms = np.where(index >= 0, left[None, :] + right[np.maximum(index, 0)], -np.inf)
    return np.asarray(logsumexp(terms, axis=1))


def _beyond(b: Array, log_theta: float, steps: int, shift: float) -> Array:
    """ln ∫_{θ₁}^∞ θ^{b−1} φ(θ/M)^M dθ, bounded by a power law of exponent p for each factor; the best p of a few."""
    best = np.full(len(b), np.inf)
    for excess in np.geomspace(1e-2, 1e4, 160).tolist():
        p = (b + excess) / steps
        factor = p * np.log(p) - p + p * (p + 1) * shift * shift / 2 + p * math.log(steps)
        best = np.minimum(best, steps * factor - excess * log_theta - math.log(excess))
    return best


def _up(value: float) -> float:
    return value + 1e-12 * abs(value) + 1e-15
