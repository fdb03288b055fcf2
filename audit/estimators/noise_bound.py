"""The inversion of class B: "this run leaked as if the noise multiplier were at most s".

Every larger noise multiplier has a higher trade-off curve and a smaller p-value, so the rejected ones are a ray; the
statement is a one-sided confidence bound inside the claimed family, at the confidence of the test.
"""

from __future__ import annotations

import math
from collections.abc import Callable

RANGE = 64.0  # the search leaves a start value by at most this factor either way


def noise_multiplier_upper_bound(
    log_p_value: Callable[[float], float], log_error: float, start: float, tolerance: float = 0.01
) -> float | None:
    """The smallest found noise multiplier whose p-value is at most the error, within a relative tolerance, rounded up.

    `log_p_value(noise_multiplier)` falls as the noise grows and is dear (a new curve each time): the search doubles
    until it has the root between two values, then takes secant steps, each aimed a little past the root, so that both
    ends close in. None when even start * 64 is not rejected.
    """

    def excess(noise_multiplier: float) -> float:
        return log_p_value(noise_multiplier) - log_error

    here, value = start, excess(start)
    factor = 0.5 if value <= 0 else 2.0
    while True:
        there = here * factor
        if not start / RANGE <= there <= start * RANGE:
            return here if value <= 0 else None
        beyond = excess(there)
        if (beyond <= 0) != (value <= 0):
            break
        here, value = there, beyond
    (low, above), (high, below) = sorted([(here, value), (there, beyond)])
    while high > low * (1 + tolerance):
        width = math.log(high / low)
        root = width * (above / (above - below) if above > below else 0.5)
        aim = root + tolerance / 3 if width - root > root else root - tolerance / 3  # cuts the longer side off
        middle = low * math.exp(min(0.95 * width, max(0.05 * width, aim)))
        found = excess(middle)
        if found <= 0:
            high, below = middle, found
        else:
            low, above = middle, found
    return high
