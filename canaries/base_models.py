"""Base models: trained on the pool by the injected recipe, what model-based methods look through."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from ..foundation import numpy_stream
from .pool import Pool
from .refine import TrainMany


def base_models(pool: Pool, train_many: TrainMany, seed: int, count: int = 4) -> list[nn.Module]:
    """`count` models trained on all of the pool, from the crafting's own stream."""
    seeds = [int(value) for value in numpy_stream(seed, "craft/models/base").integers(2**62, size=count)]
    return train_many(pool.x, pool.y, np.ones((count, len(pool)), bool), seeds)


def mean_loss(models: list[nn.Module], x: np.ndarray, y: np.ndarray, chunk: int = 4096) -> np.ndarray:
    """(n,) cross-entropy averaged over the models."""
    device = next(models[0].parameters()).device
    total = np.zeros(len(y))
    with torch.no_grad():
        for model in models:
            model.eval()
            for start in range(0, len(y), chunk):
                rows = torch.tensor(x[start : start + chunk], device=device)
                labels = torch.tensor(y[start : start + chunk], device=device)
                total[start : start + chunk] += cross_entropy(model(rows), labels, reduction="none").cpu().numpy()
    return total / len(models)
