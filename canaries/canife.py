"""CANIFE-style canaries (Maddock, Sablayrolles, Stock, arXiv 2210.02912), made m at a time.

Inputs start from binary noise with random labels and descend on, for gradients g at a base model,

    mean_z cos(g_c, g_z)² over rows z of the data  +  mean_{c′≠c} cos(g_c, g_c′)²  +  max(0, norm − ‖g_c‖)²/norm²

The first and the last term are CANIFE's (against the data; large enough to survive clipping), the middle one keeps a
batch of canaries apart, which a single canary does not need.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import normalize

from ..foundation import torch_stream
from .base_models import TrainMany, base_models
from .binary_noise import binary_noise
from .canary_set import CanarySet
from .outer import Outer
from .per_example import gradient_function, unanimous_device
from .pool import Pool


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
    gradients = gradient_function(model)
    device = unanimous_device([model])
    generator = torch_stream(seed, "craft/canife", device)
    x, y = torch.tensor(start.x, device=device), torch.tensor(start.y, device=device)
    low, high = (torch.tensor(np.array(bound), device=device) for bound in pool.bounds())
    outer = Outer.starting(x)
    for _ in range(steps):
        rows = (
            torch.randint(len(pool), (min(design_rows, len(pool)),), generator=generator, device=device).cpu().numpy()
        )
        data = gradients(torch.tensor(pool.x[rows], device=device), torch.tensor(pool.y[rows], device=device))
        leaf = outer.canaries.clone().requires_grad_()
        own = gradients(leaf, y)
        unit, lengths = normalize(own, dim=1), own.norm(dim=1)
        among = (unit @ unit.T).square()
        apart = (among.sum() - among.diagonal().sum()) / max(1, count * (count - 1))
        against_data = (unit @ normalize(data, dim=1).T).square().mean()
        objective = against_data + apart + ((norm - lengths).clamp_min(0) / norm).square().mean()
        direction = count * torch.autograd.grad(objective, leaf)[0]
        outer.move(direction, step_size * (high - low), low, high)
    stated = {"seed": seed, "steps": steps, "design_rows": design_rows, "norm": norm, "step_size": step_size}
    return pool.canary_set(outer.canaries.cpu().numpy(), start.y, start.source_index, "canife", stated)
