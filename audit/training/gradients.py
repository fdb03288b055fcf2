"""The gradient sum of one step for K stacked models: per example and clipped, or plain."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import log_softmax

from ...foundation import InputError, numpy_stream
from ...foundation.classification import classification_loss
from .augmentation import Moves, draw_moves, flip_shift, reach_of
from .samplers import epoch_batches
from .settings import TrainingSettings
from .stack import Stack

GRADIENT_BYTES = 64 * 2**20  # of per-example gradients in memory at a time, or of 16 examples where those need more
MOST_GRADIENT_BYTES = 2**30  # and of fewer examples where 16 need more than that


@dataclass(frozen=True)
class Batch:
    """The padded batches of K models: index (K, B) into the rows, mask (K, B) 1 for a real row and 0 for padding.

    moves: one draw of the augmentation for each of the K * B places, or None.
    """

    x: Tensor
    y: Tensor
    index: np.ndarray
    mask: np.ndarray
    moves: Moves | None

    def of_model(self, k: int) -> Batch:
        """The batch of model k alone, without padding, which stands at the end of a row."""
        real = slice(int(self.mask[k].sum()))
        moves = self.moves
        if moves is not None:
            drawn = (moves.mirrored, moves.down, moves.right)
            moves = Moves(*(d.view(self.index.shape)[k, real] for d in drawn))
        return Batch(self.x, self.y, self.index[k : k + 1, real], self.mask[k : k + 1, real], moves)

    def pieces(self, size: int, dtype: torch.dtype) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """x (K, b, ...), y (K, b), mask (K, b) in pieces of at most `size` columns."""
        for start in range(0, self.index.shape[1], size):
            columns = slice(start, start + size)
            index = torch.from_numpy(self.index[:, columns]).to(self.x.device)
            mask = torch.from_numpy(self.mask[:, columns]).to(self.x.device, dtype)
            x = self.x[index]
            x = x.to(dtype) if x.is_floating_point() else x
            if self.moves is not None:
                drawn = (self.moves.mirrored, self.moves.down, self.moves.right)
                moves = Moves(*(d.view(self.index.shape)[:, columns].reshape(-1) for d in drawn))
                x = flip_shift(x.flatten(0, 1), moves, reach_of(tuple(self.x.shape[1:]))).view(x.shape)
            yield x, self.y[index], mask


def augmentation_moves(mask: np.ndarray, input_shape: tuple[int, ...], generators: Sequence[torch.Generator]) -> Moves:
    """Each model draws for its own real rows alone: what it draws does not depend on the models beside it."""
    reach, (models, width) = reach_of(input_shape), mask.shape
    device = generators[0].device
    padded = Moves(
        torch.zeros((models, width), dtype=torch.bool, device=device),
        torch.full((models, width), reach, device=device),
        torch.full((models, width), reach, device=device),
    )
    for k, generator in enumerate(generators):
        real = int(mask[k].sum())  # padding stands at the end of a row
        drawn = draw_moves(real, reach, generator)
        padded.mirrored[k, :real], padded.down[k, :real], padded.right[k, :real] = (
            drawn.mirrored,
            drawn.down,
            drawn.right,
        )
    return padded


def padded_batches(
    membership: np.ndarray, settings: TrainingSettings, seeds: Sequence[int], epoch: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Per step: index (K, B) and mask (K, B), padded with row 0 to the largest batch of the K models."""
    records = membership.shape[1]
    told = settings.sampler, records, settings.steps_per_epoch
    drawn = [epoch_batches(*told, seed, epoch, settings.sampling_rate) for seed in seeds]
    for step in range(settings.steps_per_epoch):
        rows = [batches[step][members[batches[step]]] for batches, members in zip(drawn, membership, strict=True)]
        lengths = np.array([len(r) for r in rows])
        mask = np.arange(lengths.max()) < lengths[:, None]
        index = np.zeros(mask.shape, dtype=np.int64)
        index[mask] = np.concatenate(rows)
        yield index, mask


def gradient_sum(stack: Stack, batch: Batch, settings: TrainingSettings, epoch: int, step: int) -> Tensor:
    """(K, P): the sum over each model's batch of its (clipped) gradients."""
    if faster_alone(stack, batch, settings):
        models = range(len(stack.seeds))
        total = torch.cat([_sum(stack.model(k), batch.of_model(k), settings, epoch, step) for k in models])
    else:
        total = _sum(stack, batch, settings, epoch, step)
    if not torch.isfinite(total.sum()):  # the sum is finite only if every entry is, and ten times cheaper to ask
        raise InputError(
            f"the gradients of step {step} are not finite: lower learning_rate ({settings.learning_rate:g}), "
            "or check the data and the model for overflow"
        )
    return total


def faster_alone(stack: Stack, batch: Batch, settings: TrainingSettings) -> bool:
    """Convolutions on the CPU: the step takes the models one after another, each exactly as in a stack of one.

    vmap over the weights of a convolution makes it a grouped one, which the CPU runs slowly: a stack of 8 cnn-137k on
    3 x 32 x 32 takes twice the time of one model at a time by ordinary autograd (tests/benchmarks/attacks_cost.py).
    Under DP-SGD the convolutions are grouped by examples anyway; taking models singly saves time only where the
    gradients of the stack's batch do not fit into one piece.
    """
    if stack.theta.device.type != "cpu" or not stack.has_convolution:
        return False
    return settings.clipping_norm is None or _examples_at_once(stack) < batch.index.shape[1]


def _examples_at_once(stack: Stack) -> int:
    one = stack.theta.numel() * stack.theta.element_size()
    return max(1, min(max(16, GRADIENT_BYTES // one), MOST_GRADIENT_BYTES // one))


def check_memory(stack: Stack, settings: TrainingSettings) -> None:
    """Errors: InputError where the weights and gradients of a step alone need more than all memory of this machine.

    Counted: weights, momentum, the sum, a part of it and the noise; with clipping the gradients of each example at a
    time, once as they are and once squared. Not counted: what the forward pass keeps. On the CPU only.
    """
    there = _memory()
    if stack.theta.device.type != "cpu" or there is None:
        return
    one = stack.theta.numel() * stack.theta.element_size()
    examples = 2 * _examples_at_once(stack) if settings.clipping_norm is not None else 2
    needed = one * (5 + examples)
    if needed > there:
        models = f"{len(stack.seeds)} models of " if len(stack.seeds) > 1 else ""
        raise InputError(
            f"training needs about {needed / 2**30:.1f} GiB for {models}{one // 4 // len(stack.seeds):,} parameters, "
            f"this machine has {there / 2**30:.1f} GiB: take a smaller model, smaller inputs"
            + (", or a smaller chunk" if models else "")
        )


def _memory() -> int | None:
    """Bytes of memory of this machine; None where it does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _sum(stack: Stack, batch: Batch, settings: TrainingSettings, epoch: int, step: int) -> Tensor:
    parameters = stack.parameters()
    total = None
    private = settings.clipping_norm is not None
    alone = faster_alone(stack, batch, settings)
    if private:
        size = _examples_at_once(stack)
    else:  # a batch-coupled model must see its batch whole
        size = 2**62 if stack.has_batch_normalisation else max(256, 16384 // len(stack.seeds))
    with _dropout_randomness(stack, epoch, step):
        for x, y, mask in batch.pieces(size, stack.theta.dtype):
            if private:
                part = _clipped_sum(stack, parameters, x, y, mask, float(settings.clipping_norm or 0), step)
            elif alone:
                part = _autograd_sum(stack, parameters, x, y)
            else:
                gradients = vmap(grad(_masked_loss, argnums=1), in_dims=(None, 0, 0, 0, 0, 0), randomness="different")(
                    stack.template, parameters, stack.buffers, x, y, mask
                )
                part = torch.cat([g.flatten(1) for g in gradients.values()], dim=1)
            total = part if total is None else total + part
    return torch.zeros_like(stack.theta) if total is None else total


def _autograd_sum(stack: Stack, parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    """(1, P) of a stack of one, without padding: one ordinary backward pass."""
    weights = {name: p[0].detach().requires_grad_() for name, p in parameters.items()}
    buffers = {name: b[0] for name, b in stack.buffers.items()}  # views: what the forward pass updates stays updated
    loss = classification_loss(functional_call(stack.template, (weights, buffers), (x[0],)), y[0]).sum()
    gradients = torch.autograd.grad(loss, list(weights.values()), materialize_grads=True)
    return torch.cat([g.flatten() for g in gradients])[None]


def _clipped_sum(
    stack: Stack, parameters: dict[str, Tensor], x: Tensor, y: Tensor, mask: Tensor, clipping_norm: float, step: int
) -> Tensor:
    per_example = vmap(grad(_example_loss, argnums=1), in_dims=(None, None, None, 0, 0), randomness="different")
    per_model = vmap(per_example, in_dims=(None, 0, 0, 0, 0), randomness="different")
    gradients = per_model(stack.template, parameters, stack.buffers, x, y)
    norms = torch.stack([g.flatten(2).square().sum(2) for g in gradients.values()]).sum(0).sqrt()  # (K, b)
    if not torch.isfinite(norms).all():
        raise InputError(
            f"an example's gradient in step {step} is not finite: lower learning_rate, or check the data and the model"
        )
    weight = mask * (clipping_norm / norms.clamp_min(torch.finfo(norms.dtype).tiny)).clamp(max=1.0)
    return torch.cat([torch.einsum("kb,kbp->kp", weight, g.flatten(2)) for g in gradients.values()], dim=1)


def _example_loss(
    template: nn.Module, parameters: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor, y: Tensor
) -> Tensor:
    return _mapped_loss(functional_call(template, (parameters, buffers), (x[None],)), y[None]).sum()


def _masked_loss(
    template: nn.Module, parameters: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor, y: Tensor, mask: Tensor
) -> Tensor:
    return (_mapped_loss(functional_call(template, (parameters, buffers), (x,)), y) * mask).sum()


def _mapped_loss(logits: Tensor, y: Tensor) -> Tensor:
    """`classification_loss` to the bit, for vmap, under which cross_entropy falls apart into many more operations."""
    if logits.dim() == 1 or logits.shape[-1] == 1:
        return classification_loss(logits, y)
    return -log_softmax(logits, dim=-1).gather(-1, y[:, None])[:, 0]


@contextmanager
def _dropout_randomness(stack: Stack, epoch: int, step: int) -> Iterator[None]:
    """vmap draws dropout from torch's global generator: lend it a seed of the first model and put it back after.

    Deterministic for a stack, but models with dropout draw differently when they are stacked differently.
    """
    if not stack.has_dropout:
        yield
        return
    with torch.random.fork_rng():
        torch.manual_seed(int(numpy_stream(stack.seeds[0], f"dropout/{epoch}/{step}").integers(2**63)))
        yield
