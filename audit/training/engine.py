"""The stacked DP-SGD engine: K models trained side by side by one program, each exactly as if it were alone.

DP-SGD of Abadi et al. 2016 (arXiv:1607.00133) with any of the samplers. One step of model k:

    batch     its members among the rows that its sampler drew for this step (maybe none)
    gradient  of every example, clipped to norm C                 per example, never of a mean
    sum       of the clipped gradients + N(0, (sigma C)^2 I)     also when the batch is empty
    update    theta <- theta - learning_rate * velocity,  velocity <- momentum * velocity + noisy sum / divisor

The divisor is a public constant. With clipping_norm None the sum of plain gradients takes the place of the
clipped one, which is ordinary SGD. All randomness of model k comes from its seed: streams "allocation/<epoch>",
"noise/<epoch>", "augmentation/<epoch>", "dropout/<epoch>/<step>".

Memory: K * microbatch * P * 4 bytes for per-example gradients (P parameters), kept near GRADIENT_BYTES for small models
and below MOST_GRADIENT_BYTES for large ones; what no machine of this size can hold is refused before the first step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from ...foundation import InputError, torch_stream
from ...foundation.classification import classification_loss
from .gradients import Batch, augmentation_moves, check_memory, gradient_sum, padded_batches
from .settings import TrainingSettings
from .stack import BuildModel, Stack, batch_normalisation, initial_stack

__all__ = [
    "BuildModel",
    "Stack",
    "StepHooks",
    "batch_normalisation",
    "classification_loss",
    "fitting_threads",
    "initial_stack",
    "train_epochs",
    "train_many",
]

ONE_THREAD_BELOW = 200_000  # parameters of a stack: smaller tensors lose more to thread hand-over than they gain


class StepHooks(Protocol):
    """What a white-box check sees.

    step counts from 0 over the whole run; noisy_sum is (K, P), parameters in the order of named_parameters().
    """

    def observe(self, step: int, noisy_sum: Tensor) -> None: ...


def train_epochs(
    stack: Stack,
    x: Tensor,
    y: Tensor,
    membership: np.ndarray,
    settings: TrainingSettings,
    hooks: StepHooks | None = None,
) -> Iterator[Stack]:
    """Train in place from stack.epochs_done to settings.epochs, handing the stack back after every epoch.

    x (N, ...), y (N,) class numbers, membership (K, N) bool. Stopping between two epochs and going on later
    from the same theta, velocity, buffers and seeds gives the same bits as an unbroken run.
    Errors: InputError for shapes that do not fit, examples coupled by batch normalisation under DP-SGD, and
    gradients that are not finite.
    """
    _check(stack, x, y, membership, settings)
    check_memory(stack, settings)
    augmented = settings.augmentation == "flip_shift"
    step = stack.epochs_done * settings.steps_per_epoch
    for epoch in range(stack.epochs_done, settings.epochs):
        noise = [torch_stream(seed, f"noise/{epoch}", stack.theta.device) for seed in stack.seeds]
        augmentation = [torch_stream(seed, f"augmentation/{epoch}", x.device) for seed in stack.seeds]
        for index, mask in padded_batches(membership, settings, stack.seeds, epoch):
            moves = augmentation_moves(mask, tuple(x.shape[1:]), augmentation) if augmented else None
            batch = Batch(x, y, index, mask, moves)
            noisy_sum = gradient_sum(stack, batch, settings, epoch, step)
            if settings.noise_multiplier > 0 and settings.clipping_norm is not None:
                for k, generator in enumerate(noise):
                    draw = torch.randn(
                        noisy_sum.shape[1], generator=generator, device=noisy_sum.device, dtype=noisy_sum.dtype
                    )
                    noisy_sum[k].add_(draw, alpha=settings.noise_multiplier * settings.clipping_norm)
            if hooks:
                hooks.observe(step, noisy_sum)
            stack.velocity.mul_(settings.momentum).add_(noisy_sum, alpha=1.0 / settings.divisor)
            stack.theta.add_(stack.velocity, alpha=-settings.learning_rate)
            step += 1
        stack.epochs_done = epoch + 1
        yield stack


def train_many(
    build: BuildModel,
    x: np.ndarray,
    y: np.ndarray,
    membership: np.ndarray,
    seeds: Sequence[int],
    settings: TrainingSettings,
    device: str | torch.device = "cpu",
    chunk: int = 8,
) -> list[nn.Module]:
    """Train K models on their own members of the same rows; `chunk` of them are stacked at a time.

    Results do not depend on the chunk beyond the rounding of batched sums. A model whose forward pass looks at
    the batch (batch normalisation, plain SGD only) is trained alone: padding would enter its statistics.
    """
    membership = np.asarray(membership, dtype=bool)
    xs, ys = torch.as_tensor(x).to(device), torch.as_tensor(y).to(device)
    models: list[nn.Module] = []
    start = 0
    while start < len(seeds):
        stack = initial_stack(build, seeds[start : start + 1], device)
        width = 1 if batch_normalisation(stack.template) else chunk
        if width > 1:
            stack = initial_stack(build, seeds[start : start + width], device)
        with fitting_threads(stack):
            for _ in train_epochs(stack, xs, ys, membership[start : start + width], settings):
                pass
        models += stack.modules()
        start += width
    return models


@contextmanager
def fitting_threads(stack: Stack) -> Iterator[None]:
    """One torch thread for small models on the CPU (measured: twice as fast on two cores), all of them otherwise."""
    before = torch.get_num_threads()
    if stack.theta.device.type == "cpu" and stack.theta.numel() < ONE_THREAD_BELOW:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _check(stack: Stack, x: Tensor, y: Tensor, membership: np.ndarray, settings: TrainingSettings) -> None:
    if membership.shape != (len(stack.seeds), len(x)) or membership.dtype != bool:
        raise InputError(
            f"membership must be bool of shape (models, records) = ({len(stack.seeds)}, {len(x)}), "
            f"got {membership.dtype} {membership.shape}"
        )
    if len(y) != len(x):
        raise InputError(f"x holds {len(x)} records and y {len(y)}: one label a record")
    coupled = batch_normalisation(stack.template)
    if coupled and settings.clipping_norm is not None:
        raise InputError(
            f"layer {coupled!r} normalises over the batch, so one record changes the gradients of others and DP-SGD "
            "promises nothing: use GroupNorm (opacus.validators.ModuleValidator.fix does it)"
        )
    if coupled and len(stack.seeds) > 1:
        raise InputError(f"layer {coupled!r} normalises over the batch: train such models one at a time (chunk=1)")
