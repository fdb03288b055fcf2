"""Metagradient canaries (Boglioni, Liu, Ilyas, Wu, arXiv 2507.15836), small: the exact derivative through retraining.

Each meta-step trains R models from scratch on complementary random halves of the canaries and differentiates the outer
objective through every optimiser step (unrolled.py). What refinement is measured against: the same objective without
approximation, at several times the cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import nn

from ..foundation import InputError, numpy_stream, torch_stream
from .bilevel import Bilevel, complementary_masks, stacked
from .canary_set import CanarySet
from .injection import remaining_rows
from .pool import Pool
from .unrolled import InnerTraining, differentiate


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
    free = torch.from_numpy(pool.columns.free())
    first, second = torch.zeros_like(c), torch.zeros_like(c)
    for step in range(1, meta_steps + 1):
        generator = torch_stream(seed, f"craft/metagradient/{step}")
        masks = complementary_masks(replicas, count, generator)
        seeds = numpy_stream(seed, f"craft/models/metagradient/{step}").integers(2**62, size=replicas)
        models = [build(int(value)) for value in seeds]
        problem = Bilevel(models[0], x, y, labels, 0.0, outer, scale)
        at = differentiate(problem, stacked(models), c, masks, inner, generator)
        if not torch.isfinite(at.canaries).all():
            raise InputError(f"the metagradient of step {step} is not finite: lower the inner learning_rate")
        if on_step:
            on_step({"step": step, "outer": float(at.values.mean())})
        direction = count * at.canaries
        first.mul_(0.8).add_(direction, alpha=0.2)
        second.mul_(0.9).addcmul_(direction, direction, value=0.1)
        mean, spread = first / (1 - 0.8**step), (second / (1 - 0.9**step)).sqrt()
        c = (c - step_size * free * (high - low) * mean / (spread + 1e-12)).clamp(low, high)
    stated = {"seed": seed, "meta_steps": meta_steps, "replicas": replicas, "step_size": step_size, "outer": outer}
    stated |= {"scale": scale, "start": start.method, "inner": asdict(inner)}
    return pool.canary_set(c.numpy(), start.y, start.source_index, "metagradient", stated)
