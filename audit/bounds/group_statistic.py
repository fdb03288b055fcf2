"""Groups under random allocation from below: one valid pair of data sets, one statistic, its laws on a lattice.

The pair. One data set holds a group of records whose clipped gradients are all the same vector of norm C; in the other
they are gone (add/remove), or as many others stand in their place, whose gradients are the opposite vector (replace).
Each record is used once an epoch, at a step of its own, uniformly, independently of the others. Along that vector,
over σ, a step's sum is y = c·t + Z: t = 1/σ, Z standard normal, c the number of records in the step, with their sign.

The statistic. An epoch's T = Σ K_i, K_i the number of the cell in which g(y_i) lies: g(y) = e^{ty − t²/2} for
add/remove (one record's likelihood ratio is the sum of g) and g(y) = 2 sinh(ty) e^{−t²/2} for replace, both cut off
where they get rare. Where the records fall decides its law: a mixture over the ways to write their number as a sum of
occupancies, each a convolution of cell laws. T is then sorted into bins by its own likelihood ratio. No statistic
tells two laws apart better than the observation, so all of it is valid from below, and nothing here from above.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .lattice import Measure, convolution
from .normal_tail import normal_tails
from .ratio_law import RatioLaw
from .rounding import UNIT
from .step_law import trimmed

Array = NDArray[Any]
Placements = list[tuple[float, tuple[int, ...]]]

MOST = 6  # records that are followed; a larger group reveals no less than six of its records
REACH = 6.0  # of y, in standard deviations beyond the group's shift: g is cut off there
RARE = 1e-11  # bins of the log ratio of one epoch end where this little is left
CELLS = 1 << 14
LARGEST_LOG = 14.0  # of one epoch's log ratio
TAIL = 1e-22


def group_statistic_law(
    steps: int, noise_multiplier: float, records: int, replaced: bool, resolution: float, longest: int, log_step: float
) -> RatioLaw:
    """The lower laws of a `RatioLaw` for one epoch of M = steps; its upper ones are empty and must not be asked.

    Present: `records` there; absent: gone, or replaced. Raises MemoryLimit where a transform would exceed `longest`.
    """
    k = min(records, MOST)
    present = _placements(steps, k)
    absent = [(p, tuple(-c for c in counts)) for p, counts in present] if replaced else [(1.0, ())]
    return statistic_law(steps, noise_multiplier, present, absent, resolution, longest, log_step)


def statistic_law(
    steps: int,
    noise_multiplier: float,
    present: Placements,
    absent: Placements,
    resolution: float,
    longest: int,
    log_step: float,
) -> RatioLaw:
    """The same for any two mixtures over numbers of records in steps: [(probability, (c_1, c_2, …))], the steps that
    hold them drawn at random, the others empty."""
    shift = 1.0 / noise_multiplier
    counts = {c for _, pattern in [*present, *absent] for c in pattern} | {0}
    edges, cells = _cell_edges(steps, shift, max(counts), min(counts) < 0, resolution)
    laws = {c: _cell_law(edges, cells, c * shift) for c in counts}
    p, present_error = _placed(steps, present, laws, longest)
    q, absent_error = _placed(steps, absent, laws, longest)
    return _binned(q, p, 4 * (absent_error + present_error), log_step)


def _placements(steps: int, records: int) -> Placements:
    """The ways in which records, each at a step of its own, fall together."""
    return [(_pattern_probability(steps, p), p) for p in _partitions(records, records) if len(p) <= steps]


def _cell_edges(steps: int, shift: float, k: int, replaced: bool, resolution: float) -> tuple[Array, Array]:
    """Inner edges of the cells in y, increasing, and the number of each cell: one more than edges."""
    top = k * shift + REACH
    scale = math.exp(-shift * shift / 2)

    def forward(y: float) -> float:
        return scale * (2 * math.sinh(shift * y) if replaced else math.exp(shift * y))

    # what matters of g's spread for the sum: its standard deviation without the rare large values
    y = np.linspace(-5, 5, 401)
    density = np.exp(-y * y / 2) / np.exp(-y * y / 2).sum()
    g = scale * (2 * np.sinh(shift * y) if replaced else np.exp(shift * y))
    limit = 3.0 * max(2.0, math.sqrt(steps))
    g = np.minimum(np.abs(g), limit)
    spread = math.sqrt(
        max(float((density * g * g).sum()) - (0.0 if replaced else float((density * g).sum()) ** 2), 1e-12)
    )
    width = trimmed(resolution * spread)
    last = min(math.ceil(forward(top) / width), CELLS)
    first = -last if replaced else 0
    numbers = np.arange(first, last + 1)
    values = width * (numbers[1:] - 0.5) / scale
    if replaced:
        return np.arcsinh(values / 2) / shift, numbers
    return np.log(values) / shift, numbers


def _cell_law(edges: Array, numbers: Array, mean: float) -> tuple[Measure, float]:
    """The law of the cell number of y ~ N(mean, 1), and the error of any sum of its masses over a half-line.

    The edges are the doubles themselves: any cells make a statistic. An edge less the mean is rounded once.
    """
    z = np.concatenate(([-np.inf], edges - mean, [np.inf]))
    size = np.where(np.isfinite(z), np.abs(z), 0.0)
    below, above, error = normal_tails(z, UNIT * (size + abs(mean)))
    masses = np.where(z[:-1] < 0, below[1:] - below[:-1], above[:-1] - above[1:])
    return Measure(int(numbers[0]), np.maximum(masses, 0.0)), 2 * float(np.max(error)) + 4 * UNIT


def _partitions(total: int, largest: int) -> Iterator[tuple[int, ...]]:
    if total == 0:
        yield ()
    for part in range(min(total, largest), 0, -1):
        for rest in _partitions(total - part, part):
            yield (part, *rest)


def _placed(
    steps: int, placements: Placements, laws: dict[int, tuple[Measure, float]], longest: int
) -> tuple[Measure, float]:
    """Σ over occupancy patterns of P(pattern) · (law of T given it), and the error carried from the cells."""
    parts: list[tuple[float, Measure]] = []
    error = 0.0
    for probability, pattern in placements:
        counts = Counter(pattern)
        terms = [(laws[c][0], n) for c, n in counts.items()]
        if steps > len(pattern):
            terms.append((laws[0][0], steps - len(pattern)))
        parts.append((probability, convolution(terms, TAIL, longest)))
        error += probability * (sum(n * laws[c][1] for c, n in counts.items()) + steps * laws[0][1])
    start, end = min(m.start for _, m in parts), max(m.end for _, m in parts)
    mass, variance, rest = np.zeros(end - start), 0.0, 0.0
    for probability, measure in parts:
        mass[measure.start - start : measure.end - start] += probability * measure.mass
        variance += probability * measure.spread(np.ones(1))
        rest += probability * measure.rest
    return Measure(start, mass, variance * variance, rest, (8 + 2 * len(parts)) * UNIT), error


def _pattern_probability(steps: int, pattern: tuple[int, ...]) -> float:
    """That k records thrown into M steps occupy them so: k!/Π c! · M(M−1)…/Π multiplicity! / M^k."""
    ways = math.factorial(sum(pattern)) * math.perm(steps, len(pattern))
    for c, n in Counter(pattern).items():
        ways //= math.factorial(c) ** n * math.factorial(n)
    return ways / steps ** sum(pattern)


def _binned(absent: Measure, present: Measure, error: float, step: float) -> RatioLaw:
    """Both laws by bins of ln(present/absent), a step apart. Where one law has nothing to speak of, the last bin."""
    start, end = min(absent.start, present.start), max(absent.end, present.end)
    q, p = np.zeros(end - start), np.zeros(end - start)
    q[absent.start - start : absent.end - start] = absent.mass
    p[present.start - start : present.end - start] = present.mass
    has_q, has_p = q > 1e-15 * q.max(), p > 1e-15 * p.max()
    known = np.flatnonzero(has_q | has_p)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(has_q, np.where(has_p, np.log(p / q), -LARGEST_LOG), LARGEST_LOG)[known]
    # the last bins are those beyond which either law has next to nothing: what is counted there costs too many digits
    order = np.argsort(logs)
    low_end = float(logs[order][np.searchsorted(np.cumsum(q[known][order]), RARE)])
    high_end = float(logs[order[::-1]][np.searchsorted(np.cumsum(p[known][order[::-1]]), RARE)])
    low = math.floor(max(low_end, -LARGEST_LOG) / step) - 1
    high = math.ceil(min(high_end, LARGEST_LOG) / step) + 1
    bins = np.clip(np.rint(np.interp(np.arange(end - start), known, logs) / step), low, high).astype(np.int64)
    points = np.arange(low, high + 1, dtype=float)
    counts = np.bincount(bins - low, minlength=high - low + 1).astype(float)
    worst = math.exp(step * max(abs(low), abs(high)))

    def measure(mass: Array, of: Measure, sign: float) -> Measure:
        factor = np.exp(sign * step * points)
        found = np.bincount(bins - low, mass, minlength=high - low + 1) * factor
        two = of.spread(np.ones(1))
        rounding = of.relative + (len(mass) + 16 + 4 * math.log(worst)) * UNIT
        return Measure(low, found, two * two * counts * factor * factor, of.rest * float(factor.max()), rounding)

    nothing = Measure(0, np.zeros(1))
    return RatioLaw(
        step,
        nothing,
        nothing,
        lower_absent=measure(q, absent, 0.0),
        lower_present=measure(p, present, 0.0),
        lower_absent_tilted=measure(q, absent, 1.0),
        lower_present_tilted=measure(p, present, -1.0),
        missing=4 * TAIL * worst,
        zero=0.0,
        base_error=error * worst,
        mean_error=0.0,
        clip_error=0.0,
    )
