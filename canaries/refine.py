"""Refinement of canary inputs by stochastic bilevel optimisation (IBIS, stage 2), resumable.

    repeat `restarts` times
        masks      fresh complementary pairs: which canaries each of R replicas includes
        θ          R models, trained with the included canaries as they are now ("trained"), or drawn from a bank of
                   models that never saw a canary ("bank"); v = 0
        repeat `steps` times
            SOBA   θ and v by heavy-ball steps like the audited training's, C by Adam along D_C + λ ∂R, clipped to the
                   valid range; C rests for the first `warmup` steps while v forms
        or `moves` times, where the direction is "reverse"
            C by Adam along the derivative through the last epochs of the replicas' training (unrolled.py)
    measure the end; choose among the best iterates and their corners; judge the choice beside the start (choice.py)

Large sets and models: with `canary_batch` a step looks at so many canaries of each replica, half of them included,
half excluded, every sum weighted to be right on average; only those that some replica drew move.

What is the paper's (Dagréou & Bellet, arXiv 2605.27292, from public summaries): the bilevel problem over (θ, v, C),
an incrementally updated model, the regulariser. What is ours: replicas, restarts, Adam, the ranking objective
(bilevel.py). A single run without restarts over-fits its own few θ. Crafting draws from its own streams, never from
an audit's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..foundation import InputError, torch_stream
from .base_models import ShortenedTraining, TrainMany, model_seeds, replicas
from .bilevel import Bilevel, Parameters, complementary_masks, margins, replicas_together, stacked
from .canary_set import CanarySet
from .choice import Choice, Figures, best_restarts, choose, corners, figures
from .injection import remaining_rows
from .outer import Outer, resume, save
from .pool import Pool
from .refinement import Refinement
from .regulariser import Embedding, mean_orthogonality, mean_squared_cosine
from .unrolled import InnerTraining
from .walk import Restart, descend, reverse


def refine(
    canaries: CanarySet,
    pool: Pool,
    train_many: TrainMany,
    settings: Refinement | None = None,
    seed: int = 0,
    base_models: Sequence[nn.Module] = (),
    checkpoint: str | Path | None = None,
    on_restart: Callable[[dict[str, Any]], None] | None = None,
    device: str | torch.device = "cpu",
    together: int | None = None,
    recipe: str = "",
) -> tuple[CanarySet, list[dict[str, Any]]]:
    """The set that fresh replicas find best (labels and sources as before), and the log of the walk.

    A record a restart, and one of the end. Measured on freshly (re)started replicas before they move C: outer (the
    objective), true_positive_rate at FPR 0.05 and auc of included against excluded canaries, mean_included and
    mean_excluded margin, regulariser, mean_squared_cosine and mean norm of the embeddings, at_bounds (share of pixels
    at a bound), moved (mean |C − C₀|); after the steps of "soba": residual ‖D_v‖/‖∂_θF‖, norm of v; after those of
    "reverse": agreement, the cosine between the derivatives of the two halves of the replicas.

    The set is never worse than `canaries` on replicas that chose nothing: parameters["choice"] says which restart was
    taken, whether its corners were, and both figures; "returned" is "start" where the best iterate was worse.

    base_models  give the embeddings of the regulariser; needed where it is on
    device       where train_many puts its models
    together     replicas computed at once, 1 for the least memory; left out: bilevel.replicas_together. The same set
                 up to rounding
    checkpoint   file to resume from, written after every restart: an interrupted and an unbroken run agree to the bit
    recipe       what train_many does, in any words that change with it: a checkpoint of another recipe is refused

    Errors: InputError for settings that do not fit, missing base models, gradients that are not finite.
    """
    settings = settings or Refinement()
    if settings.regulariser > 0 and not base_models:
        raise InputError("regulariser needs base_models, whose embeddings it makes orthogonal")
    bench = Bench(
        canaries, pool, _replica_training(train_many, settings), settings, seed, torch.device(device), together
    )
    embeddings = [Embedding(model, settings.embedding) for model in base_models]
    identity = _identity(canaries, settings, seed, recipe)
    outer, log = resume(checkpoint, canaries.x, identity, bench.device)

    def noted(record: dict[str, Any], measured: Tensor) -> None:
        log.append(record)
        if record["restart"] > 0:
            outer.kept[record["restart"]] = measured
            outer.kept = {restart: outer.kept[restart] for restart in best_restarts(log)}
        if checkpoint is not None:
            save(checkpoint, outer, log, identity)
        if on_restart:
            on_restart(record)

    walk(bench, outer, len(log), embeddings, noted)
    choice = choose(bench.tensor(canaries.x), outer.kept, best_restarts(log), bench.snap, bench.judged_by(train_many))
    return _chosen(canaries, pool, settings, choice), log


def walk(
    bench: Bench,
    outer: Outer,
    done: int,
    embeddings: list[Embedding],
    noted: Callable[[dict[str, Any], Tensor], None],
) -> None:
    """From restart `done` to the end, moving `outer` in place; noted hears the record of each restart, and of the end,
    with the canaries that it measured."""
    settings, start = bench.settings, bench.tensor(bench.canaries.x)
    low, high = bench.bounds()

    def described(restart: int, problem: Bilevel, theta: Parameters, masks: Tensor, at: Tensor) -> dict[str, Any]:
        record = {"restart": restart} | _measure(problem, theta, at, masks, embeddings, settings, bench.together)
        at_bounds = float(((at <= low) | (at >= high)).float().mean())
        return record | {"at_bounds": at_bounds, "moved": float((at - start).abs().mean())}

    bank = bench.bank() if settings.restart_from == "bank" and done < settings.restarts else []
    for restart in range(done, settings.restarts):
        generator = torch_stream(bench.seed, f"craft/refine/{restart}", bench.device)
        masks, before = complementary_masks(settings.replicas, len(start), generator), bench.legal(outer.canaries)
        if bank:
            picked = torch.randperm(len(bank), generator=generator, device=bench.device)[: settings.replicas].tolist()
            models = [bank[k] for k in picked]
        else:
            models = bench.replicas(f"restart/{restart}", before, masks, bench.training.restart)
        problem, theta = bench.problem(models[0]), stacked(models)
        at = Restart(problem, masks, generator, (low, high), bench.free(), embeddings, settings, bench.together)
        if bench.training.last is None:
            record = described(restart, problem, theta, masks, before)
            record |= descend(at, theta, outer)
        else:
            theta, moved = reverse(at, theta, outer, bench.training.last)
            record = described(restart, problem, theta, masks, before) | moved
        noted(record, before)
    if done <= settings.restarts:
        masks = complementary_masks(settings.replicas, len(start), bench.stream("end"))
        end = bench.legal(outer.canaries)
        models = bench.replicas("end", end, masks, bench.training.whole)
        noted(described(settings.restarts, bench.problem(models[0]), stacked(models), masks, end), end)


@dataclass(frozen=True)
class ReplicaTraining:
    """restart: what trains replicas before canaries move; last: what is differentiated after it, where that is the
    direction; whole: both together, the length that the walk's figures are measured at."""

    restart: TrainMany
    whole: TrainMany
    last: InnerTraining | None = None


@dataclass(frozen=True, eq=False)
class Bench:
    """The start, what it is made from, and replicas of it."""

    canaries: CanarySet
    pool: Pool
    training: ReplicaTraining
    settings: Refinement
    seed: int
    device: torch.device
    together: int | None = None

    def tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array.copy()).to(self.device)

    def bounds(self) -> tuple[Tensor, Tensor]:
        low, high = (self.tensor(np.array(bound)) for bound in self.pool.bounds())
        return low, high

    def free(self) -> Tensor:
        return self.tensor(self.pool.columns.free())

    def snap(self, at: Tensor) -> Tensor:
        """The corners of canaries, but for fixed columns."""
        snapped = self.legal(corners(at, *self.bounds()))
        return torch.where(self.free() > 0, snapped, at)

    def legal(self, at: Tensor) -> Tensor:
        """A copy that a row could be: canaries move between legal values and are trained on at the nearest."""
        return self.tensor(self.pool.columns.legal(at.cpu().numpy()))

    def stream(self, purpose: str) -> torch.Generator:
        return torch_stream(self.seed, f"craft/refine/{purpose}", self.device)

    def replicas(self, purpose: str, at: Tensor, masks: Tensor, by: TrainMany) -> list[nn.Module]:
        stay = remaining_rows(self.canaries, len(self.pool))
        return replicas(self.pool, stay, at, self.canaries.y, masks, by, model_seeds(self.seed, purpose, len(masks)))

    def bank(self) -> list[nn.Module]:
        """Models that never saw a canary."""
        stay, count = remaining_rows(self.canaries, len(self.pool)), self.settings.bank_size
        x, y = self.pool.x[stay], self.pool.y[stay]
        return self.training.restart(x, y, np.ones((count, len(y)), bool), model_seeds(self.seed, "bank", count))

    def problem(self, template: nn.Module) -> Bilevel:
        stay = remaining_rows(self.canaries, len(self.pool))
        x, y, labels = self.tensor(self.pool.x[stay]), self.tensor(self.pool.y[stay]), self.tensor(self.canaries.y)
        return Bilevel(template, x, y, labels, 0.0, self.settings.outer, self.settings.scale)

    def judged_by(self, train_many: TrainMany) -> Callable[[Tensor, str], Figures]:
        """measure(canaries, purpose) through replicas of the whole recipe: same purpose, same masks and seeds. The last
        word takes twice as many replicas."""

        def measure(at: Tensor, purpose: str) -> Figures:
            count = self.settings.replicas * (2 if purpose == "judge" else 1)
            masks = complementary_masks(count, len(at), self.stream(purpose))
            models = self.replicas(purpose, at, masks, train_many)
            return figures(_margins(self.problem(models[0]), stacked(models), at, masks, self.together), masks)

        return measure


def _replica_training(train_many: TrainMany, settings: Refinement) -> ReplicaTraining:
    if settings.direction == "soba" and settings.replica_epochs is None:
        return ReplicaTraining(train_many, train_many)
    if not isinstance(train_many, ShortenedTraining):
        raise InputError(
            "direction 'reverse' and replica_epochs need a train_many that can stop early: take "
            "coalmine.audit.craft.Trainer, or one with its epochs, shortened and plain_sgd"
        )
    epochs = settings.replica_epochs or train_many.epochs
    if epochs > train_many.epochs:
        raise InputError(f"replica_epochs is {epochs}, the recipe has {train_many.epochs}: take at most these")
    whole = train_many.shortened(epochs)
    if settings.direction == "soba":
        return ReplicaTraining(whole, whole)
    last = settings.last_epochs or max(1, epochs // 2)
    if last >= epochs:
        raise InputError(f"last_epochs is {last} of {epochs}: leave at least one before them")
    return ReplicaTraining(train_many.shortened(epochs - last), whole, train_many.plain_sgd(last))


def _chosen(start: CanarySet, pool: Pool, settings: Refinement, choice: Choice) -> CanarySet:
    parameters = start.parameters | {"start": start.method, "refinement": settings.stated(), "choice": choice.stated()}
    x = start.x if choice.returned == "start" else choice.canaries.cpu().numpy()
    return pool.canary_set(x, start.y, start.source_index, "ibis", parameters)


def _margins(problem: Bilevel, theta: Parameters, canaries: Tensor, masks: Tensor, together: int | None) -> Tensor:
    """(R, m) margins of the canaries, `together` replicas at a time."""
    at_once, labels = together or replicas_together(problem.template, masks), problem.labels.expand(masks.shape)
    parts = []
    with torch.no_grad():
        for begin in range(0, len(masks), at_once):
            some = {name: p[begin : begin + at_once] for name, p in theta.items()}
            parts.append(margins(problem.logits(some, canaries), labels[begin : begin + at_once]))
    return torch.cat(parts)


def _measure(
    problem: Bilevel,
    theta: Parameters,
    canaries: Tensor,
    masks: Tensor,
    embeddings: list[Embedding],
    settings: Refinement,
    together: int | None,
) -> dict[str, Any]:
    phi = _margins(problem, theta, canaries, masks, together)
    with torch.no_grad():
        record: dict[str, Any] = {
            "outer": float(problem.outer_of(phi, masks).mean()),
            **asdict(figures(phi, masks)),
            "mean_included": float((phi * masks).sum() / masks.sum()),
            "mean_excluded": float((phi * (1 - masks)).sum() / (1 - masks).sum()),
        }
        if embeddings:
            phis = [embedding(canaries) for embedding in embeddings]
            value = mean_orthogonality(embeddings, canaries, settings.regulariser_form)
            record |= {
                "regulariser": settings.regulariser * float(value),
                "mean_squared_cosine": float(np.mean([mean_squared_cosine(p) for p in phis])),
                "embedding_norm": float(np.mean([float(p.norm(dim=1).mean()) for p in phis])),
            }
    return record


def _identity(canaries: CanarySet, settings: Refinement, seed: int, recipe: str) -> str:
    return json.dumps([canaries.sha256, canaries.data_fingerprint, settings.stated(), seed, recipe])
