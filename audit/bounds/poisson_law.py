"""One step of Poisson subsampling: the law of 1 − q + qX on the log lattice, both sides of a bound.

Pair: Q = N(0, σ²) against P = (1 − q)N(0, σ²) + q N(1, σ²), ratio dP/dQ = 1 − q + qX with X as in `step_law`. The two
sides are those of `allocation_law`, in one dimension: a mean-preserving spread onto the lattice points for the upper
law, the cell number around each lattice point as a statistic for the lower one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from .lattice import Measure, MemoryLimit
from .ratio_law import RatioLaw
from .rounding import UNIT
from .step_law import clip_cost, edge_of_absent_tail, edge_of_present_tail, spread, step_cells, trimmed

Array = NDArray[Any]

LARGEST_LOG = 600.0
REACH_POINTS = 600  # the lattice has at most about this many points, divided by the resolution


def poisson_step(sampling_rate: float, noise_multiplier: float, resolution: float) -> float:
    """The step of the log lattice: `resolution` of one step's scale."""
    inverse_square = 1.0 / noise_multiplier / noise_multiplier
    gain = sampling_rate * (2 * float(ndtr(1 / (2 * noise_multiplier))) - 1)  # total variation of one step, exactly
    scale = min(sampling_rate * math.sqrt(math.expm1(min(inverse_square, 700.0))), 2.5 * gain)
    # where large ratios are rare, a lattice as fine as one step's own scale would have more points than are of use
    top = min(edge_of_present_tail(1e-16, noise_multiplier), LARGEST_LOG)
    reach = math.log1p(sampling_rate * math.expm1(top))
    return trimmed(resolution * max(scale, reach / REACH_POINTS))


def poisson_law(
    sampling_rate: float, noise_multiplier: float, tail: float, longest: int, extended: bool, step: float
) -> RatioLaw:
    """0 < sampling_rate ≤ 1 (1: the Gaussian mechanism). `tail`, `longest`, `extended` as in `allocation_law`;
    `step`: of the log lattice.
    """
    rate = sampling_rate
    top = edge_of_present_tail(tail, noise_multiplier)
    bottom = edge_of_absent_tail(tail, noise_multiplier)
    if top > LARGEST_LOG:
        raise MemoryLimit
    last = math.ceil(math.log1p(rate * math.expm1(top)) / step) + 1
    first = math.floor(math.log1p(rate * math.expm1(bottom)) / step) - 1
    if last - first > longest:
        raise MemoryLimit

    points = np.arange(first, last + 1, dtype=float)
    law = step_cells(_edges(points, step, rate), noise_multiplier, extended)
    absent, raised = spread(law)
    rounding = (8 + 4 * step * max(abs(first), abs(last))) * UNIT
    upper_absent = Measure(first, absent)
    upper_present = Measure(first, absent * np.exp(points * step), relative=rounding)

    bins = np.arange(first, last, dtype=float)
    cells = step_cells(_edges(np.arange(first, last + 1) - 0.5, step, rate), noise_multiplier, extended)
    with_record = (1 - rate) * cells.absent + rate * cells.present
    growth = np.exp(bins * step)
    # a region of small ratios is monotone in the noise, so what rounding does to its P-mass is relative to that mass
    relative = rounding + 2 * max(cells.relative_absent, cells.relative_present)
    return RatioLaw(
        step,
        upper_absent,
        upper_present,
        lower_absent=Measure(first, cells.absent),
        lower_present=Measure(first, with_record, relative=rounding),
        lower_absent_tilted=Measure(first, cells.absent * growth, relative=rounding),
        lower_present_tilted=Measure(first, with_record / growth, relative=relative),
        missing=3 * tail,
        zero=0.0,
        base_error=4 * (law.error + cells.error),
        mean_error=2 * law.error + 2 * rounding,
        clip_error=clip_cost(rate * raised, np.exp(points[1:] * step), 1),
        extended=extended,
    )


def _edges(points: Array, step: float, rate: float) -> Array:
    """x at which 1 − q + qx = e^{kη}. The doubles returned are the edges; e^{kη} fits them to a few u."""
    return 1.0 + np.expm1(points * step) / rate
