"""One step of a mixture of Gaussians on each side: the law of its likelihood ratio on the log lattice.

Pair: Q = Σ_j v_j N(−j, σ²) against P = Σ_i w_i N(i, σ²), i, j = 0, 1, …: up to k records that were there, each in the
step with some probability, against others (or none) in their place. With t = 1/σ and y the observation over σ,

    ln(dP/dQ)(y) = ln Σ_i w_i e^{i t y − i²t²/2} − ln Σ_j v_j e^{−j t y − j²t²/2},

which rises with y: cells of the ratio are intervals of y, found by bisection, and their masses differences of Φ. Both
sides are those of `poisson_law`, the special case w = (1 − q, q), v = (1,).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from .lattice import Measure, MemoryLimit
from .normal_tail import normal_tails
from .ratio_law import RatioLaw
from .rounding import EXTENDED, LONG_UNIT, UNIT
from .step_law import Cells, clip_cost, spread, trimmed

Array = NDArray[Any]
Weights = tuple[float, ...]

LARGEST_LOG = 600.0


def log_ratio(y: Array, present: Weights, absent: Weights, shift: Any) -> Array:
    """ln(dP/dQ) at y, an array of any float type; shift = 1/σ."""

    def log_density(weights: Weights, sign: int) -> Array:
        terms = [
            math.log(w) + sign * i * shift * y - (i * shift) ** 2 / 2 for i, w in enumerate(weights) if w > 0
        ]  # relative to N(0, 1)
        top = np.max(terms, axis=0)
        return top + np.log(sum(np.exp(term - top) for term in terms))

    return log_density(present, 1) - log_density(absent, -1)


def mixture_step(present: Weights, absent: Weights, noise_multiplier: float, resolution: float) -> float:
    """The step of the log lattice: `resolution` of the ratio's standard deviation, its tails left out."""
    y = np.linspace(-9.0, 9.0, 2001)
    density = np.exp(-y * y / 2)
    logs = log_ratio(y, present, absent, 1 / noise_multiplier)
    deviation = math.sqrt(
        float((density * np.minimum(np.expm1(np.clip(logs, -50, 3)) ** 2, 9.0)).sum() / density.sum())
    )
    return trimmed(resolution * max(min(deviation, 2.5), 1e-9))


def mixture_law(
    present: Weights,
    absent: Weights,
    noise_multiplier: float,
    tail: float,
    longest: int,
    extended: bool,
    step: float,
) -> RatioLaw:
    """Weights that sum to 1; the others as in `poisson_law`. Raises MemoryLimit where the lattice would be too long."""
    number: Any = np.longdouble if extended and EXTENDED else np.float64
    unit = LONG_UNIT if extended and EXTENDED else UNIT
    shift = 1 / number(noise_multiplier)
    reach = -float(ndtri(tail))
    ends = np.array([-reach - (len(absent) - 1) * float(shift), reach + (len(present) - 1) * float(shift)])
    logs = log_ratio(ends, present, absent, float(shift))
    if np.max(np.abs(logs)) > LARGEST_LOG:
        raise MemoryLimit
    first, last = math.floor(logs[0] / step) - 1, math.ceil(logs[1] / step) + 1
    if last - first > longest:
        raise MemoryLimit

    points = np.arange(first, last + 1, dtype=float)
    upper, miss = _cells(points, step, present, absent, shift, unit)
    lower, _ = _cells(np.arange(first, last + 1) - 0.5, step, present, absent, shift, unit)
    spread_mass, raised = spread(upper)
    rounding = (8 + 4 * step * max(abs(first), abs(last))) * UNIT
    bins = np.arange(first, last, dtype=float)
    growth = np.exp(bins * step)
    # a region of small ratios is one of small y, so what rounding does to its P-mass is relative to that mass
    relative = rounding + 2 * max(lower.relative_absent, lower.relative_present)
    return RatioLaw(
        step,
        Measure(first, spread_mass),
        Measure(first, spread_mass * np.exp(points * step), relative=rounding),
        lower_absent=Measure(first, lower.absent),
        lower_present=Measure(first, lower.present),
        lower_absent_tilted=Measure(first, lower.absent * growth, relative=rounding),
        lower_present_tilted=Measure(first, lower.present / growth, relative=relative),
        missing=3 * tail,
        zero=0.0,
        base_error=4 * (upper.error + lower.error),
        mean_error=2 * upper.error + 2 * rounding + 2 * miss,
        clip_error=clip_cost(raised, np.exp(points[1:] * step), 1),
        extended=extended,
    )


def _cells(
    points: Array, step: float, present: Weights, absent: Weights, shift: Any, unit: float
) -> tuple[Cells, float]:
    """Cells between the y at which ln(dP/dQ) = kη, and how far, at most, the edges' own ratio is from e^{kη}."""
    wanted = points * step
    y, miss = _inverse(wanted.astype(shift.dtype), present, absent, shift, unit)
    absent_mass, absent_error, relative_absent = _masses(y, absent, -1, shift, unit)
    present_mass, present_error, relative_present = _masses(y, present, 1, shift, unit)
    ratio = np.exp(wanted)
    error = float(np.max(absent_error * np.maximum(1.0, ratio))) + float(np.max(present_error / np.minimum(1.0, ratio)))
    relatives = relative_absent + 4 * unit, relative_present + 4 * unit
    return Cells(ratio, absent_mass, present_mass, error + 4 * unit, *relatives), miss


def _inverse(wanted: Array, present: Weights, absent: Weights, shift: Any, unit: float) -> tuple[Array, float]:
    """y with ln(dP/dQ)(y) = wanted: −inf where the ratio is larger everywhere, +inf where it is smaller."""
    low = np.full(wanted.shape, -60.0 - (len(absent) - 1) * float(shift)).astype(wanted.dtype)
    high = np.full(wanted.shape, 60.0 + (len(present) - 1) * float(shift)).astype(wanted.dtype)
    below = log_ratio(low, present, absent, shift) >= wanted
    above = log_ratio(high, present, absent, shift) <= wanted
    for _ in range(56 if unit == UNIT else 68):
        middle = (low + high) / 2
        smaller = log_ratio(middle, present, absent, shift) < wanted
        low, high = np.where(smaller, middle, low), np.where(smaller, high, middle)
    found = (low + high) / 2
    inner = ~(below | above)
    miss = float(np.max(np.abs(log_ratio(found, present, absent, shift) - wanted)[inner], initial=0.0))
    found = np.where(below, -np.inf, np.where(above, np.inf, found))
    exponents = 60 * (len(present) + len(absent)) * float(shift)
    return found, miss + (64 + 8 * exponents) * unit  # the rounding of log_ratio itself


def _masses(y: Array, weights: Weights, sign: int, shift: Any, unit: float) -> tuple[Array, Array, float]:
    """Masses of the cells between the edges y under Σ_i w_i N(±i·shift, 1), the error of the smaller tail at each
    edge, and the largest error of the lower tail relative to that tail."""
    masses, error, lower = np.zeros(len(y) - 1, dtype=y.dtype), np.zeros(len(y)), np.zeros(len(y))
    for i, weight in enumerate(weights):
        z = y - sign * i * shift
        size = np.where(np.isfinite(y), np.abs(y), 0.0).astype(float)
        below, above, own = normal_tails(z, 2 * unit * (size + i * float(shift)))
        cells = np.where(z[:-1] < 0, below[1:] - below[:-1], above[:-1] - above[1:])
        masses += weight * np.maximum(cells, 0.0)
        error += weight * own.astype(float)
        lower += weight * below.astype(float)
    reached = lower > 0
    return masses, error, float(np.max(error[reached] / lower[reached], initial=0.0))
