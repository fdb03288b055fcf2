"""Train, attack and conclude a whole grid: pieces on disk, one table in the end."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ... import __version__
from ...attacks.shadows import Shadows, run_shadows
from ...canaries import CanarySet, craft
from ...foundation import InputError, numpy_stream, write_json
from ..craft import recipe
from ..rows import Universe, universe
from ..score import score_canaries
from ..training.data import Data
from ..training.settings import TrainingSettings
from ..work import Work
from .conclude import Attacked, conclude
from .grid import Cell, Grid
from .white_box import WhiteBoxTraining, WithGradientCanaries

RECORD = "compare.json"


def compare(grid: Grid, data: Data, work: Work, device: str = "cpu") -> list[dict[str, Any]]:
    """The rows of the table, cell after cell. Resumable: finished chunks of runs lie in work.folder as shards whose
    names hold the hash of everything that decides them; a grid that grows keeps what it has.

    Errors: InputError, before anything is trained.
    """
    rows: list[dict[str, Any]] = []
    for plan in plan_grid(grid, data, work, device):
        rows += plan.conclude(work)
    return rows


def plan_grid(grid: Grid, data: Data, work: Work, device: str = "cpu") -> list[Plan]:
    """All cells with their canaries, coins and seeds; the folder is marked as theirs. Errors: InputError."""
    sets = {
        (model, method): _crafted(grid, data, model, method, work.seed, device)
        for model in grid.model
        for method in grid.canary_method
    }
    plans = [_plan(grid, cell, data, sets[cell.model, cell.canary_method], work.seed, device) for cell in grid.cells()]
    work.folder.mkdir(parents=True, exist_ok=True)
    write_json(work.folder / RECORD, {"grid": grid.record(), "data": data.fingerprint, "seed": str(work.seed)})
    return plans


def chunks(grid: Grid, chunk: int) -> int:
    """How many pieces the grid has."""
    return len(list(grid.cells())) * -(-grid.runs // chunk)


@dataclass(frozen=True, eq=False)
class Plan:
    """A cell with the coins and seeds of its runs, drawn before anything is trained."""

    cell: Cell
    grid: Grid
    shadows: Shadows
    train: WhiteBoxTraining
    measure: Callable[[nn.Module], dict[str, np.ndarray]]
    members: np.ndarray
    gradient_members: np.ndarray

    def conclude(self, work: Work) -> list[dict[str, Any]]:
        return list(conclude(self.cell, self.grid, *self.attack(work)))

    def attack(self, work: Work) -> tuple[list[Attacked], np.ndarray]:
        """Train what is missing: the scores of every attack on all runs, and (R,) accuracies on test rows."""
        found = run_shadows(
            self.shadows,
            self.train,
            self.measure,
            work.folder,
            chunk=work.chunk,
            jobs=work.jobs,
            backend=work.backend,
            advance=work.advance,
        )
        assert found is not None  # no span was given: every shard is here
        attacked = [Attacked("black_box", name, found[name], self.members) for name in self.grid.score]
        ratio = Attacked("white_box", "log_likelihood_ratio", found["white_box"], self.gradient_members)
        return [*attacked, ratio], found["test_accuracy"]


def _crafted(grid: Grid, data: Data, model: str, method: str, seed: int, device: str) -> CanarySet:
    """One set for a model and a method: crafting sees the least noise of the grid, never a coin or an audited model."""
    train = recipe(
        data, model, grid.steps_per_epoch[0], grid.epochs[0], grid.learning_rate, grid.momentum, grid.sampler,
        min(grid.noise_multiplier), grid.clipping_norm, torch.device(device),
    )  # fmt: skip
    options: dict[str, Any] = {"clipping_norm": grid.clipping_norm} if method == "clipped_influence" else {}
    return craft(
        method, data.x, data.y, len(data.classes), data.value_range, grid.canaries, seed,
        data_fingerprint=data.fingerprint, train_many=train, **options,
    )  # fmt: skip


def _plan(grid: Grid, cell: Cell, data: Data, canaries: CanarySet, seed: int, device: str) -> Plan:
    rows = universe(data, canaries)
    m, key = len(canaries), cell.key(seed)
    settings = TrainingSettings(
        steps_per_epoch=cell.steps_per_epoch,
        epochs=cell.epochs,
        learning_rate=grid.learning_rate,
        public_size=rows.expected_size(0.5),
        noise_multiplier=cell.noise_multiplier,
        clipping_norm=grid.clipping_norm,
        sampler=cell.sampler,
        momentum=grid.momentum,
    )
    coins = np.stack([numpy_stream(seed, f"compare/{key}/coins/{r}").random(2 * m) < 0.5 for r in range(grid.runs)])
    keep = np.concatenate([np.repeat(rows.always[None], grid.runs, axis=0), coins[:, m:]], axis=1)
    keep[:, rows.audited] = coins[:, :m]
    for tossed in (coins[:, :m], coins[:, m:]):
        inside = tossed.sum(axis=1)
        if ((inside == 0) | (inside == m)).any():
            raise InputError(f"the {m} coins of a run all fell on one side: raise canaries, or take another seed")
    described = {
        "cell": asdict(cell),
        "settings": settings.record(),
        "score": list(grid.score),
        "data": rows.fingerprint,
        "canaries": canaries.sha256,
        "seed": str(seed),
        "coalmine": __version__,
    }
    text = json.dumps(described, sort_keys=True)
    seeds = tuple(int(numpy_stream(seed, f"compare/{key}/run/{r}").integers(2**63)) for r in range(grid.runs))
    return Plan(
        cell,
        grid,
        Shadows(keep, seeds, hashlib.sha256(text.encode()).hexdigest()),
        WhiteBoxTraining(rows, cell.model, settings, m, device),
        partial(_measure, canaries, grid.score, rows, device),
        coins[:, :m],
        coins[:, m:],
    )


def _measure(
    canaries: CanarySet, scores: tuple[str, ...], rows: Universe, device: str, model: nn.Module
) -> dict[str, np.ndarray]:
    assert isinstance(model, WithGradientCanaries)
    found = {name: score_canaries(model.network, canaries, name, device=device).scores for name in scores}
    with torch.no_grad():
        logits = model.network(torch.as_tensor(rows.population_x).to(device))
    if logits.dim() == 1 or logits.shape[-1] == 1:
        guessed = (logits.reshape(-1) > 0).cpu().numpy().astype(int)
    else:
        guessed = logits.argmax(1).cpu().numpy()
    right = (guessed == rows.population_y).mean() if len(rows.population_y) else np.nan
    return {**found, "white_box": np.asarray(model.white_box), "test_accuracy": np.asarray(right)}


def table_path(folder: Path, format: str) -> Path:
    return folder / f"compare.{format}"
