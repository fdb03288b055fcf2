"""Self and cross influence of candidates: I(z, z′) = g_zᵀ (H + δI)⁻¹ g_z′ with g = ∇_θ ℓ under a base model θ.

I(z, z) stands for memorisation (how much z changes its own loss), I(z, z′) for interference (Dagréou & Bellet, arXiv
2605.27292, as far as public summaries tell). H is the Gauss–Newton matrix of the loss on the data: positive
semidefinite, so that no solver can diverge, unlike with the indefinite Hessian. For up to EXACT_CLASSES classes it is
exact; for more, an estimate from one label a row, drawn from the model itself. (One label a row is a poor estimate of
cross influence where data is short: docs/canaries.md.) Several base models: the mean of their influences.

| method | what | cost |
|---|---|---|
| gauss_newton | exact (H + δI)⁻¹ through Gram matrices and the Woodbury identity | n² memory, small nets |
| fisher | the same, H from drawn labels whatever the number of classes | n² memory, small nets |
| projected | the same on random projections of the gradients, k ≪ n dimensions (Johnson–Lindenstrauss) | n·k memory |
| last_layer | gauss_newton restricted to the last Linear layer | n² memory, large models |
| grad_dot | H = 0, δ = 1: inner products of gradients | n² memory |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from ..foundation import InputError, numpy_stream
from ..foundation.classification import class_logits, classification_loss
from .gradient_gram import gradient_gram, last_linear
from .per_example import (
    MEMORY,
    Loss,
    per_example_gradients,
    sampled_labels,
    trained_parameters,
    unanimous_device,
)

METHODS = ("gauss_newton", "fisher", "projected", "last_layer", "grad_dot")
EXACT_CLASSES = 10
EXACT_ROWS = 4000  # of the exact factor of H, classes − 1 a data row; of more data, rows evenly spaced
DENSE_LIMIT = 12_000  # rows: three n × n float64 matrices stay within 3.5 GB


@dataclass(frozen=True, eq=False)
class Influence:
    """Influence among n candidates, as a matrix (n, n) or as factors Q_r (n, k) with I = (1/R) Σ_r Q_r Q_rᵀ."""

    matrix: np.ndarray | None
    factors: tuple[np.ndarray, ...] = ()

    def __len__(self) -> int:
        return len(self.matrix if self.matrix is not None else self.factors[0])

    def self_influence(self) -> np.ndarray:
        """(n,) I(z, z), without the n × n matrix where there are factors."""
        if self.matrix is not None:
            return np.diagonal(self.matrix).copy()
        return sum(np.square(q).sum(axis=1) for q in self.factors) / len(self.factors)  # type: ignore[return-value]

    def row(self, index: int) -> np.ndarray:
        """(n,) I(z_index, z)."""
        if self.matrix is not None:
            return self.matrix[index]
        return sum(q @ q[index] for q in self.factors) / len(self.factors)  # type: ignore[return-value]

    def among(self, rows: np.ndarray) -> np.ndarray:
        """(len(rows), len(rows)) influence among some candidates."""
        if self.matrix is not None:
            return self.matrix[np.ix_(rows, rows)]
        return sum(q[rows] @ q[rows].T for q in self.factors) / len(self.factors)  # type: ignore[return-value]


def influence(
    models: Sequence[nn.Module],
    candidates: tuple[np.ndarray, np.ndarray],
    data: tuple[np.ndarray, np.ndarray] | None = None,
    method: str = "gauss_newton",
    *,
    damping: float = 1.0,
    projection: int = 512,
    seed: int = 0,
    loss: Loss = classification_loss,
    memory: int = MEMORY,
) -> Influence:
    """Influence among candidates (x, y); H from the inputs of `data` (default: the candidates' own inputs, with labels
    drawn from the model either way).

    damping     δ as a multiple of trace(H)/N, N the number of rows of data. At 1 no row of average gradient has a
                leverage above one half; at 0.1 it may have 0.9, which flattens self influence where parameters
                outnumber rows
    projection  k of "projected"; keep it well below the number of rows, or self influence is flattened
    memory      bytes for a block of gradients; four times as much for the projection, which is made again for every
                block where it needs more. The result does not depend on it

    Errors: InputError for an unknown method, BatchNorm, non-finite gradients or influence, too many rows for a dense
    method.
    """
    if method not in METHODS:
        raise InputError(f"influence method {method!r} is unknown: use one of {', '.join(METHODS)}")
    if not damping > 0:
        raise InputError(f"damping must be positive, got {damping!r}: without it the influence is not defined")
    device = unanimous_device(models)
    rows = (torch.as_tensor(np.array(candidates[0])).to(device), torch.as_tensor(np.array(candidates[1])).to(device))
    inputs = rows[0] if data is None else torch.as_tensor(np.array(data[0])).to(device)
    if method != "projected" and max(len(rows[0]), len(inputs)) > DENSE_LIMIT:
        raise InputError(
            f"influence method {method!r} holds matrices of {max(len(rows[0]), len(inputs))} rows squared, "
            f"{DENSE_LIMIT} is the limit: use 'projected'"
        )
    if method == "projected":
        factors = [
            _projected(model, rows, inputs, damping, projection, seed, r, loss, memory)
            for r, model in enumerate(models)
        ]
        result = Influence(None, tuple(factors))
        finite = all(np.isfinite(q).all() for q in factors)
    else:
        matrix = sum(
            _dense(model, rows, inputs, method, damping, seed, r, loss, memory) for r, model in enumerate(models)
        ) / len(models)
        result = Influence(np.asarray(matrix))
        finite = bool(np.isfinite(result.matrix).all())  # type: ignore[arg-type]
    if not finite:
        raise InputError("the influence is not finite: raise damping, or train the base models again")
    return result


def _dense(
    model: nn.Module,
    rows: tuple[Tensor, Tensor],
    inputs: Tensor,
    method: str,
    damping: float,
    seed: int,
    which: int,
    loss: Loss,
    memory: int,
) -> np.ndarray:
    if method == "grad_dot":
        return gradient_gram(model, rows, None, loss, False, memory).cpu().numpy()
    last = method == "last_layer"
    if last and last_linear(model) is None:
        raise InputError("influence method 'last_layer' needs a Linear layer, the model has none: use 'projected'")
    trained_parameters(model)  # refuses what couples examples before asking for an output
    classes = _classes(model, inputs)
    if method == "fisher" or classes > EXACT_CLASSES:
        factor = (inputs, sampled_labels(model, inputs, seed, f"craft/fisher/{which}"))
        used, factor_loss = len(inputs), loss
    else:
        used = min(len(inputs), EXACT_ROWS // (classes - 1))
        some = inputs[torch.linspace(0, len(inputs) - 1, used, device=inputs.device).round().long()]
        factor = (
            some.repeat_interleave(classes - 1, dim=0),
            torch.arange(classes - 1, device=inputs.device).repeat(used),
        )
        factor_loss = curvature_column
    k_cc = gradient_gram(model, rows, None, loss, last, memory)
    k_cf = _mixed_gram(model, rows, factor, loss, factor_loss, last, memory)
    k_ff = gradient_gram(model, factor, None, factor_loss, last, memory)
    return woodbury(k_cc, k_cf, k_ff, damping * len(k_ff) / len(inputs), used).cpu().numpy()


def _classes(model: nn.Module, inputs: Tensor) -> int:
    with torch.no_grad():
        return class_logits(model(inputs[:1])).shape[1]


def _mixed_gram(
    model: nn.Module,
    rows: tuple[Tensor, Tensor],
    factor: tuple[Tensor, Tensor],
    loss: Loss,
    factor_loss: Loss,
    last: bool,
    memory: int,
) -> Tensor:
    """Inner products between gradients of two losses: labels of the factor are counted on from those of the rows."""
    if factor_loss is loss:
        return gradient_gram(model, rows, factor, loss, last, memory)
    first = int(rows[1].max()) + 1

    def either(logits: Tensor, y: Tensor) -> Tensor:
        ours = loss(logits, y.clamp(max=first - 1))
        theirs = factor_loss(logits, (y - first).clamp(min=0))
        return torch.where(y < first, ours, theirs)

    return gradient_gram(model, rows, (factor[0], factor[1] + first), either, last, memory)


def curvature_column(logits: Tensor, column: Tensor) -> Tensor:
    """(n,) Σ_k L_kj z_k, j = column (n,) of 0 … classes − 2, whose gradients F make Σ_j F_j F_jᵀ the Gauss–Newton
    matrix of the cross-entropy.

    L Lᵀ = diag p − p pᵀ with L = D^½ times an orthonormal basis of what is orthogonal to √p, that of the Householder
    vector u = √p + e₁. L is held constant: the gradient passes through z alone.
    """
    z = class_logits(logits)
    root = z.detach().softmax(dim=-1).sqrt()
    chosen = torch.arange(z.shape[1], device=z.device)
    first, other = (chosen == 0).to(z.dtype), (chosen == column[:, None] + 1).to(z.dtype)
    u = root + first
    basis = other - 2 * (u * other).sum(dim=1, keepdim=True) / u.square().sum(dim=1, keepdim=True) * u
    return (root * basis * z).sum(dim=1)


def woodbury(k_cc: Tensor, k_cf: Tensor, k_ff: Tensor, damping: float, rows: int | None = None) -> Tensor:
    """C (H + δI)⁻¹ Cᵀ for H = FᵀF/N from Gram matrices alone: (K_cc − K_cf (K_ff + NδI)⁻¹ K_fc)/δ,
    δ = damping · trace(H)/(rows of F). N: data rows that F stands for, left out as many as it has rows."""
    n = rows or len(k_ff)
    trace = k_ff.diagonal().sum() / n
    delta = damping * trace / len(k_ff)
    if not delta > 0:
        raise InputError("the gradients on the data are all zero: the base model has no curvature to speak of")
    shifted = k_ff + n * delta * torch.eye(len(k_ff), dtype=k_ff.dtype, device=k_ff.device)
    return (k_cc - k_cf @ torch.cholesky_solve(k_cf.T, torch.linalg.cholesky(shifted))) / delta


def _projected(
    model: nn.Module,
    rows: tuple[Tensor, Tensor],
    inputs: Tensor,
    damping: float,
    k: int,
    seed: int,
    which: int,
    loss: Loss,
    memory: int,
) -> np.ndarray:
    """(n, k) float32 Q with Q Qᵀ = C (H + δI)⁻¹ Cᵀ, all of it after projection."""
    width = sum(p.numel() for p in trained_parameters(model).values())
    if k < 1 or k > width:
        raise InputError(f"projection must lie in 1…{width}, the number of parameters, got {k}")
    stream = f"craft/projection/{which}"
    matrix = Projection(width, k, seed, stream, rows[0].device, keep=4 * memory)
    c = matrix.apply(per_example_gradients(model, *rows, loss, memory), len(rows[0]))
    labels = sampled_labels(model, inputs, seed, f"craft/fisher/{which}")
    f = matrix.apply(per_example_gradients(model, inputs, labels, loss, memory), len(inputs)).double()
    h = f.T @ f / len(f)
    delta = damping * h.diagonal().sum() / len(f)
    if not delta > 0:
        raise InputError("the gradients on the data are all zero: the base model has no curvature to speak of")
    factor = torch.linalg.cholesky(h + delta * torch.eye(k, dtype=h.dtype, device=h.device))
    q = torch.linalg.solve_triangular(factor, c.double().T, upper=False).T
    return q.float().cpu().numpy()


class Projection:
    """A fixed Gaussian matrix (width, k)/√k that keeps inner products in expectation, made in blocks from the seed:
    block b is stream "…/b", so that any block can be made again instead of being kept."""

    BLOCK = 2**14  # parameters a block

    def __init__(self, width: int, k: int, seed: int, purpose: str, device: torch.device, keep: int = 2**30) -> None:
        self.width, self.k, self.seed, self.purpose, self.device = width, k, seed, purpose, device
        self._kept: dict[int, Tensor] | None = {} if width * k * 4 <= keep else None

    def block(self, number: int) -> Tensor:
        if self._kept is not None and number in self._kept:
            return self._kept[number]
        rows = min(self.BLOCK, self.width - number * self.BLOCK)
        stream = numpy_stream(self.seed, f"{self.purpose}/{number}")
        made = torch.from_numpy(stream.standard_normal((rows, self.k), dtype=np.float32) / np.float32(self.k**0.5))
        made = made.to(self.device)
        if self._kept is not None:
            self._kept[number] = made
        return made

    def apply(self, gradients: object, count: int) -> Tensor:
        """(count, k) from an iterator of (rows, width) blocks."""
        out = torch.empty(count, self.k, device=self.device)
        start = 0
        for rows in gradients:  # type: ignore[attr-defined]
            part = torch.zeros(len(rows), self.k, device=self.device)
            for number in range(-(-self.width // self.BLOCK)):
                columns = rows[:, number * self.BLOCK : (number + 1) * self.BLOCK].float()
                part += columns @ self.block(number)
            out[start : start + len(rows)] = part
            start += len(rows)
        return out
