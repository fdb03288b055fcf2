"""How a refinement moves canaries between two restarts: SOBA's steps, or the derivative through training's end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from ..foundation import InputError
from .bilevel import Bilevel, Parameters, balanced_draws, directions, norm, replicas_together, zeros_like
from .outer import Outer
from .refinement import Refinement
from .regulariser import Embedding, mean_orthogonality
from .unrolled import InnerTraining, differentiate


@dataclass(frozen=True, eq=False)
class Restart:
    """What stands still between two restarts: the problem, the masks (R, m) of its replicas, the stream of its draws,
    the bounds of the inputs, free (0 where a column is fixed), the embeddings of the regulariser, how many replicas are
    computed at once."""

    problem: Bilevel
    masks: Tensor
    generator: torch.Generator
    bounds: tuple[Tensor, Tensor]
    free: Tensor
    embeddings: list[Embedding]
    settings: Refinement
    together: int | None


def descend(at: Restart, theta: Parameters, outer: Outer) -> dict[str, Any]:
    """The steps between two restarts; moves theta and outer in place, returns how far v came."""
    problem, masks, settings, generator = at.problem, at.masks, at.settings, at.generator
    together = at.together or replicas_together(problem.template, masks)
    v, velocity, v_velocity = zeros_like(theta), zeros_like(theta), zeros_like(theta)
    m, replicas = len(problem.labels), settings.replicas
    width = at.free * (at.bounds[1] - at.bounds[0])
    subset = settings.canary_batch if settings.canary_batch is not None and settings.canary_batch < m else None
    residual = torch.zeros(replicas)
    for step in range(settings.steps):
        rows = torch.randint(
            len(problem.y), (replicas, min(settings.batch, len(problem.y))), generator=generator, device=masks.device
        )
        drawn = None if subset is None else balanced_draws(masks, subset, generator)
        found = directions(problem, theta, v, outer.canaries, masks, rows, settings.damping, drawn, together)
        residual = found.residual
        if not torch.isfinite(found.canaries).all() or not torch.isfinite(residual).all():
            raise InputError(
                f"refinement met gradients that are not finite (step {step} of a restart): lower learning_rate "
                f"({settings.learning_rate:g}) or raise damping ({settings.damping:g})"
            )
        for name in theta:
            velocity[name].mul_(settings.momentum).add_(found.theta[name])
            theta[name] = theta[name] - settings.learning_rate * velocity[name]
            if settings.implicit:
                v_velocity[name].mul_(settings.momentum).add_(found.v[name])
                v[name] = v[name] - settings.learning_rate * v_velocity[name]
        shrink = (settings.largest_v / norm(v).clamp_min(1e-30)).clamp(max=1.0)  # network Hessians are indefinite
        for name in v:
            v[name] = v[name] * shrink.view(-1, *[1] * (v[name].dim() - 1))
        if step < settings.warmup:
            continue
        chosen = None
        if drawn is None:
            direction = (
                m * found.canaries
            )  # the objective is a mean over canaries: m times it is the scale of one canary
        else:  # the same scale for a canary, however many replicas drew it
            views = torch.bincount(drawn.flatten(), minlength=m)
            chosen = views.nonzero()[:, 0]
            scale = drawn.numel() / views.clamp_min(1)
            direction = scale.to(found.canaries.dtype).view(-1, *[1] * (found.canaries.dim() - 1)) * found.canaries
        if settings.regulariser > 0:
            direction = direction + orthogonal_pull(outer.canaries, chosen, at.embeddings, settings)
        share = outer.moves / settings.all_moves
        outer.move(direction, settings.step_size * width * (1 - 0.9 * share), *at.bounds, chosen)
    return {"norm_v": float(norm(v).mean()), "residual": float(residual.mean())}


def reverse(at: Restart, theta: Parameters, outer: Outer, last: InnerTraining) -> tuple[Parameters, dict[str, Any]]:
    """Moves along the derivative through `last`, each from the same θ anew; (weights before the first move, record).

    The two halves of the replicas are differentiated apart, each scaled to at most the length of the shorter: a
    training near the edge of stability has derivatives of any length, and the longest would drown all others.
    """
    problem, masks, settings = at.problem, at.masks, at.settings
    half = len(masks) // 2
    first: Parameters = {}
    agreements: list[float] = []
    for _ in range(settings.moves):
        parts = []
        for some in (slice(0, half), slice(half, None)) if half > 1 else (slice(None),):
            its = {name: p[some] for name, p in theta.items()}
            parts.append(differentiate(problem, its, outer.canaries, masks[some], last, at.generator))
        if not all(torch.isfinite(part.canaries).all() for part in parts):
            raise InputError(
                "the derivative through training is not finite: lower the recipe's learning rate, or take "
                "direction 'soba'"
            )
        if not first:
            first = {name: torch.cat([part.theta[name] for part in parts]) for name in theta}
        slopes = torch.stack([part.canaries for part in parts])
        lengths = slopes.flatten(1).norm(dim=1)
        agreements.append(float(cosine_similarity(*slopes.flatten(1)[[0, -1]], dim=0)))
        shrink = (lengths.min() / lengths.clamp_min(torch.finfo(lengths.dtype).tiny)).view(
            -1, *[1] * (slopes.dim() - 1)
        )
        size = (
            settings.step_size * at.free * (at.bounds[1] - at.bounds[0]) * (1 - 0.9 * outer.moves / settings.all_moves)
        )
        outer.move(len(problem.labels) * (shrink * slopes).mean(dim=0), size, *at.bounds)
    return first, {"agreement": float(np.mean(agreements))}


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
