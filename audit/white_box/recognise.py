"""A name for what a sampler does, from the batches alone. Descriptive: the tests of `sampler` decide."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Recognised:
    """name: random_allocation, fixed_bins, fixed_size, poisson, full_batch, or unknown, with the parameters seen."""

    name: str
    words: str
    steps: int
    steps_per_epoch: int | None = None
    rate: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {"recognised": asdict(self)}


def recognise(use: np.ndarray) -> Recognised:
    """use (T, n): how often each record stands in each step."""
    steps, n = use.shape
    rate = float(use.mean())
    if steps == 0:
        return Recognised("unknown", "no step", 0)
    if np.all(use == 1):
        return Recognised("full_batch", f"every record in every step ({steps} steps)", steps, rate=1.0)
    if np.any(use > 1):
        return Recognised("unknown", "sampling with replacement (a record twice in a step)", steps, rate=rate)
    for m in (m for m in range(2, steps + 1) if steps % m == 0):
        uses = use.reshape(steps // m, m, n).sum(axis=1)
        if np.all(uses == 1):
            return _epochs(use.reshape(steps // m, m, n), m, steps)
        if np.all(uses <= 1) and np.all(np.ptp(uses.sum(axis=1)) == 0) and uses.sum(axis=1)[0] > 0.8 * n:
            left = n - int(uses.sum(axis=1)[0])
            return Recognised("fixed_size", f"a shuffle of {m} steps that leaves out {left} records an epoch", steps, m)
    sizes = use.sum(axis=1)
    if np.ptp(sizes) == 0:
        return Recognised("unknown", f"{sizes[0]} records drawn for every step, repeated over epochs", steps, rate=rate)
    return Recognised("poisson", f"independent inclusion at rate {rate:.4g} ({steps} steps)", steps, rate=rate)


def _epochs(use: np.ndarray, m: int, steps: int) -> Recognised:
    """use (E, M, n): each record once in every epoch."""
    epochs, n = len(use), use.shape[2]
    sizes = use.sum(axis=2)
    fixed = epochs > 1 and bool(np.all(use == use[0]))
    even = bool(np.all(sizes[:, :-1] == sizes[0, 0]) and np.all(sizes[:, -1] <= sizes[0, 0])) or int(np.ptp(sizes)) <= 1
    expected = n / m * (1 - 1 / m)
    even = even and expected * sizes.size > 4
    if even:
        words = f"batches of equal size, {'the same in' if fixed else 'shuffled for'} every epoch ({m} steps)"
        return Recognised("fixed_size", words, steps, m)
    if fixed:
        return Recognised("fixed_bins", f"one allocation to {m} steps, reused in every epoch", steps, m)
    return Recognised("random_allocation", f"random allocation to {m} steps, afresh in every epoch", steps, m)
