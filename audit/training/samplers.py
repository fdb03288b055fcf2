"""Which records a step uses: the samplers that DP-SGD is run, or claimed to be run, with.

Every sampler turns one epoch into M batches. It draws for *all* N rows, members or not, and the caller keeps the
members: taking a record out of the training set then leaves the batches of all others as they are, which is
the coupling that the add/remove analysis compares.

| name | an epoch | analysis |
|---|---|---|
| random_allocation | each record in one step, uniform over the M steps, drawn afresh every epoch | RandomAllocation |
| fixed_bins | the same, but one draw is reused in every epoch ("balls and bins") | FixedBins |
| poisson | each record in each step with probability 1/M or a given rate, independently | PoissonSampling |
| fixed_size | a fresh shuffle cut into M batches of equal size (an ordinary data loader) | no bound is known |
| full_batch | every record in every one of the M steps | Gaussian |
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from ...foundation import InputError, numpy_stream

SamplerName = Literal["random_allocation", "fixed_bins", "poisson", "fixed_size", "full_batch"]
SAMPLERS: tuple[str, ...] = get_args(SamplerName)


def epoch_batches(
    sampler: str, records: int, steps_per_epoch: int, seed: int, epoch: int, sampling_rate: float | None = None
) -> list[np.ndarray]:
    """The rows that each of the M steps of one epoch uses, ascending within a step.

    The draw depends on (seed, epoch) alone, through the stream "allocation/<epoch>", so that a resumed run
    repeats it. sampling_rate is that of poisson, 1/M where it is left out. Errors: InputError for an unknown sampler.
    """
    if sampler == "full_batch":
        return [np.arange(records)] * steps_per_epoch
    drawn_in = 0 if sampler == "fixed_bins" else epoch
    rng = numpy_stream(seed, f"allocation/{drawn_in}")
    if sampler in ("random_allocation", "fixed_bins"):
        return _group(rng.integers(0, steps_per_epoch, size=records), steps_per_epoch)
    if sampler == "poisson":
        rate = 1.0 / steps_per_epoch if sampling_rate is None else sampling_rate
        return [np.flatnonzero(rng.random(records) < rate) for _ in range(steps_per_epoch)]
    if sampler == "fixed_size":
        return [np.sort(part) for part in np.array_split(rng.permutation(records), steps_per_epoch)]
    raise InputError(f"sampler {sampler!r} is not known: choose one of {', '.join(SAMPLERS)}")


def _group(step_of_record: np.ndarray, steps: int) -> list[np.ndarray]:
    """Rows by step: one stable sort instead of M scans."""
    order = np.argsort(step_of_record, kind="stable")
    ends = np.cumsum(np.bincount(step_of_record, minlength=steps))
    return np.split(order, ends[:-1])
