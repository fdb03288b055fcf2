"""One epoch of random allocation: the law of S = (X_1 + … + X_M)/M, moved to the log lattice, both sides of a bound.

Upper side. Every functional used is convex and non-increasing in each X_i and in S, so a mean-preserving spread of X_i
onto a lattice hℤ can only raise it (convex order; Madansky 1959, and Lemma C.5 of arXiv:2610.09651); so can the
spread of S onto the log lattice. Lower side. The cell numbers K_i = ⌊X_i/h⌋ are a statistic of the observation, their
sum T another, its bin on the log lattice a third: none can tell P from Q better than the observation itself.

Heavy tails. For small σ, X reaches values that no lattice fine enough for its bulk can hold. The observation is
therefore classified by its largest X: level 0 if max X < c, level ℓ if max X lies in [8^{ℓ−1}c, 8^ℓ c), and on level ℓ
the lattice is 8^ℓ times coarser. The level is a function of the observation, the same for both laws and symmetric in
the steps; the part of the law that belongs to it is

    (law of X below 8^ℓ c)^{*M} − (law of X below 8^{ℓ−1} c)^{*M},

both powers on the level's own lattice, and it sits above 8^{ℓ−1}c. With the record in one step (law P), one of the M
factors is that step's law; all positions give the same. Where S < 1 (S ≥ 1) the law under Q (under P) is computed and
the other is it times (over) the ratio, so that neither is ever a small difference of large numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .closed_form import chi_square, sharp_total_variation
from .lattice import Measure, MemoryLimit, powers
from .ratio_law import Collector, RatioLaw
from .rounding import UNIT
from .step_law import Cells, edge_of_absent_tail, edge_of_present_tail, spread, step_cells, trimmed

Array = NDArray[np.float64]

LARGEST_LOG = 600.0  # e^600: X beyond this is out of reach of double arithmetic with products of two such values
RATIO = 8  # each level is this much coarser than the one before


@dataclass(frozen=True)
class Part:
    """A level's part of the law: values (k,) of S·M, its absent (Q) or present (P) masses and their ‖·‖₁ error."""

    values: Array
    mass: Array
    error: float


def ratio_scale(steps: int, noise_multiplier: float) -> float:
    """The scale of X that matters for the sum of M of them: its standard deviation, unless a few rare values make it.

    The law of S is about as wide as 2.5 times its total variation gain; used to choose grids, nothing else.
    """
    inverse_square = 1.0 / noise_multiplier / noise_multiplier
    deviation = math.sqrt(math.expm1(min(inverse_square, 700.0)))
    return min(deviation, 2.5 * math.sqrt(steps) * sharp_total_variation(chi_square(steps, 1, noise_multiplier)))


def allocation_law(steps: int, noise_multiplier: float, resolution: float, tail: float, longest: int) -> RatioLaw:
    """steps = M ≥ 1. `resolution`: lattice steps in units of the laws' own scales; the interval's width falls with its
    square. `tail`: about what each cut may remove. Raises MemoryLimit where a transform would exceed `longest`.
    """
    scale = ratio_scale(steps, noise_multiplier)
    top_log = edge_of_present_tail(tail, noise_multiplier)
    if top_log > LARGEST_LOG:
        raise MemoryLimit
    top = math.exp(top_log)
    width = trimmed(resolution * scale)
    bulk = max(math.exp(min(edge_of_present_tail(1e-3, noise_multiplier), 100.0)), 4 * math.sqrt(steps) * scale)
    bottom = math.floor(math.exp(edge_of_absent_tail(tail / steps, noise_multiplier)) / width)  # grid starts here
    cells = RATIO * math.ceil(min(top, bulk) / (RATIO * width))
    if cells - bottom > longest:
        raise MemoryLimit
    levels = max(1, 1 + math.ceil(math.log(top / (cells * width)) / math.log(RATIO) - 1e-9))
    log_step = trimmed(resolution * scale / math.sqrt(steps))

    upper_low: list[Part] = []  # absent masses where S < 1
    upper_high: list[Part] = []  # present masses where S ≥ 1
    lower_parts: list[tuple[str, Part]] = []
    base_error = mean_error = clip_error = absent_missing = present_missing = 0.0
    for level in range(levels):
        h = width * float(RATIO) ** level
        start = 0 if level else bottom
        law = step_cells(h * np.arange(start, cells + 1), noise_multiplier)
        inner = cells // RATIO if level else 0
        above, below, defect = _upper_level(law, h, start, inner, steps, tail, longest)
        upper_low += [below] if len(below.values) else []
        upper_high += [above] if len(above.values) else []
        parts, missing = _lower_level(law, h, start, inner, steps, tail, longest)
        lower_parts += [(kind, part) for kind, part in parts if len(part.values)]
        absent_missing += missing[0]
        present_missing += missing[1]
        base_error += 4 * steps * law.error
        mean_error += 2 * law.error
        clip_error += defect

    upper_absent, upper_present = _upper_bins(upper_low, upper_high, steps, log_step)
    reach = log_step * max(abs(upper_absent.start), abs(upper_absent.start + len(upper_absent.mass)))
    lower = _lower_bins(lower_parts, steps, log_step)
    return RatioLaw(
        log_step,
        upper_absent,
        upper_present,
        *lower,
        lower_absent_missing=absent_missing * math.exp(log_step / 2) * (1 + 1e-9),
        lower_present_missing=present_missing,
        base_error=base_error,
        mean_error=mean_error + (16 + 8 * reach) * UNIT,
        clip_error=clip_error,
    )


# ----------------------------------------------------------------------------------------------- the sum of M ratios


def _upper_level(
    law: Cells, h: float, start: int, inner: int, steps: int, tail: float, longest: int
) -> tuple[Part, Part, float]:
    """Present masses where S ≥ 1, absent masses where S < 1, and the spread's defect, for one level."""
    full, defect = spread(law)
    bases = [full]
    if inner:
        small, _ = spread(Cells(law.edges[: inner + 1], law.absent[:inner], law.present[:inner], law.error))
        bases.append(small)
    absents, presents = [], []
    for absent in bases:
        present = law.edges[: len(absent)] * absent
        laws = powers(
            Measure(start, absent), steps - 1, [Measure(start, absent), Measure(start, present)], tail, longest
        )
        absents.append((laws[0], _power_total(absent, absent, steps)))
        presents.append((laws[1], _power_total(present, absent, steps)))
    high, low = _part(presents, h, inner, 0.0), _part(absents, h, inner, 0.0)
    return _where(high, high.values >= steps), _where(low, (low.values < steps) & (low.values > 0)), defect


def _lower_level(
    law: Cells, h: float, start: int, inner: int, steps: int, tail: float, longest: int
) -> tuple[list[tuple[str, Part]], tuple[float, float]]:
    """Absent and present masses where S < 1, present and S·absent where S ≥ 1; what S·absent and present lack in all.

    T = Σ K_i stands for the value hT + Mb, b the mean of X − hK, so that h K + b, the step's share, is right on average.
    """
    total = float(law.absent.sum())
    offset = float((law.present - law.edges[:-1] * law.absent).sum()) / total
    share = law.edges[:-1] + offset
    cells: list[int] = [len(law.absent)] + ([inner] if inner else [])
    absents, presents, tilteds = [], [], []
    for n in cells:
        absent, present = law.absent[:n], law.present[:n]
        tilted = share[:n] * absent
        firsts = (absent, present, tilted)
        laws = powers(Measure(start, absent), steps - 1, [Measure(start, first) for first in firsts], tail, longest)
        for found, first, law_of_sum in zip((absents, presents, tilteds), firsts, laws, strict=True):
            found.append((law_of_sum, _power_total(first, absent, steps)))
    shift = steps * offset
    absent, present, tilted = (_part(found, h, inner, shift) for found in (absents, presents, tilteds))
    below, above = absent.values < steps, tilted.values >= steps
    kept_tilted = float((absent.mass * absent.values)[below].sum()) / steps + float(tilted.mass[above].sum())
    kept_present = float(present.mass.sum())
    rounding = (8 * steps + 64) * UNIT
    missing = (
        max(0.0, _ideal(tilteds) - kept_tilted) + rounding + absent.error + tilted.error,
        max(0.0, _ideal(presents) - kept_present) + rounding + present.error,
    )
    parts = [
        ("absent", _where(absent, below)),
        ("present", _where(present, present.values < steps)),
        ("present", _where(present, present.values >= steps)),
        ("tilted", _where(tilted, above)),
    ]
    return parts, missing


Found = list[tuple[Measure, float]]  # the power of the full base and of the inner one, each with its ideal total


def _power_total(first: Array, rest: Array, steps: int) -> float:
    """Total of first * rest^{*(M−1)} in exact arithmetic, to a relative (M + 64)u·2."""
    total = float(rest.sum())
    return float(first.sum()) * (math.exp((steps - 1) * math.log(total)) if total > 0 else float(steps == 1))


def _ideal(found: Found) -> float:
    return found[0][1] - (found[1][1] if len(found) > 1 else 0.0)


def _part(found: Found, h: float, inner: int, shift: float) -> Part:
    """Full minus inner, above `inner`. Cut tails of the inner power would be counted twice: they widen the error."""
    full = found[0][0]
    start = max(full.start, inner)
    mass = full.mass[start - full.start :].copy()
    error = full.error
    if inner:
        small, ideal = found[1]
        low, high = max(start, small.start), min(start + len(mass), small.start + len(small.mass))
        if high > low:
            mass[low - start : high - start] -= small.mass[low - small.start : high - small.start]
            np.maximum(mass, 0.0, out=mass)
        lost = max(0.0, ideal - small.total) + 4 * len(small.mass).bit_length() * UNIT
        error += small.error + lost
    values = h * np.arange(start, start + len(mass), dtype=float) + shift
    return Part(values, mass, error)


def _where(part: Part, chosen: NDArray[np.bool_]) -> Part:
    return Part(part.values[chosen], part.mass[chosen], part.error)


# -------------------------------------------------------------------------------------------------- to the log lattice


def _upper_bins(low: list[Part], high: list[Part], steps: int, step: float) -> tuple[Measure, Measure]:
    """Each point x between e^{kη} and e^{(k+1)η} goes to both with the weights that keep the mean."""
    first = min(math.floor(math.log(p.values[0] / steps) / step) for p in low + high) - 1
    last = max(math.floor(math.log(p.values[-1] / steps) / step) for p in low + high) + 2
    absent, present = Collector(first, last), Collector(first, last)
    growth = math.expm1(step)
    for parts, given, derived, sign in ((low, absent, present, -1.0), (high, present, absent, 1.0)):
        for part in parts:
            logs = np.log(part.values / steps)
            bins = np.floor(logs / step)
            rest = logs - bins * step
            right = np.clip(np.expm1(rest) / growth, 0.0, 1.0)
            if sign > 0:  # masses under P: the share of the right neighbour, in P's own terms
                right = np.clip(right * np.exp(step - rest), 0.0, 1.0)
            for target, share in ((bins, 1.0 - right), (bins + 1, right)):
                given.add(target, share * part.mass, part.error / 2)
                factor = np.exp(-sign * target * step)
                derived.add(target, share * part.mass * factor, part.error / 2)
    return absent.measure(), present.measure()


def _lower_bins(parts: list[tuple[str, Part]], steps: int, step: float) -> tuple[Measure, Measure, Measure, Measure]:
    """Absent, present, absent·e^{kη}, present·e^{−kη} on the bins nearest to ln(value)."""
    first = min(round(math.log(part.values[0] / steps) / step) for _, part in parts) - 1
    last = max(round(math.log(part.values[-1] / steps) / step) for _, part in parts) + 1
    absent, present, absent_tilted, present_tilted = (Collector(first, last) for _ in range(4))
    for kind, part in parts:
        bins = np.rint(np.log(part.values / steps) / step)
        growth = np.exp(bins * step)
        if kind == "present":
            plain, tilted, mass, factor = present, present_tilted, part.mass, 1.0 / growth
        elif kind == "absent":
            plain, tilted, mass, factor = absent, absent_tilted, part.mass, growth
        else:  # S·absent: back to absent by the value itself, then to the tilted measure by the bin
            exact = steps / part.values
            absent.add(bins, part.mass * exact, part.error * float(exact.max()))
            absent_tilted.add(bins, part.mass * (exact * growth), part.error * float((exact * growth).max()))
            continue
        plain.add(bins, mass, part.error)
        tilted.add(bins, mass * factor, part.error * float(factor.max()))
    return absent.measure(), present.measure(), absent_tilted.measure(), present_tilted.measure()
