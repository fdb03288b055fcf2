"""ClipBKD (Jagielski, Ullman, Oprea, NeurIPS 2020): inputs along the direction in which the data varies least, with the
label the model finds least likely; gradients that survive clipping.

x = mean ‖x‖ · (a principal component), y = argmin of the mean logits of base models. The original is one direction for
one canary. For m > 1 the last m components are used, from the least variance upwards; beyond the dimension of the input
they repeat with the other sign, and canaries of one direction interfere: `parameters` states how many share one.
"""

from __future__ import annotations

import numpy as np
import torch

from ..foundation.classification import class_logits
from .base_models import TrainMany, base_models
from .canary_set import CanarySet
from .pool import Pool


def clipbkd(pool: Pool, count: int, seed: int, train_many: TrainMany) -> CanarySet:
    flat = pool.x.reshape(len(pool), -1).astype(np.float64)
    centred = flat - flat.mean(axis=0)
    _, _, components = np.linalg.svd(centred, full_matrices=True)
    directions = components[::-1]  # least variance first; rows that the data does not span come first of all
    length = float(np.linalg.norm(flat, axis=1).mean())
    number = np.arange(count)
    sign = np.where((number // len(directions)) % 2 == 0, 1.0, -1.0)
    low, high = pool.bounds()
    x = (sign[:, None] * length * directions[number % len(directions)]).reshape(count, *pool.x.shape[1:])
    x = np.clip(x.astype(np.float32), low, high)  # valid inputs only: clipping bends the direction
    models = base_models(pool, train_many, seed)
    device = next(models[0].parameters()).device
    with torch.no_grad():
        logits = torch.stack([class_logits(model.eval()(torch.tensor(x, device=device))) for model in models]).mean(
            dim=0
        )
    shared = -(-count // len(directions))
    parameters = {"seed": seed, "length": length, "canaries_per_direction": shared}
    return pool.canary_set(x, logits.argmin(dim=1).cpu().numpy(), np.full(count, -1), "clipbkd", parameters)
