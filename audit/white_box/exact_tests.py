"""p-values that are exact in finite samples for Gaussian noise, or for any exchangeable data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from scipy.special import betainc, betaincc, chdtr, chdtrc, chdtri, fdtr, fdtrc, fdtri, ndtr

ENOUGH = 10  # exceedances after which a sequential Monte-Carlo test stops
MOST_DRAWS = 19_999


def two_sided(lower: float, upper: float) -> float:
    return float(min(1.0, 2 * min(lower, upper)))


def variance_ratio(first: float, first_degrees: float, second: float, second_degrees: float) -> tuple[float, float]:
    """P[F ≤ f], P[F ≥ f] for two independent mean squares of one variance."""
    if first == 0 or second == 0:
        return (1.0, 1.0) if first == second else (0.0, 1.0) if first == 0 else (1.0, 0.0)
    ratio = first / second
    return float(fdtr(first_degrees, second_degrees, ratio)), float(fdtrc(first_degrees, second_degrees, ratio))


def ratio_interval(ratio: float, first_degrees: float, second_degrees: float, confidence: float) -> tuple[float, float]:
    """For the ratio of two variances, from the ratio of their mean squares."""
    tail = (1 - confidence) / 2
    return ratio / float(fdtri(first_degrees, second_degrees, 1 - tail)), ratio / float(
        fdtri(first_degrees, second_degrees, tail)
    )


def chi_square(mean_square: float, degrees: float, variance: float) -> tuple[float, float]:
    """P[at most], P[at least] the observed mean square where `variance` is true."""
    statistic = degrees * mean_square / variance
    return float(chdtr(degrees, statistic)), float(chdtrc(degrees, statistic))


def deviation_interval(mean_square: float, degrees: float, confidence: float) -> tuple[float, float]:
    """For a standard deviation: exact, by the chi-square distribution."""
    tail = (1 - confidence) / 2
    return tuple(math.sqrt(degrees * mean_square / float(chdtri(degrees, q))) for q in (tail, 1 - tail))  # type: ignore[return-value]


def shifted_t(t: float, degrees: float, shift: float) -> tuple[float, float]:
    """P[T ≤ t], P[T ≥ t] for T = (Z + shift)/(chi/√degrees), the noncentral t, by quadrature over chi."""
    nodes, weights = _quadrature()
    spread = np.sqrt(chdtri(degrees, nodes) / degrees)  # upper quantiles; their order does not matter
    below = float(np.sum(weights * ndtr(t * spread - shift)))
    above = float(np.sum(weights * ndtr(shift - t * spread)))
    return min(1.0, below), min(1.0, above)


@lru_cache(maxsize=1)
def _quadrature() -> tuple[np.ndarray, np.ndarray]:
    """For an expectation over a uniform quantile, refined towards both ends down to 1e-15."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    ends = np.concatenate([[0.0], 10.0 ** np.arange(-15, 0), [0.5]])
    points, mass = [], []
    for low, high in itertools.pairwise(ends):
        points.append(low + (nodes + 1) / 2 * (high - low))
        mass.append(weights / 2 * (high - low))
    low_half, low_mass = np.concatenate(points), np.concatenate(mass)
    return np.concatenate([low_half, 1 - low_half]), np.concatenate([low_mass, low_mass])


def correlation_tail(correlation: np.ndarray | float, dimension: int) -> np.ndarray:
    """P[|cos| ≥ |correlation|] of two independent directions in R^dimension: cos² is Beta(1/2, (dimension − 1)/2)."""
    if dimension < 2:
        return np.ones_like(np.asarray(correlation, float))
    square = np.minimum(1.0, np.asarray(correlation, float) ** 2)
    return betainc((dimension - 1) / 2, 0.5, 1 - square)


def binomial_two_sided(successes: int, trials: int, rate: float) -> tuple[float, float]:
    """P[at most], P[at least] `successes`."""
    below = float(betaincc(successes + 1, trials - successes, rate)) if successes < trials else 1.0
    above = float(betainc(successes, trials - successes + 1, rate)) if successes > 0 else 1.0
    return below, above


def monte_carlo(observed: Sequence[float], draw: Callable[[], Sequence[float]], most: int = MOST_DRAWS) -> list[float]:
    """Two-sided p-values of several statistics of the same data, each valid by itself in finite samples.

    Sequential (Besag and Clifford 1991): a side is decided when ENOUGH draws were as extreme.
    """
    target = np.asarray(observed, float)
    slack = 1e-9 * np.maximum(1.0, np.abs(target))
    counts = np.zeros((2, len(target)))
    p = np.full((2, len(target)), np.nan)
    number = 0
    while number < most and np.isnan(p).any():
        number += 1
        value = np.asarray(draw(), float)
        counts += [value <= target + slack, value >= target - slack]
        p = np.where(np.isnan(p) & (counts >= ENOUGH), ENOUGH / number, p)
    p = np.where(np.isnan(p), (counts + 1) / (number + 1), p)
    return np.minimum(1.0, 2 * p.min(axis=0)).tolist()


PILOT = 100


def monte_carlo_of_largest(
    observed: Sequence[float], draw: Callable[[], Sequence[float]], most: int = 4_999
) -> tuple[float, np.ndarray]:
    """One p-value for several statistics of the same data: of the largest deviation in units of its own spread.

    Centres and spreads come from draws of their own, so that what is compared is exchangeable and p is valid in finite
    samples, with no correction for the number of statistics. Returns p and the deviations.
    """
    pilot = np.array([draw() for _ in range(PILOT)], float)
    centre, spread = pilot.mean(axis=0), pilot.std(axis=0)
    spread = np.where(spread > 0, spread, 1e-9 * np.maximum(1.0, np.abs(centre)))

    def deviations(values: Sequence[float]) -> np.ndarray:
        return np.abs(np.asarray(values, float) - centre) / spread

    target = deviations(observed)
    largest = float(target.max()) * (1 - 1e-12)
    count = 0
    for number in range(1, most + 1):
        count += float(deviations(draw()).max()) >= largest
        if count >= ENOUGH:
            return count / number, target
    return (count + 1) / (most + 1), target


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values that control the familywise error: reject those at most alpha (Holm 1979)."""
    order = np.argsort(p_values)
    adjusted = np.empty(len(p_values))
    largest = 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted.tolist()


def two_sided_ratio(first: float, first_degrees: float, second: float, second_degrees: float) -> float:
    return two_sided(*variance_ratio(first, first_degrees, second, second_degrees))
