"""The runs of the trainer that a check makes, and nothing of what they show.

| run | rows | for |
|---|---|---|
| main | all | noise, contributions, sampler |
| coins | solo rows by fair coins, all others | the one-run audit; another number of rows than main |
| few | so few that steps are empty | steps without records |
| again | main with the same seed | is the trainer a function of its seed? If so: |
| silent | main, every gradient all but zero | the noise alone; main minus silent is what records contribute |
| neighbour | main, some gradients all but zero | what else moves when a record does |
| not_finite | main, one row with NaN | what passes |
"""

from __future__ import annotations

import math
import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from torch import nn

from ...attacks.observation import Observation, Train, observe
from ...canaries.probe import Loss, Probe, make_probe
from ...foundation import InputError, numpy_stream
from ...foundation.named_code import reason_of
from ..bounds import FixedBins, Mechanism, PoissonSampling, RandomAllocation

SPECIAL = ("shared_layers", "batch_normalisation")
EMPTY_SHARE = 0.7  # records a step in the run with few rows: half of its steps are empty


@dataclass(frozen=True)
class CheckSettings:
    """records: rows of the probe (the trainer's claim may tie it to a batch size); seed: of everything that the check
    draws; alpha: familywise error; shape, classes, loss: what the trainer wants of rows, labels and losses; replays:
    whether to run the trainer again on neighbours with the same seed; supports: which of SPECIAL models the trainer is
    said to train rightly."""

    records: int = 200
    seed: int = 0
    alpha: float = 0.01
    shape: tuple[int, ...] | None = None
    classes: int = 2
    loss: Loss | None = None
    replays: bool = True
    supports: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.records, bool) or not isinstance(self.records, int) or not 40 <= self.records <= 100_000:
            raise InputError(f"records must be a whole number from 40 to 100,000, got {self.records!r}")
        if unknown := set(self.supports) - set(SPECIAL):
            raise InputError(f"supports names {', '.join(sorted(unknown))}: choose from {', '.join(SPECIAL)}")
        if not 0 < self.alpha < 0.5:
            raise InputError(f"alpha must lie in (0, 0.5), got {self.alpha!r}: it is the chance of a false alarm")
        if isinstance(self.classes, bool) or not isinstance(self.classes, int) or self.classes < 2:
            raise InputError(f"classes must be a whole number of at least 2, got {self.classes!r}")


@dataclass(frozen=True, eq=False)
class Run:
    rows: np.ndarray  # in the order of the data set
    seen: Observation


@dataclass(frozen=True, eq=False)
class Runs:
    """`few`, `silent`, `neighbour`, `not_finite`: None, or why there is none."""

    probe: Probe
    main: Run
    coins: Run
    members: np.ndarray  # of the solo rows, bool
    few: Run | str
    silent: Run | str
    neighbour: Run | str
    silenced: np.ndarray  # rows that are silent in `neighbour`
    not_finite: Run | str
    broken_row: int


def make_runs(train: Train, mechanism: Mechanism, settings: CheckSettings, advance: Callable[[], None]) -> Runs:
    """Errors: InputError where the trainer raises on the main run, or cannot be observed."""
    probe = make_probe(
        settings.records, settings.seed, shape=settings.shape, classes=settings.classes, loss=settings.loss
    )
    n = len(probe.x)
    generator = numpy_stream(settings.seed, "coins")
    everything = np.arange(n)
    seeds = numpy_stream(settings.seed, "check/runs").integers(2**62, size=4).tolist()

    def run(rows: np.ndarray, seed: int, x: np.ndarray | None = None) -> Run:
        seen = watched(train, probe.model(), probe, rows, seed, x)
        advance()
        return Run(rows, seen)

    def attempt(rows: np.ndarray, seed: int, x: np.ndarray | None = None) -> Run | str:
        try:
            return run(rows, seed, x)
        except InputError as error:
            return str(error)

    main = run(everything, seeds[0])
    members = generator.random(len(probe.solo)) < 0.5
    present = np.ones(n, bool)
    present[probe.solo[~members]] = False
    coins = run(np.flatnonzero(present), seeds[1])
    count = few_rows(mechanism, n)
    few = (
        attempt(generator.choice(probe.solo, min(count, len(probe.solo)), replace=False), seeds[2])
        if count
        else ("no step is empty under this claim, or the main run has empty steps of its own")
    )
    silenced = np.flatnonzero(generator.random(n) < 1 / 8)
    broken = int(generator.choice(probe.solo))
    silent: Run | str = "replays were switched off"
    neighbour = silent
    if settings.replays:
        again = run(everything, seeds[0])
        if same(main.seen, again.seen):
            silent = attempt(everything, seeds[0], probe.silenced(everything))
            neighbour = attempt(everything, seeds[0], probe.silenced(silenced))
        else:
            silent = neighbour = "the trainer does not repeat itself when torch, numpy and random are seeded alike"
    x = probe.x.copy()
    features = x.reshape(n, -1)[broken, : probe.features]
    features[features != 0] = math.nan
    not_finite = attempt(everything, seeds[3], x)
    return Runs(probe, main, coins, members, few, silent, neighbour, silenced, not_finite, broken)


def watched(
    train: Train, model: nn.Module, probe: Probe, rows: np.ndarray, seed: int, x: np.ndarray | None = None
) -> Observation:
    """One run of the trainer. Errors: InputError, also for whatever the trainer raises."""
    try:
        return observe(train, model, probe.dataset(rows, x), len(probe.x), seed)
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's trainer meets
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise InputError(
            f"the trainer raised {reason_of(error)[:300]} "
            f"({os.path.basename(last.filename)}, line {last.lineno}), on {len(rows)} rows of shape {probe.x.shape[1:]}"
        ) from error


def few_rows(mechanism: Mechanism, records: int) -> int:
    """So many that about half of the steps are empty; 0 where that cannot be, or where the main run has such steps."""
    match mechanism:
        case RandomAllocation(steps_per_epoch=m) | FixedBins(steps_per_epoch=m):
            rate = 1 / m
        case PoissonSampling(sampling_rate=q):
            rate = q
        case _:
            return 0
    if rate > 0.35 or math.exp(-rate * records) > 0.2:
        return 0
    return max(2, round(EMPTY_SHARE / rate))


def same(first: Observation, second: Observation) -> bool:
    return first.gradients.shape == second.gradients.shape and bool(
        np.array_equal(first.use, second.use)
        and np.allclose(first.gradients, second.gradients, rtol=1e-5, atol=1e-7 * float(np.abs(first.gradients).max()))
    )
