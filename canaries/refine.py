"""Refinement of canary inputs by stochastic bilevel optimisation (IBIS, stage 2), resumable.

    repeat `restarts` times
        masks      fresh complementary pairs: which canaries each of R replicas includes
        θ          R models, trained with the included canaries as they are now ("trained"), or drawn from a bank of
                   models that never saw a canary ("bank"); v = 0
        repeat `steps` times
            SOBA   θ and v by heavy-ball steps like the audited training's, C by Adam along D_C + λ ∂R, clipped to the
                   valid range; C rests for the first `warmup` steps while v forms

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
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..foundation import InputError, torch_stream
from .base_models import TrainMany, model_seeds, replicas
from .bilevel import (
    Bilevel,
    Parameters,
    balanced_draws,
    complementary_masks,
    directions,
    margins,
    norm,
    replicas_together,
    stacked,
    zeros_like,
)
from .canary_set import CanarySet
from .injection import remaining_rows
from .outer import Outer, resume, save
from .pool import Pool
from .refinement import Refinement
from .regulariser import Embedding, mean_orthogonality, mean_squared_cosine


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
    """Refined set (labels and sources as before) and the log, one record a restart.

    A record holds, measured on freshly (re)started replicas before they move C: outer (the objective), auc of included
    against excluded canaries, mean_included and mean_excluded margin, regulariser, mean_squared_cosine and mean norm of
    the embeddings; and, after the steps: residual ‖D_v‖/‖∂_θF‖, norm of v, at_bounds (share of pixels at a bound),
    moved (mean |C − C₀|).

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
    stay = remaining_rows(canaries, len(pool))
    device = torch.device(device)
    x, y = torch.from_numpy(pool.x[stay]).to(device), torch.from_numpy(pool.y[stay]).to(device)
    labels = torch.from_numpy(canaries.y.copy()).to(device)
    low, high = (torch.from_numpy(np.array(bound)).to(device) for bound in pool.bounds())
    embeddings = [Embedding(model, settings.embedding) for model in base_models]
    start = torch.from_numpy(canaries.x.copy()).to(device)
    outer, log = resume(checkpoint, canaries.x, _identity(canaries, settings, seed, recipe), device)
    done = len(log)
    bank: list[nn.Module] = []
    if settings.restart_from == "bank" and done < settings.restarts:
        bank = train_many(
            pool.x[stay],
            pool.y[stay],
            np.ones((settings.bank_size, len(y)), bool),
            model_seeds(seed, "bank", settings.bank_size),
        )
    for restart in range(done, settings.restarts):
        generator = torch_stream(seed, f"craft/refine/{restart}", device)
        masks = complementary_masks(settings.replicas, len(labels), generator)
        if bank:
            picked = torch.randperm(len(bank), generator=generator, device=device)[: settings.replicas].tolist()
            models = [bank[k] for k in picked]
        else:
            models = replicas(
                pool,
                stay,
                outer.canaries,
                canaries.y,
                masks,
                train_many,
                model_seeds(seed, f"restart/{restart}", len(masks)),
            )
        problem = Bilevel(models[0], x, y, labels, 0.0, settings.outer, settings.scale)
        theta = stacked(models)
        at_once = together or replicas_together(problem.template, masks)
        record = {"restart": restart} | _measure(problem, theta, outer.canaries, masks, embeddings, settings, at_once)
        v, residual = _descend(
            problem, theta, outer, masks, generator, embeddings, settings, (low, high), restart, at_once
        )
        record |= {
            "norm_v": float(norm(v).mean()),
            "residual": float(residual.mean()),
            "at_bounds": float(((outer.canaries <= low) | (outer.canaries >= high)).float().mean()),
            "moved": float((outer.canaries - start).abs().mean()),
        }
        log.append(record)
        if checkpoint is not None:
            save(checkpoint, outer, log, _identity(canaries, settings, seed, recipe))
        if on_restart:
            on_restart(record)
    parameters = canaries.parameters | {"start": canaries.method, "refinement": settings.stated()}
    refined = pool.canary_set(outer.canaries.cpu().numpy(), canaries.y, canaries.source_index, "ibis", parameters)
    return refined, log


def _descend(
    problem: Bilevel,
    theta: Parameters,
    outer: Outer,
    masks: Tensor,
    generator: torch.Generator,
    embeddings: list[Embedding],
    settings: Refinement,
    bounds: tuple[Tensor, Tensor],
    restart: int,
    together: int,
) -> tuple[Parameters, Tensor]:
    """The steps between two restarts; moves theta and outer in place, returns (v, residual (R,))."""
    v, velocity, v_velocity = zeros_like(theta), zeros_like(theta), zeros_like(theta)
    m, replicas = len(problem.labels), settings.replicas
    width = bounds[1] - bounds[0]
    moves = settings.restarts * (settings.steps - settings.warmup)
    subset = settings.canary_batch if settings.canary_batch is not None and settings.canary_batch < m else None
    residual = torch.zeros(replicas)
    for step in range(settings.steps):
        rows = torch.randint(
            len(problem.y), (replicas, min(settings.batch, len(problem.y))), generator=generator, device=masks.device
        )
        drawn = None if subset is None else balanced_draws(masks, subset, generator)
        at = directions(problem, theta, v, outer.canaries, masks, rows, settings.damping, drawn, together)
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
        chosen = None
        if drawn is None:
            direction = m * at.canaries  # the objective is a mean over canaries: m times it is the scale of one canary
        else:  # the same scale for a canary, however many replicas drew it
            views = torch.bincount(drawn.flatten(), minlength=m)
            chosen = views.nonzero()[:, 0]
            scale = drawn.numel() / views.clamp_min(1)
            direction = scale.to(at.canaries.dtype).view(-1, *[1] * (at.canaries.dim() - 1)) * at.canaries
        if settings.regulariser > 0:
            direction = direction + orthogonal_pull(outer.canaries, chosen, embeddings, settings)
        share = outer.moves / moves
        outer.move(direction, settings.step_size * width * (1 - 0.9 * share), *bounds, chosen)
    return v, residual


def orthogonal_pull(
    canaries: Tensor, chosen: Tensor | None, embeddings: list[Embedding], settings: Refinement
) -> Tensor:
    """m λ ∂R (m, …); of chosen canaries: by pairs among them, which stand for all pairs, and 0 elsewhere."""
    m = len(canaries)
    leaf = canaries.clone().requires_grad_()
    some = leaf if chosen is None else leaf[chosen]
    value = mean_orthogonality(embeddings, some, settings.regulariser_form)
    k = len(some)  # a chosen canary meets k − 1 others in place of m − 1
    factor = settings.regulariser * (k if settings.regulariser_form == "unit" else m * (m - 1) / (k - 1))
    return factor * torch.autograd.grad(value, leaf)[0]


def _measure(
    problem: Bilevel,
    theta: Parameters,
    canaries: Tensor,
    masks: Tensor,
    embeddings: list[Embedding],
    settings: Refinement,
    together: int,
) -> dict[str, Any]:
    labels = problem.labels.expand(masks.shape)
    with torch.no_grad():
        groups = [slice(start, start + together) for start in range(0, len(masks), together)]
        some = [{name: p[group] for name, p in theta.items()} for group in groups]
        phi = torch.cat([margins(problem.logits(t, canaries), labels[g]) for t, g in zip(some, groups, strict=True)])
        values = torch.cat([problem.outer_value(t, canaries, masks[g]) for t, g in zip(some, groups, strict=True)])
        pairs = (masks[:, :, None] * (1 - masks[:, None, :])) > 0
        ahead = (phi[:, :, None] > phi[:, None, :]).float() + 0.5 * (phi[:, :, None] == phi[:, None, :]).float()
        record: dict[str, Any] = {
            "outer": float(values.mean()),
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


def _identity(canaries: CanarySet, settings: Refinement, seed: int, recipe: str) -> str:
    return json.dumps([canaries.sha256, canaries.data_fingerprint, settings.stated(), seed, recipe])
