"""One epoch of random allocation: the law of S = (X_1 + … + X_M)/M, moved to the log lattice, both sides of a bound.

Upper side. Every functional used is convex and non-increasing in each X_i and in S, so a mean-preserving spread of X_i
onto a lattice hℤ can only raise it (convex order; Madansky 1959, and Lemma C.5 of arXiv:2610.09651); so can the
spread of S onto the log lattice. Lower side. The cell numbers K_i = ⌊X_i/h⌋ are a statistic of the observation, their
sum T another, its bin on the log lattice a third: none can tell P from Q better than the observation itself.

Both tails. For small σ, X reaches values that no lattice fine enough for its bulk can hold, and S values so small that
it would take them for 0. The observation is therefore classified by its largest X: level ℓ, of either sign, if max X
lies in [8^{ℓ−1}c, 8^ℓ c), with a lattice 8^ℓ times level 0's; the lowest level has no lower end. The level is a
function of the observation, the same for both laws and symmetric in the steps; the part of the law that is its own:

    (law of X below 8^ℓ c)^{*M} − (law of X below 8^{ℓ−1} c)^{*M},

both powers on the level's own lattice, and it sits above 8^{ℓ−1}c. With the record in one step (law P), one of the M
factors is that step's law; all positions give the same. Where S < 1 (S ≥ 1) the law under Q (under P) is computed and
the other is it times (over) the ratio, so that neither is ever a small difference of large numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from .closed_form import chi_square, sharp_total_variation
from .lattice import Measure, MemoryLimit, powers
from .ratio_law import Collector, RatioLaw
from .rounding import UNIT
from .step_law import Cells, clip_cost, edge_of_absent_tail, edge_of_present_tail, spread, step_cells, trimmed

Array = NDArray[Any]

LARGEST_LOG = 600.0  # e^600: X beyond this is out of reach of double arithmetic with products of two such values
FINE = 0.25  # how fine the lattice is to be where S is smallest, in units of its fineness at S = 1
RATIO = 8  # each level is this much coarser than the one before


@dataclass(frozen=True)
class Part:
    """A level's part of the law: values (k,) of S·M and their masses, with errors as in `lattice.Measure`."""

    values: Array
    mass: Array
    two: float
    rest: float


def ratio_scale(steps: int, noise_multiplier: float) -> float:
    """The scale of X that matters for the sum of M of them: its standard deviation, unless a few rare values make it.

    The law of S is about as wide as 2.5 times its total variation gain; used to choose grids, nothing else.
    """
    inverse_square = 1.0 / noise_multiplier / noise_multiplier
    deviation = math.sqrt(math.expm1(min(inverse_square, 700.0)))
    return min(deviation, 2.5 * math.sqrt(steps) * sharp_total_variation(chi_square(steps, 1, noise_multiplier)))


def allocation_step(steps: int, noise_multiplier: float, resolution: float) -> float:
    """The step of the log lattice: `resolution` of an epoch's scale."""
    return trimmed(resolution * ratio_scale(steps, noise_multiplier) / math.sqrt(steps))


def finer_levels(steps: int, noise_multiplier: float, inside: float, tail: float) -> int:
    """How many levels below level 0, whose X lie below `inside`, the smallest S call for; chooses grids, nothing else.

    The smallest sum y of M ratios that counts is the largest that Chernoff's bound P(sum ≤ y) ≤ e^{θy} (E e^{−θX})^M
    puts below `tail`. No level is needed that all X reach with probability below `tail`.
    """
    shift = 1.0 / noise_multiplier
    z = np.linspace(-9, 9, 361)
    x = np.exp(np.minimum(shift * z - shift * shift / 2, 700.0))
    weight = np.exp(-z * z / 2)
    theta = np.exp(np.linspace(0, min(650.0, shift * shift / 2 + 9 * shift), 200)) * 0.1
    moments = np.exp(-theta[:, None] * x) @ (weight / weight.sum())
    with np.errstate(divide="ignore"):
        sums = (math.log(tail) - steps * np.log(moments)) / theta
    smallest = float(np.max(sums[np.isfinite(sums)], initial=math.exp(-650.0)))
    needed = max(0, math.ceil(math.log(FINE * steps / smallest) / math.log(RATIO)))
    reach = noise_multiplier * (math.log(inside) - np.arange(1, needed + 1) * math.log(RATIO)) + shift / 2
    return int(np.count_nonzero(steps * log_ndtr(reach) > math.log(tail)))


def allocation_law(
    steps: int,
    noise_multiplier: float,
    resolution: float,
    tail: float,
    longest: int,
    extended: bool,
    log_step: float,
) -> RatioLaw:
    """steps = M ≥ 1. `resolution`: lattice steps in units of the laws' own scales; the interval's width falls with its
    square. `tail`: about what each cut may remove. Raises MemoryLimit where a transform would exceed `longest`.
    `extended`: the powers, and the cells that they start from, in long double. `log_step`: of the log lattice.
    """
    scale = ratio_scale(steps, noise_multiplier)
    top_log = max(
        edge_of_present_tail(tail, noise_multiplier), edge_of_absent_tail(tail / steps, noise_multiplier, upper=True)
    )
    if top_log > LARGEST_LOG:
        raise MemoryLimit
    top = math.exp(top_log)
    width = trimmed(resolution * scale)
    bulk = 1 + 4 * max(2.0, math.sqrt(steps)) * scale
    bulk = top if top < 2 * bulk else bulk  # one level where it is nearly enough
    smallest = math.exp(edge_of_absent_tail(tail / steps, noise_multiplier))  # the lowest grid starts here
    cells = RATIO * math.ceil(bulk / (RATIO * width))
    if cells - math.floor(smallest / width) > longest:
        raise MemoryLimit
    highest = max(0, math.ceil(math.log(top / (cells * width)) / math.log(RATIO) - 1e-9))
    lowest = -finer_levels(steps, noise_multiplier, cells * width, tail)
    levels = highest - lowest + 1

    upper_low: list[Part] = []  # absent masses where S < 1
    upper_high: list[Part] = []  # present masses where S ≥ 1
    lower_parts: list[tuple[str, Part]] = []
    zero = base_error = mean_error = clip_error = tilted_error = 0.0
    for level in range(lowest, highest + 1):
        h = width * float(RATIO) ** level
        start, inner = (0, cells // RATIO) if level > lowest else (math.floor(smallest / h), 0)
        law = step_cells(h * np.arange(start, cells + 1), noise_multiplier, extended)
        above, below, clipped = _upper_level(law, h, start, inner, steps, tail, longest)
        if len(below.values) and below.values[0] == 0:
            zero += float(below.mass[0]) + below.two + below.rest
            below = _where(below, below.values > 0)
        upper_low += [below] if len(below.values) else []
        upper_high += [above] if len(above.values) else []
        # S on this level is hardly below this, so that P has that much less of it than Q, and fewer tails to spare
        smallness = min(1.0, max(smallest, h * cells / (RATIO if level > lowest else RATIO**3) / steps))
        parts, rounding = _lower_level(law, h, start, inner, steps, tail * smallness, longest)
        lower_parts += [(kind, part) for kind, part in parts if len(part.values)]
        tilted_error += rounding
        base_error += 4 * steps * law.error
        mean_error += 2 * law.error
        clip_error += clipped

    upper_absent, upper_present = _upper_bins(upper_low, upper_high, steps, log_step)
    reach = log_step * max(abs(upper_absent.start), abs(upper_absent.end))
    lower_absent, lower_present, absent_tilted, present_tilted = _lower_bins(lower_parts, steps, log_step)
    return RatioLaw(
        log_step,
        upper_absent,
        upper_present,
        lower_absent,
        lower_present,
        absent_tilted,
        replace(present_tilted, rest=present_tilted.rest + tilted_error),
        # each level: two windows of 3·tail (below and above S = 1); ends of X: one tail each, under Q and under P;
        # e^{η/2}: a tilted mass is moved to the nearest bin
        missing=(6 * levels + 3) * tail * math.exp(log_step),
        zero=zero,
        base_error=base_error,
        mean_error=mean_error + (16 + 8 * reach) * UNIT,
        clip_error=clip_error,
        extended=extended,
    )


# ----------------------------------------------------------------------------------------------- the sum of M ratios


def _upper_level(
    law: Cells, h: float, start: int, inner: int, steps: int, tail: float, longest: int
) -> tuple[Part, Part, float]:
    """Present masses where S ≥ 1, absent masses where S < 1, and what clipping costs, for one level."""
    full, raised = spread(law)
    bases, cost = [full], clip_cost(raised, law.edges[1:], steps)
    if inner:
        small, raised = spread(law.below(inner))
        cost += clip_cost(raised, law.edges[1 : inner + 1], steps)
        bases.append(small)
    absents, presents = [], []
    for base in bases:
        absent, present = Measure(start, base), Measure(start, law.edges[: len(base)] * base)
        laws = powers(absent, steps - 1, [absent, present], tail, longest)
        absents.append(laws[0])
        presents.append(laws[1])
    high, low = _part(presents, h, inner, 0.0, tail), _part(absents, h, inner, 0.0, tail)
    return _where(high, high.values >= steps), _where(low, low.values < steps), cost


def _lower_level(
    law: Cells, h: float, start: int, inner: int, steps: int, tail: float, longest: int
) -> tuple[list[tuple[str, Part]], float]:
    """Absent and present masses where S < 1, present and S·absent where S ≥ 1; and the error of present/S that the
    rounding of cell masses makes.

    T = Σ K_i stands for the value hT + Mb, b the mean of X − hK, so that a step's share hK + b is right on average.
    All four lack the same observations, those whose T lies outside one window.

    The error of present/S. Of a region {T ≤ j} the P-mass is, as a function of any one step's cell, an integral of a
    non-increasing weight, so what rounding does to it is at most `relative` times the mass itself. A level's region
    {i ≤ T ≤ j} is the difference of two of them, and S is at most (1 + M/i)·hi/M on {T < i} and at most (1 + M/i)
    times its value on the rest, so either is at most (1 + M/i) times a Q-mass after division by S. Two powers, full
    and inner, make it four.
    """
    offset = float((law.present - law.edges[:-1] * law.absent).sum()) / float(law.absent.sum())
    share = law.edges[:-1] + offset
    absents, presents, tilteds = [], [], []
    for n in [len(law.absent)] + ([inner] if inner else []):
        absent = Measure(start, law.absent[:n])
        firsts = [absent, Measure(start, law.present[:n]), Measure(start, share[:n] * law.absent[:n])]
        laws = powers(absent, steps - 1, firsts, tail, longest, one_region=True)
        for found, law_of_sum in zip((absents, presents, tilteds), laws, strict=True):
            found.append(law_of_sum)
    absent, present, tilted = (_part(found, h, inner, steps * offset, tail) for found in (absents, presents, tilteds))
    lowest = max(1, inner, absents[0].start)
    rounding = 4 * (law.relative_present + steps * law.relative_absent) * (1 + steps / lowest)
    parts = [
        ("absent", _where(absent, absent.values < steps)),
        ("present", _where(present, present.values < steps)),
        ("present", _where(present, present.values >= steps)),
        ("tilted", _where(tilted, tilted.values >= steps)),
    ]
    return parts, rounding


def _part(found: list[Measure], h: float, inner: int, shift: float, tail: float) -> Part:
    """The full base's power minus the inner one's, above `inner`; cut tails of the latter count as error."""
    full = found[0]
    start = min(max(full.start, inner), full.end)
    mass = full.mass[start - full.start :].copy()
    two, rest = full.spread(np.ones(1)), full.rest
    if inner:
        small = found[1]
        low, high = max(start, small.start), min(full.end, small.end)
        if high > low:
            mass[low - start : high - start] -= small.mass[low - small.start : high - small.start]
            np.maximum(mass, 0.0, out=mass)
        two, rest = two + small.spread(np.ones(1)), rest + small.rest + 3 * tail
    values = h * np.arange(start, start + len(mass), dtype=float) + shift
    return Part(values, mass.astype(float), two, rest)


def _where(part: Part, chosen: NDArray[np.bool_]) -> Part:
    return Part(part.values[chosen], part.mass[chosen], part.two, part.rest)


# -------------------------------------------------------------------------------------------------- to the log lattice


def _upper_bins(low: list[Part], high: list[Part], steps: int, step: float) -> tuple[Measure, Measure]:
    """Each point x between e^{kη} and e^{(k+1)η} goes to both with the weights that keep the mean."""
    first = min(math.floor(math.log(p.values[0] / steps) / step) for p in low + high) - 1
    last = max(math.floor(math.log(p.values[-1] / steps) / step) for p in low + high) + 2
    absent, present = Collector(first, last), Collector(first, last)
    growth = math.expm1(step)
    half = math.sqrt(0.5)  # shares a and 1 − a of an error vector: their norms add up to at most √2 of its norm
    for parts, given, derived, sign in ((low, absent, present, 1.0), (high, present, absent, -1.0)):
        for part in parts:
            logs = np.log(part.values / steps)
            bins = np.floor(logs / step)
            rest = logs - bins * step
            right = np.clip(np.expm1(rest) / growth, 0.0, 1.0)
            if sign < 0:  # masses under P: the share of the right neighbour, in P's own terms
                right = np.clip(right * np.exp(step - rest), 0.0, 1.0)
            rounding = (17 + 4 * float(np.max(np.abs(logs)))) * UNIT
            for target, share in ((bins, 1.0 - right), (bins + 1, right)):
                given.add(target, share * part.mass, part.two * half, part.rest / 2, rounding)
                factor = np.exp(sign * target * step)
                worst = float(factor.max())
                derived.add(
                    target, share * part.mass * factor, part.two * half * worst, part.rest / 2 * worst, rounding
                )
    return absent.measure(), present.measure()


def _lower_bins(parts: list[tuple[str, Part]], steps: int, step: float) -> tuple[Measure, Measure, Measure, Measure]:
    """Absent, present, absent·e^{kη}, present·e^{−kη} on the bins nearest to ln(value)."""
    first = min(round(math.log(part.values[0] / steps) / step) for _, part in parts) - 1
    last = max(round(math.log(part.values[-1] / steps) / step) for _, part in parts) + 1
    absent, present, absent_tilted, present_tilted = (Collector(first, last) for _ in range(4))
    for kind, part in parts:
        logs = np.log(part.values / steps)
        bins = np.rint(logs / step)
        growth = np.exp(bins * step)
        rounding = (17 + 4 * float(np.max(np.abs(logs)))) * UNIT

        def add(target: Collector, factor: Array, part: Part = part, bins: Array = bins, r: float = rounding) -> None:
            worst = float(factor.max())
            target.add(bins, part.mass * factor, part.two * worst, part.rest * worst, r)

        if kind == "present":
            add(present, np.ones_like(growth))
            add(present_tilted, 1.0 / growth)
        elif kind == "absent":
            add(absent, np.ones_like(growth))
            add(absent_tilted, growth)
        else:  # S·absent: back to absent by the value itself, then to the tilted measure by the bin
            add(absent, steps / part.values)
            add(absent_tilted, steps / part.values * growth)
    return absent.measure(), present.measure(), absent_tilted.measure(), present_tilted.measure()
