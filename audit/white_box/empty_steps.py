"""What a trainer does with a step that has no record: it must take it, with its noise."""

from __future__ import annotations

import math

import numpy as np

from ...canaries.probe import Probe
from ..bounds import FixedBins, Gaussian, Mechanism, PoissonSampling, RandomAllocation
from .contributions import noise_of
from .exact_tests import two_sided, variance_ratio
from .finding import Finding, not_tested
from .runs import Run

NAME = "empty_steps"
MEANING = "a step that is missing or silent because it is empty tells that none of the records was drawn"
LOOK = "`if len(batch) == 0: continue`, loaders that drop empty batches, noise that is drawn in the loop over records"


def find_empty_steps(probe: Probe, run: Run | str, mechanism: Mechanism) -> Finding:
    if isinstance(run, str):
        return not_tested(NAME, run)
    if run.seen.source == "weights":
        return not_tested(NAME, "steps without records cannot be seen where weights are read in forward passes")
    claimed = claimed_steps(mechanism)
    sizes = run.seen.batch_sizes
    empty = sizes == 0
    if claimed is not None and run.seen.steps != claimed:
        return Finding(
            NAME,
            f"with {len(run.rows)} rows {run.seen.steps} steps were taken, {claimed} are claimed; "
            f"{int(empty.sum())} of them had no record",
            MEANING,
            LOOK,
            broken=True,
            value=float(run.seen.steps),
            expected=float(claimed),
        )
    if not empty.any() or empty.all():
        return not_tested(NAME, f"with {len(run.rows)} rows {int(empty.sum())} of {len(sizes)} steps were empty")
    free = noise_of(probe, run.seen)
    silent, filled = free[empty], free[~empty]
    low, high = variance_ratio(float(np.mean(silent**2)), silent.size, float(np.mean(filled**2)), filled.size)
    there = float(np.mean(filled**2))
    ratio = math.sqrt(float(np.mean(silent**2)) / there) if there else 1.0
    return Finding(
        NAME,
        f"{int(empty.sum())} of {len(sizes)} steps had no record; their noise is {ratio:.4g} times that of the others",
        MEANING,
        LOOK,
        p_value=two_sided(low, high) if there else None,
        value=ratio,
        expected=1.0,
    )


def claimed_steps(mechanism: Mechanism) -> int | None:
    match mechanism:
        case RandomAllocation(steps_per_epoch=m, epochs=e) | FixedBins(steps_per_epoch=m, epochs=e):
            return m * e
        case PoissonSampling(steps=steps) | Gaussian(steps=steps):
            return steps
        case _:
            return None
