"""Certified pairs (ε, δ(ε)) of both directions, close enough that nothing between them matters.

Each pair is a line that no attack's ROC curve crosses, TPR ≤ δ + e^ε FPR, and by the other direction's pair
TPR ≤ 1 − e^{−ε}(1 − δ' − FPR). Between neighbours ε₁ < ε₂ the best line is missed by a factor of at most
min(e^{ε₂−ε₁}, δ(ε₁)/δ(ε₂)): the second line is steeper by the one, the first higher by the other. So the pairs are
placed where ε or where δ has moved by a step, whichever comes last, and evenly besides over the ε that matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .trade_off import TradeOffCurve, polygon_curve

Array = NDArray[Any]

Deltas = tuple[float, float]  # of "remove" and of "add"

STEP, FAR_STEP = 0.05, 1.0  # of ln δ and of ε: above and below NEAR
NEAR, FAR = 1e-9, 1e-300
EVEN = 96
MOST = 2000


@dataclass(frozen=True)
class PrivacyLines:
    """epsilons (n,) increasing; remove, add (n,): upper ends of δ(ε), non-increasing."""

    epsilons: Array
    remove: Array
    add: Array

    def true_positive_rate(self, false_positive_rate: Array, direction: str) -> Array:
        """Upper ends at each rate (k,), "remove" or "add"."""
        here, other = (self.remove, self.add) if direction == "remove" else (self.add, self.remove)
        alpha = false_positive_rate[:, None]
        with np.errstate(over="ignore"):
            steep = here + np.exp(self.epsilons) * alpha
        flat = 1 - np.exp(-self.epsilons) * np.maximum(0.0, 1 - other - alpha)
        return np.minimum(1.0, np.minimum(steep.min(axis=1), flat.min(axis=1)))

    def curve(self, label: str, more: list[tuple[float, float]]) -> TradeOffCurve:
        """The symmetric curve of all pairs, and of `more` that hold in both directions."""
        both = np.maximum(self.remove, self.add)
        epsilons = np.concatenate((self.epsilons, [e for e, _ in more]))
        return polygon_curve(epsilons, np.concatenate((both, [d for _, d in more])), label)


def privacy_lines(deltas: Callable[[float], Deltas]) -> PrivacyLines:
    """deltas: ε -> certified upper ends of δ(ε), "remove" and "add", both non-increasing."""
    known: dict[float, Deltas] = {}

    def at(epsilon: float) -> Deltas:
        if epsilon not in known:
            known[epsilon] = deltas(epsilon)
        return known[epsilon]

    near = where_below(lambda e: max(at(e)), NEAR)
    far = max(where_below(lambda e: max(at(e)), FAR), 1.01 * near)
    for epsilon in (near * np.linspace(0, 1, EVEN + 1)).tolist():
        at(epsilon)
    at(far)
    waiting = list(zip(sorted(known), sorted(known)[1:], strict=False))[::-1]  # small ε first
    while waiting and len(known) < MOST:
        low, high = waiting.pop()
        if any(_apart(high - low, d, e) for d, e in zip(at(low), at(high), strict=True)):
            middle = low + (high - low) / 2
            if low < middle < high:
                at(middle)
                waiting += [(middle, high), (low, middle)]
    points = sorted(known)
    found = np.array([known[e] for e in points])
    found = np.minimum.accumulate(found, axis=0)  # a bound at ε holds beyond it
    return PrivacyLines(np.array(points), found[:, 0], found[:, 1])


def _apart(gap: float, delta: float, next_delta: float) -> bool:
    step = STEP if delta > NEAR else FAR_STEP
    if gap <= step or delta <= FAR:
        return False
    return next_delta <= 0 or math.log(delta / next_delta) > step


def where_below(function: Callable[[float], float], level: float) -> float:
    """A point, to about a tenth of itself, from which on a non-increasing function lies below `level`."""
    high = 1e-3
    while function(high) > level and high < 2.0**60:
        high *= 1.5
    low = high / 1.5
    for _ in range(3):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if function(middle) > level else (low, middle)
    return high
