"""Noise at the two ends of the valid range with a uniformly random label.

Twice the contrast of uniform noise, hence further from the data and from one another: a small network remembers it
in fewer steps. Like uniform noise it takes no row out of the training data.
"""

from __future__ import annotations

import numpy as np

from ..foundation import numpy_stream
from .canary_set import CanarySet
from .pool import Pool


def binary_noise(pool: Pool, count: int, seed: int) -> CanarySet:
    stream = numpy_stream(seed, "craft/binary_noise")
    low, high = pool.bounds()
    drawn = stream.random((count, *pool.x.shape[1:]))
    x = np.where(drawn < 0.5, np.float32(low), np.float32(high))
    y = stream.integers(0, pool.classes, size=count)
    x = pool.with_fixed(
        pool.columns.legal(x, drawn), stream
    )  # of a one-hot group any column, not the first of the ones
    return pool.canary_set(x, y, np.full(count, -1), "binary_noise", {"seed": seed})
