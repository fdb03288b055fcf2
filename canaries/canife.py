"""CANIFE-style canaries (Maddock, Sablayrolles, Stock, arXiv 2210.02912), made m at a time.

Inputs start from binary noise with random labels and descend on, for gradients g at a base model,

    mean_z cos(g_c, g_z)² over rows z of the data  +  mean_{c′≠c} cos(g_c, g_c′)²  +  max(0, norm − ‖g_c‖)²/norm²

The first and the last term are CANIFE's (against the data; large enough to survive clipping), the middle one keeps a
batch of canaries apart, which a single canary does not need.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap
from torch.nn.functional import normalize

from ..foundation import torch_stream
from .base_models import base_models
from .binary_noise import binary_noise
from .canary_set import CanarySet
from .per_example import classification_loss, trained_parameters
from .pool import Pool
from .refine import TrainMany


def canife(
    pool: Pool,
    count: int,
    seed: int,
    train_many: TrainMany,
    steps: int = 200,
    design_rows: int = 128,
    norm: float = 5.0,
    step_size: float = 0.02,
) -> CanarySet:
    """norm: gradients of at least this length, several times the clipping norm; step_size in units of the range."""
    start = binary_noise(pool, count, seed)
    model = base_models(pool, train_many, seed, 1)[0].eval()
    parameters = trained_parameters(model)
    device = next(iter(parameters.values())).device

    def one(theta: dict[str, Tensor], row: Tensor, label: Tensor) -> Tensor:
        return classification_loss(functional_call(model, theta, (row[None],)), label[None]).sum()

    def gradients(rows: Tensor, labels: Tensor) -> Tensor:
        each = vmap(grad(one), in_dims=(None, 0, 0))(parameters, rows, labels)
        return torch.cat([each[name].flatten(1) for name in parameters], dim=1)

    generator = torch_stream(seed, "craft/canife", device)
    x, y = torch.tensor(start.x, device=device), torch.tensor(start.y, device=device)
    low, high = (torch.tensor(np.array(bound), device=device) for bound in pool.bounds())
    first, second = torch.zeros_like(x), torch.zeros_like(x)
    for step in range(1, steps + 1):
        rows = (
            torch.randint(len(pool), (min(design_rows, len(pool)),), generator=generator, device=device).cpu().numpy()
        )
        data = gradients(torch.tensor(pool.x[rows], device=device), torch.tensor(pool.y[rows], device=device))
        leaf = x.clone().requires_grad_()
        own = gradients(leaf, y)
        unit, lengths = normalize(own, dim=1), own.norm(dim=1)
        among = (unit @ unit.T).square()
        apart = (among.sum() - among.diagonal().sum()) / max(1, count * (count - 1))
        against_data = (unit @ normalize(data, dim=1).T).square().mean()
        objective = against_data + apart + ((norm - lengths).clamp_min(0) / norm).square().mean()
        direction = count * torch.autograd.grad(objective, leaf)[0]
        first.mul_(0.9).add_(direction, alpha=0.1)
        second.mul_(0.99).addcmul_(direction, direction, value=0.01)
        mean, spread = first / (1 - 0.9**step), (second / (1 - 0.99**step)).sqrt()
        x = (x - step_size * (high - low) * mean / (spread + 1e-12)).clamp(low, high)
    stated = {"seed": seed, "steps": steps, "design_rows": design_rows, "norm": norm, "step_size": step_size}
    return pool.canary_set(x.cpu().numpy(), start.y, start.source_index, "canife", stated)
