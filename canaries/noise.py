"""Uniform noise in the valid range with a uniformly random label: nothing in the data resembles it, so that a model
can only know it by memory. A strong baseline, and it takes no row out of the training data."""

from __future__ import annotations

import numpy as np

from ..foundation import numpy_stream
from .canary_set import CanarySet
from .pool import Pool


def noise(pool: Pool, count: int, seed: int) -> CanarySet:
    stream = numpy_stream(seed, "craft/noise")
    low, high = pool.bounds()
    x = low + (high - low) * stream.random((count, *pool.x.shape[1:]), dtype=np.float32)
    x = np.clip(x, low, high)  # float32 rounding may step over the edge
    y = stream.integers(0, pool.classes, size=count)
    x = pool.with_fixed(x, stream)
    return pool.canary_set(x, y, np.full(count, -1), "noise", {"seed": seed})
