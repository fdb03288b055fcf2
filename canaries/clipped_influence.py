"""Canaries for DP-SGD: inputs moved to raise the influence of their *clipped* gradients and to keep them apart. Ours.

The greedy criterion of IBIS, self influence over cross influence, made differentiable and taken to the geometry that
DP-SGD trains in. g_i is the gradient of canary i at a model trained by the recipe to be audited, with half of the
canaries as they are; H the Fisher matrix of the data there; C the clipping norm:

    ĝ_i = g_i · min(1, C/‖g_i‖),   I_ij = ĝ_iᵀ (H + δI)⁻¹ ĝ_j
    minimise   −mean_i log I_ii + cross · (1/m) Σ_{i≠j} I_ij² / (mean_k I_kk)²

Why: once a canary's gradient is longer than C, making its loss larger gains nothing, and only the direction counts.
Near the end of training the weights fluctuate around a minimum; one included canary shifts them by a multiple of
(H + δI)⁻¹ ĝ_i, and its own margin against the noise in it by a multiple of √I_ii: directions that the data hold in
place forget fast. The other canaries' coins add Σ_j I_ij² to the variance.

The derivative passes through the norm and the gradients; the models, H and mean_k I_kk are held constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..foundation import InputError, numpy_stream, torch_stream
from ..foundation.classification import classification_loss
from .base_models import TrainMany, model_seeds, replicas
from .bilevel import complementary_masks
from .canary_set import CanarySet
from .injection import remaining_rows
from .outer import Outer
from .per_example import gradient_function, per_example_gradients, sampled_labels
from .pool import Pool

FLOOR = 1e-6  # of the largest possible self influence, C²/δ


@dataclass(frozen=True)
class ClippedInfluence:
    """How to move the canaries: `steps` in each of `rounds`, every round with models trained afresh.

    cross        weight of the cross influence; damping: δ as a multiple of trace(H)/rows, as in influence.py
    fisher_rows  rows of the data that make H
    step_size    in units of the valid range, falling linearly to a tenth of it over all steps
    batch        canaries that a step looks at; memory: batch · parameters · about 24 bytes
    """

    models: int = 4
    rounds: int = 2
    steps: int = 75
    cross: float = 0.02
    damping: float = 0.1
    fisher_rows: int = 300
    step_size: float = 0.05
    batch: int = 256

    def __post_init__(self) -> None:
        for name, smallest in (("models", 2), ("rounds", 1), ("steps", 1), ("fisher_rows", 1), ("batch", 2)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < smallest:
                raise InputError(f"{name} must be a whole number of at least {smallest}, got {value!r}")
        if self.models % 2:
            raise InputError(f"models must be even, got {self.models}: they come in complementary pairs")
        for name in ("damping", "step_size"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InputError(f"{name} must be positive and finite, got {getattr(self, name)!r}")
        if not 0 <= self.cross < float("inf"):
            raise InputError(f"cross must be at least 0 and finite, got {self.cross!r}")


@dataclass(frozen=True, eq=False)
class Curvature:
    """(H + δI)⁻¹ at one model in Woodbury's form: I_ij = (ĝ_iᵀĝ_j − b_iᵀb_j)/δ with L b = F ĝ, F the Fisher rows
    (N, P), L (N, N) the Cholesky factor of FFᵀ + NδI."""

    gradients: Callable[[Tensor, Tensor], Tensor]  # x (n, …), y (n,) -> (n, P), differentiable in x
    fisher: Tensor
    factor: Tensor
    delta: float

    def influence(self, clipped: Tensor) -> Tensor:
        """(n, n) among clipped gradients (n, P)."""
        b = torch.linalg.solve_triangular(self.factor, self.fisher @ clipped.T, upper=False)
        return (clipped @ clipped.T - b.T @ b) / self.delta


def clipped_influence(
    pool: Pool,
    start: CanarySet,
    seed: int,
    train_many: TrainMany,
    clipping_norm: float,
    settings: ClippedInfluence | None = None,
    on_step: Callable[[dict[str, Any]], None] | None = None,
    device: str | torch.device = "cpu",
) -> CanarySet:
    """`start` with its inputs moved, labels and sources as before; device: where train_many puts its models.

    on_step hears {round, step, self (mean log I_ii), cross (the second sum)} after every step.
    Errors: InputError for a clipping_norm that is not positive, fewer than 2 canaries, BatchNorm, gradients that are
    not finite.
    """
    settings = settings or ClippedInfluence()
    if not 1e-12 < clipping_norm < 1e12:  # squares must stay within float32
        raise InputError(f"clipping_norm must lie between 1e-12 and 1e12 here, got {clipping_norm!r}: take the audit's")
    stay = remaining_rows(start, len(pool))
    labels = torch.from_numpy(start.y.copy()).to(device)
    low, high = (torch.from_numpy(np.array(bound)).to(device) for bound in pool.bounds())
    free = torch.from_numpy(pool.columns.free()).to(device)
    outer = Outer.starting(torch.from_numpy(start.x.copy()).to(device))
    for number in range(settings.rounds):
        generator = torch_stream(seed, f"craft/clipped_influence/{number}", device)
        masks = complementary_masks(settings.models, len(labels), generator)
        seeds = model_seeds(seed, f"clipped_influence/{number}", settings.models)
        models = replicas(pool, stay, outer.canaries, start.y, masks, train_many, seeds)
        curvatures = [curvature(model, pool.x[stay], settings, seed, f"{number}/{k}") for k, model in enumerate(models)]
        for step in range(settings.steps):
            chosen = _drawn(len(labels), settings.batch, generator)
            leaf = outer.canaries[chosen].requires_grad_()
            at = curvatures[step % len(models)]
            gradients = clip(at.gradients(leaf, labels[chosen]), clipping_norm)
            own, among = objective(at.influence(gradients), len(labels), FLOOR * clipping_norm**2 / at.delta)
            slope = torch.autograd.grad(settings.cross * among - own, leaf)[0]
            if not torch.isfinite(slope).all():
                raise InputError(f"the gradients of step {step} are not finite: lower the learning rate of the recipe")
            direction = torch.zeros_like(outer.canaries)
            direction[chosen] = len(chosen) * slope  # a mean over canaries: the scale of one canary
            share = (number + step / settings.steps) / settings.rounds
            outer.move(direction, settings.step_size * free * (high - low) * (1 - 0.9 * share), low, high, chosen)
            if on_step:
                on_step({"round": number, "step": step, "self": float(own.detach()), "cross": float(among.detach())})
    if bool((outer.canaries == torch.from_numpy(start.x.copy()).to(device)).all()):
        raise InputError(
            "no canary moved: at the models of this recipe all their gradients are zero. Have the models diverged or "
            "saturated? Lower the recipe's learning rate, or scale the inputs"
        )
    parameters = start.parameters | {"start": start.method, "seed": seed, "clipping_norm": clipping_norm}
    parameters |= {"clipped_influence": asdict(settings)}
    x = outer.canaries.cpu().numpy()
    return pool.canary_set(x, start.y, start.source_index, "clipped_influence", parameters)


def clip(gradients: Tensor, norm: float) -> Tensor:
    """Each row (n, P) scaled to at most `norm`."""
    lengths = gradients.norm(dim=1, keepdim=True)
    return gradients * (norm / lengths.clamp_min(norm))


def objective(influence: Tensor, count: int, floor: float) -> tuple[Tensor, Tensor]:
    """(mean log I_ii, (1/m) Σ_{i≠j} I_ij²/(mean_k I_kk)²) of some (b, b) of the `count` = m canaries: their pairs stand
    for all pairs. Below `floor` the logarithm goes on as its tangent there: a canary that the model has learned, whose
    gradient and influence vanish, keeps a finite slope."""
    own = influence.diagonal()
    b = len(own)
    pairs = (influence.square().sum() - own.square().sum()) / own.mean().detach().clamp_min(floor).square()
    logs = torch.where(own > floor, own.clamp_min(floor).log(), math.log(floor) + (own - floor) / floor)
    return logs.mean(), pairs / b * ((count - 1) / (b - 1))


def curvature(model: nn.Module, x: np.ndarray, settings: ClippedInfluence, seed: int, name: str) -> Curvature:
    """Of the data's inputs x (n, …), with labels drawn from the model."""
    device = next(model.parameters()).device
    rows = numpy_stream(seed, f"craft/clipped_influence/fisher/{name}").permutation(len(x))[: settings.fisher_rows]
    inputs = torch.from_numpy(x[np.sort(rows)]).to(device)
    labels = sampled_labels(model, inputs, seed, f"craft/clipped_influence/labels/{name}")
    fisher = torch.cat(list(per_example_gradients(model, inputs, labels)))
    gram = (fisher @ fisher.T).double()
    n = len(gram)
    delta = settings.damping * float(gram.diagonal().sum()) / n / n
    if not delta > 0:
        raise InputError("the gradients on the data are all zero: the base model has no curvature to speak of")
    factor = torch.linalg.cholesky(gram + n * delta * torch.eye(n, dtype=gram.dtype, device=device))
    return Curvature(gradient_function(model, classification_loss), fisher, factor.to(fisher.dtype), delta)


def _drawn(count: int, batch: int, generator: torch.Generator) -> Tensor:
    if batch >= count:
        return torch.arange(count, device=generator.device)
    return torch.randperm(count, generator=generator, device=generator.device)[:batch]
