"""The inversion of class B: "this run leaked as if the noise multiplier were at most s".

Every larger noise multiplier has a higher trade-off curve and a smaller p-value, so the rejected ones are a ray; the
statement is a one-sided confidence bound inside the claimed family, at the confidence of the test.
"""

from __future__ import annotations

import math
from collections.abc import Callable

RANGE = 64.0  # the search leaves a start value by at most this factor either way


def noise_multiplier_upper_bound(
    rejected: Callable[[float], bool], start: float, tolerance: float = 2e-3
) -> float | None:
    """The smallest found noise multiplier that is rejected, within a relative tolerance, rounded up.

    `rejected(noise_multiplier)` is the test at the wanted error. None when even start * 64 is not rejected.
    """
    if rejected(start):
        high = start
        while (low := high / 2) >= start / RANGE and rejected(low):
            high = low
        if low < start / RANGE:
            return high
    else:
        low = start
        while (high := 2 * low) <= start * RANGE and not rejected(high):
            low = high
        if high > start * RANGE:
            return None
    while high > low * (1 + tolerance):
        middle = math.sqrt(low * high)
        if rejected(middle):
            high = middle
        else:
            low = middle
    return high
