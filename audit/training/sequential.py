"""The engine's training one model at a time, by ordinary autograd: for models that cannot be stacked.

torch.func cannot run every model under vmap (nn.GRU with per-example gradients, TorchScript, code that branches on
values). This does the same steps with the same random streams and ordinary backward passes, one example at a time
under DP-SGD: slower, and equal to the stacked engine up to rounding for any model that both can train.
Dropout draws from torch's global generator, which is lent a seed and put back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

import numpy as np
import torch
from torch import Tensor, nn

from ...foundation import InputError, numpy_stream, torch_stream
from .augmentation import draw_moves, flip_shift, reach_of
from .engine import classification_loss
from .samplers import epoch_batches
from .settings import TrainingSettings


def train_sequentially(
    build: Callable[[int], nn.Module],
    x: np.ndarray,
    y: np.ndarray,
    membership: np.ndarray,
    seeds: Sequence[int],
    settings: TrainingSettings,
    device: str | torch.device = "cpu",
) -> list[nn.Module]:
    """As `engine.train_many`: model k from build(seeds[k]) on the rows of membership[k]; eval mode at the end."""
    xs, ys = torch.as_tensor(x).to(device), torch.as_tensor(y).to(device)
    return [
        _train(build(int(s)).to(device), xs, ys, m, int(s), settings) for m, s in zip(membership, seeds, strict=True)
    ]


def _train(
    model: nn.Module, x: Tensor, y: Tensor, member: np.ndarray, seed: int, settings: TrainingSettings
) -> nn.Module:
    model.train()
    dropout = any(isinstance(m, nn.modules.dropout._DropoutNd | nn.RNNBase) for m in model.modules())
    parameters = [p for p in model.parameters() if p.requires_grad]
    velocity = torch.zeros(sum(p.numel() for p in parameters), device=x.device)
    for epoch in range(settings.epochs):
        noise = torch_stream(seed, f"noise/{epoch}", x.device)
        augmentation = torch_stream(seed, f"augmentation/{epoch}", x.device)
        batches = epoch_batches(settings.sampler, len(x), settings.steps_per_epoch, seed, epoch, settings.sampling_rate)
        for step, drawn in enumerate(batches):
            rows = torch.from_numpy(drawn[member[drawn]]).to(x.device)
            inputs = x[rows]
            if settings.augmentation != "none" and len(rows):
                reach = reach_of(tuple(x.shape[1:]))
                inputs = flip_shift(inputs, draw_moves(len(rows), reach, augmentation), reach)
            with _lent_seed(seed, f"dropout/{epoch}/{step}") if dropout else nullcontext():
                total = _gradient_sum(model, parameters, inputs, y[rows], settings.clipping_norm)
            if settings.noise_multiplier > 0 and settings.clipping_norm is not None:
                draw = torch.randn(total.shape, generator=noise, device=total.device, dtype=total.dtype)
                total.add_(draw, alpha=settings.noise_multiplier * settings.clipping_norm)
            velocity.mul_(settings.momentum).add_(total, alpha=1.0 / settings.divisor)
            _step(parameters, velocity, settings.learning_rate)
    return model.eval()


@contextmanager
def _lent_seed(seed: int, purpose: str) -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(int(numpy_stream(seed, purpose).integers(2**63)))
        yield


def _gradient_sum(
    model: nn.Module, parameters: list[nn.Parameter], x: Tensor, y: Tensor, clipping_norm: float | None
) -> Tensor:
    """(P,): the sum over the batch of the (clipped) gradients; zeros for an empty batch."""
    total = torch.zeros(sum(p.numel() for p in parameters), device=x.device)
    if len(x) == 0:
        return total
    size = len(x) if clipping_norm is None else 1
    for inputs, labels in zip(x.split(size), y.split(size), strict=True):
        value = classification_loss(model(inputs), labels).sum()
        gradients = torch.autograd.grad(value, parameters)
        flat = torch.cat([g.reshape(-1) for g in gradients])
        if not torch.isfinite(flat).all():
            raise InputError("a gradient is not finite: lower learning_rate, or check the data and the model")
        if clipping_norm is not None:
            flat = flat * min(1.0, clipping_norm / max(float(flat.norm()), torch.finfo(flat.dtype).tiny))
        total += flat
    return total


def _step(parameters: list[nn.Parameter], velocity: Tensor, learning_rate: float) -> None:
    with torch.no_grad():
        start = 0
        for p in parameters:
            p.sub_(velocity[start : start + p.numel()].view_as(p), alpha=learning_rate)
            start += p.numel()
