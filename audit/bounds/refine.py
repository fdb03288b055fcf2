"""Refining an interval to a requested width: coarse grid first, then the one that its gap calls for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from .interval import Interval
from .lattice import MemoryLimit
from .profile import Profile
from .ratio_law import RatioLaw
from .rounding import EXTENDED

COARSEST = 0.05
TAIL = 1e-13
LONGEST = 1 << 22  # longest transform: at its peak about 0.7 GiB, and seconds
FITS = 1.3  # between a grid that fits and one this much finer that does not, nothing is tried


class Composed(Protocol):
    """A mechanism that is the composition of independent parts, each with a law on one log lattice."""

    def parts(
        self, resolution: float, tail: float, longest: int, extended: bool = False
    ) -> Sequence[tuple[RatioLaw, int]]: ...


@lru_cache(maxsize=6)
def profile_of(mechanism: Any, resolution: float, extended: bool = False) -> Profile:
    """The mechanism's profile on a grid; the last few are kept, since accuracy, ε and TPR share them."""
    longest = LONGEST // 2 if extended else LONGEST
    return Profile(mechanism.parts(resolution, TAIL, longest, extended), TAIL, longest)


def refine(
    mechanism: Composed,
    question: Callable[[Profile], Interval],
    start: Interval,
    excess: Callable[[Interval], float],
    fallback: Callable[[], Any] | None = None,
) -> Interval:
    """Intersect ever finer answers to `question` with `start` until `excess` (width over the requested width) is ≤ 1.

    Where rounding, not the grid, sets the width, it goes on in extended precision (some five times the work), if the
    platform has it. Stops as well where memory ends or where that no longer helps; then `fallback`, another upper end,
    is asked too, and the remark says what was missed. Every answer contains the exact value, so their intersection
    does, and it can only shrink.
    """
    best = start
    resolution = previous = COARSEST
    last = math.inf
    extended = False
    reason = ""
    while excess(best) > 1:
        try:
            found = question(profile_of(mechanism, resolution, extended))
        except MemoryLimit:
            reason = "a finer lattice exceeds the memory allowed"
            if previous <= FITS * resolution or extended:
                break
            resolution = math.sqrt(previous * resolution)
            continue
        best = best.intersection(found)
        gap = excess(best)
        if gap > 0.8 * last:  # finer grids no longer help
            if extended or reason or not EXTENDED:
                reason = reason or "rounding of the transforms sets it, not the lattice"
                break
            extended, resolution, last = True, previous, math.inf
            continue
        last = min(last, gap)
        previous = resolution
        shrink = 0.8 * math.sqrt(1.0 / gap) if 0 < gap < math.inf else 0.25
        resolution *= min(0.6, max(0.15, shrink))
    if fallback is not None and excess(best) > 1:
        best = best.intersection(Interval(best.lower, np.maximum(best.lower, fallback())[()]))
    return best.remarked(missed_width(excess(best), reason))


def missed_width(gap: float, reason: str) -> str | None:
    """The remark of an interval `gap` times as wide as asked for; None where that is at most once."""
    if gap <= 1:
        return None
    return f"{gap:.2g} times as wide as was asked for: {reason}"
