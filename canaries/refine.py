"""Refinement of canary inputs by stochastic bilevel optimisation (IBIS, stage 2), resumable.

    repeat `restarts` times
        masks      fresh complementary pairs: which canaries each of R replicas includes
        θ          R models, trained with the included canaries as they are now ("trained"), or drawn from a bank of
                   models that never saw a canary ("bank"); v = 0
        repeat `steps` times
            SOBA   θ and v by heavy-ball steps like the audited training's, C by Adam along D_C + λ ∂R, clipped to the
                   valid range; C rests for the first `warmup` steps while v forms

What is the paper's (Dagréou & Bellet, arXiv 2605.27292, from public summaries): the bilevel problem over (θ, v, C),
an incrementally updated model, the regulariser. What is ours: replicas, restarts, Adam, the ranking objective
(bilevel.py). A single run without restarts over-fits its own few θ. Crafting draws from its own streams, never from
an audit's.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from ..foundation import InputError, numpy_stream, torch_stream, write_bytes
from ..foundation.tensor_file import content_sha256, pack, unpack
from .bilevel import OUTERS, Bilevel, Parameters, complementary_masks, directions, margins, norm, stacked, zeros_like
from .canary_set import CanarySet
from .injection import remaining_rows
from .pool import Pool
from .regulariser import FORMS, Embedding, mean_orthogonality, mean_squared_cosine

RESTARTS_FROM = ("trained", "bank")


class TrainMany(Protocol):
    """Trains model k on the rows of (x, y) that membership[k] marks, by the recipe of the audit to come."""

    def __call__(
        self, x: np.ndarray, y: np.ndarray, membership: np.ndarray, seeds: Sequence[int]
    ) -> list[nn.Module]: ...


@dataclass(frozen=True)
class Refinement:
    """How to refine. regulariser is λ; regulariser_form "unit" (mean squared cosine) or "raw" (as in the paper);
    step_size in units of the width of the valid range, falling linearly to a tenth of it over the run."""

    replicas: int = 8
    restarts: int = 12
    steps: int = 12
    warmup: int = 4
    restart_from: str = "trained"
    bank_size: int = 24
    outer: str = "ranking"
    scale: float = 2.0
    regulariser: float = 0.0
    regulariser_form: str = "unit"
    step_size: float = 0.08
    batch: int = 100
    learning_rate: float = 0.05
    momentum: float = 0.9
    damping: float = 0.01
    largest_v: float = 50.0
    implicit: bool = True
    embedding: str | None = None

    def __post_init__(self) -> None:
        for name, smallest in (("replicas", 2), ("restarts", 1), ("steps", 1), ("warmup", 0), ("batch", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < smallest:
                raise InputError(f"{name} must be a whole number of at least {smallest}, got {value!r}")
        if self.replicas % 2:
            raise InputError(f"replicas must be even, got {self.replicas}: they come in complementary pairs")
        if self.warmup >= self.steps:
            raise InputError(f"warmup {self.warmup} leaves none of the {self.steps} steps to move the canaries")
        for name in ("step_size", "learning_rate", "scale", "largest_v"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} must be positive, got {getattr(self, name)!r}")
        for name in ("regulariser", "damping"):
            if not getattr(self, name) >= 0:
                raise InputError(f"{name} must be at least 0, got {getattr(self, name)!r}")
        if not 0 <= self.momentum < 1:
            raise InputError(f"momentum must lie in [0, 1), got {self.momentum!r}")
        for name, choices in (("restart_from", RESTARTS_FROM), ("outer", OUTERS), ("regulariser_form", FORMS)):
            if getattr(self, name) not in choices:
                raise InputError(f"{name} {getattr(self, name)!r} is unknown: use one of {', '.join(choices)}")


@dataclass
class _Outer:
    """C and Adam's moments, (m, …) each, and how many times C has moved."""

    canaries: Tensor
    first: Tensor
    second: Tensor
    moves: int = 0

    def move(self, direction: Tensor, size: Tensor, low: Tensor, high: Tensor) -> None:
        self.moves += 1
        self.first.mul_(0.9).add_(direction, alpha=0.1)
        self.second.mul_(0.99).addcmul_(direction, direction, value=0.01)
        mean = self.first / (1 - 0.9**self.moves)
        spread = (self.second / (1 - 0.99**self.moves)).sqrt()
        self.canaries.sub_(size * mean / (spread + 1e-12)).clamp_(low, high)


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
) -> tuple[CanarySet, list[dict[str, Any]]]:
    """Refined set (labels and sources as before) and the log, one record a restart.

    A record holds, measured on freshly (re)started replicas before they move C: outer (the objective), auc of included
    against excluded canaries, mean_included and mean_excluded margin, regulariser, mean_squared_cosine and mean norm of
    the embeddings; and, after the steps: residual ‖D_v‖/‖∂_θF‖, norm of v, at_bounds (share of pixels at a bound),
    moved (mean |C − C₀|).

    base_models  give the embeddings of the regulariser; needed where it is on
    device       where train_many puts its models
    checkpoint   file to resume from, written after every restart: an interrupted and an unbroken run agree to the bit

    Errors: InputError for settings that do not fit, missing base models, gradients that are not finite.
    """
    settings = settings or Refinement()
    if settings.regulariser > 0 and not base_models:
        raise InputError("regulariser needs base_models, whose embeddings it makes orthogonal")
    stay = remaining_rows(canaries, len(pool))
    device = torch.device(device)
    x, y = torch.from_numpy(pool.x[stay]).to(device), torch.from_numpy(pool.y[stay]).to(device)
    labels = torch.from_numpy(canaries.y.copy()).to(device)
    low, high = (torch.from_numpy(np.array(bound)).to(device) for bound in pool.bounds())
    embeddings = [Embedding(model, settings.embedding) for model in base_models]
    start = torch.from_numpy(canaries.x.copy()).to(device)
    outer, log, done = _resume(checkpoint, canaries, settings, seed, device)
    bank: list[nn.Module] = []
    if settings.restart_from == "bank" and done < settings.restarts:
        bank = train_many(
            pool.x[stay],
            pool.y[stay],
            np.ones((settings.bank_size, len(y)), bool),
            _seeds(seed, "bank", settings.bank_size),
        )
    for restart in range(done, settings.restarts):
        generator = torch_stream(seed, f"craft/refine/{restart}", device)
        masks = complementary_masks(settings.replicas, len(labels), generator)
        if bank:
            picked = torch.randperm(len(bank), generator=generator, device=device)[: settings.replicas].tolist()
            models = [bank[k] for k in picked]
        else:
            models = _trained(pool, stay, outer.canaries, canaries.y, masks, train_many, seed, restart)
        problem = Bilevel(models[0], x, y, labels, 0.0, settings.outer, settings.scale)
        theta = stacked(models)
        record = {"restart": restart} | _measure(problem, theta, outer.canaries, masks, embeddings, settings)
        v, residual = _descend(problem, theta, outer, masks, generator, embeddings, settings, (low, high), restart)
        record |= {
            "norm_v": float(norm(v).mean()),
            "residual": float(residual.mean()),
            "at_bounds": float(((outer.canaries <= low) | (outer.canaries >= high)).float().mean()),
            "moved": float((outer.canaries - start).abs().mean()),
        }
        log.append(record)
        if checkpoint is not None:
            _save(checkpoint, outer, log, canaries, settings, seed)
        if on_restart:
            on_restart(record)
    parameters = canaries.parameters | {"start": canaries.method, "refinement": dataclasses.asdict(settings)}
    refined = pool.canary_set(outer.canaries.cpu().numpy(), canaries.y, canaries.source_index, "ibis", parameters)
    return refined, log


def _descend(
    problem: Bilevel,
    theta: Parameters,
    outer: _Outer,
    masks: Tensor,
    generator: torch.Generator,
    embeddings: list[Embedding],
    settings: Refinement,
    bounds: tuple[Tensor, Tensor],
    restart: int,
) -> tuple[Parameters, Tensor]:
    """The steps between two restarts; moves theta and outer in place, returns (v, residual (R,))."""
    v, velocity, v_velocity = zeros_like(theta), zeros_like(theta), zeros_like(theta)
    m, replicas = len(problem.labels), settings.replicas
    width = bounds[1] - bounds[0]
    moves = settings.restarts * (settings.steps - settings.warmup)
    residual = torch.zeros(replicas)
    for step in range(settings.steps):
        rows = torch.randint(
            len(problem.y), (replicas, min(settings.batch, len(problem.y))), generator=generator, device=masks.device
        )
        at = directions(problem, theta, v, outer.canaries, masks, rows, settings.damping)
        residual = at.residual
        if not torch.isfinite(at.canaries).all() or not torch.isfinite(residual).all():
            raise InputError(
                f"refinement met gradients that are not finite (restart {restart}, step {step}): lower learning_rate "
                f"({settings.learning_rate:g}) or raise damping ({settings.damping:g})"
            )
        for name in theta:
            velocity[name].mul_(settings.momentum).add_(at.theta[name])
            theta[name] = theta[name] - settings.learning_rate * velocity[name]
            if settings.implicit:
                v_velocity[name].mul_(settings.momentum).add_(at.v[name])
                v[name] = v[name] - settings.learning_rate * v_velocity[name]
        shrink = (settings.largest_v / norm(v).clamp_min(1e-30)).clamp(max=1.0)  # network Hessians are indefinite
        for name in v:
            v[name] = v[name] * shrink.view(-1, *[1] * (v[name].dim() - 1))
        if step < settings.warmup:
            continue
        direction = m * at.canaries  # the objective is a mean over canaries: m times it is the scale of one canary
        if settings.regulariser > 0:
            leaf = outer.canaries.clone().requires_grad_()
            value = mean_orthogonality(embeddings, leaf, settings.regulariser_form)
            direction = direction + m * settings.regulariser * torch.autograd.grad(value, leaf)[0]
        share = outer.moves / moves
        outer.move(direction, settings.step_size * width * (1 - 0.9 * share), *bounds)
    return v, residual


def _trained(
    pool: Pool,
    stay: np.ndarray,
    canaries: Tensor,
    labels: np.ndarray,
    masks: Tensor,
    train_many: TrainMany,
    seed: int,
    restart: int,
) -> list[nn.Module]:
    """R models trained with the canaries as they are now, each with those of its mask."""
    natural = int(stay.sum())
    included = masks.cpu().numpy() > 0
    return train_many(
        np.concatenate([pool.x[stay], canaries.cpu().numpy()]),
        np.concatenate([pool.y[stay], labels]),
        np.concatenate([np.ones((len(masks), natural), bool), included], axis=1),
        _seeds(seed, f"restart/{restart}", len(masks)),
    )


def _seeds(seed: int, purpose: str, count: int) -> list[int]:
    return [int(value) for value in numpy_stream(seed, f"craft/models/{purpose}").integers(2**62, size=count)]


def _measure(
    problem: Bilevel,
    theta: Parameters,
    canaries: Tensor,
    masks: Tensor,
    embeddings: list[Embedding],
    settings: Refinement,
) -> dict[str, Any]:
    with torch.no_grad():
        phi = margins(problem.logits(theta, canaries), problem.labels.expand(masks.shape))
        pairs = (masks[:, :, None] * (1 - masks[:, None, :])) > 0
        ahead = (phi[:, :, None] > phi[:, None, :]).float() + 0.5 * (phi[:, :, None] == phi[:, None, :]).float()
        record: dict[str, Any] = {
            "outer": float(problem.outer_value(theta, canaries, masks).mean()),
            "auc": float(ahead[pairs].mean()),
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


def _identity(canaries: CanarySet, settings: Refinement, seed: int) -> str:
    return json.dumps([canaries.sha256, canaries.data_fingerprint, dataclasses.asdict(settings), seed])


def _save(
    path: str | Path, outer: _Outer, log: list[dict[str, Any]], canaries: CanarySet, settings: Refinement, seed: int
) -> None:
    tensors = {name: getattr(outer, name).cpu().numpy() for name in ("canaries", "first", "second")}
    metadata = {
        "kind": "refinement",
        "identity": _identity(canaries, settings, seed),
        "log": json.dumps(log),
        "moves": str(outer.moves),
        "content_sha256": content_sha256(tensors),
    }
    write_bytes(path, pack(tensors, metadata))


def _resume(
    path: str | Path | None, canaries: CanarySet, settings: Refinement, seed: int, device: torch.device
) -> tuple[_Outer, list[dict[str, Any]], int]:
    start = torch.from_numpy(canaries.x.copy()).to(device)
    if path is None or not Path(path).exists():
        return _Outer(start, torch.zeros_like(start), torch.zeros_like(start)), [], 0
    tensors, metadata = unpack(path, "refinement checkpoint")
    if metadata.get("kind") != "refinement" or metadata.get("content_sha256") != content_sha256(tensors):
        raise InputError(f"refinement checkpoint {str(path)!r} is damaged or something else: delete it to start again")
    if metadata["identity"] != _identity(canaries, settings, seed):
        raise InputError(
            f"refinement checkpoint {str(path)!r} belongs to another start, seed or settings: name another file"
        )
    log = json.loads(metadata["log"])
    state = {name: torch.from_numpy(tensors[name].copy()).to(device) for name in ("canaries", "first", "second")}
    return _Outer(**state, moves=int(metadata["moves"])), log, len(log)
