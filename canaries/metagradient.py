"""Metagradient canaries (Boglioni, Liu, Ilyas, Wu, arXiv 2507.15836), small: the exact derivative through retraining.

Each meta-step trains R models from scratch on complementary random halves of the canaries and differentiates the outer
objective through every optimiser step, in reverse over the stored weights (REPLAY, arXiv 2503.13751, with all of them
kept: steps · R · parameters · 4 bytes). With velocity ω: ω ← β ω + ∂_θ g(θ, C),  θ ← θ − ρ ω, and backwards

    λ_ω ← λ_ω − ρ λ_θ;   λ_C += (∂_C ∂_θ g)ᵀ λ_ω;   λ_θ += (∂²_θ g) λ_ω;   λ_ω ← β λ_ω.

What refinement is measured against: the same objective without approximation, at several times the cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..foundation import InputError, numpy_stream, torch_stream
from .bilevel import Bilevel, Parameters, complementary_masks, losses, stacked, zeros_like
from .canary_set import CanarySet
from .injection import remaining_rows
from .pool import Pool


@dataclass(frozen=True)
class InnerTraining:
    """SGD with momentum on a fresh shuffle every epoch; sums are divided by public_size/steps_per_epoch, or where it is
    left out by rows/steps_per_epoch. Make it the recipe of the audit."""

    epochs: int = 20
    steps_per_epoch: int = 15
    learning_rate: float = 0.06
    momentum: float = 0.9
    public_size: float | None = None


def metagradient(
    pool: Pool,
    start: CanarySet,
    seed: int,
    build: Callable[[int], nn.Module],
    inner: InnerTraining | None = None,
    meta_steps: int = 16,
    replicas: int = 8,
    step_size: float = 0.1,
    outer: str = "ranking",
    scale: float = 2.0,
    on_step: Callable[[dict[str, Any]], None] | None = None,
) -> CanarySet:
    """`start` after `meta_steps` Adam steps on its inputs; step_size in units of the valid range. build(seed) gives an
    untrained model. Errors: InputError for BatchNorm and objectives that are not finite."""
    inner = inner or InnerTraining()
    count = len(start)
    low, high = (torch.from_numpy(np.array(bound)) for bound in pool.bounds())
    c, labels = torch.from_numpy(start.x.copy()), torch.from_numpy(start.y.copy())
    stay = remaining_rows(start, len(pool))
    x, y = torch.from_numpy(pool.x[stay]), torch.from_numpy(pool.y[stay])
    first, second = torch.zeros_like(c), torch.zeros_like(c)
    for step in range(1, meta_steps + 1):
        generator = torch_stream(seed, f"craft/metagradient/{step}")
        masks = complementary_masks(replicas, count, generator)
        seeds = numpy_stream(seed, f"craft/models/metagradient/{step}").integers(2**62, size=replicas)
        models = [build(int(value)) for value in seeds]
        problem = Bilevel(models[0], x, y, labels, 0.0, outer, scale)
        value, gradient = differentiate(problem, stacked(models), c, masks, inner, generator)
        if not torch.isfinite(gradient).all():
            raise InputError(f"the metagradient of step {step} is not finite: lower the inner learning_rate")
        if on_step:
            on_step({"step": step, "outer": value})
        direction = count * gradient
        first.mul_(0.8).add_(direction, alpha=0.2)
        second.mul_(0.9).addcmul_(direction, direction, value=0.1)
        mean, spread = first / (1 - 0.8**step), (second / (1 - 0.9**step)).sqrt()
        c = (c - step_size * (high - low) * mean / (spread + 1e-12)).clamp(low, high)
    stated = {"seed": seed, "meta_steps": meta_steps, "replicas": replicas, "step_size": step_size, "outer": outer}
    stated |= {"scale": scale, "start": start.method, "inner": asdict(inner)}
    return pool.canary_set(c.numpy(), start.y, start.source_index, "metagradient", stated)


def differentiate(
    problem: Bilevel,
    theta: Parameters,
    canaries: Tensor,
    masks: Tensor,
    inner: InnerTraining,
    generator: torch.Generator,
) -> tuple[float, Tensor]:
    """(mean outer value after training, its exact derivative in the canaries (m, …))."""
    plan = _batches(len(problem.y), masks, inner, generator)
    velocity, stored = zeros_like(theta), []
    for index, present in plan:
        stored.append(theta)
        leaf = _leaves(theta)
        gradients = torch.autograd.grad(_sum(problem, leaf, canaries, index, present, inner), list(leaf.values()))
        velocity = {n: inner.momentum * velocity[n] + g for (n, g) in zip(theta, gradients, strict=True)}
        theta = {n: theta[n] - inner.learning_rate * velocity[n] for n in theta}
    leaf, c = _leaves(theta), canaries.clone().requires_grad_()
    value = problem.outer_value(leaf, c, masks)
    *lambda_theta, lambda_c = torch.autograd.grad(value.sum(), [*leaf.values(), c])
    lambda_velocity = [torch.zeros_like(p) for p in lambda_theta]
    for (index, present), at in zip(reversed(plan), reversed(stored), strict=True):
        lambda_velocity = [w - inner.learning_rate * p for w, p in zip(lambda_velocity, lambda_theta, strict=True)]
        leaf, c = _leaves(at), canaries.clone().requires_grad_()
        objective = _sum(problem, leaf, c, index, present, inner)
        gradients = torch.autograd.grad(objective, list(leaf.values()), create_graph=True)
        *back, cross = torch.autograd.grad(gradients, [*leaf.values(), c], grad_outputs=lambda_velocity)
        lambda_c = lambda_c + cross
        lambda_theta = [p + b for p, b in zip(lambda_theta, back, strict=True)]
        lambda_velocity = [inner.momentum * w for w in lambda_velocity]
    return float(value.detach().mean()), lambda_c / len(masks)


def _leaves(theta: Parameters) -> Parameters:
    return {name: p.detach().requires_grad_() for name, p in theta.items()}


def _sum(
    problem: Bilevel, theta: Parameters, canaries: Tensor, index: Tensor, present: Tensor, inner: InnerTraining
) -> Tensor:
    rows, labels = torch.cat([problem.x, canaries]), torch.cat([problem.y, problem.labels])
    size = inner.public_size or len(problem.y) + len(problem.labels) / 2
    each = losses(problem.logits(theta, rows[index]), labels[index])
    return (each * present).sum() / (size / inner.steps_per_epoch)


def _batches(
    natural: int, masks: Tensor, inner: InnerTraining, generator: torch.Generator
) -> list[tuple[Tensor, Tensor]]:
    """Per step (R, width) rows, canaries counted from `natural` on, and 1 for a real row or 0 for padding."""
    plan = []
    for _ in range(inner.epochs):
        parts = []
        for mask in masks:
            rows = torch.cat([torch.arange(natural), natural + mask.nonzero()[:, 0]])
            parts.append(rows[torch.randperm(len(rows), generator=generator)].tensor_split(inner.steps_per_epoch))
        for step in range(inner.steps_per_epoch):
            chosen = [part[step] for part in parts]
            width = max(len(rows) for rows in chosen)
            index = torch.stack([nn.functional.pad(rows, (0, width - len(rows))) for rows in chosen])
            present = torch.stack([(torch.arange(width) < len(rows)).to(masks.dtype) for rows in chosen])
            plan.append((index, present))
    return plan
