"""Audit by repeated training: R independent runs, each with coins of its own, read together.

For those who can train again. Two designs:

one canary a run    run r holds out or trains on one canary by one coin. Errors of different runs are independent, so
                    the number of right guesses is below a binomial with the claim's accuracy bound, and
                    Clopper-Pearson applies (class C holds here). The guesses may be ranked across runs: given all
                    scores each coin is still right with at most its own posterior probability.
all canaries        run r draws a coin for each of the m canaries: a one-run audit R times, whose p-values under the
                    claim are combined (class B, any dependence within a run).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from torch import nn

from ..attacks.shadows import Shadows, run_shadows
from ..canaries import CanarySet, remaining_rows
from ..foundation import InputError, numpy_stream
from .score import score_canaries
from .training.data import Data
from .training.recipe import Recipe


@dataclass(frozen=True, eq=False)
class RepeatedRuns:
    """scores (R, m) float64 and members (R, m) bool of R runs; canary (R,) the one that run r tossed, or None."""

    scores: np.ndarray
    members: np.ndarray
    canary: np.ndarray | None

    def one_per_run(self) -> tuple[np.ndarray, np.ndarray]:
        """(R,) score and membership of each run's own canary."""
        if self.canary is None:
            raise InputError("these runs tossed all canaries: read them run by run")
        row = np.arange(len(self.canary))
        return self.scores[row, self.canary], self.members[row, self.canary]


def repeat_training(
    data: Data,
    canaries: CanarySet,
    recipe: Recipe,
    runs: int,
    seed: int,
    folder: str | Path,
    *,
    score: str = "phi",
    one_canary: bool = False,
    jobs: int = 1,
    advance: Callable[[], None] | None = None,
) -> RepeatedRuns:
    """Train `runs` models with fresh coins, initialisation, order and noise, and score the canaries with each.

    Resumable: finished chunks lie in `folder` as shards named by everything that decides them. With one_canary, run r
    tosses a coin for canary r mod m and leaves out all others. Errors: InputError before anything is trained.
    """
    if isinstance(runs, bool) or int(runs) != runs or runs < 2:
        raise InputError(f"runs must be a whole number of at least 2, got {runs!r}")
    if canaries.data_fingerprint and canaries.data_fingerprint != data.fingerprint:
        raise InputError(f"the canaries were crafted from other data than {data.name}: craft them from this data")
    if canaries.x.shape[1:] != data.x.shape[1:]:
        raise InputError(f"canaries have shape {canaries.x.shape[1:]}, the records of {data.name} {data.x.shape[1:]}")
    stay = remaining_rows(canaries, len(data.y))
    x, y = np.concatenate([data.x[stay], canaries.x]), np.concatenate([data.y[stay], canaries.y])
    m, natural = len(canaries), int(stay.sum())
    coins = np.stack([numpy_stream(seed, f"coins/{r}").random(m) < 0.5 for r in range(runs)])
    canary = np.arange(runs) % m if one_canary else None
    if canary is not None:
        coins &= np.arange(m) == canary[:, None]
    keep = np.concatenate([np.ones((runs, natural), dtype=bool), coins], axis=1)
    seeds = tuple(int(numpy_stream(seed, f"run/{r}").integers(2**63)) for r in range(runs))
    described = {
        "recipe": recipe.record(),
        "data": data.fingerprint,
        "canaries": canaries.sha256,
        "seed": str(seed),
        "score": score,
        "one_canary": one_canary,
    }
    key = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
    measured = run_shadows(
        Shadows(keep, seeds, key),
        recipe.trainer(x, y),
        partial(_measure, canaries, score, recipe.device),
        folder,
        chunk=recipe.chunk,
        jobs=jobs,
        advance=advance,
    )
    assert measured is not None  # no span was given: everything is here
    return RepeatedRuns(measured["score"], coins, canary)


def _measure(canaries: CanarySet, score: str, device: str, model: nn.Module) -> dict[str, np.ndarray]:
    return {"score": score_canaries(model, canaries, score, device=device).scores}
