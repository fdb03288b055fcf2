"""`craft`: one door to every method of making canaries."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..foundation import InputError
from .binary_noise import binary_noise
from .blank import blank
from .canary_set import CanarySet
from .mislabelled import mislabelled
from .noise import noise
from .pool import Pool
from .random_rows import random_rows

METHODS: dict[str, Callable[[Pool, int, int], CanarySet]] = {
    "random": random_rows,
    "mislabelled": mislabelled,
    "noise": noise,
    "binary_noise": binary_noise,
    "blank": blank,
}


def craft(
    method: str,
    x: np.ndarray,
    y: np.ndarray,
    classes: int,
    value_range: tuple[float, float] | None = None,
    count: int = 200,
    seed: int = 0,
    *,
    data_fingerprint: str = "",
    allowed: np.ndarray | None = None,
) -> CanarySet:
    """`count` canaries made from the training data (x, y) by a method of METHODS.

    x (n, …) float, y (n,) labels 0 … classes − 1; value_range as in CanarySet; allowed (n,) bool restricts the rows
    that may become canaries. The same arguments give the same set. Crafting draws from its own random streams and
    never sees coins, audited models or their noise.
    Errors: InputError for an unknown method, count below 1, fewer allowed rows than canaries, data out of range.
    """
    if method not in METHODS:
        raise InputError(f"method {method!r} is unknown: use one of {', '.join(METHODS)}")
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise InputError(f"count must be a whole number of at least 1, got {count!r}")
    return METHODS[method](Pool(x, y, classes, value_range, data_fingerprint, allowed), int(count), seed)
