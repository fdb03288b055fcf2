"""Negative control: the same blank input for every canary, random labels. At most one direction a class, so that
members and non-members of a class cannot be told apart: an audit in which this set does well is broken."""

from __future__ import annotations

import numpy as np

from ..foundation import numpy_stream
from .canary_set import CanarySet
from .pool import Pool


def blank(pool: Pool, count: int, seed: int) -> CanarySet:
    low, high = pool.bounds()
    x = np.broadcast_to(np.clip(np.float32(0), low, high), (count, *pool.x.shape[1:]))
    y = numpy_stream(seed, "craft/blank").integers(0, pool.classes, size=count)
    return pool.canary_set(x, y, np.full(count, -1), "blank", {"seed": seed})
