"""Trade-off curves: the least type II error of any test that has type I error α (Dong, Roth and Su 2022).

A `TradeOffCurve` is a lower curve f: convex, non-increasing, f(α) ≤ 1 − α and symmetric (its own inverse), so that
it bounds both orders of the pair, "with the record" against "without" and the other way round. Because f is its own
inverse, the recursion of one-run f-DP audits (Mahloujifar, Melis and Chaudhuri 2024) needs only f(1 − y);
`inverse_complement(y)` evaluates it without ever forming 1 − y, so that y = 1e-30 keeps its digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from ...foundation import InputError
from .closed_form import sharp_total_variation
from .parameters import check_delta, check_epsilon, real_number, within
from .rounding import UNIT

Array = NDArray[Any]


@dataclass(frozen=True)
class TradeOffCurve:
    """A symmetric lower trade-off curve. `label` says what it is and whether it is certified.

    evaluate: α -> f(α);  evaluate_complement: y -> f(1 − y);  both take and return float arrays in [0, 1].
    """

    label: str
    evaluate: Callable[[Array], Array] = field(repr=False)
    evaluate_complement: Callable[[Array], Array] = field(repr=False)

    def __call__(self, alpha: ArrayLike) -> Any:
        """f(α) for α in [0, 1]; a float for a float, an array for an array."""
        return _apply(self.evaluate, alpha, "alpha")

    def inverse_complement(self, y: ArrayLike) -> Any:
        """f(1 − y) for y in [0, 1], accurate relative to its own size however small y is."""
        return _apply(self.evaluate_complement, y, "y")

    def true_positive_rate(self, false_positive_rate: ArrayLike) -> Any:
        """What no attack exceeds: 1 − f(α)."""
        return 1.0 - self(false_positive_rate)


def epsilon_delta_curve(epsilon: float, delta: float = 0.0) -> TradeOffCurve:
    """f(α) = max(0, 1 − δ − e^ε α, e^{−ε}(1 − δ − α)): all that (ε, δ)-DP says (Wasserman and Zhou 2010)."""
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    return polygon_curve(np.array([epsilon]), np.array([delta]), f"({epsilon:g}, {delta:g})-DP, exact")


def polygon_curve(epsilons: ArrayLike, deltas: ArrayLike, label: str) -> TradeOffCurve:
    """The largest of the curves f_{ε_i, δ_i}: what several (ε, δ) guarantees of one mechanism say together.

    epsilons (n,) ≥ 0, deltas (n,) in [0, 1], each δ_i an upper bound of δ(ε_i) in both directions. Cost log n a point.
    Every line is a valid lower curve by itself, so the search for the best one can cost tightness, never validity;
    the two constants below exceed the rounding of the line's own evaluation.
    """
    epsilon, delta = _best_lines(np.asarray(epsilons, float).reshape(-1), np.asarray(deltas, float).reshape(-1))
    slope = np.exp(-epsilon)  # increasing
    with np.errstate(over="ignore"):
        steepness = np.exp(epsilon)
    # line i is the best flat line for y in [breaks[i − 1], breaks[i]]
    breaks = (slope[1:] * delta[1:] - slope[:-1] * delta[:-1]) / (slope[1:] - slope[:-1])
    corners = np.maximum.accumulate(slope[:-1] * (breaks - delta[:-1]))  # f at the breaks: the same seen from the side

    def flat(y: Array) -> Array:  # max_i e^{−ε_i}(y − δ_i), and 0
        i = np.searchsorted(breaks, y)
        return np.maximum(0.0, slope[i] * (y - delta[i])) * (1 - 2.0**-50)

    def steep(alpha: Array) -> Array:  # max_i (1 − δ_i − e^{ε_i} α), and 0
        i = np.searchsorted(corners, alpha)
        i = np.where(alpha <= 0, np.argmin(delta), i)
        with np.errstate(invalid="ignore", over="ignore"):
            drop = np.where(alpha > 0, steepness[i] * alpha, 0.0)
        return np.maximum(0.0, (1.0 - delta[i]) - drop * (1 + 2.0**-50) - 2.0**-51)

    return TradeOffCurve(
        label,
        lambda alpha: np.minimum(np.maximum(steep(alpha), flat(1.0 - alpha)), 1.0 - alpha),
        lambda y: np.minimum(np.maximum(flat(y), steep(1.0 - y)), y),
    )


def _best_lines(epsilons: Array, deltas: Array) -> tuple[Array, Array]:
    """The pairs whose line y ↦ e^{−ε}(y − δ) is somewhere the highest on [0, 1], steepest (smallest ε) last."""
    order = np.lexsort((deltas, -epsilons))
    chosen: list[tuple[float, float, float]] = []  # (e^{−ε}, ε, δ), slopes increasing
    for epsilon, delta in zip(epsilons[order].tolist(), deltas[order].tolist(), strict=True):
        slope = math.exp(-epsilon)
        if chosen and chosen[-1][0] >= slope:  # same slope: the smaller δ came first
            continue
        while chosen:
            last_slope, _, last_delta = chosen[-1]
            start = (slope * delta - last_slope * last_delta) / (slope - last_slope)  # from here the new line is higher
            if len(chosen) == 1:
                before = last_delta  # where the last line leaves 0
            else:
                s, _, d = chosen[-2]
                before = (last_slope * last_delta - s * d) / (last_slope - s)
            if start > before:
                break
            chosen.pop()
        if not chosen or slope * (1 - delta) > chosen[-1][0] * (1 - chosen[-1][2]):
            chosen.append((slope, epsilon, delta))
    if not chosen:
        return np.zeros(1), np.ones(1)
    return np.array([c[1] for c in chosen]), np.array([c[2] for c in chosen])


def gaussian_curve(mu: float) -> TradeOffCurve:
    """G_μ(α) = Φ(Φ⁻¹(1 − α) − μ): N(0, 1) against N(μ, 1), rounded down."""
    mu = real_number("mu", mu)
    if mu < 0:
        raise InputError(f"mu must be at least 0, got {mu!r}")

    def below(z: Array) -> Array:  # Φ(z − μ): ndtr's own error, and that of z and of the difference, by |z − μ| + 1
        finite = np.where(np.isfinite(z), z, 0.0)
        return ndtr(z - mu) * np.maximum(0.0, 1 - (64 + 16 * finite * finite + 16 * mu * mu) * UNIT)

    return TradeOffCurve(f"Gaussian, mu = {mu:g}, exact", lambda alpha: below(-ndtri(alpha)), lambda y: below(ndtri(y)))


def total_variation_curve(tv: float) -> TradeOffCurve:
    """f(α) = max(0, 1 − α − TV): all that a bound on the total variation (the advantage) says."""
    tv = within("tv", tv, 0, 1, "a total variation distance is a probability", ends=True)
    return TradeOffCurve(
        f"total variation {tv:g}, certified if the total variation is",
        lambda alpha: np.maximum(0.0, (1.0 - alpha) - tv),
        lambda y: np.maximum(0.0, y - tv),
    )


def chi_square_curve(c: float) -> TradeOffCurve:
    """The closed form's curve: what χ²(P‖Q) ≤ c says of both orders of the pair.

    One order obeys f ≥ g(α) = 1 − α − √(c α(1−α)), the other its inverse; what holds for both is the lower convex
    envelope of min(g, g⁻¹). The two cross once, on the diagonal, with slopes that leave a dent, which the line of
    slope −1 at height 1 − TV closes: f = g⁻¹ up to (1 − √c)/2, then 1 − α − √c/2 up to 1/2, then g. From c = 1 on,
    g has reached 0 before it is that flat and only the line 1/(1+c) − α is left; it is the sharp branch c/(1+c).
    """
    c = real_number("c", c)
    if c < 0:
        raise InputError(f"c must be at least 0, got {c!r}")
    label = f"chi-square closed form, c = {c:g}, certified"
    if c >= 1:
        line = total_variation_curve(sharp_total_variation(c))
        return TradeOffCurve(label, line.evaluate, line.evaluate_complement)
    left = (1.0 - math.sqrt(c)) / 2

    def inverse_from_complement(y: Array, one_minus_y: Array) -> Array:
        """g⁻¹(1 − y): the smaller root of (y − x)² = c x(1 − x), written without cancellation."""
        denominator = 2 * y + c + np.sqrt(c * c + 4 * c * y * one_minus_y)
        return np.divide(2 * y * y, denominator, out=np.zeros_like(y), where=denominator > 0)

    def both(alpha: Array, y: Array) -> Array:  # y = 1 − α, each given with its own digits
        middle = (1.0 - alpha) - math.sqrt(c) / 2
        forward = np.maximum(0.0, y - np.sqrt(c * alpha * y))
        return np.where(alpha >= 0.5, forward, np.where(alpha <= left, inverse_from_complement(y, alpha), middle))

    return TradeOffCurve(label, lambda alpha: both(alpha, 1.0 - alpha), lambda y: both(1.0 - y, y))


def _apply(function: Callable[[Array], Array], value: ArrayLike, name: str) -> Any:
    array = np.asarray(value, dtype=float)
    if not np.all((array >= 0) & (array <= 1)):
        raise InputError(f"{name} must lie in [0, 1], got {value!r}")
    result = function(np.atleast_1d(array)).reshape(array.shape)
    return float(result) if array.ndim == 0 else result
