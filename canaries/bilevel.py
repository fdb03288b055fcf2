"""The bilevel problem of canary refinement, for R replicas at once (IBIS, stage 2).

Replica r includes the canaries of its mask b_r (m,). With n data rows D and N = n + m/2:

    inner   g_r(θ, C) = (1/N) [ Σ_{z∈D} ℓ(z; θ) + Σ_i b_ri ℓ(c_i; θ) ] + (μ/2)‖θ‖²
    outer   F_r(θ, C) = how badly the scores of replica r tell its included canaries from its excluded ones
    hypergradient   dF/dC = ∂_C F + (∂_C ∂_θ g)ᵀ v,    v = −(∂²_θ g + damping·I)⁻¹ ∂_θ F

SOBA (Dagréou, Ablin, Vaiter, Moreau, NeurIPS 2022) moves θ, v and C together along

    D_θ = ∂_θ g,   D_v = (∂²_θ g + damping·I) v + ∂_θ F,   D_C = (∂_C ∂_θ g)ᵀ v + ∂_C F,

whose fixed point in (θ, v) makes D_C the hypergradient. One vector–Jacobian product of (θ, C) ↦ ∂_θ g gives both
∂²_θ g v and (∂_C ∂_θ g)ᵀ v. Labels stay fixed; the canaries' inputs C are what is optimised.

Both sums may be taken over minibatches, of data rows and of canaries (`rows`, `drawn`): every direction then has the
full one as its mean. A minibatch of canaries takes as many included as excluded ones, so that F still compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.functional import softplus

from ..foundation import InputError
from ..foundation.classification import class_logits, classification_loss
from .per_example import trained_parameters

Parameters = dict[str, Tensor]  # each (R, *shape)
OUTERS = ("ranking", "loss", "margin")


@dataclass(frozen=True, eq=False)
class Bilevel:
    """What does not move: the model's structure, the data (x (n, …), y (n,)), the canaries' labels (m,).

    outer  "ranking": mean over pairs of one included and one excluded canary of softplus((φ_out − φ_in)/scale)·scale,
           φ the logit margin. A smooth count of the pairs in the wrong order (1 − AUC); pairs in the right order by
           much more than `scale` no longer matter. Ours
           "loss": mean loss of the included minus mean loss of the excluded, as IBIS is described
           "margin": mean margin of the excluded minus that of the included
    """

    template: nn.Module
    x: Tensor
    y: Tensor
    labels: Tensor
    weight_decay: float = 0.0
    outer: str = "ranking"
    scale: float = 2.0

    def __post_init__(self) -> None:
        if self.outer not in OUTERS:
            raise InputError(f"outer {self.outer!r} is unknown: use one of {', '.join(OUTERS)}")
        if not self.scale > 0:
            raise InputError(f"scale must be positive, got {self.scale!r}")

    def logits(self, theta: Parameters, x: Tensor) -> Tensor:
        """(R, b, classes) of x (R, b, …) or, the same rows for all, (b, …); one logit of a model becomes two."""
        shared = x.dim() == self.x.dim()
        if len(next(iter(theta.values()))) == 1:  # without vmap a convolution stays an ordinary one
            alone = {name: p[0] for name, p in theta.items()}
            return class_logits(functional_call(self.template, alone, (x if shared else x[0],)))[None]
        run = vmap(
            lambda p, rows: class_logits(functional_call(self.template, p, (rows,))),
            in_dims=(0, None if shared else 0),
        )
        return run(theta, x)

    def inner(
        self,
        theta: Parameters,
        canaries: Tensor,
        masks: Tensor,
        rows: Tensor | None = None,
        drawn: Tensor | None = None,
    ) -> Tensor:
        """(R,) g_r; `rows` (R, b) and `drawn` (R, a) restrict the terms of the data and of the canaries to minibatches
        of each replica, in expectation the same."""
        n, m = len(self.y), len(self.labels)
        total = n + m / 2
        if rows is None:
            data = losses(self.logits(theta, self.x), self.y.expand(len(masks), n)).mean(dim=1)
        else:
            data = losses(self.logits(theta, self.x[rows]), self.y[rows]).mean(dim=1)
        some, labels, included = self._drawn(canaries, masks, drawn)
        planted = (included * losses(self.logits(theta, some), labels)).sum(dim=1)
        if drawn is not None:
            planted = planted * masks.sum(dim=1) / included.sum(dim=1)
        value = (n / total) * data + planted / total
        if self.weight_decay:
            squares = torch.stack([p.square().flatten(1).sum(dim=1) for p in theta.values()])
            value = value + self.weight_decay / 2 * squares.sum(dim=0)
        return value

    def outer_value(self, theta: Parameters, canaries: Tensor, masks: Tensor, drawn: Tensor | None = None) -> Tensor:
        """(R,) F_r, without regulariser; `drawn` (R, a): of those canaries alone, in expectation the same."""
        canaries, labels, masks = self._drawn(canaries, masks, drawn)
        return self.outer_of(margins(self.logits(theta, canaries), labels), masks)

    def outer_of(self, phi: Tensor, masks: Tensor) -> Tensor:
        """(R,) F_r of margins phi (R, a) and masks (R, a). The loss is softplus(−φ): nothing but φ matters."""
        if self.outer == "loss":
            return (weights(masks) * softplus(-phi)).sum(dim=1)
        if self.outer == "margin":
            return -(weights(masks) * phi).sum(dim=1)
        pairs = masks[:, :, None] * (1 - masks[:, None, :])
        wrong = softplus((phi[:, None, :] - phi[:, :, None]) / self.scale) * self.scale
        return (wrong * pairs).sum(dim=(1, 2)) / pairs.sum(dim=(1, 2))

    def _drawn(self, canaries: Tensor, masks: Tensor, drawn: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """(inputs, labels, masks) of the drawn canaries, or of all."""
        if drawn is None:
            return canaries, self.labels.expand(masks.shape), masks
        return canaries[drawn], self.labels[drawn], masks.gather(1, drawn)


@dataclass(frozen=True, eq=False)
class Directions:
    """D_θ and D_v, like θ; D_C (m, …), the mean over replicas; the residual ‖D_v‖/‖∂_θ F‖ of each replica (R,)."""

    theta: Parameters
    v: Parameters
    canaries: Tensor
    residual: Tensor


def directions(
    problem: Bilevel,
    theta: Parameters,
    v: Parameters,
    canaries: Tensor,
    masks: Tensor,
    rows: Tensor | None = None,
    damping: float = 0.0,
    drawn: Tensor | None = None,
    together: int | None = None,
) -> Directions:
    """The three SOBA directions at (θ, v, C).

    rows      (R, b): a minibatch for the data term of g
    drawn     (R, a): the canaries of each replica, by balanced_draws; those drawn by none get direction 0
    together  replicas computed at once; memory is that of so many. Left out: `replicas_together`
    """
    together = together or replicas_together(problem.template, masks)
    parts = []
    for start in range(0, len(masks), together):
        some = slice(start, start + together)
        one, its_v = ({name: p[some] for name, p in stack.items()} for stack in (theta, v))
        its_rows, its_drawn = (None if index is None else index[some] for index in (rows, drawn))
        parts.append(_directions(problem, one, its_v, canaries, masks[some], its_rows, damping, its_drawn))
    if len(parts) == 1:
        d_theta, d_v, total, residual = parts[0]
    else:
        d_theta, d_v = ({name: torch.cat([part[k][name] for part in parts]) for name in theta} for k in (0, 1))
        total = torch.stack([part[2] for part in parts]).sum(dim=0)
        residual = torch.cat([part[3] for part in parts])
    return Directions(d_theta, d_v, total / len(masks), residual)


def replicas_together(template: nn.Module, masks: Tensor) -> int:
    """How many of the R replicas of masks (R, m) to compute at once: all, but convolutions on the CPU one by one.
    Under vmap they become grouped convolutions, slower there and larger in memory."""
    convolutional = any(isinstance(module, nn.modules.conv._ConvNd) for module in template.modules())
    return 1 if convolutional and masks.device.type == "cpu" else len(masks)


def _directions(
    problem: Bilevel,
    theta: Parameters,
    v: Parameters,
    canaries: Tensor,
    masks: Tensor,
    rows: Tensor | None,
    damping: float,
    drawn: Tensor | None,
) -> tuple[Parameters, Parameters, Tensor, Tensor]:
    """D_θ, D_v, the sum of D_C over the replicas, residual."""
    theta = {name: p.detach().requires_grad_() for name, p in theta.items()}
    points = [*theta.values(), canaries.detach().requires_grad_()]
    d_theta = torch.autograd.grad(
        problem.inner(theta, points[-1], masks, rows, drawn).sum(), points[:-1], create_graph=True, allow_unused=True
    )
    d_theta = [g if g is not None else torch.zeros_like(p) for g, p in zip(d_theta, points, strict=False)]
    *hessian_v, cross_v = _vjp(d_theta, points, list(v.values()))
    *f_theta, f_canaries = torch.autograd.grad(
        problem.outer_value(theta, points[-1], masks, drawn).sum(), points, allow_unused=True
    )
    f_theta = [g if g is not None else torch.zeros_like(p) for g, p in zip(f_theta, points, strict=False)]
    d_v = {name: h + damping * v[name] + f for name, h, f in zip(theta, hessian_v, f_theta, strict=True)}
    size = norm(dict(zip(theta, f_theta, strict=True)))
    residual = norm(d_v) / size.clamp_min(torch.finfo(size.dtype).tiny)
    return {n: g.detach() for n, g in zip(theta, d_theta, strict=True)}, d_v, cross_v + f_canaries, residual


def _vjp(outputs: list[Tensor], points: list[Tensor], v: list[Tensor]) -> list[Tensor]:
    live = [(out, w) for out, w in zip(outputs, v, strict=True) if out.requires_grad]
    gradients = torch.autograd.grad([o for o, _ in live], points, grad_outputs=[w for _, w in live], allow_unused=True)
    return [g if g is not None else torch.zeros_like(p) for g, p in zip(gradients, points, strict=True)]


def losses(logits: Tensor, labels: Tensor) -> Tensor:
    """(R, b) cross-entropy of logits (R, b, classes)."""
    return classification_loss(logits.flatten(0, 1), labels.flatten()).view(labels.shape)


def margins(logits: Tensor, labels: Tensor) -> Tensor:
    """(R, b) φ = z_y − logsumexp of the other logits."""
    own = logits.gather(-1, labels[..., None])
    others = logits.scatter(-1, labels[..., None], -torch.inf)
    return own[..., 0] - others.logsumexp(dim=-1)


def weights(masks: Tensor) -> Tensor:
    """(R, m): 1/|b| for the included, −1/(m − |b|) for the excluded; each row sums to 0, its absolute values to 2."""
    return masks / masks.sum(dim=1, keepdim=True) - (1 - masks) / (1 - masks).sum(dim=1, keepdim=True)


def complementary_masks(replicas: int, canaries: int, generator: torch.Generator) -> Tensor:
    """(R, m) of 0 and 1 in complementary pairs: each canary is included in exactly R/2 replicas, each replica includes
    half of the canaries (the larger half in the first of a pair where m is odd).
    Errors: InputError when R is odd or below 2, or m below 2."""
    if replicas < 2 or replicas % 2:
        raise InputError(f"replicas must be even and at least 2, got {replicas}: they come in complementary pairs")
    if canaries < 2:
        raise InputError(f"refinement needs at least 2 canaries, got {canaries}")
    masks = torch.zeros(replicas, canaries, device=generator.device)
    for r in range(0, replicas, 2):
        order = torch.randperm(canaries, generator=generator, device=generator.device)
        masks[r, order[: (canaries + 1) // 2]] = 1
        masks[r + 1] = 1 - masks[r]
    return masks


def balanced_draws(masks: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """(R, count) canaries for a step: count/2 of the included and count/2 of the excluded ones, each half at random
    without replacement. Both replicas of a complementary pair see the same ones, in opposite roles.
    Errors: InputError when count is odd, below 2, or more than twice the smaller half."""
    most = 2 * (masks.shape[1] // 2)
    if count < 2 or count % 2 or count > most:
        raise InputError(f"canary_batch must be even, at least 2 and at most {most} here, got {count}")
    draws = []
    for mask in masks[::2]:
        halves = [(mask > 0).nonzero()[:, 0], (mask == 0).nonzero()[:, 0]]
        order = [torch.randperm(len(half), generator=generator, device=masks.device) for half in halves]
        both = torch.cat([half[o[: count // 2]] for half, o in zip(halves, order, strict=True)])
        draws += [both, both]
    return torch.stack(draws)


def stacked(models: Sequence[nn.Module]) -> Parameters:
    """θ of R models of one structure, copies that share nothing with them. Errors: InputError for BatchNorm."""
    each = [trained_parameters(model) for model in models]
    return {name: torch.stack([parameters[name] for parameters in each]).clone() for name in each[0]}


def zeros_like(theta: Parameters) -> Parameters:
    return {name: torch.zeros_like(p) for name, p in theta.items()}


def norm(v: Parameters) -> Tensor:
    """(R,) Euclidean norm of each replica's vector."""
    return torch.stack([p.square().flatten(1).sum(dim=1) for p in v.values()]).sum(dim=0).sqrt()
