"""Random training rows with their own labels: what an audit without crafting uses, the floor of every comparison."""

from __future__ import annotations

from ..foundation import numpy_stream
from .canary_set import CanarySet
from .pool import Pool, distinct_rows


def random_rows(pool: Pool, count: int, seed: int) -> CanarySet:
    rows = distinct_rows(pool, count, numpy_stream(seed, "craft/random"))
    return pool.canary_set(pool.x[rows], pool.y[rows], rows, "random", {"seed": seed})
