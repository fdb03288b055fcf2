"""The normal distribution function at both ends, with a bound of its error, in doubles or in extended precision.

Doubles: scipy.special.ndtr. Extended: for |z| < 2.5 the series of positive terms (Marsaglia 2004)

    Φ(a) − 1/2 = φ(a)·(a + a³/3 + a⁵/(3·5) + a⁷/(3·5·7) + …),

by Horner's rule, and beyond it Laplace's continued fraction Φ(−a) = φ(a)/(a + 1/(a + 2/(a + 3/(a + …)))), from its far
end. Every operation of either but the last (1/2 − …) is a sum, product or quotient of positive numbers, and an error
made far inside is damped at each level by r s/(1 + r s) < 1 or (k/t)/(a + k/t) < 1: what arrives is at most about 20
roundings of the series, 4 of the fraction. exp(−a²/2) adds a² + 4 of them. What is cut off: below 2^{-66} of the value.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from .rounding import LONG_UNIT, UNIT, normal_tail_error, unit_of

Array = NDArray[Any]

PI_REST = 1.2246467991473532e-16  # π − math.pi
SWITCH = 2.5
SERIES_TERMS = 40
FRACTION_TERMS = ((SWITCH, 80), (5.0, 28))  # from this |z| on, so many levels
SERIES_ERROR = 16 * LONG_UNIT  # absolute: (20 + a² + 6) roundings of 2^{-64}, of a value below 1/2


def normal_tails(z: Array, z_error: Array) -> tuple[Array, Array, Array]:
    """Φ(z), Φ(−z), and the absolute error of the smaller one, whose argument may be off by z_error. z: any dtype."""
    if unit_of(z) == UNIT:
        below, above = ndtr(z), ndtr(-z)
        finite = np.where(np.isfinite(z), z, 0.0)
        return below, above, np.minimum(below, above) * np.minimum(1.0, normal_tail_error(finite, z_error))
    size = np.abs(z)
    smaller = extended_tail(size)
    finite = np.where(np.isfinite(z), size, 0.0).astype(float)
    # |dΦ/dz| ≤ 0.4 near 0 and ≤ (|z| + 1)Φ(−|z|) everywhere
    relative = normal_tail_error(finite, z_error, LONG_UNIT)
    error = np.where(finite < SWITCH, SERIES_ERROR + z_error, np.asarray(smaller, dtype=float) * relative)
    below = np.where(z < 0, smaller, 1 - smaller)
    above = np.where(z < 0, 1 - smaller, smaller)
    return below, above, error


def extended_tail(size: Array) -> Array:
    """Φ(−size), size ≥ 0 in long double: absolute error SERIES_ERROR below SWITCH, relative as of `rounding` beyond."""
    density = np.exp(-size * size / 2) / np.sqrt(2 * np.longdouble(math.pi) + np.longdouble(2 * PI_REST))
    tail = np.empty_like(size)
    near = size < SWITCH
    a = size[near]
    total = np.ones_like(a)
    for k in range(SERIES_TERMS, 0, -1):
        total = 1 + a * a / (2 * k + 1) * total
    tail[near] = np.longdouble(0.5) - a * density[near] * total
    for (low, terms), high in zip(FRACTION_TERMS, (FRACTION_TERMS[1][0], math.inf), strict=True):
        chosen = (size >= low) & (size <= high)
        a = size[chosen]
        level = a + (terms + 1) / (a / 2 + np.sqrt(a * a / 4 + terms + 1))  # about what the rest of the fraction is
        for k in range(terms, 0, -1):
            level = a + k / level
        tail[chosen] = density[chosen] / level
    return tail
