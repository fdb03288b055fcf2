"""The exact derivative of the outer objective through SGD, in reverse over stored weights (REPLAY, arXiv 2503.13751).

With velocity ω: ω ← β ω + ∂_θ g(θ, C),  θ ← θ − ρ ω, and backwards

    λ_ω ← λ_ω − ρ λ_θ;   λ_C += (∂_C ∂_θ g)ᵀ λ_ω;   λ_θ += (∂²_θ g) λ_ω;   λ_ω ← β λ_ω.

All weights are kept: steps · R · parameters · 4 bytes. Begun at untrained models this is the metagradient; begun at
models trained for a part of the epochs it is its truncation to the rest, which leaves out what the canaries did to the
first part: the derivative of the first epochs is large and nearly all noise of the seed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .bilevel import Bilevel, Parameters, losses, zeros_like


@dataclass(frozen=True)
class InnerTraining:
    """SGD with momentum on a fresh shuffle every epoch; sums are divided by public_size/steps_per_epoch, or where it is
    left out by rows/steps_per_epoch. Make it the recipe of the audit."""

    epochs: int = 20
    steps_per_epoch: int = 15
    learning_rate: float = 0.06
    momentum: float = 0.9
    public_size: float | None = None


@dataclass(frozen=True, eq=False)
class Derivative:
    """Of R models trained side by side: theta, their weights at the end; values (R,), the outer objective there;
    canaries (m, …), the mean derivative."""

    theta: Parameters
    values: Tensor
    canaries: Tensor


def differentiate(
    problem: Bilevel,
    theta: Parameters,
    canaries: Tensor,
    masks: Tensor,
    inner: InnerTraining,
    generator: torch.Generator,
) -> Derivative:
    """Train from θ with velocity 0 on the data and the canaries of each mask, then go back over the steps."""
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
        *back, cross = torch.autograd.grad(
            gradients, [*leaf.values(), c], grad_outputs=lambda_velocity, materialize_grads=True
        )
        lambda_c = lambda_c + cross
        lambda_theta = [p + b for p, b in zip(lambda_theta, back, strict=True)]
        lambda_velocity = [inner.momentum * w for w in lambda_velocity]
    return Derivative(theta, value.detach(), lambda_c / len(masks))


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
    device, plan = masks.device, []
    for _ in range(inner.epochs):
        parts = []
        for mask in masks:
            rows = torch.cat([torch.arange(natural, device=device), natural + mask.nonzero()[:, 0]])
            order = torch.randperm(len(rows), generator=generator, device=device)
            parts.append(rows[order].tensor_split(inner.steps_per_epoch))
        for step in range(inner.steps_per_epoch):
            chosen = [part[step] for part in parts]
            width = max(len(rows) for rows in chosen)
            index = torch.stack([nn.functional.pad(rows, (0, width - len(rows))) for rows in chosen])
            present = torch.stack([(torch.arange(width, device=device) < len(r)).to(masks.dtype) for r in chosen])
            plan.append((index, present))
    return plan
