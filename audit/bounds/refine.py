"""Refining an interval to a requested width: coarse grid first, then the one that its gap calls for."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

from .interval import Interval
from .lattice import MemoryLimit
from .profile import Profile
from .ratio_law import RatioLaw

COARSEST = 0.05
TAIL = 1e-13
LONGEST = 1 << 23  # longest transform: about 1 GiB at its peak


class Composed(Protocol):
    """A mechanism that is the composition of `copies` identical independent parts."""

    @property
    def copies(self) -> int: ...

    def ratio_law(self, resolution: float, tail: float, longest: int) -> RatioLaw: ...


@lru_cache(maxsize=6)
def profile_of(mechanism: Any, resolution: float) -> Profile:
    """The mechanism's profile on a grid; the last few are kept, since accuracy, ε and TPR share them."""
    return Profile(mechanism.ratio_law(resolution, TAIL / mechanism.copies, LONGEST), mechanism.copies, TAIL, LONGEST)


def refine(
    mechanism: Composed,
    question: Callable[[Profile], Interval],
    start: Interval,
    excess: Callable[[Interval], float],
) -> Interval:
    """Intersect ever finer answers to `question` with `start` until `excess` (width over the requested width) is ≤ 1.

    Stops as well where memory ends or where rounding, not the grid, sets the width. Every answer contains the exact
    value, so their intersection does, and it can only shrink.
    """
    best = start
    resolution = COARSEST
    last = math.inf
    while excess(best) > 1:
        try:
            found = question(profile_of(mechanism, resolution))
        except MemoryLimit:
            break
        best = best.intersection(found)
        gap = excess(best)
        if gap > 0.8 * last:
            break  # finer grids no longer help
        last = min(last, gap)
        shrink = 0.8 * math.sqrt(1.0 / gap) if 0 < gap < math.inf else 0.25
        resolution *= min(0.6, max(0.15, shrink))
    return best
