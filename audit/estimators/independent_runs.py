"""Several independent trainings: combining their p-values, and testing whether errors are as independent as declared.

Combination: Fisher 1932. Each run's p-value is valid whatever happens inside the run, and runs are independent, so
-2 sum(ln p_k) is stochastically below chi-square with 2K degrees of freedom. Fisher rather than a minimum because a
broken implementation leaks a little in every run, not a lot in one. An average of bounds is no bound.
From four runs on, run_bets.py is stronger.

Over-dispersion: if canaries of one run err independently, the right guesses of K runs of one configuration vary no
more than binomials. Given their total, counts are then multivariate hypergeometric whatever the common rate is; the
test draws from that law, so its size is exact up to Monte Carlo.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaincc

from ...foundation import InputError, numpy_stream
from .rates import SMALLEST_PROBABILITY


@dataclass(frozen=True)
class OverDispersion:
    """`ratio`: variance between runs over the binomial one (1 when independent); `p_value`: of independence."""

    ratio: float
    p_value: float
    runs: int


def combine_p_values(p_values: ArrayLike) -> float:
    """Fisher's combined p-value of one claim over independent trainings. Errors: InputError.

    A p-value of 0 is one too small for a double: it counts as 2.2e-308, and so does a combined one.
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or p.size == 0 or not np.all((p >= 0) & (p <= 1)):
        raise InputError(f"p_values must be one or more numbers between 0 and 1, got {p_values!r}")
    p = np.maximum(p, SMALLEST_PROBABILITY)
    return float(max(SMALLEST_PROBABILITY, gammaincc(p.size, -np.sum(np.log(p)))))


def over_dispersion(correct: ArrayLike, guesses: ArrayLike, draws: int = 9999, seed: int = 0) -> OverDispersion:
    """(K,) right guesses of (K,) guesses, one entry a run -> a test of "errors are independent". Errors: InputError.

    With two runs it sees only gross dependence; the p-value says how surprising the spread is, one-sided.
    """
    v, r = np.broadcast_arrays(np.asarray(correct), np.asarray(guesses))
    if v.ndim != 1 or v.size < 2:
        raise InputError(f"over_dispersion needs at least two runs, got {v.size}")
    if np.any(v != np.floor(v)) or np.any(r != np.floor(r)) or np.any(r < 1) or np.any(v < 0) or np.any(v > r):
        raise InputError(f"counts must be whole numbers with 0 <= correct <= guesses, got {v} of {r}")
    v, r = v.astype(np.int64), r.astype(np.int64)
    rate = v.sum() / r.sum()
    if rate in (0.0, 1.0):
        return OverDispersion(0.0, 1.0, v.size)

    def spread(counts: np.ndarray) -> np.ndarray:
        return np.sum((counts - r * rate) ** 2 / (r * rate * (1 - rate)), axis=-1)

    observed = float(spread(v))
    stream = numpy_stream(seed, "over_dispersion")
    simulated = spread(stream.multivariate_hypergeometric(r, int(v.sum()), size=draws, method="marginals"))
    exceeding = int(np.sum(simulated >= observed * (1 - 1e-12)))
    return OverDispersion(observed / (v.size - 1), (1 + exceeding) / (1 + draws), v.size)
