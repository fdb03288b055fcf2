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
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from .. import __version__
from ..attacks.shadows import Shadows, run_shadows
from ..canaries import CanarySet
from ..foundation import InputError, numpy_stream, read_json, write_json
from .choices import SCORES
from .recipe import Recipe
from .rows import Universe
from .score import score_canaries
from .work import Work


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
    rows: Universe,
    canaries: CanarySet,
    recipe: Recipe,
    work: Work,
    runs: int,
    *,
    score: str = "phi",
    one_canary: bool = False,
    device: str = "cpu",
) -> RepeatedRuns:
    """Train `runs` models with fresh coins, initialisation, order and noise, and score the canaries with each.

    rows: universe(data, canaries), natural rows before the canaries. Resumable: finished chunks lie in work.folder as
    shards named by everything that decides them. With one_canary, run r tosses a coin for canary r mod m and leaves
    all others out. Errors: InputError before anything is trained.
    """
    if isinstance(runs, bool) or int(runs) != runs or runs < 2:
        raise InputError(f"runs must be a whole number of at least 2, got {runs!r}")
    if score not in SCORES[:3]:
        raise InputError(f"score must be one of {', '.join(SCORES[:3])}, got {score!r}")
    m = len(canaries)
    if not np.array_equal(rows.x[rows.audited], canaries.x):
        raise InputError("rows were made for other canaries: use universe(data, canaries) with this set")
    coins = np.stack([numpy_stream(work.seed, f"coins/{r}").random(m) < 0.5 for r in range(runs)])
    canary = np.arange(runs) % m if one_canary else None
    if canary is not None:
        coins &= np.arange(m) == canary[:, None]
    _refuse_one_sided(coins if canary is None else coins[np.arange(runs), canary][None])
    keep = np.repeat(rows.always[None], runs, axis=0)
    keep[:, rows.audited] = coins
    described = {
        **recipe.identity,
        "data": rows.fingerprint,
        "seed": str(work.seed),
        "score": score,
        "one_canary": one_canary,
        "coalmine": __version__,
    }
    _claim_folder(work.folder, described)
    seeds = tuple(int(numpy_stream(work.seed, f"run/{r}").integers(2**63)) for r in range(runs))
    measured = run_shadows(
        Shadows(keep, seeds, hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()),
        recipe.train_many,
        partial(_measure, canaries, score, device),
        work.folder,
        chunk=work.chunk,
        jobs=work.jobs,
        backend=work.backend,
        advance=work.advance,
    )
    assert measured is not None  # no span was given: every shard is here
    return RepeatedRuns(measured["score"], coins, canary)


def _claim_folder(folder: Path, described: dict[str, Any]) -> None:
    """One folder, one experiment: repeat.json says which. More runs of it may follow, others may not."""
    file = folder / "repeat.json"
    known = read_json(file, "record of repeated runs") if file.exists() else None
    described = json.loads(json.dumps(described))
    if known is None:
        write_json(file, described)
    elif known != described:
        different = sorted(k for k in {*described, *known} if known.get(k) != described.get(k))
        raise InputError(
            f"--output {str(folder)!r} holds other repeated runs, which differ in {', '.join(different)}: "
            "choose another folder, or delete this one"
        )


def _refuse_one_sided(coins: np.ndarray) -> None:
    """Each row is judged by itself and needs members and non-members; told before anything is trained."""
    inside = coins.sum(axis=1)
    if ((inside == 0) | (inside == coins.shape[1])).any():
        raise InputError(
            f"the coins of an audit with {coins.shape[1]} tosses all fell on one side: use more canaries, or with "
            "one_canary more runs"
        )


def _measure(canaries: CanarySet, score: str, device: str, model: nn.Module) -> dict[str, np.ndarray]:
    return {"score": score_canaries(model, canaries, score, device=device).scores}
