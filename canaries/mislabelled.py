"""Random training rows with a wrong label, uniform over the other classes (the usual black-box canary)."""

from __future__ import annotations

import numpy as np

from ..foundation import InputError, numpy_stream
from .canary_set import CanarySet
from .pool import Pool, distinct_rows


def mislabelled(pool: Pool, count: int, seed: int) -> CanarySet:
    if pool.classes < 2:
        raise InputError(f"mislabelled canaries need at least 2 classes, the data has {pool.classes}")
    stream = numpy_stream(seed, "craft/mislabelled")
    rows = distinct_rows(pool, count, stream)
    return pool.canary_set(
        pool.x[rows], wrong_labels(pool.y[rows], pool.classes, stream), rows, "mislabelled", {"seed": seed}
    )


def wrong_labels(y: np.ndarray, classes: int, stream: np.random.Generator) -> np.ndarray:
    """(m,) labels, each uniform over the classes other than y's."""
    return (y + stream.integers(1, classes, size=len(y))) % classes
