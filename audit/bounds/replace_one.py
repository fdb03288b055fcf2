"""What a mechanism's add/remove profile proves under replace-one adjacency: one record exchanged for another.

Exchanging x for x' is removing x and adding x'. If δ(e) is the worse of the two add/remove profiles, the two steps
compose (group privacy) to (2e, (1 + exp(e))·δ(e))-DP for every e >= 0, so

    epsilon(δ) <= 2e* ,   e* the smallest e with (1 + exp(e))·δ(e) <= δ.

Valid for every mechanism of this package and not tight: the pair of the exchanged record's own two distributions gives
less (for Poisson sampling, Lebeda, Regehr, Kamath and Steinke, arXiv:2405.20769).
"""

from __future__ import annotations

import math

from .interval import Interval
from .mechanism import Mechanism
from .parameters import check_delta


def replace_one_epsilon(mechanism: Mechanism, delta: float) -> Interval:
    """An interval around 2e*, itself an upper bound of the replace-one epsilon. delta > 0. Errors: InputError."""
    probability = check_delta(delta)
    if probability == 0:
        return Interval(0.0, math.inf)
    e = float(mechanism.epsilon(probability / 2).upper)
    for _ in range(8):
        if e > 500:
            return Interval(0.0, math.inf)
        after = float(mechanism.epsilon(probability / (1 + math.exp(e))).midpoint)
        if abs(after - e) <= 1e-4 * e:
            break
        e = after
    return Interval(2 * _outward(mechanism, probability, e, -1.0), 2 * _outward(mechanism, probability, e, 1.0))


def _outward(mechanism: Mechanism, delta: float, e: float, side: float) -> float:
    """From e outwards until the end is certain: above e*, δ's upper end meets the target; below, its lower end misses.

    The first tries stand one part in a thousand apart, then ever further.
    """
    for turn in range(12):
        end = e * (1 + side * 5e-4 * 2**turn)
        if end <= 0:
            return 0.0
        found = mechanism.delta(end)
        share = 1 + math.exp(end)
        if (share * found.upper <= delta) if side > 0 else (share * found.lower > delta):
            return end
    return math.inf if side > 0 else 0.0
